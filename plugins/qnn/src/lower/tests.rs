//! Parts as programs: transpositions, encodings, weights, refusals.
#![allow(unsafe_code)]

use polychip_graph::{Constant, Encoding, EncodingAxis, Graph, Node, Tensor, TensorId};
use polychip_host::FlatGraph;
use polychip_ops::{Attr, Attributes, DType, Op, TensorType};
use polychip_sdk::{GraphView, Reason};

use super::{Target, whole};
use crate::program::{Param, Program, Quant, Role, Type};
use crate::soc::Soc;
use polychip_lowering::Refusal;

/// A graph under construction.
struct Net(Graph);

impl Net {
    fn new() -> Net {
        Net(Graph::new("net"))
    }

    fn tensor(&mut self, dtype: DType, shape: &[usize], scale: Option<(f32, i32)>) -> TensorId {
        let mut tensor = Tensor::new("t", TensorType::known(dtype, shape));
        tensor.encoding = scale.map(|(scale, zero)| encoding(&[scale], &[zero], EncodingAxis::PerTensor));
        self.0.add_tensor(tensor)
    }

    fn u8(&mut self, shape: &[usize]) -> TensorId {
        self.tensor(DType::U8, shape, Some((0.1, 128)))
    }

    fn input(&mut self, tensor: TensorId) -> TensorId {
        self.0.inputs.push(tensor);
        tensor
    }

    fn constant(&mut self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> TensorId {
        let data = Constant {
            bytes: bytes.into(),
            file: None,
        };
        let ty = TensorType::known(dtype, shape);
        self.0.add_tensor(Tensor::constant("c", ty, data))
    }

    fn ints(&mut self, values: &[i64]) -> TensorId {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::I64, &[values.len()], bytes)
    }

    /// Weights of signed 8 bits, one scale per output channel of `axis`.
    fn weights(&mut self, shape: &[usize], axis: usize) -> TensorId {
        let count: usize = shape.iter().product();
        let bytes = (0..count).map(|value| (value % 251) as u8).collect();
        let id = self.constant(DType::I8, shape, bytes);
        let scales: Vec<f32> = (1..=shape[axis]).map(|channel| channel as f32 * 0.01).collect();
        self.0.tensor_mut(id).encoding = Some(encoding(&scales, &[], EncodingAxis::PerAxis(axis)));
        id
    }

    fn node(&mut self, op: Op, inputs: &[TensorId], output: TensorId) -> TensorId {
        self.with(op, Attributes::new(), inputs, output)
    }

    fn with(&mut self, op: Op, attributes: Attributes, inputs: &[TensorId], output: TensorId) -> TensorId {
        let inputs = inputs.iter().copied().map(Some).collect();
        self.0
            .add_node(Node::new(op, inputs, vec![Some(output)]).with(attributes));
        output
    }

    fn lower_for(&self, target: Target) -> Result<Program, Refusal> {
        let flat = FlatGraph::new(&self.0, &[]).unwrap();
        // SAFETY: the flat graph lives during the call.
        let view = unsafe { GraphView::new(flat.raw()) }.unwrap();
        whole(&super::read(&view), target)
    }

    fn lower(&self) -> Result<Program, Refusal> {
        self.lower_for(target("SM8550", false))
    }

    fn refused(&self) -> (Reason, String) {
        let refusal = self.lower().unwrap_err();
        (refusal.reason(), refusal.words().to_owned())
    }
}

fn target(soc: &str, reduced: bool) -> Target {
    Target {
        soc: Soc::find(soc).unwrap(),
        reduced,
        wide_scales: false,
    }
}

fn encoding(scales: &[f32], zeros: &[i32], axis: EncodingAxis) -> Encoding {
    Encoding {
        axis,
        scales: scales.into(),
        zero_points: zeros.into(),
        real: DType::F32,
    }
}

