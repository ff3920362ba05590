//! Execution of a graph, node by node, by the law that encodings follow.

use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_reference::{Tensor, dtype, element, evaluate, evaluate_packed, tensor_from_literal};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Encoding, EncodingAxis, Graph, TensorId};

/// Inputs for every graph input, from a seed: floats in -1.5..1.5, integers 0 or 1.
pub(crate) fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let mut numbers = ChaCha8Rng::seed_from_u64(seed);
    let mut next = || numbers.random::<f64>();
    let tensor = |id: &TensorId| {
        let ty = &graph.tensor(*id).ty;
        let shape: Vec<usize> = ty
            .shape
            .as_ref()
            .unwrap()
            .iter()
            .map(|dim| dim.known().unwrap_or(2))
            .collect();
        let count = shape.iter().product();
        if ty.dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| next() * 3.0 - 1.5).collect();
            Tensor::from_f64s(element(ty.dtype), shape, &values).unwrap()
        } else {
            let values: Vec<i128> = (0..count).map(|_| (next() * 2.0) as i128).collect();
            Tensor::from_i128s(element(ty.dtype), shape, &values).unwrap()
        }
    };
    graph.inputs.iter().map(tensor).collect()
}

/// The outputs of a graph. `apart` runs decompositions in place of recomposed nodes.
pub(super) fn run(graph: &Graph, inputs: &[Tensor], apart: bool) -> Vec<Tensor> {
    try_run(graph, inputs, apart).unwrap_or_else(|error| panic!("{error}"))
}

/// As [`run`], or why a node cannot be computed.
pub(crate) fn try_run(graph: &Graph, inputs: &[Tensor], apart: bool) -> Result<Vec<Tensor>, String> {
    let mut values: Vec<Option<Tensor>> = vec![None; graph.tensor_count()];
    for (id, tensor) in graph.tensors() {
        if let Some(data) = &tensor.data {
            let literal = data.to_literal(&tensor.ty).unwrap();
            values[id.index()] = Some(tensor_from_literal(&literal).unwrap());
        }
    }
    for (id, value) in graph.inputs.iter().zip(inputs) {
        values[id.index()] = Some(value.clone());
    }
    for (_, node) in graph.nodes() {
        let stores = matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear);
        let reals: Vec<Option<Tensor>> = node
            .inputs
            .iter()
            .map(|input| {
                let id = (*input)?;
                let value = values[id.index()].clone()?;
                Some(match graph.tensor(id).encoding.as_ref().filter(|_| !stores) {
                    None => value,
                    Some(encoding) => code(Op::DequantizeLinear, &value, encoding, dtype(value.element())),
                })
            })
            .collect();
        let outputs = match &node.decomposition {
            Some(inner) if apart => {
                let inputs: Vec<Tensor> = reals.into_iter().flatten().collect();
                try_run(inner, &inputs, apart)?
            }
            _ => {
                let inputs: Vec<Option<&Tensor>> = reals.iter().map(Option::as_ref).collect();
                let packed =
                    |id: &Option<TensorId>| id.is_some_and(|id| graph.tensor(id).container.is_packed());
                let packed: Vec<bool> = node.inputs.iter().map(packed).collect();
                evaluate_packed(node.op, &node.attributes, &inputs, &packed, node.outputs.len())
                    .map_err(|error| format!("node {}: {error}", node.label()))?
            }
        };
        for (output, value) in node.outputs.iter().zip(outputs) {
            let Some(id) = *output else { continue };
            let tensor = graph.tensor(id);
            let value = match tensor.encoding.as_ref().filter(|_| !stores) {
                None => value,
                Some(encoding) => code(Op::QuantizeLinear, &value, encoding, tensor.ty.dtype),
            };
            let stored = if tensor.container.is_packed() {
                DType::U8
            } else {
                tensor.ty.dtype
            };
            assert_eq!(dtype(value.element()), stored, "{} {}", node.label(), tensor.name);
            values[id.index()] = Some(value);
        }
    }
    let output = |id: &TensorId| {
        values[id.index()]
            .clone()
            .ok_or_else(|| format!("{id} has no value"))
    };
    graph.outputs.iter().map(output).collect()
}

/// Quantises or dequantises by an encoding.
fn code(op: Op, value: &Tensor, encoding: &Encoding, stored: DType) -> Tensor {
    let mut attributes = Attributes::new();
    let count = encoding.scales.len();
    let shape = match encoding.axis {
        EncodingAxis::PerTensor => vec![],
        EncodingAxis::PerAxis(axis) => {
            attributes.set(Attr::Axis, polychip_ops::AttrValue::Int(axis as i64));
            vec![count]
        }
        EncodingAxis::PerBlock { axis, block } => {
            attributes = attributes
                .with_int(Attr::Axis, axis as i64)
                .with_int(Attr::BlockSize, block as i64);
            let mut shape = value.shape().to_vec();
            shape[axis] = shape[axis].div_ceil(block);
            shape
        }
        EncodingAxis::Blocks(_) => unreachable!("no pass makes blocks"),
    };
    let scales: Vec<f64> = encoding.scales.iter().map(|&scale| scale.into()).collect();
    let scales = Tensor::from_f64s(element(encoding.real), shape.clone(), &scales).unwrap();
    let zeros: Vec<i128> = if encoding.zero_points.is_empty() {
        vec![0; count]
    } else {
        encoding.zero_points.iter().map(|&zero| zero.into()).collect()
    };
    let zeros = Tensor::from_i128s(element(stored), shape, &zeros).unwrap();
    let inputs = [Some(value), Some(&scales), Some(&zeros)];
    evaluate(op, &attributes, &inputs, 1).unwrap().remove(0)
}

/// Asserts that tensors agree: integers exactly, floats within `tolerance` of the largest magnitude.
pub(super) fn assert_near(have: &[Tensor], want: &[Tensor], tolerance: f64) {
    assert_eq!(have.len(), want.len());
    for (index, (have, want)) in have.iter().zip(want).enumerate() {
        assert_eq!(
            (have.element(), have.shape()),
            (want.element(), want.shape()),
            "output {index}"
        );
        if !dtype(want.element()).is_float() {
            assert_eq!(have.to_bytes(), want.to_bytes(), "output {index}");
            continue;
        }
        let (have, want) = (have.to_f64s().unwrap(), want.to_f64s().unwrap());
        let scale = want.iter().fold(1.0f64, |most, value| most.max(value.abs()));
        for (place, (a, b)) in have.iter().zip(&want).enumerate() {
            let near = (a - b).abs() <= tolerance * scale || a == b || a.is_nan() && b.is_nan();
            assert!(near, "output {index}, element {place}: {a} instead of {b}");
        }
    }
}
