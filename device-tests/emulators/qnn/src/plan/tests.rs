//! Each op against values from elsewhere: by hand, or the oracle's ONNX node on data turned by the test itself.

// operands are a few numbers; every call has the same form
#![allow(clippy::cloned_ref_to_slice_refs)]

use polychip_emulator_qnn_format::{Encoding, Param, Scalar};
use polychip_ops::{Attr, Attributes, Op};
use polychip_reference::evaluate;

use super::*;

/// One operand of a test.
#[derive(Clone)]
struct Operand {
    dtype: Dtype,
    dims: Vec<u32>,
    step: Option<Linear>,
    values: Vec<f64>,
    constant: bool,
}

fn float(dims: &[u32], values: &[f64]) -> Operand {
    Operand {
        dtype: Dtype::Float32,
        dims: dims.to_vec(),
        step: None,
        values: values.to_vec(),
        constant: false,
    }
}

fn ints(dtype: Dtype, dims: &[u32], values: &[f64]) -> Operand {
    Operand {
        dtype,
        ..float(dims, values)
    }
}

impl Operand {
    fn constant(self) -> Operand {
        Operand {
            constant: true,
            ..self
        }
    }

    fn fixed(self, dtype: Dtype, scale: f32, zero: i32) -> Operand {
        Operand {
            dtype,
            step: Some(Linear { scale, offset: -zero }),
            ..self
        }
    }