fn pads(pad: i64) -> Attributes {
    Attributes::new().with_ints(Attr::Pads, &[pad; 4])
}

fn kinds(program: &Program) -> Vec<&'static str> {
    program
        .operations
        .iter()
        .map(|operation| operation.kind)
        .collect()
}

/// conv 3×3 → relu → conv 3×3, plus the relu's result, then a global mean.
fn residual(float: Option<DType>) -> Net {
    let mut net = Net::new();
    let own = |net: &mut Net, shape: &[usize]| match float {
        Some(dtype) => net.tensor(dtype, shape, None),
        None => net.u8(shape),
    };
    let image = [1, 8, 6, 6];
    let x = own(&mut net, &image);
    net.input(x);
    let conv = |net: &mut Net, x| {
        let w = match float {
            Some(dtype) => net.constant(
                dtype,
                &[8, 8, 3, 3],
                vec![0; 8 * 8 * 9 * dtype.byte_width().unwrap()],
            ),
            None => net.weights(&[8, 8, 3, 3], 0),
        };
        let y = own(net, &image);
        net.with(Op::Conv, pads(1), &[x, w], y)
    };
    let a = conv(&mut net, x);
    let r = own(&mut net, &image);
    let r = net.node(Op::Relu, &[a], r);
    let b = conv(&mut net, r);
    let s = own(&mut net, &image);
    let s = net.node(Op::Add, &[b, r], s);
    let y = own(&mut net, &[1, 8, 1, 1]);
    let y = net.node(Op::GlobalAveragePool, &[s], y);
    net.0.outputs = vec![s, y];
    net
}

#[test]
fn residual_network_is_transposed_only_at_its_ports() {
    let program = residual(None).lower().unwrap();
    assert_eq!(
        kinds(&program),
        [
            "Transpose",
            "Conv2d",
            "Relu",
            "Conv2d",
            "ElementWiseAdd",
            "PoolAvg2d",
            "Transpose",
            // one pixel: the names of axes change, no element moves
            "Reshape",
        ]
    );
    assert_eq!(program.transposes(), 2);
    let dims = |id: usize| &program.tensors[id].dims[..];
    assert_eq!(dims(program.inputs[0]), [1, 8, 6, 6]);
    assert_eq!(dims(program.outputs[0]), [1, 8, 6, 6]);
    assert_eq!(dims(program.operations[1].inputs[1]), [3, 3, 8, 8]);
    assert!(
        program
            .tensors
            .iter()
            .filter(|tensor| tensor.role == Role::Output)
            .count()
            == 2
    );
}

