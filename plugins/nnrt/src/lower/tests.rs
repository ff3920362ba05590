//! Programs of small parts: which operations, in which order of axes, with which parameters.

use polychip_lowering::Tensor;
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_sdk::{Constant, Encoding, EncodingKind};
use polychip_sys::nnrt::bindings as sys;

use super::*;

/// A constant that lives as long as the test.
fn constant(shape: &[usize]) -> Tensor {
    let zeros: &'static [u8] = Box::leak(vec![0u8; 4 * shape.iter().product::<usize>()].into_boxed_slice());
    let mut tensor = Tensor::new(DType::F32, Some(shape.to_vec()));
    tensor.constant = Some(Constant::of_static(zeros));
    tensor
}

fn part(nodes: Vec<Node>, tensors: Vec<Tensor>, output: usize) -> Part {
    let nodes = nodes.into_iter().enumerate();
    Part {
        nodes: nodes
            .map(|(index, node)| Node {
                index: index as u32,
                ..node
            })
            .collect(),
        tensors,
        inputs: vec![0],
        outputs: vec![output],
        states: Vec::new(),
    }
}

fn image(channels: usize) -> Tensor {
    Tensor::new(DType::F32, Some(vec![1, channels, 8, 8]))
}

fn conv(from: usize, filter: usize, to: usize) -> Node {
    let mut node = Node::new(Op::Conv, &[from, filter], &[to]);
    node.attributes.set(Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1]));
    node
}

/// Two convolutions with a Relu between them.
fn chain() -> Part {
    let nodes = vec![conv(0, 4, 1), Node::new(Op::Relu, &[1], &[2]), conv(2, 5, 3)];
    let filters = [constant(&[4, 3, 3, 3]), constant(&[2, 4, 3, 3])];
    let mut tensors = vec![image(3), image(4), image(4), image(2)];
    tensors.extend(filters);
    part(nodes, tensors, 3)
}

#[test]
fn images_are_transposed_only_at_ports_and_relu_is_fused() {
    let program = whole(&chain()).unwrap();
    let codes: Vec<u32> = program
        .operations
        .iter()
        .map(|operation| operation.code)
        .collect();
    let (moved, convolved) = (sys::OH_NN_OPS_TRANSPOSE, sys::OH_NN_OPS_CONV2D);
    assert_eq!(codes, [moved, convolved, convolved, moved]);
    let first = &program.operations[1];
    let value = |role: u32| {
        let tensors = first.params.iter().map(|&id| &program.tensors[id]);
        let tensor = tensors.into_iter().find(|tensor| tensor.role == role).unwrap();
        tensor.value.clone().unwrap()
    };
    assert_eq!(
        value(sys::OH_NN_CONV2D_ACTIVATION_TYPE),
        [sys::OH_NN_FUSED_RELU as u8]
    );
    assert_eq!(
        value(sys::OH_NN_CONV2D_PAD),
        [1i64; 4].map(i64::to_le_bytes).concat()
    );
    let weights = &program.tensors[first.inputs[1]];
    assert_eq!(weights.dims, [4, 3, 3, 3]);
    let out = &program.tensors[first.outputs[0]];
    assert_eq!((&out.dims[..], out.image), (&[1, 8, 8, 4][..], true));
}

#[test]
fn result_with_two_readers_keeps_a_separate_activation() {
    let nodes = vec![
        conv(0, 4, 1),
        Node::new(Op::Relu, &[1], &[2]),
        Node::new(Op::Add, &[1, 2], &[3]),
    ];
    let tensors = vec![image(3), image(4), image(4), image(4), constant(&[4, 3, 3, 3])];
    let program = whole(&part(nodes, tensors, 3)).unwrap();
    let has = |code: u32| program.operations.iter().any(|operation| operation.code == code);
    assert!(has(sys::OH_NN_OPS_RELU) && has(sys::OH_NN_OPS_ADD));
}

#[test]
fn refusals_name_the_op_and_the_reason() {
    let unary = |op, dtype| {
        let tensor = || Tensor::new(dtype, Some(vec![2, 3]));
        let refusal = whole(&part(
            vec![Node::new(op, &[0], &[1])],
            vec![tensor(), tensor()],
            1,
        ))
        .unwrap_err();
        refusal.words().to_owned()
    };
    assert!(unary(Op::Round, DType::F32).contains("Round"));
    assert!(unary(Op::Relu, DType::I32).contains("Relu of Int32"));
    assert!(unary(Op::Relu, DType::F64).contains("f64"));
}