    fn spec(&self, id: u32, kind: Kind) -> Spec {
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

    fn bytes(&self, spec: &Spec) -> Vec<u8> {
        let shape = spec.shape();
        let all = Tensor::from_f64s(polychip_reference::element(DType::F64), shape, &self.values).unwrap();
        real::store(&all, spec, false).unwrap()
    }
}

fn u32_scalar(name: &str, value: u32) -> (String, Param) {
    let scalar = Scalar {
        dtype: Dtype::Uint32.code(),
        bits: value.into(),
    };
    (name.into(), Param::Scalar(scalar))
}

fn f32_scalar(name: &str, value: f32) -> (String, Param) {
    let scalar = Scalar {
        dtype: Dtype::Float32.code(),
        bits: value.to_bits().into(),
    };
    (name.into(), Param::Scalar(scalar))
}

fn flag(name: &str, value: bool) -> (String, Param) {
    let scalar = Scalar {
        dtype: Dtype::Bool8.code(),
        bits: value.into(),
    };
    (name.into(), Param::Scalar(scalar))
}

fn list(name: &str, dims: &[u32], values: &[i32]) -> (String, Param) {
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

const PHONE: Soc = Soc { id: 30, arch: 68 };

/// Runs one node; the values of its outputs.
fn run_on(
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

fn run(op: &str, params: &[(String, Param)], inputs: &[Operand], output: &Operand) -> Vec<f64> {
    run_on(PHONE, op, params, inputs, std::slice::from_ref(output))
        .unwrap_or_else(|(code, why)| panic!("{op}: {code:?} {why}"))
        .remove(0)
}

fn close(op: &str, seen: &[f64], wanted: &[f64], most: f64) {
    assert_eq!(seen.len(), wanted.len(), "{op}");
    for (i, (a, b)) in seen.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= most, "{op}: element {i} is {a}, not {b}");
    }
}

/// Values of a wave, in [-1, 1].
fn wave(count: usize) -> Vec<f64> {
    (0..count).map(|i| (i as f64 * 0.7).sin()).collect()
}

/// `[n, h, w, c]` as `[n, c, h, w]`.
fn turned(values: &[f64], [n, h, w, c]: [usize; 4]) -> Vec<f64> {
    let mut out = Vec::with_capacity(values.len());
    for image in 0..n {
        for channel in 0..c {
            for place in 0..h * w {
                out.push(values[(image * h * w + place) * c + channel]);
            }
        }
    }
    out
}

fn oracle(op: Op, attributes: &Attributes, inputs: &[(&[usize], &[f64])]) -> Vec<f64> {
    let element = polychip_reference::element(DType::F64);
    let tensors: Vec<Tensor> = inputs
        .iter()
        .map(|(shape, values)| Tensor::from_f64s(element, shape.to_vec(), values).unwrap())
        .collect();
    let refs: Vec<Option<&Tensor>> = tensors.iter().map(Some).collect();
    evaluate(op, attributes, &refs, 1).unwrap()[0].to_f64s().unwrap()
}

#[test]
fn unary_ops_and_activations() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    type Case = (&'static str, fn(f64) -> f64);
    let cases: [Case; 14] = [
        ("ElementWiseAbs", f64::abs),
        ("ElementWiseCeil", f64::ceil),
        ("ElementWiseCos", f64::cos),
        ("ElementWiseExp", f64::exp),
        ("ElementWiseFloor", f64::floor),
        ("ElementWiseNeg", |x| -x),
        ("ElementWiseSign", f64::signum),
        ("ElementWiseSin", f64::sin),
        ("ElementWiseAsin", f64::asin),
        ("ElementWiseAtan", f64::atan),
        ("ElementWiseSoftplus", |x| x.exp().ln_1p()),
        ("Relu", |x| x.max(0.0)),
        ("Tanh", f64::tanh),
        ("HardSwish", |x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
    ];
    let x = float(&[2, 5], &wave(11)[1..]);
    for (op, f) in cases {
        let wanted: Vec<f64> = x.values.iter().map(|&v| f(v)).collect();
        close(op, &run(op, &[], &[x.clone()], &x), &wanted, 1e-5);
        // the same with 8 bits: half a step of each side
        let fixed = x.clone().fixed(Dtype::Ufixed8, 0.01, 120);
        let out = x.clone().fixed(Dtype::Ufixed8, 0.03, 100);
        let seen = run(op, &[], &[fixed.clone()], &out);
        let exact: Vec<f64> = fixed
            .values
            .iter()
            .map(|&v| f(((v / 0.01).round() * f64::from(0.01f32)).clamp(-1.2, 1.35)))
            .collect();
        close(op, &seen, &exact, 0.0151);
    }
    let wanted: Vec<f64> = x.values.iter().map(|&v| sigmoid(v)).collect();
    close("Sigmoid", &run("Sigmoid", &[], &[x.clone()], &x), &wanted, 1e-6);
    let joint = [u32_scalar("operation", 6)];
    close(
        "neuron",
        &run("ElementWiseNeuron", &joint, &[x.clone()], &x),
        &wanted,
        1e-6,
    );
    let bounds = [f32_scalar("min_value", -0.25), f32_scalar("max_value", 0.5)];
    let wanted: Vec<f64> = x.values.iter().map(|&v| v.clamp(-0.25, 0.5)).collect();
    close(
        "ReluMinMax",
        &run("ReluMinMax", &bounds, &[x.clone()], &x),
        &wanted,
        1e-6,
    );
    let positive = float(&[3], &[0.25, 1.0, 4.0]);
    for (op, wanted) in [
        ("ElementWiseSquareRoot", [0.5, 1.0, 2.0]),
        ("ElementWiseRsqrt", [2.0, 1.0, 0.5]),
        ("ElementWiseReciprocal", [4.0, 1.0, 0.25]),
        ("ElementWiseLog", [0.25f64.ln(), 0.0, 4f64.ln()]),
        ("ElementWiseRound", [0.0, 1.0, 4.0]),
    ] {
        close(op, &run(op, &[], &[positive.clone()], &positive), &wanted, 1e-6);
    }
    let slope = float(&[1], &[0.1]).constant();
    let wanted: Vec<f64> = x
        .values
        .iter()
        .map(|&v| if v < 0.0 { 0.1 * v } else { v })
        .collect();
    close(
        "Prelu",
        &run("Prelu", &[], &[x.clone(), slope], &x),
        &wanted,
        1e-6,
    );
    // Gelu and Elu of f32 are refused by SoC 30 only when it finalizes
    let elu = |soc| run_on(Soc::from_id(soc).unwrap(), "Elu", &[], &[x.clone()], &[x.clone()]);
    assert_eq!(elu(30).unwrap_err().0, Code::MEMORY);
    let wanted: Vec<f64> = x
        .values
        .iter()
        .map(|&v| if v < 0.0 { v.exp_m1() } else { v })
        .collect();
    // 16 bits on this one
    close("Elu", &elu(57).unwrap()[0], &wanted, 1e-3);
    assert_ne!(elu(57).unwrap()[0], wanted);
}

#[test]
fn binary_ops() {
    let (a, b) = (
        float(&[2, 3], &[1.0, -2.0, 3.5, 4.0, -5.5, 6.0]),
        float(&[1, 3], &[2.0, -3.0, 0.5]),
    );
    let pairs = |f: fn(f64, f64) -> f64| -> Vec<f64> {
        a.values
            .iter()
            .enumerate()
            .map(|(i, &v)| f(v, b.values[i % 3]))
            .collect()
    };
    type Case = (&'static str, u32, fn(f64, f64) -> f64);
    let cases: [Case; 9] = [
        ("Add", 0, |a, b| a + b),
        ("Divide", 2, |a, b| a / b),
        ("FloorDiv", 4, |a, b| (a / b).floor()),
        ("Fmod", 5, |a, b| a % b),
        ("Maximum", 10, f64::max),
        ("Minimum", 11, f64::min),
        ("Mod", 12, |a, b| a - b * (a / b).floor()),
        ("Multiply", 13, |a, b| a * b),
        ("Subtract", 18, |a, b| a - b),
    ];
    for (name, operation, f) in cases {
        let wanted = pairs(f);
        let own = run(&format!("ElementWise{name}"), &[], &[a.clone(), b.clone()], &a);
        close(name, &own, &wanted, 1e-5);
        let joint = [u32_scalar("operation", operation)];
        let joint = run("ElementWiseBinary", &joint, &[a.clone(), b.clone()], &a);
        assert_eq!(own, joint, "{name}");
    }
    let square = run("ElementWiseSquaredDifference", &[], &[a.clone(), b.clone()], &a);
    close("square", &square, &pairs(|a, b| (a - b) * (a - b)), 1e-4);
    let truth = ints(Dtype::Bool8, &[2, 3], &[]);
    for (op, f) in [
        ("ElementWiseGreater", (|a, b| a > b) as fn(f64, f64) -> bool),
        ("ElementWiseLessEqual", |a, b| a <= b),
        ("ElementWiseNotEqual", |a, b| a != b),
    ] {
        let wanted: Vec<f64> = a
            .values
            .iter()
            .enumerate()
            .map(|(i, &v)| f64::from(f(v, b.values[i % 3])))
            .collect();
        close(op, &run(op, &[], &[a.clone(), b.clone()], &truth), &wanted, 0.0);
    }
    let yes = ints(Dtype::Bool8, &[2, 3], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    let chosen = run("ElementWiseSelect", &[], &[yes, a.clone(), b.clone()], &a);
    assert_eq!(chosen, [1.0, -3.0, 3.5, 2.0, -3.0, 6.0]);
    // sums of 8 bits with three encodings
    let (x, y) = (
        a.clone().fixed(Dtype::Sfixed8, 0.5, 3),
        b.clone().fixed(Dtype::Sfixed8, 0.25, -7),
    );
    let out = a.clone().fixed(Dtype::Sfixed8, 0.75, 0);
    let seen = run("ElementWiseAdd", &[], &[x, y], &out);
    close("add s8", &seen, &pairs(|a, b| a + b), 0.376);
}

#[test]
fn convolutions_and_pools_of_floats() {
    let x = float(&[1, 5, 4, 2], &wave(40));
    let w = float(&[3, 3, 2, 3], &wave(54)).constant();
    let params = [
        list("stride", &[2], &[2, 1]),
        list("pad_amount", &[2, 2], &[1, 0, 1, 1]),
        list("dilation", &[2], &[1, 1]),
        u32_scalar("group", 1),
    ];
    let seen = run(
        "Conv2d",
        &params,
        &[x.clone(), w.clone()],
        &float(&[1, 2, 4, 3], &[]),
    );
    // filters [kh, kw, in, out] as [out, in, kh, kw]
    let mut filters = vec![0.0; 54];
    for (i, value) in w.values.iter().enumerate() {
        let (tap, inside, out) = (i / 6, i / 3 % 2, i % 3);
        filters[(out * 2 + inside) * 9 + tap] = *value;
    }
    let attributes = Attributes::new()
        .with_ints(Attr::Strides, &[2, 1])
        .with_ints(Attr::Pads, &[1, 1, 0, 1]);
    let nchw = turned(&x.values, [1, 5, 4, 2]);
    let wanted = oracle(
        Op::Conv,
        &attributes,
        &[(&[1, 2, 5, 4], &nchw), (&[3, 2, 3, 3], &filters)],
    );
    close("Conv2d", &turned(&seen, [1, 2, 4, 3]), &wanted, 1e-5);

    let pool = [
        list("filter_size", &[2], &[2, 3]),
        list("stride", &[2], &[1, 2]),
        list("pad_amount", &[2, 2], &[0, 1, 1, 1]),
    ];
    let attributes = Attributes::new()
        .with_ints(Attr::KernelShape, &[2, 3])
        .with_ints(Attr::Strides, &[1, 2])
        .with_ints(Attr::Pads, &[0, 1, 1, 1]);
    for (name, op, params, attributes) in [
        ("PoolMax2d", Op::MaxPool, pool.to_vec(), attributes.clone()),
        ("PoolAvg2d", Op::AveragePool, pool.to_vec(), attributes.clone()),
        (
            "PoolAvg2d",
            Op::AveragePool,
            [&pool[..], &[flag("count_pad_for_edges", true)]].concat(),
            attributes.with_int(Attr::CountIncludePad, 1),
        ),
    ] {
        let wanted = oracle(op, &attributes, &[(&[1, 2, 5, 4], &nchw)]);
        let places = wanted.len() as u32 / 2 / 5;
        let seen = run(name, &params, &[x.clone()], &float(&[1, 5, places, 2], &[]));
        close(name, &turned(&seen, [1, 5, places as usize, 2]), &wanted, 1e-6);
    }

    let up = [
        list("stride", &[2], &[2, 2]),
        list("pad_amount", &[2, 2], &[1, 1, 1, 1]),
        list("output_padding", &[2], &[1, 0]),
        u32_scalar("group", 1),
    ];
    let seen = run(
        "TransposeConv2d",
        &up,
        &[x.clone(), w.clone()],
        &float(&[1, 10, 7, 3], &[]),
    );
    // [kh, kw, in, out] as [in, out, kh, kw]
    let mut filters = vec![0.0; 54];
    for (i, value) in w.values.iter().enumerate() {
        let (tap, inside, out) = (i / 6, i / 3 % 2, i % 3);
        filters[(inside * 3 + out) * 9 + tap] = *value;
    }
    let attributes = Attributes::new()
        .with_ints(Attr::Strides, &[2, 2])
        .with_ints(Attr::Pads, &[1, 1, 1, 1])
        .with_ints(Attr::OutputPadding, &[1, 0]);
    let wanted = oracle(
        Op::ConvTranspose,
        &attributes,
        &[(&[1, 2, 5, 4], &nchw), (&[2, 3, 3, 3], &filters)],
    );
    close("TransposeConv2d", &turned(&seen, [1, 10, 7, 3]), &wanted, 1e-5);
}

#[test]
fn fast_products_equal_the_oracles() {
    let bits = [
        (Dtype::Ufixed8, 0.02, 110, Dtype::Sfixed8),
        (Dtype::Sfixed8, 0.02, -5, Dtype::Ufixed8),
        (Dtype::Ufixed16, 0.0001, 30_000, Dtype::Sfixed8),
        (Dtype::Sfixed16, 0.0001, 0, Dtype::Sfixed8),
    ];
    for (x_type, x_scale, x_zero, w_type) in bits {
        let x = float(&[1, 4, 4, 4], &wave(64)).fixed(x_type, x_scale, x_zero);
        let y_scale = x_scale * 4.0;
        let params = |depthwise: bool, group: u32| {
            let mut params = vec![
                list("stride", &[2], &[1, 1]),
                list("pad_amount", &[2, 2], &[1, 1, 0, 0]),
                list("dilation", &[2], &[1, 1]),
            ];
            if !depthwise {
                params.push(u32_scalar("group", group));
            }
            params
        };
        for (op, w_dims, y_dims, group) in [
            ("Conv2d", [3, 1, 4, 6], [1, 4, 4, 6], 1),
            ("Conv2d", [3, 1, 2, 6], [1, 4, 4, 6], 2),
            ("DepthWiseConv2d", [3, 1, 1, 4], [1, 4, 4, 4], 4),
            ("DepthWiseConv2d", [3, 1, 1, 8], [1, 4, 4, 8], 4),
        ] {
            let count = w_dims.iter().product::<u32>() as usize;
            let w = float(&w_dims, &wave(count)).fixed(w_type, 0.01, 0).constant();
            let b = float(&[w_dims[3]], &wave(w_dims[3] as usize))
                .fixed(Dtype::Sfixed32, x_scale * 0.01, 0)
                .constant();
            let y = float(&y_dims, &[]).fixed(x_type, y_scale, x_zero);
            let params = params(op != "Conv2d", group);
            let seen = run(op, &params, &[x.clone(), w.clone(), b.clone()], &y);
            // the same numbers as reals, through the recipe
            let real = |operand: &Operand| {
                let spec = operand.spec(1, Kind::AppRead);
                let bytes = operand.bytes(&spec);
                let values = real::load(&spec, &bytes, DType::F64, false)
                    .unwrap()
                    .to_f64s()
                    .unwrap();
                Operand {
                    values,
                    dtype: Dtype::Float32,
                    step: None,
                    ..operand.clone()
                }
            };
            let wanted = run(op, &params, &[real(&x), real(&w), real(&b)], &float(&y_dims, &[]));
            let (low, high) = y.dtype.range();
            let limits = [low, high].map(|q| (q - i64::from(x_zero)) as f64 * f64::from(y_scale));
            let wanted: Vec<f64> = wanted.iter().map(|v| v.clamp(limits[0], limits[1])).collect();
            close(op, &seen, &wanted, f64::from(y_scale) * 0.51);
        }
    }
    // four bits in eight, one scale per unit
    let x = float(&[2, 4], &wave(8)).fixed(Dtype::Ufixed8, 0.01, 128);
    let mut graph_w = float(
        &[3, 4],
        &[-8.0, 7.0, 3.0, -1.0, 0.0, 5.0, -6.0, 2.0, 1.0, 1.0, 1.0, 1.0],
    )
    .fixed(Dtype::Sfixed8, 1.0, 0)
    .constant()
    .spec(2, Kind::Static);
    graph_w.encoding = Encoding::BitsPerAxis {
        bits: 4,
        axis: 0,
        steps: [0.1, 0.2, 0.3].map(|scale| Linear { scale, offset: 0 }).to_vec(),
    };
    let y = float(&[2, 3], &[]).fixed(Dtype::Ufixed8, 0.05, 100);
    let (x_spec, y_spec) = (x.spec(1, Kind::AppWrite), y.spec(3, Kind::AppRead));
    let numbers = real::numbers(&x_spec, &x.bytes(&x_spec)).unwrap();
    let inputs = [Some(&x_spec), Some(&graph_w)];
    let outputs = [Some(&y_spec)];
    let view = View {
        op: "FullyConnected",
        params: &[],
        inputs: &inputs,
        outputs: &outputs,
    };
    support::validate(&view, "qti.aisw", PHONE).unwrap();
    let out = Product::new(&view).unwrap().run(&x.bytes(&x_spec));
    let w = [[-8, 7, 3, -1], [0, 5, -6, 2], [1, 1, 1, 1]];
    for row in 0..2 {
        for unit in 0..3 {
            let sum: i64 = (0..4).map(|i| (numbers[row * 4 + i] - 128) * w[unit][i]).sum();
            let scale = f64::from(0.01f32) * f64::from([0.1f32, 0.2, 0.3][unit]) / f64::from(0.05f32);
            let q = (sum as f64 * scale).round() as i64 + 100;
            assert_eq!(i64::from(out[row * 3 + unit]), q.clamp(0, 255));
        }
    }
    // packed storage is rejected, and so is a scale per axis on an activation
    let packed = Spec {
        dtype: Dtype::Sfixed4.code(),
        ..graph_w.clone()
    };
    let inputs = [Some(&x_spec), Some(&packed)];
    assert!(
        support::validate(
            &View {
                inputs: &inputs,
                ..view
            },
            "qti.aisw",
            PHONE
        )
        .is_err()
    );
}

#[test]
fn matrix_products_and_norms() {
    let (a, b) = (float(&[2, 2, 3], &wave(12)), float(&[2, 4, 3], &wave(24)));
    let params = [flag("transpose_in0", false), flag("transpose_in1", true)];
    let seen = run(
        "MatMul",
        &params,
        &[a.clone(), b.clone()],
        &float(&[2, 2, 4], &[]),
    );
    for batch in 0..2 {
        for row in 0..2 {
            for column in 0..4 {
                let wanted: f64 = (0..3)
                    .map(|i| a.values[batch * 6 + row * 3 + i] * b.values[batch * 12 + column * 3 + i])
                    .sum();
                let at = batch * 8 + row * 4 + column;
                assert!((seen[at] - wanted).abs() < 1e-5);
            }
        }
    }
    let x = float(&[2, 4], &[1.0, 2.0, 3.0, 4.0, -1.0, 0.0, 1.0, 0.0]);
    let soft = run(
        "Softmax",
        &[u32_scalar("axis", 1), f32_scalar("beta", 2.0)],
        &[x.clone()],
        &x,
    );
    for row in 0..2 {
        let row_of = |v: &[f64]| v[row * 4..][..4].to_vec();
        let e: Vec<f64> = row_of(&x.values).iter().map(|v| (2.0 * v).exp()).collect();
        let sum: f64 = e.iter().sum();
        let wanted: Vec<f64> = e.iter().map(|v| v / sum).collect();
        close("Softmax", &row_of(&soft), &wanted, 1e-6);
    }
    let (gamma, beta) = (
        float(&[4], &[1.0, 2.0, 0.5, 1.0]).constant(),
        float(&[4], &[0.0, 1.0, 0.0, -1.0]).constant(),
    );
    let params = [f32_scalar("epsilon", 1e-5), list("axes", &[1], &[1])];
    let seen = run(
        "LayerNorm",
        &params,
        &[x.clone(), gamma.clone(), beta.clone()],
        &x,
    );
    for row in 0..2 {
        let values = &x.values[row * 4..][..4];
        let mean = values.iter().sum::<f64>() / 4.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0;
        for i in 0..4 {
            let wanted = (values[i] - mean) / (variance + 1e-5).sqrt() * gamma.values[i] + beta.values[i];
            assert!((seen[row * 4 + i] - wanted).abs() < 1e-5);
        }
    }
    let rms = run_on(
        Soc::from_id(57).unwrap(),
        "RmsNorm",
        &params,
        &[x.clone(), gamma],
        &[x.clone()],
    );
    let mean = (1.0 + 4.0 + 9.0 + 16.0) / 4.0f64;
    assert!((rms.unwrap()[0][1] - 2.0 / (mean + 1e-5).sqrt() * 2.0).abs() < 2e-3);
    let image = float(&[1, 2, 2, 2], &wave(8));
    let two = |v: [f64; 2]| float(&[2], &v).constant();
    let seen = run(
        "InstanceNorm",
        &[f32_scalar("epsilon", 1e-5)],
        &[image.clone(), two([1.0, 2.0]), two([0.5, 0.0])],
        &image,
    );
    for channel in 0..2 {
        let values: Vec<f64> = (0..4).map(|i| image.values[i * 2 + channel]).collect();
        let mean = values.iter().sum::<f64>() / 4.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0;
        let wanted =
            (values[3] - mean) / (variance + 1e-5).sqrt() * [1.0, 2.0][channel] + [0.5, 0.0][channel];
        assert!((seen[6 + channel] - wanted).abs() < 1e-5);
    }
    let seen = run(
        "Batchnorm",
        &[],
        &[image.clone(), two([2.0, 3.0]), two([1.0, -1.0])],
        &image,
    );
    assert!((seen[5] - (image.values[5] * 3.0 - 1.0)).abs() < 1e-6);
    let seen = run("L2Norm", &[u32_scalar("axis", 1)], &[x.clone()], &x);
    assert!((seen[0] - 1.0 / 30f64.sqrt()).abs() < 1e-6);
    let lrn = [
        u32_scalar("radius", 1),
        f32_scalar("alpha", 0.5),
        f32_scalar("beta", 1.0),
        f32_scalar("bias", 1.0),
    ];
    let seen = run("Lrn", &lrn, &[image.clone()], &image);
    let (p, q) = (image.values[0], image.values[1]);
    assert!((seen[0] - p / (1.0 + 0.5 * (p * p + q * q))).abs() < 1e-6);
}

#[test]
fn groups_grids_and_logarithms() {
    // two groups of one channel each are an instance norm
    let image = float(&[1, 2, 2, 2], &wave(8));
    let two = |v: [f64; 2]| float(&[2], &v).constant();
    let learned = [image.clone(), two([1.0, 2.0]), two([0.5, 0.0])];
    let alone = run("InstanceNorm", &[f32_scalar("epsilon", 1e-5)], &learned, &image);
    let params = [f32_scalar("epsilon", 1e-5), u32_scalar("group", 2)];
    close(
        "GroupNorm",
        &run("GroupNorm", &params, &learned, &image),
        &alone,
        1e-6,
    );
    let one = run(
        "GroupNorm",
        &[f32_scalar("epsilon", 1e-5), u32_scalar("group", 1)],
        &learned,
        &image,
    );
    let mean = image.values.iter().sum::<f64>() / 8.0;
    let variance = image.values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 8.0;
    let wanted = (image.values[7] - mean) / (variance + 1e-5).sqrt() * 2.0;
    assert!((one[7] - wanted).abs() < 1e-5);
    // the corners and the middle of an image of four pixels, channel by channel
    let grid = float(&[1, 1, 3, 2], &[-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]);
    let params = [
        flag("align_corners", true),
        u32_scalar("mode", 0),
        u32_scalar("padding_mode", 1),
    ];
    let seen = run(
        "GridSample",
        &params,
        &[image.clone(), grid],
        &float(&[1, 1, 3, 2], &[]),
    );
    let v = &image.values;
    let middle = |c: usize| (v[c] + v[2 + c] + v[4 + c] + v[6 + c]) / 4.0;
    close(
        "GridSample",
        &seen,
        &[v[0], v[1], middle(0), middle(1), v[6], v[7]],
        1e-6,
    );
    let x = float(&[2, 3], &[1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
    let soft = run("Softmax", &[], &[x.clone()], &x);
    let wanted: Vec<f64> = soft.iter().map(|v| v.ln()).collect();
    close(
        "LogSoftmax",
        &run("LogSoftmax", &[], &[x.clone()], &x),
        &wanted,
        1e-6,
    );
    let odd = float(&[4], &[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    let truth = ints(Dtype::Bool8, &[4], &[]);
    assert_eq!(run("IsNan", &[], &[odd.clone()], &truth), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(run("IsInf", &[], &[odd.clone()], &truth), [0.0, 0.0, 1.0, 1.0]);
    let upwards = [flag("detect_negative", false)];
    assert_eq!(run("IsInf", &upwards, &[odd], &truth), [0.0, 0.0, 1.0, 0.0]);
    let (p, q) = (
        ints(Dtype::Bool8, &[4], &[0.0, 0.0, 1.0, 1.0]),
        ints(Dtype::Bool8, &[4], &[0.0, 1.0, 0.0, 1.0]),
    );
    for (op, wanted) in [
        ("And", [0.0, 0.0, 0.0, 1.0]),
        ("Or", [0.0, 1.0, 1.0, 1.0]),
        ("Xor", [0.0, 1.0, 1.0, 0.0]),
    ] {
        let seen = run(&format!("ElementWise{op}"), &[], &[p.clone(), q.clone()], &truth);
        assert_eq!(seen, wanted, "{op}");
    }
    let cells = ints(Dtype::Int32, &[2, 1], &[2.0, 0.0]);
    let new = float(&[2, 1], &[7.0, 8.0]);
    let put = run(
        "ScatterElements",
        &[u32_scalar("axis", 1)],
        &[x.clone(), cells, new],
        &x,
    );
    assert_eq!(put, [1.0, 2.0, 7.0, 8.0, 0.0, 0.0]);
    let power = run("ElementWisePower", &[], &[x.clone(), float(&[1], &[2.0])], &x);
    assert_eq!(power, [1.0, 4.0, 9.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_tensor_beyond_memory_is_refused_before_it_is_made() {
    let huge = ints(Dtype::Ufixed8, &[1 << 16, 1 << 16], &[]).fixed(Dtype::Ufixed8, 1.0, 0);
    let (x, y) = (huge.spec(1, Kind::AppWrite), huge.spec(2, Kind::AppRead));
    let graph = Graph {
        tensors: vec![x, y],
        nodes: vec![Node {
            name: "n".into(),
            package: "qti.aisw".into(),
            op: "Relu".into(),
            params: Vec::new(),
            inputs: vec![1],
            outputs: vec![2],
        }],
        ..Graph::default()
    };
    let (code, why) = Plan::new(&graph, PHONE).err().unwrap();
    assert!(code == Code::GRAPH_NODES && why.contains("too large"), "{why}");
}

#[test]
fn reductions_and_indices() {
    let x = float(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 2.0, 6.0]);
    let axes = |keep| [list("axes", &[1], &[1]), flag("keep_dims", keep)];
    for (op, wanted) in [
        ("ReduceSum", [9.0, 12.0]),
        ("ReduceMean", [3.0, 4.0]),
        ("ReduceMax", [5.0, 6.0]),
        ("ReduceMin", [1.0, 2.0]),
        ("ReduceProd", [15.0, 48.0]),
    ] {
        close(
            op,
            &run(op, &axes(false), &[x.clone()], &float(&[2], &[])),
            &wanted,
            1e-5,
        );
        close(
            op,
            &run(op, &axes(true), &[x.clone()], &float(&[2, 1], &[])),
            &wanted,
            1e-5,
        );
    }
    // all axes: QNN has no rank 0
    let all = [list("axes", &[2], &[0, 1]), flag("keep_dims", false)];
    assert_eq!(run("ReduceSum", &all, &[x.clone()], &float(&[1], &[])), [21.0]);
    let at = [u32_scalar("axis", 1), flag("keep_dims", false)];
    assert_eq!(
        run("Argmax", &at, &[x.clone()], &ints(Dtype::Int32, &[2], &[])),
        [1.0, 2.0]
    );
    assert_eq!(
        run("Argmin", &at, &[x.clone()], &ints(Dtype::Uint32, &[2], &[])),
        [0.0, 1.0]
    );
    let top = run_on(
        PHONE,
        "TopK",
        &[u32_scalar("k", 2)],
        &[x.clone()],
        &[float(&[2, 2], &[]), ints(Dtype::Int32, &[2, 2], &[])],
    );
    assert_eq!(top.unwrap(), [vec![5.0, 3.0, 6.0, 4.0], vec![1.0, 2.0, 2.0, 0.0]]);
    let sums = run(
        "CumulativeSum",
        &[u32_scalar("axis", 1), flag("reverse", true)],
        &[x.clone()],
        &x,
    );
    assert_eq!(sums, [9.0, 8.0, 3.0, 12.0, 8.0, 6.0]);
    let rows = ints(Dtype::Int32, &[3], &[1.0, 0.0, 1.0]);
    let taken = run(
        "Gather",
        &[u32_scalar("axis", 0)],
        &[x.clone(), rows],
        &float(&[3, 3], &[]),
    );
    assert_eq!(taken, [4.0, 2.0, 6.0, 1.0, 5.0, 3.0, 4.0, 2.0, 6.0]);
    let each = ints(Dtype::Uint32, &[2, 1], &[2.0, 1.0]);
    let taken = run(
        "GatherElements",
        &[u32_scalar("axis", 1)],
        &[x.clone(), each],
        &float(&[2, 1], &[]),
    );
    assert_eq!(taken, [3.0, 2.0]);
    let points = ints(Dtype::Int32, &[2, 2], &[0.0, 1.0, 1.0, 2.0]);
    assert_eq!(
        run("GatherNd", &[], &[x.clone(), points.clone()], &float(&[2], &[])),
        [5.0, 6.0]
    );
    let updates = float(&[2], &[-1.0, -2.0]);
    let put = run("ScatterNd", &[], &[x.clone(), points, updates], &x);
    assert_eq!(put, [1.0, -1.0, 3.0, 4.0, 2.0, -2.0]);
    let wrong = ints(Dtype::Int32, &[1], &[7.0]);
    let error = run_on(
        PHONE,
        "Gather",
        &[u32_scalar("axis", 0)],
        &[x, wrong],
        &[float(&[1, 3], &[])],
    );
    assert_eq!(error.unwrap_err().0, Code::EXECUTE);
}

#[test]
fn movements_keep_values() {
    let counted = |n: u32| -> Vec<f64> { (0..n).map(f64::from).collect() };
    let x = float(&[2, 3], &counted(6));
    assert_eq!(
        run("Reshape", &[], &[x.clone()], &float(&[3, 2], &[])),
        counted(6)
    );
    assert_eq!(
        run(
            "Transpose",
            &[list("perm", &[2], &[1, 0])],
            &[x.clone()],
            &float(&[3, 2], &[])
        ),
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
    let joined = run(
        "Concat",
        &[u32_scalar("axis", 1)],
        &[x.clone(), x.clone()],
        &float(&[2, 6], &[]),
    );
    assert_eq!(
        joined,
        [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0]
    );
    let packed = run(
        "Pack",
        &[u32_scalar("axis", 0)],
        &[x.clone(), x.clone()],
        &float(&[2, 2, 3], &[]),
    );
    assert_eq!(packed, [counted(6), counted(6)].concat());
    let parts = run_on(
        PHONE,
        "Split",
        &[u32_scalar("axis", 1), list("split_index", &[1], &[1])],
        &[x.clone()],
        &[float(&[2, 1], &[]), float(&[2, 2], &[])],
    );
    assert_eq!(parts.unwrap(), [vec![0.0, 3.0], vec![1.0, 2.0, 4.0, 5.0]]);
    let rows = run_on(
        PHONE,
        "UnPack",
        &[u32_scalar("axis", 0)],
        &[x.clone()],
        &[float(&[3], &[]), float(&[3], &[])],
    );
    assert_eq!(rows.unwrap()[1], [3.0, 4.0, 5.0]);
    let ranges = |r: [i32; 6]| [list("ranges", &[2, 3], &r)];
    let part = run(
        "StridedSlice",
        &ranges([0, 2, 1, 0, 3, 2]),
        &[x.clone()],
        &float(&[2, 2], &[]),
    );
    assert_eq!(part, [0.0, 2.0, 3.0, 5.0]);
    let back = run("StridedSlice", &ranges([0, 2, 1, 2, -1, -1]), &[x.clone()], &x);
    assert_eq!(back, [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    let pad = |scheme, value| {
        [
            u32_scalar("scheme", scheme),
            list("pad_amount", &[2, 2], &[0, 0, 1, 1]),
            f32_scalar("pad_constant_value", value),
        ]
    };
    let wide = float(&[2, 5], &[]);
    assert_eq!(
        run("Pad", &pad(0, 9.0), &[x.clone()], &wide),
        [9.0, 0.0, 1.0, 2.0, 9.0, 9.0, 3.0, 4.0, 5.0, 9.0]
    );
    assert_eq!(
        run("Pad", &pad(2, 0.0), &[x.clone()], &wide)[..5],
        [1.0, 0.0, 1.0, 2.0, 1.0]
    );
    assert_eq!(
        run("Pad", &pad(3, 0.0), &[x.clone()], &wide)[..5],
        [0.0, 0.0, 1.0, 2.0, 2.0]
    );
    let tiled = run(
        "Tile",
        &[list("multiples", &[2], &[1, 2])],
        &[x.clone()],
        &float(&[2, 6], &[]),
    );
    assert_eq!(tiled, joined);
    let apart = run(
        "ExpandDims",
        &[u32_scalar("axis", 1)],
        &[x.clone()],
        &float(&[2, 1, 3], &[]),
    );
    assert_eq!(apart, counted(6));
    // channels c become blocks: [1, 1, 1, 4] to [1, 2, 2, 1]
    let deep = float(&[1, 1, 1, 4], &counted(4));
    let block = |mode| [list("block_size", &[2], &[2, 2]), u32_scalar("mode", mode)];
    let flat = float(&[1, 2, 2, 1], &counted(4));
    assert_eq!(run("DepthToSpace", &block(0), &[deep.clone()], &flat), counted(4));
    assert_eq!(run("SpaceToDepth", &block(0), &[flat.clone()], &deep), counted(4));
    // resampling: each pixel twice, and halfway between
    let line = float(&[1, 1, 2, 1], &[0.0, 4.0]);
    let long = float(&[1, 1, 4, 1], &[]);
    assert_eq!(
        run("ResizeNearestNeighbor", &[], &[line.clone()], &long),
        [0.0, 0.0, 4.0, 4.0]
    );
    let half = [flag("half_pixel_centers", true)];
    assert_eq!(
        run("ResizeBilinear", &half, &[line.clone()], &long),
        [0.0, 1.0, 3.0, 4.0]
    );
    let modes = [
        u32_scalar("transformation_mode", 3),
        u32_scalar("interpolation_mode", 1),
    ];
    assert_eq!(run("Resize", &modes, &[line], &long), [0.0, 2.0, 4.0, 4.0]);
}

#[test]
fn conversions_between_types() {
    let x = float(&[4], &[-1.0, 0.26, 0.5, 100.0]);
    let bytes = x.clone().fixed(Dtype::Ufixed8, 0.5, 10);
    // half away from zero, and saturated
    assert_eq!(
        run("Quantize", &[], &[x.clone()], &bytes),
        [-1.0, 0.5, 0.5, 100.0]
    );
    assert_eq!(
        run("Dequantize", &[], &[bytes.clone()], &x),
        [-1.0, 0.5, 0.5, 100.0]
    );
    let coarse = x.clone().fixed(Dtype::Sfixed8, 2.0, 0);
    assert_eq!(run("Convert", &[], &[bytes], &coarse), [-2.0, 0.0, 0.0, 100.0]);
    let whole = ints(Dtype::Int32, &[4], &[]);
    assert_eq!(run("Cast", &[], &[x.clone()], &whole), [-1.0, 0.0, 0.0, 100.0]);
    let truth = ints(Dtype::Bool8, &[4], &[1.0, 0.0, 0.0, 1.0]);
    assert_eq!(run("Cast", &[], &[truth.clone()], &x), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(
        run("ElementWiseNot", &[], &[truth.clone()], &truth),
        [0.0, 1.0, 1.0, 0.0]
    );
}

#[test]
fn the_output_of_a_signed_softmax_is_what_the_vendor_makes_of_it() {
    let x = float(&[1, 4], &[0.0, 1.0, 2.0, 3.0]).fixed(Dtype::Sfixed8, 0.05, 0);
    let axis = [u32_scalar("axis", 1)];
    let right = float(&[1, 4], &[]).fixed(Dtype::Sfixed8, 1.0 / 256.0, -128);
    let wrong = float(&[1, 4], &[]).fixed(Dtype::Sfixed8, 1.0 / 256.0, 0);
    let good = run("Softmax", &axis, &[x.clone()], &right);
    let bad = run("Softmax", &axis, &[x], &wrong);
    for (good, bad) in good.iter().zip(&bad) {
        assert!(
            (good - bad - 0.5).abs() < 1e-9,
            "128 steps of 1/256 off: {good} {bad}"
        );
    }
}

#[test]
fn what_a_soc_accepts() {
    let accepts = |soc: u32, op: &str, inputs: &[Operand], output: &Operand| {
        let specs: Vec<Spec> = inputs
            .iter()
            .enumerate()
            .map(|(i, operand)| {
                let kind = if operand.constant {
                    Kind::Static
                } else {
                    Kind::AppWrite
                };
                operand.spec(i as u32 + 1, kind)
            })
            .collect();
        let inputs: Vec<Option<&Spec>> = specs.iter().map(Some).collect();
        let output = output.spec(9, Kind::AppRead);
        let outputs = [Some(&output)];
        let view = View {
            op,
            params: &[],
            inputs: &inputs,
            outputs: &outputs,
        };
        support::validate(&view, "qti.aisw", Soc::from_id(soc).unwrap()).is_ok()
    };
    let x = float(&[2, 2], &[0.0; 4]);
    let s16 = x.clone().fixed(Dtype::Sfixed16, 0.1, 0);
    let u16 = x.clone().fixed(Dtype::Ufixed16, 0.1, 0);
    for (soc, yes) in [
        (30, false),
        (36, false),
        (43, true),
        (57, true),
        (69, true),
        (87, true),
    ] {
        assert_eq!(
            accepts(soc, "MatMul", &[s16.clone(), s16.clone()], &s16),
            yes,
            "{soc}"
        );
        assert!(accepts(soc, "MatMul", &[u16.clone(), u16.clone()], &u16));
        let weights = x.clone().fixed(Dtype::Sfixed8, 0.1, 0).constant();
        assert!(accepts(soc, "MatMul", &[s16.clone(), weights], &s16));
    }
    let half = ints(Dtype::Float16, &[2, 2], &[0.0; 4]);
    for (soc, half_ok, float_ok) in [(1, false, false), (95, false, true), (57, true, true)] {
        assert_eq!(accepts(soc, "Relu", &[half.clone()], &half), half_ok, "{soc}");
        assert_eq!(accepts(soc, "Relu", &[x.clone()], &x), float_ok, "{soc}");
    }
    let whole = ints(Dtype::Int32, &[2, 2], &[0.0; 4]);
    assert!(accepts(
        57,
        "ElementWiseAdd",
        &[whole.clone(), whole.clone()],
        &whole
    ));
    assert!(!accepts(57, "Sigmoid", &[whole.clone()], &whole));
    assert!(!accepts(57, "NoSuchOp", &[x.clone()], &x));
    assert!(
        !accepts(57, "Relu", &[x.clone()], &float(&[4], &[])),
        "another shape"
    );
    let bare = ints(Dtype::Ufixed8, &[2, 2], &[0.0; 4]);
    assert!(!accepts(57, "Relu", &[bare.clone()], &bare), "no encoding");
    // every listed op is one that validation knows
    for name in support::NAMES {
        let name = name.to_str().unwrap();
        let view = View {
            op: name,
            params: &[u32_scalar("operation", 0)],
            inputs: &[],
            outputs: &[],
        };
        let refusal = support::validate(&view, "qti.aisw", PHONE).unwrap_err();
        assert_ne!(refusal, Refusal::Unknown, "{name}");
        assert_ne!(lower::lower(&view).err(), Some(Refusal::Unknown), "{name}");
    }
}