#[test]
fn channels_last_model_has_no_transposition() {
    let mut net = Net::new();
    let x = net.u8(&[1, 6, 6, 8]);
    net.input(x);
    let nchw = net.u8(&[1, 8, 6, 6]);
    let to = |perm: &[i64]| Attributes::new().with_ints(Attr::Perm, perm);
    net.with(Op::Transpose, to(&[0, 3, 1, 2]), &[x], nchw);
    let w = net.weights(&[4, 8, 1, 1], 0);
    let conv = net.u8(&[1, 4, 6, 6]);
    net.node(Op::Conv, &[nchw, w], conv);
    let y = net.u8(&[1, 6, 6, 4]);
    net.with(Op::Transpose, to(&[0, 2, 3, 1]), &[conv], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    assert_eq!(kinds(&program), ["Conv2d"]);
}

#[test]
fn convolution_before_relu_uses_the_encoding_after_it() {
    let mut net = Net::new();
    let x = net.u8(&[1, 3, 4, 4]);
    net.input(x);
    let w = net.weights(&[3, 3, 1, 1], 0);
    let inner = net.tensor(DType::F32, &[1, 3, 4, 4], None);
    net.node(Op::Conv, &[x, w], inner);
    let y = net.tensor(DType::U8, &[1, 3, 4, 4], Some((0.05, 0)));
    net.node(Op::Relu, &[inner], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    let conv = program
        .operations
        .iter()
        .find(|operation| operation.kind == "Conv2d");
    let out = &program.tensors[conv.unwrap().outputs[0]];
    assert_eq!(out.ty, Type::Ufixed8);
    assert_eq!(out.quant, Quant::PerTensor { scale: 0.05, zero: 0 });
    // read outside as floats, there is no encoding to take
    net.0.outputs = vec![y, inner];
    let (reason, detail) = net.refused();
    assert_eq!(reason, Reason::Encoding);
    assert!(detail.contains("no encoding"), "{detail}");
}

#[test]
fn weights_and_bias_carry_one_scale_per_channel() {
    let mut net = Net::new();
    let x = net.tensor(DType::U8, &[2, 3], Some((0.5, 10)));
    net.input(x);
    let w = net.weights(&[3, 2], 1);
    let bias: Vec<u8> = [0.01f32, -0.02]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let bias = net.constant(DType::F32, &[2], bias);
    let y = net.u8(&[2, 2]);
    net.node(Op::Gemm, &[x, w, bias], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    assert_eq!(kinds(&program), ["FullyConnected"]);
    let [_, weights, bias] = program.operations[0].inputs[..] else {
        panic!()
    };
    let weights = &program.tensors[weights];
    assert_eq!(weights.dims, [2, 3]);
    assert_eq!(weights.role, Role::Data(vec![0, 2, 4, 1, 3, 5]));
    let quant = Quant::PerAxis {
        axis: 0,
        scales: vec![0.01, 0.02],
        zeros: vec![0; 2],
        bits: None,
    };
    assert_eq!(weights.quant, quant);
    let bias = &program.tensors[bias];
    assert_eq!(bias.ty, Type::Sfixed32);
    // 0.01 / (0.5 × 0.01) and -0.02 / (0.5 × 0.02)
    let stored: Vec<u8> = [2i32, -2].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(bias.role, Role::Data(stored));
}

#[test]
fn four_bit_weights_are_stored_in_eight() {
    let mut net = Net::new();
    let x = net.u8(&[1, 4]);
    net.input(x);
    let w = net.constant(DType::I4, &[4, 1], vec![0x71, 0x8f]);
    net.0.tensor_mut(w).encoding = Some(encoding(&[0.5], &[], EncodingAxis::PerTensor));
    let y = net.u8(&[1, 1]);
    net.node(Op::MatMul, &[x, w], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    let weights = &program.tensors[program.operations[0].inputs[1]];
    assert_eq!(weights.role, Role::Data(vec![1, 7, 0xff, 0xf8]));
    assert!(
        matches!(&weights.quant, Quant::PerAxis { bits: Some(4), axis: 0, scales, .. } if scales == &[0.5])
    );
}

#[test]
fn sixteen_bit_activations_require_symmetric_weights() {
    let mut net = Net::new();
    let x = net.tensor(DType::U16, &[1, 4], Some((0.001, 32768)));
    net.input(x);
    let w = net.constant(DType::U8, &[4, 1], vec![0, 128, 129, 255]);
    net.0.tensor_mut(w).encoding = Some(encoding(&[0.5], &[128], EncodingAxis::PerTensor));
    let y = net.tensor(DType::U16, &[1, 1], Some((0.001, 32768)));
    net.node(Op::MatMul, &[x, w], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    let weights = &program.tensors[program.operations[0].inputs[1]];
    assert_eq!(
        (weights.ty, &weights.role),
        (Type::Sfixed8, &Role::Data(vec![128, 0, 1, 127]))
    );
    net.0.tensor_mut(w).encoding = Some(encoding(&[0.5], &[3], EncodingAxis::PerTensor));
    let (reason, detail) = net.refused();
    assert_eq!(reason, Reason::Encoding);
    assert!(detail.contains("symmetric"), "{detail}");
}

#[test]
fn movement_between_encodings_converts_afterwards() {
    let mut net = Net::new();
    let x = net.u8(&[2, 3]);
    net.input(x);
    let shape = net.ints(&[6]);
    let y = net.tensor(DType::U8, &[6], Some((0.2, 128)));
    net.node(Op::Reshape, &[x, shape], y);
    net.0.outputs = vec![y];
    assert_eq!(kinds(&net.lower().unwrap()), ["Reshape", "Convert"]);
}

#[test]
fn axes_follow_the_order_of_the_part() {
    let mut net = Net::new();
    let x = net.u8(&[1, 4, 6, 6]);
    net.input(x);
    let w = net.weights(&[4, 4, 1, 1], 0);
    let a = net.u8(&[1, 4, 6, 6]);
    net.node(Op::Conv, &[x, w], a);
    let c = net.u8(&[1, 8, 6, 6]);
    net.with(Op::Concat, Attributes::new().with_int(Attr::Axis, 1), &[a, a], c);
    let m = net.u8(&[1, 8]);
    let axes = net.ints(&[2, 3]);
    let no_keep = Attributes::new().with_int(Attr::Keepdims, 0);
    net.with(Op::ReduceMean, no_keep, &[c, axes], m);
    net.0.outputs = vec![m];
    let program = net.lower().unwrap();
    assert_eq!(kinds(&program), ["Transpose", "Conv2d", "Concat", "ReduceMean"]);
    assert_eq!(program.operations[2].params, [("axis", Param::U32(3))]);
    let axes = Param::U32s {
        dims: vec![2],
        values: vec![1, 2],
    };
    assert_eq!(program.operations[3].params[0], ("axes", axes));
}

#[test]
fn floats_require_chip_support_and_permission() {
    let wide = residual(Some(DType::F32));
    let refusal = wide.lower_for(target("SM8350", true)).unwrap_err();
    assert_eq!(refusal.reason(), Reason::Encoding);
    assert!(
        refusal.words().contains("SM8350") && refusal.words().contains("quantise"),
        "{refusal:?}"
    );
    let refusal = wide.lower_for(target("SM8550", false)).unwrap_err();
    assert_eq!(refusal.reason(), Reason::DType);
    assert!(refusal.words().contains("reduced"), "{refusal:?}");
    assert!(wide.lower_for(target("SM8550", true)).is_ok());
    assert!(residual(Some(DType::F16)).lower().is_ok());
}

#[test]
fn operations_wrong_in_the_library_are_quarantined() {
    let mut net = Net::new();
    let x = net.tensor(DType::I8, &[2, 8], Some((0.1, 0)));
    net.input(x);
    let y = net.tensor(DType::I8, &[2, 8], Some((0.0039, 0)));
    net.node(Op::Softmax, &[x], y);
    net.0.outputs = vec![y];
    assert_eq!(net.refused().0, Reason::Quarantined);
    net.0.tensor_mut(y).encoding = Some(encoding(&[0.0039], &[-128], EncodingAxis::PerTensor));
    assert_eq!(kinds(&net.lower().unwrap()), ["Softmax"]);
}

#[test]
fn indices_are_constant_and_counted_from_the_front() {
    let mut net = Net::new();
    let x = net.u8(&[5, 3]);
    net.input(x);
    let indices = net.ints(&[-1, 0]);
    let y = net.u8(&[2, 3]);
    net.node(Op::Gather, &[x, indices], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    let indices = &program.tensors[program.operations[0].inputs[1]];
    assert_eq!(indices.role, Role::Data(vec![4, 0, 0, 0, 0, 0, 0, 0]));

    let mut net = Net::new();
    let x = net.u8(&[5, 3]);
    let indices = net.tensor(DType::I64, &[2], None);
    net.0.inputs = vec![x, indices];
    let y = net.u8(&[2, 3]);
    net.node(Op::Gather, &[x, indices], y);
    net.0.outputs = vec![y];
    assert!(matches!(net.refused().0, Reason::NotConstant | Reason::DType));
}

#[test]
fn wide_indices_are_written_as_64_bits() {
    let mut net = Net::new();
    let x = net.u8(&[2, 5]);
    net.input(x);
    let y = net.tensor(DType::I64, &[2, 1], None);
    net.with(Op::ArgMax, Attributes::new().with_int(Attr::Axis, 1), &[x], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    assert_eq!(kinds(&program), ["Argmax", "Cast"]);
    assert_eq!(program.tensors[program.outputs[0]].ty, Type::Int64);
}

#[test]
fn integers_dequantised_by_one_reader_stay_integers_for_others() {
    let mut net = Net::new();
    let plain = |net: &mut Net| net.tensor(DType::U8, &[4], None);
    let (a, b) = (plain(&mut net), plain(&mut net));
    net.0.inputs = vec![a, b];
    let sum = plain(&mut net);
    net.node(Op::Add, &[a, b], sum);
    let scale = net.constant(DType::F32, &[], 0.5f32.to_le_bytes().to_vec());
    let zero = net.constant(DType::U8, &[], vec![3]);
    let y = net.tensor(DType::F16, &[4], None);
    net.node(Op::DequantizeLinear, &[sum, scale, zero], y);
    net.0.outputs = vec![y];
    // a sum of codes is no code of the sum
    let (reason, detail) = net.refused();
    assert_eq!(reason, Reason::Encoding);
    assert!(detail.contains("plain integers"), "{detail}");
    // fed from outside, the codes stand for reals and nothing else
    let mut net = Net::new();
    let x = plain(&mut net);
    net.input(x);
    let scale = net.constant(DType::F32, &[], 0.5f32.to_le_bytes().to_vec());
    let y = net.tensor(DType::F16, &[4], None);
    net.node(Op::DequantizeLinear, &[x, scale], y);
    net.0.outputs = vec![y];
    assert_eq!(kinds(&net.lower().unwrap()), ["Dequantize"]);
}

#[test]
fn integer_convolutions_use_their_named_encodings() {
    let mut net = Net::new();
    let x = net.tensor(DType::U8, &[1, 1, 2, 2], None);
    net.input(x);
    let scalar = |net: &mut Net, value: f32| net.constant(DType::F32, &[], value.to_le_bytes().to_vec());
    let byte = |net: &mut Net, value: u8| net.constant(DType::U8, &[], vec![value]);
    let (xs, xz) = (scalar(&mut net, 0.5), byte(&mut net, 2));
    let w = net.constant(DType::U8, &[1, 1, 1, 1], vec![130]);
    let (ws, wz) = (scalar(&mut net, 0.25), byte(&mut net, 128));
    let (ys, yz) = (scalar(&mut net, 1.0), byte(&mut net, 7));
    let b = net.constant(DType::I32, &[1], 5i32.to_le_bytes().to_vec());
    let y = net.tensor(DType::U8, &[1, 1, 2, 2], None);
    net.node(Op::QLinearConv, &[x, xs, xz, w, ws, wz, ys, yz, b], y);
    net.0.outputs = vec![y];
    let program = net.lower().unwrap();
    let conv = program
        .operations
        .iter()
        .find(|operation| operation.kind == "Conv2d");
    let conv = conv.unwrap();
    let tensor = |id: usize| &program.tensors[id];
    assert_eq!(tensor(conv.inputs[0]).quant.per_tensor(), Some((0.5, 2)));
    // symmetric but for its storage
    assert_eq!(tensor(conv.inputs[1]).role, Role::Data(vec![2]));
    assert_eq!(tensor(conv.inputs[2]).role, Role::Data(vec![5, 0, 0, 0]));
    assert_eq!(tensor(conv.outputs[0]).quant.per_tensor(), Some((1.0, 7)));
}
