//! One graph per kind of node, and what two devices may differ by.
//!
//! Invariant: a difference is in steps of the output's encoding; 0 where elements only move.

use polychip_graph::{Encoding, TensorId};
use polychip_ops::{Attr, Attributes, DType, Op};

use super::net::{Kind, Net, none, one_scale};

pub(crate) type Make = fn(&mut Net) -> Vec<TensorId>;

pub(crate) fn window(kernel: &[i64], strides: &[i64], pads: &[i64]) -> Attributes {
    none()
        .with_ints(Attr::KernelShape, kernel)
        .with_ints(Attr::Strides, strides)
        .with_ints(Attr::Pads, pads)
}

/// One node each, on images or matrices, and what the two may differ by in steps.
pub(crate) const CASES: &[(&str, f64, Make)] = &[
    ("Conv 3x3, bias", 1.0, |net| {
        let x = net.input(&[1, 8, 7, 6]);
        let w = net.weights(&[12, 8, 3, 3], 0);
        let b = net.floats(&[12], &[0.25; 12]);
        let attributes = window(&[3, 3], &[2, 1], &[1, 0, 1, 2]);
        vec![net.then(Op::Conv, attributes, &[x, w, b], &[1, 12, 4, 6])]
    }),
    ("Conv depthwise, dilated", 1.0, |net| {
        let x = net.input(&[2, 6, 8, 8]);
        let w = net.weights(&[6, 1, 3, 3], 0);
        let attributes = none()
            .with_int(Attr::Group, 6)
            .with_ints(Attr::Dilations, &[2, 2]);
        vec![net.then(Op::Conv, attributes, &[x, w], &[2, 6, 4, 4])]
    }),
    ("Conv grouped", 1.0, |net| {
        let x = net.input(&[1, 8, 5, 5]);
        let w = net.weights(&[4, 4, 1, 1], 0);
        vec![net.then(Op::Conv, none().with_int(Attr::Group, 2), &[x, w], &[1, 4, 5, 5])]
    }),
    ("Conv along one axis", 1.0, |net| {
        let x = net.input(&[1, 4, 9]);
        let w = net.weights(&[6, 4, 3], 0);
        vec![net.then(Op::Conv, none(), &[x, w], &[1, 6, 7])]
    }),
    ("ConvTranspose", 1.0, |net| {
        let x = net.input(&[1, 4, 5, 5]);
        let w = net.weights(&[4, 3, 2, 2], 1);
        let attributes = none().with_ints(Attr::Strides, &[2, 2]);
        vec![net.then(Op::ConvTranspose, attributes, &[x, w], &[1, 3, 10, 10])]
    }),
    ("Gemm", 1.0, |net| {
        let x = net.input(&[3, 16]);
        let w = net.weights(&[16, 10], 1);
        let b = net.floats(&[10], &[0.1; 10]);
        vec![net.then(Op::Gemm, none(), &[x, w, b], &[3, 10])]
    }),
    ("MatMul by weights, three axes", 1.0, |net| {
        let x = net.input(&[2, 5, 16]);
        let w = net.weights(&[16, 8], 1);
        vec![net.then(Op::MatMul, none(), &[x, w], &[2, 5, 8])]
    }),
    ("MatMul of two tensors", 1.0, |net| {
        let (a, b) = (net.input(&[2, 3, 4, 6]), net.input(&[2, 3, 6, 5]));
        vec![net.then(Op::MatMul, none(), &[a, b], &[2, 3, 4, 5])]
    }),
    ("MaxPool, ceil", 0.0, |net| {
        let x = net.input(&[1, 5, 6, 6]);
        let attributes = window(&[3, 3], &[2, 2], &[0, 0, 0, 0]).with_int(Attr::CeilMode, 1);
        vec![net.then(Op::MaxPool, attributes, &[x], &[1, 5, 3, 3])]
    }),
    ("AveragePool, pads", 1.0, |net| {
        let x = net.input(&[1, 5, 6, 6]);
        vec![net.then(
            Op::AveragePool,
            window(&[2, 2], &[2, 2], &[1, 1, 1, 1]),
            &[x],
            &[1, 5, 4, 4],
        )]
    }),
    ("GlobalAveragePool", 1.0, |net| {
        let x = net.input(&[2, 5, 4, 3]);
        vec![net.then(Op::GlobalAveragePool, none(), &[x], &[2, 5, 1, 1])]
    }),
    ("GlobalMaxPool", 0.0, |net| {
        let x = net.input(&[2, 5, 4, 3]);
        vec![net.then(Op::GlobalMaxPool, none(), &[x], &[2, 5, 1, 1])]
    }),
    ("Add, broadcast", 1.0, |net| {
        let (a, b) = (net.input(&[2, 3, 4, 5]), net.input(&[3, 1, 1]));
        vec![net.then(Op::Add, none(), &[a, b], &[2, 3, 4, 5])]
    }),
    ("Sub", 1.0, |net| {
        let (a, b) = (net.input(&[4, 6]), net.input(&[4, 6]));
        vec![net.then(Op::Sub, none(), &[a, b], &[4, 6])]
    }),
    ("Mul", 1.0, |net| {
        let (a, b) = (net.input(&[4, 6]), net.input(&[6]));
        vec![net.then(Op::Mul, none(), &[a, b], &[4, 6])]
    }),
    ("Max of three", 1.0, |net| {
        let (a, b, c) = (net.input(&[4, 6]), net.input(&[6]), net.input(&[4, 1]));
        vec![net.then(Op::Max, none(), &[a, b, c], &[4, 6])]
    }),
    ("Relu", 0.0, |net| {
        let x = net.input(&[2, 3, 4, 5]);
        vec![net.then(Op::Relu, none(), &[x], &[2, 3, 4, 5])]
    }),
    ("Clip", 1.0, |net| {
        let x = net.input(&[2, 3, 4, 5]);
        let (low, high) = (net.floats(&[], &[-0.25]), net.floats(&[], &[0.5]));
        vec![net.then(Op::Clip, none(), &[x, low, high], &[2, 3, 4, 5])]
    }),
    ("Sigmoid", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Sigmoid, none(), &[x], &[3, 7])]
    }),
    ("Tanh", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Tanh, none(), &[x], &[3, 7])]
    }),
    ("HardSwish", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::HardSwish, none(), &[x], &[3, 7])]
    }),
    ("HardSigmoid", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::HardSigmoid, none(), &[x], &[3, 7])]
    }),
    ("Gelu", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Gelu, none(), &[x], &[3, 7])]
    }),
    ("Elu", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Elu, none(), &[x], &[3, 7])]
    }),
    ("LeakyRelu", 2.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::LeakyRelu, none().with_float(Attr::Alpha, 0.25), &[x], &[3, 7])]
    }),
    ("Exp", 1.0, |net| {
        let x = net.input(&[3, 7]);
        let y = net.real(&[3, 7], 2.0);
        net.node(Op::Exp, none(), &[x], &[y]);
        vec![y]
    }),
    ("Abs", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Abs, none(), &[x], &[3, 7])]
    }),
    ("Greater", 0.0, |net| {
        let (a, b) = (net.input(&[4, 6]), net.input(&[4, 6]));
        let y = net.named(DType::Bool, &[4, 6], None);
        net.node(Op::Greater, none(), &[a, b], &[y]);
        vec![y]
    }),
    ("Where", 1.0, |net| {
        let c = net.named(DType::Bool, &[4, 6], None);
        net.graph.inputs.push(c);
        let (a, b) = (net.input(&[4, 6]), net.input(&[4, 6]));
        vec![net.then(Op::Where, none(), &[c, a, b], &[4, 6])]
    }),
    ("Softmax, last axis", 1.0, |net| {
        let x = net.input(&[2, 3, 8]);
        let y = net.named(net.kind.dtype(), &[2, 3, 8], softmax_encoding(net.kind));
        net.node(Op::Softmax, none(), &[x], &[y]);
        vec![y]
    }),
    ("Softmax over channels", 1.0, |net| {
        let x = net.input(&[2, 5, 3, 4]);
        let y = net.named(net.kind.dtype(), &[2, 5, 3, 4], softmax_encoding(net.kind));
        net.node(Op::Softmax, none().with_int(Attr::Axis, 1), &[x], &[y]);
        vec![y]
    }),
    ("Softmax over rows", 1.0, |net| {
        let x = net.input(&[2, 5, 3, 4]);
        let y = net.named(net.kind.dtype(), &[2, 5, 3, 4], softmax_encoding(net.kind));
        net.node(Op::Softmax, none().with_int(Attr::Axis, 2), &[x], &[y]);
        vec![y]
    }),
    ("ReduceMean, kept", 1.0, |net| {
        let x = net.input(&[2, 3, 4, 5]);
        let axes = net.ints(&[2, -1]);
        vec![net.then(Op::ReduceMean, none(), &[x, axes], &[2, 3, 1, 1])]
    }),
    ("ReduceMax, not kept", 0.0, |net| {
        let x = net.input(&[2, 3, 4, 5]);
        let axes = net.ints(&[1]);
        let attributes = none().with_int(Attr::Keepdims, 0);
        vec![net.then(Op::ReduceMax, attributes, &[x, axes], &[2, 4, 5])]
    }),
    ("ArgMax over channels", 0.0, |net| {
        let x = net.input(&[2, 3, 4, 5]);
        let y = net.named(DType::I64, &[2, 4, 5], None);
        let attributes = none().with_int(Attr::Axis, 1).with_int(Attr::Keepdims, 0);
        net.node(Op::ArgMax, attributes, &[x], &[y]);
        vec![y]
    }),
    ("Reshape", 0.0, |net| {
        let x = net.input(&[2, 3, 4]);
        let shape = net.ints(&[6, -1]);
        vec![net.then(Op::Reshape, none(), &[x, shape], &[6, 4])]
    }),
    ("Transpose", 0.0, |net| {
        let x = net.input(&[2, 3, 4, 5]);
        let perm = none().with_ints(Attr::Perm, &[2, 0, 3, 1]);
        vec![net.then(Op::Transpose, perm, &[x], &[4, 2, 5, 3])]
    }),
    ("Concat", 1.0, |net| {
        let (a, b) = (net.input(&[2, 3, 4]), net.real(&[2, 2, 4], 0.5));
        net.graph.inputs.push(b);
        vec![net.then(Op::Concat, none().with_int(Attr::Axis, 1), &[a, b], &[2, 5, 4])]
    }),
    ("Split", 0.0, |net| {
        let x = net.input(&[2, 6, 4]);
        let sizes = net.ints(&[1, 3, 2]);
        let outs = [1, 3, 2].map(|size| net.real(&[2, size, 4], 1.0));
        net.node(Op::Split, none().with_int(Attr::Axis, 1), &[x, sizes], &outs);
        outs.to_vec()
    }),
    ("Slice", 0.0, |net| {
        let x = net.input(&[4, 6, 5]);
        let (starts, ends) = (net.ints(&[1, -5]), net.ints(&[9, -1]));
        let (axes, steps) = (net.ints(&[0, 1]), net.ints(&[1, 2]));
        vec![net.then(Op::Slice, none(), &[x, starts, ends, axes, steps], &[3, 2, 5])]
    }),
    ("Pad", 1.0, |net| {
        let x = net.input(&[2, 3, 4]);
        let pads = net.ints(&[0, 1, 2, 0, 0, 1]);
        let value = match net.kind {
            Kind::F16 => net.floats(&[], &[0.5]),
            _ => {
                let encoding = net.kind.encoding(1.0);
                let bytes = vec![140; net.kind.dtype().byte_width().unwrap()];
                let id = net.constant(net.kind.dtype(), &[], bytes);
                net.graph.tensor_mut(id).encoding = encoding;
                id
            }
        };
        vec![net.then(Op::Pad, none(), &[x, pads, value], &[2, 4, 7])]
    }),
    ("Gather", 0.0, |net| {
        let x = net.input(&[5, 3, 2]);
        let indices = net.ints(&[4, -5, 2]);
        vec![net.then(Op::Gather, none(), &[x, indices], &[3, 3, 2])]
    }),
    ("Tile", 0.0, |net| {
        let x = net.input(&[2, 3]);
        let repeats = net.ints(&[2, 3]);
        vec![net.then(Op::Tile, none(), &[x, repeats], &[4, 9])]
    }),
    ("Expand", 0.0, |net| {
        let x = net.input(&[3, 1]);
        let shape = net.ints(&[2, 3, 4]);
        vec![net.then(Op::Expand, none(), &[x, shape], &[2, 3, 4])]
    }),
    ("DepthToSpace", 0.0, |net| {
        let x = net.input(&[1, 8, 3, 2]);
        vec![net.then(
            Op::DepthToSpace,
            none().with_int(Attr::Blocksize, 2),
            &[x],
            &[1, 2, 6, 4],
        )]
    }),
    ("Resize, linear", 1.0, |net| {
        let x = net.input(&[1, 3, 4, 4]);
        let roi = net.constant(DType::F32, &[0], vec![]);
        let scales = [1.0f32, 1.0, 2.0, 2.0];
        let bytes = scales.iter().flat_map(|value| value.to_le_bytes()).collect();
        let scales = net.constant(DType::F32, &[4], bytes);
        let attributes = none().with_str(Attr::Mode, "linear");
        vec![net.then(Op::Resize, attributes, &[x, roi, scales], &[1, 3, 8, 8])]
    }),
    ("LayerNormalization", 2.0, |net| {
        let x = net.input(&[2, 4, 16]);
        let scale: Vec<f32> = (0..16).map(|at| 0.5 + at as f32 / 32.0).collect();
        let (scale, shift) = (net.floats(&[16], &scale), net.floats(&[16], &[0.125; 16]));
        vec![net.then(Op::LayerNormalization, none(), &[x, scale, shift], &[2, 4, 16])]
    }),
    ("InstanceNormalization", 2.0, |net| {
        let x = net.input(&[1, 4, 5, 5]);
        let (scale, shift) = (net.floats(&[4], &[0.75; 4]), net.floats(&[4], &[0.125; 4]));
        vec![net.then(
            Op::InstanceNormalization,
            none(),
            &[x, scale, shift],
            &[1, 4, 5, 5],
        )]
    }),
    ("CumSum", 1.0, |net| {
        let x = net.input(&[2, 5]);
        let axis = net.constant(DType::I64, &[], 1i64.to_le_bytes().to_vec());
        let y = net.real(&[2, 5], 4.0);
        net.node(Op::CumSum, none(), &[x, axis], &[y]);
        vec![y]
    }),
    ("Neg", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Neg, none(), &[x], &[3, 7])]
    }),
    ("Sin", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Sin, none(), &[x], &[3, 7])]
    }),
    ("Cos", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Cos, none(), &[x], &[3, 7])]
    }),
    ("Atan", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Atan, none(), &[x], &[3, 7])]
    }),
    ("Sign", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Sign, none(), &[x], &[3, 7])]
    }),
    ("Floor", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Floor, none(), &[x], &[3, 7])]
    }),
    ("Ceil", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Ceil, none(), &[x], &[3, 7])]
    }),
    ("Round", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Round, none(), &[x], &[3, 7])]
    }),
    ("Softplus", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::Softplus, none(), &[x], &[3, 7])]
    }),
    ("LogSoftmax", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::LogSoftmax, none(), &[x], &[3, 7])]
    }),
    ("LpNormalization", 1.0, |net| {
        let x = net.input(&[3, 7]);
        vec![net.then(Op::LpNormalization, none(), &[x], &[3, 7])]
    }),
    ("Div", 1.0, |net| {
        // a divisor away from zero
        let (a, two) = (net.input(&[4, 6]), net.floats(&[], &[2.0]));
        vec![net.then(Op::Div, none(), &[a, two], &[4, 6])]
    }),
    ("Min", 1.0, |net| {
        let (a, b) = (net.input(&[4, 6]), net.input(&[4, 6]));
        vec![net.then(Op::Min, none(), &[a, b], &[4, 6])]
    }),
    ("Equal", 0.0, |net| {
        let (a, b) = (net.input(&[4, 6]), net.input(&[4, 6]));
        let y = net.named(DType::Bool, &[4, 6], None);
        net.node(Op::Equal, none(), &[a, b], &[y]);
        vec![y]
    }),
    ("And", 0.0, |net| {
        let [a, b, y] = [0; 3].map(|_| net.named(DType::Bool, &[4, 6], None));
        net.graph.inputs = vec![a, b];
        net.node(Op::And, none(), &[a, b], &[y]);
        vec![y]
    }),
    ("PRelu", 2.0, |net| {
        let x = net.input(&[1, 3, 4, 4]);
        let slope = net.floats(&[3, 1, 1], &[0.25, 0.5, 0.125]);
        vec![net.then(Op::PRelu, none(), &[x, slope], &[1, 3, 4, 4])]
    }),
    ("ReduceSum", 1.0, |net| {
        let x = net.input(&[2, 3, 4]);
        let axes = net.ints(&[2]);
        vec![net.then(Op::ReduceSum, none(), &[x, axes], &[2, 3, 1])]
    }),
    ("ReduceMin", 0.0, |net| {
        let x = net.input(&[2, 3, 4]);
        let axes = net.ints(&[1]);
        vec![net.then(Op::ReduceMin, none(), &[x, axes], &[2, 1, 4])]
    }),
    ("TopK, first axis", 0.0, |net| {
        let x = net.input(&[6, 3]);
        let k = net.ints(&[2]);
        let (values, indices) = (net.real(&[2, 3], 1.0), net.named(DType::I64, &[2, 3], None));
        net.node(
            Op::TopK,
            none().with_int(Attr::Axis, 0),
            &[x, k],
            &[values, indices],
        );
        vec![values, indices]
    }),
    ("GatherElements", 0.0, |net| {
        let x = net.input(&[4, 3]);
        let bytes = [3i64, -4, 1, 0, 2, 2]
            .iter()
            .flat_map(|at| at.to_le_bytes())
            .collect();
        let indices = net.constant(DType::I64, &[2, 3], bytes);
        vec![net.then(Op::GatherElements, none(), &[x, indices], &[2, 3])]
    }),
    ("GatherND", 0.0, |net| {
        let x = net.input(&[4, 3, 2]);
        let bytes = [3i64, -1, 0, 1].iter().flat_map(|at| at.to_le_bytes()).collect();
        let indices = net.constant(DType::I64, &[2, 2], bytes);
        vec![net.then(Op::GatherND, none(), &[x, indices], &[2, 2])]
    }),
    ("ScatterND", 0.0, |net| {
        let (x, updates) = (net.input(&[4, 3]), net.input(&[2, 3]));
        let bytes = [3i64, 0].iter().flat_map(|at| at.to_le_bytes()).collect();
        let indices = net.constant(DType::I64, &[2, 1], bytes);
        vec![net.then(Op::ScatterND, none(), &[x, indices, updates], &[4, 3])]
    }),
    ("SpaceToDepth", 0.0, |net| {
        let x = net.input(&[1, 2, 6, 4]);
        vec![net.then(
            Op::SpaceToDepth,
            none().with_int(Attr::Blocksize, 2),
            &[x],
            &[1, 8, 3, 2],
        )]
    }),
    ("Resize, nearest", 0.0, |net| {
        let x = net.input(&[1, 3, 4, 4]);
        let roi = net.constant(DType::F32, &[0], vec![]);
        let scales = net.constant(DType::F32, &[0], vec![]);
        let sizes = net.ints(&[1, 3, 8, 12]);
        let attributes = none()
            .with_str(Attr::CoordinateTransformationMode, "asymmetric")
            .with_str(Attr::NearestMode, "floor");
        vec![net.then(Op::Resize, attributes, &[x, roi, scales, sizes], &[1, 3, 8, 12])]
    }),
    ("BatchNormalization", 2.0, |net| {
        let x = net.input(&[1, 4, 5, 5]);
        let values: [&[f32]; 4] = [&[0.5; 4], &[0.25; 4], &[0.125; 4], &[1.0; 4]];
        let mut inputs = vec![x];
        inputs.extend(values.map(|values| net.floats(&[4], values)));
        vec![net.then(Op::BatchNormalization, none(), &inputs, &[1, 4, 5, 5])]
    }),
    ("GroupNormalization", 2.0, |net| {
        let x = net.input(&[1, 4, 5, 5]);
        let (scale, shift) = (net.floats(&[4], &[0.75; 4]), net.floats(&[4], &[0.125; 4]));
        let attributes = none().with_int(Attr::NumGroups, 2);
        vec![net.then(
            Op::GroupNormalization,
            attributes,
            &[x, scale, shift],
            &[1, 4, 5, 5],
        )]
    }),
    ("RMSNormalization", 2.0, |net| {
        let x = net.input(&[2, 4, 16]);
        let scale: Vec<f32> = (0..16).map(|at| 0.5 + at as f32 / 32.0).collect();
        let scale = net.floats(&[16], &scale);
        vec![net.then(Op::RMSNormalization, none(), &[x, scale], &[2, 4, 16])]
    }),
    ("GridSample", 1.0, |net| {
        let (x, grid) = (net.input(&[1, 2, 4, 4]), net.input(&[1, 3, 3, 2]));
        vec![net.then(Op::GridSample, none(), &[x, grid], &[1, 2, 3, 3])]
    }),
];

pub(crate) fn softmax_encoding(kind: Kind) -> Option<Encoding> {
    match kind {
        Kind::U8 => Some(one_scale(1.0 / 256.0, 0)),
        Kind::I8 => Some(one_scale(1.0 / 256.0, -128)),
        Kind::U16 => Some(one_scale(1.0 / 65536.0, 0)),
        Kind::I16 => Some(one_scale(1.0 / 32768.0, 0)),
        Kind::F16 => None,
    }
}
