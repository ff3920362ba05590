//! Nodes as tests write them, their operands and parameters, and how they are run.
//!
//! Invariant: values are real numbers; an operand's bytes are what its type and scale make of them.

use polychip_emulator_qnn_format::{
    Dtype, Encoding, Graph, Kind, Linear, Node, Param, Scalar, Tensor as Spec,
};
use polychip_ops::DType;
use polychip_reference::Tensor;

use crate::code::Code;
use crate::plan::{Plan, Values};
use crate::real;
use crate::soc::Soc;

/// One operand of a test.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) dtype: Dtype,
    pub(crate) dims: Vec<u32>,
    pub(crate) step: Option<Linear>,
    pub(crate) values: Vec<f64>,
    pub(crate) constant: bool,
}

pub(crate) fn float(dims: &[u32], values: &[f64]) -> Operand {
    Operand {
        dtype: Dtype::Float32,
        dims: dims.to_vec(),
        step: None,
        values: values.to_vec(),
        constant: false,
    }
}

pub(crate) fn ints(dtype: Dtype, dims: &[u32], values: &[f64]) -> Operand {
    Operand {
        dtype,
        ..float(dims, values)
    }
}

impl Operand {
    pub(crate) fn constant(self) -> Operand {
        Operand {
            constant: true,
            ..self
        }
    }

    pub(crate) fn fixed(self, dtype: Dtype, scale: f32, zero: i32) -> Operand {
        Operand {
            dtype,
            step: Some(Linear { scale, offset: -zero }),
            ..self
        }
    }

    pub(crate) fn spec(&self, id: u32, kind: Kind) -> Spec {
        let mut spec = Spec {
            id,
            name: format!("t{id}"),
            kind,
            format: 0,
            dtype: self.dtype.code(),
            encoding: self.step.map_or(Encoding::None, Encoding::PerTensor),
            dims: self.dims.clone(),
            data: Vec::new().into(),
        };
        if kind == Kind::Static {
            spec.data = self.bytes(&spec).into();
        }
        spec
    }

    pub(crate) fn bytes(&self, spec: &Spec) -> Vec<u8> {
        let shape = spec.shape();
        let all = Tensor::from_f64s(polychip_reference::element(DType::F64), shape, &self.values).unwrap();
        real::store(&all, spec, false).unwrap()
    }
}

pub(crate) fn u32_scalar(name: &str, value: u32) -> (String, Param) {
    let scalar = Scalar {
        dtype: Dtype::Uint32.code(),
        bits: value.into(),
    };
    (name.into(), Param::Scalar(scalar))
}

pub(crate) fn f32_scalar(name: &str, value: f32) -> (String, Param) {
    let scalar = Scalar {
        dtype: Dtype::Float32.code(),
        bits: value.to_bits().into(),
    };
    (name.into(), Param::Scalar(scalar))
}

pub(crate) fn flag(name: &str, value: bool) -> (String, Param) {
    let scalar = Scalar {
        dtype: Dtype::Bool8.code(),
        bits: value.into(),
    };
    (name.into(), Param::Scalar(scalar))
}

pub(crate) fn list(name: &str, dims: &[u32], values: &[i32]) -> (String, Param) {
    let spec = Spec {
        id: 0,
        name: name.into(),
        kind: Kind::Static,
        format: 0,
        dtype: Dtype::Int32.code(),
        encoding: Encoding::None,
        dims: dims.to_vec(),
        data: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    (name.into(), Param::Tensor(spec))
}

pub(crate) const PHONE: Soc = Soc { id: 30, arch: 68 };

/// Runs one node; the values of its outputs.
pub(crate) fn run_on(
    soc: Soc,
    op: &str,
    params: &[(String, Param)],
    inputs: &[Operand],
    outputs: &[Operand],
) -> std::result::Result<Vec<Vec<f64>>, (Code, String)> {
    let mut graph = Graph::default();
    let mut values = Values::new();
    for (i, operand) in inputs.iter().enumerate() {
        let kind = if operand.constant {
            Kind::Static
        } else {
            Kind::AppWrite
        };
        let spec = operand.spec(i as u32 + 1, kind);
        if !operand.constant {
            values.insert(spec.id, operand.bytes(&spec).into());
        }
        graph.tensors.push(spec);
    }
    for (i, operand) in outputs.iter().enumerate() {
        graph.tensors.push(operand.spec(i as u32 + 100, Kind::AppRead));
    }
    graph.nodes.push(Node {
        name: "n".into(),
        package: "qti.aisw".into(),
        op: op.into(),
        params: params.to_vec(),
        inputs: (1..=inputs.len() as u32).collect(),
        outputs: (100..100 + outputs.len() as u32).collect(),
    });
    let plan = Plan::new(&graph, soc)?;
    plan.run(&mut values).map_err(|code| (code, "run".to_owned()))?;
    Ok(outputs
        .iter()
        .enumerate()
        .map(|(i, operand)| {
            let spec = operand.spec(i as u32 + 100, Kind::AppRead);
            let tensor = real::load(&spec, &values[&spec.id], DType::F64, false).unwrap();
            tensor.to_f64s().unwrap()
        })
        .collect())
}

pub(crate) fn run(op: &str, params: &[(String, Param)], inputs: &[Operand], output: &Operand) -> Vec<f64> {
    run_on(PHONE, op, params, inputs, std::slice::from_ref(output))
        .unwrap_or_else(|(code, why)| panic!("{op}: {code:?} {why}"))
        .remove(0)
}

pub(crate) fn close(op: &str, seen: &[f64], wanted: &[f64], most: f64) {
    assert_eq!(seen.len(), wanted.len(), "{op}");
    for (i, (a, b)) in seen.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= most, "{op}: element {i} is {a}, not {b}");
    }
}

/// Values of a wave, in [-1, 1].
pub(crate) fn wave(count: usize) -> Vec<f64> {
    (0..count).map(|i| (i as f64 * 0.7).sin()).collect()
}