/// A Cast of six elements.
fn cast(from: DType, to: DType) -> Result<Program, String> {
    let mut node = Node::new(Op::Cast, &[0], &[1]);
    node.attributes
        .set(Attr::To, AttrValue::Int(i64::from(to.code())));
    let tensor = |dtype| Tensor::new(dtype, Some(vec![2, 3]));
    let program = whole(&part(vec![node], vec![tensor(from), tensor(to)], 1));
    program.map_err(|refusal| refusal.words().to_owned())
}

#[test]
fn cast_names_the_type_of_its_result() {
    for (from, to, code) in [
        (DType::F32, DType::F16, sys::OH_NN_FLOAT16),
        (DType::F16, DType::F32, sys::OH_NN_FLOAT32),
        (DType::I32, DType::F32, sys::OH_NN_FLOAT32),
    ] {
        let program = cast(from, to).unwrap();
        let [operation] = &program.operations[..] else {
            panic!("{:?}", program.operations.len());
        };
        assert_eq!(operation.code, sys::OH_NN_OPS_CAST);
        assert!(operation.params.is_empty());
        let ty = &program.tensors[operation.inputs[1]];
        assert_eq!((ty.code, &ty.dims[..]), (sys::OH_NN_INT32, &[][..]));
        assert_eq!(ty.value, Some(code.to_le_bytes().to_vec()));
    }
    // the rounding to integers and the meaning of truth values are not documented
    for (from, to) in [
        (DType::F32, DType::I32),
        (DType::F32, DType::Bool),
        (DType::Bool, DType::F32),
    ] {
        assert!(cast(from, to).unwrap_err().contains("Cast of"), "{from} to {to}");
    }
}

/// A tensor of bytes that encode reals.
fn bytes(dtype: DType, shape: &[usize], scale: f32, zero: i32) -> Tensor {
    let mut tensor = Tensor::new(dtype, Some(shape.to_vec()));
    tensor.encoding = Some(Encoding {
        kind: EncodingKind::PerTensor,
        scales: vec![scale],
        zero_points: vec![zero],
        real_dtype: DType::F32,
    });
    tensor
}

#[test]
fn unsigned_bytes_become_signed_and_bias_uses_the_product_scale() {
    let mut filter = bytes(DType::I8, &[2, 3, 1, 1], 0.25, 0);
    filter.constant = Some(Constant::of_static(&[1, 2, 3, 4, 5, 6]));
    if let Some(encoding) = &mut filter.encoding {
        (encoding.kind, encoding.scales) = (EncodingKind::PerAxis { axis: 0 }, vec![0.25, 0.5]);
        encoding.zero_points = vec![0, 0];
    }
    let mut bias = Tensor::new(DType::F32, Some(vec![2]));
    bias.constant = Some(Constant::of_static(bias_bytes()));
    let x = bytes(DType::U8, &[1, 3, 8, 8], 0.5, 130);
    let y = bytes(DType::U8, &[1, 2, 8, 8], 2.0, 100);
    let node = Node::new(Op::Conv, &[0, 1, 2], &[3]);
    let program = whole(&part(vec![node], vec![x, filter, bias, y], 3)).unwrap();
    let codes: Vec<u32> = program
        .operations
        .iter()
        .map(|operation| operation.code)
        .collect();
    let (cast, moved) = (sys::OH_NN_OPS_QUANT_DTYPE_CAST, sys::OH_NN_OPS_TRANSPOSE);
    assert_eq!(codes, [cast, moved, sys::OH_NN_OPS_CONV2D, moved, cast]);
    let quant = |id: usize| {
        let quant = program.tensors[id].quant.clone();
        quant.map(|quant| (program.tensors[id].code, quant.scales, quant.zeros))
    };
    let (signed, unsigned) = (sys::OH_NN_INT8, sys::OH_NN_UINT8);
    assert_eq!(quant(program.inputs[0]), Some((unsigned, vec![0.5], vec![130])));
    assert_eq!(quant(program.outputs[0]), Some((unsigned, vec![2.0], vec![100])));
    let conv = &program.operations[2];
    assert_eq!(quant(conv.inputs[0]), Some((signed, vec![0.5], vec![2])));
    assert_eq!(quant(conv.inputs[1]), Some((signed, vec![0.25, 0.5], vec![0, 0])));
    assert_eq!(quant(conv.outputs[0]), Some((signed, vec![2.0], vec![-28])));
    // 1.0 in steps of 0.125 and of 0.25
    let bias = &program.tensors[conv.inputs[2]];
    assert_eq!((bias.code, &bias.quant), (sys::OH_NN_INT32, &None));
    assert_eq!(bias.value, Some([8i32, 4].map(i32::to_le_bytes).concat()));
}

fn bias_bytes() -> &'static [u8] {
    Box::leak([1.0f32; 2].map(f32::to_le_bytes).concat().into_boxed_slice())
}
