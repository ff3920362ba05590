//! Each op against values from elsewhere: by hand, or the oracle's ONNX node on data turned by the test itself.

// operands are a few numbers; every call has the same form
#![allow(clippy::cloned_ref_to_slice_refs)]

use polychip_ops::{Attr, Attributes, Op};
use polychip_reference::evaluate;

use super::*;
use crate::operand::{
    Operand, PHONE, close, f32_scalar, flag, float, ints, list, run, run_on, u32_scalar, wave,
};

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
fn a_bias_without_a_scale_counts_in_units_of_the_product() {
    let image = float(&[1, 2, 2, 2], &wave(8)).fixed(Dtype::Sfixed8, 0.01, 3);
    let rows = float(&[2, 4], &wave(8)).fixed(Dtype::Sfixed8, 0.01, 3);
    let window = [
        list("stride", &[2], &[2, 2]),
        list("pad_amount", &[2, 2], &[0; 4]),
    ];
    let scale = 0.01f32 * 0.02;
    let units = [50.0, -120.0, 700.0];
    for (op, params, x, weights, output) in [
        ("FullyConnected", &[][..], rows, vec![3, 4], vec![2, 3]),
        (
            "TransposeConv2d",
            &window[..],
            image,
            vec![2, 2, 2, 3],
            vec![1, 4, 4, 3],
        ),
    ] {
        let count = weights.iter().product::<u32>() as usize;
        let w = float(&weights, &wave(count))
            .fixed(Dtype::Sfixed8, 0.02, 0)
            .constant();
        let y = float(&output, &[]).fixed(Dtype::Sfixed8, 0.002, 0);
        let plain = ints(Dtype::Sfixed32, &[3], &units).constant();
        let real = units.map(|unit| unit * f64::from(scale));
        let scaled = float(&[3], &real).fixed(Dtype::Sfixed32, scale, 0).constant();
        let with = |bias: Operand| run(op, params, &[x.clone(), w.clone(), bias], &y);
        let (plain, scaled) = (with(plain), with(scaled));
        close(op, &plain, &scaled, 1e-9);
        assert!(plain.iter().any(|&value| value != 0.0), "{op}");
    }
}
