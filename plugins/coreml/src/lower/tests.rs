//! Programs of nodes, and refusals.

use polychip_lowering::{Node, Part, Tensor};
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_sdk::{Constant, Encoding, EncodingKind, Reason};

use super::{Target, whole};
use crate::program::{Arg, Program, Type};

const GPU: Target = Target {
    ane: false,
    reduced: false,
};
const NPU: Target = Target {
    ane: true,
    reduced: false,
};
const REDUCED: Target = Target {
    ane: true,
    reduced: true,
};

static ZEROS: [u8; 4096] = [0; 4096];

fn data(dims: &[usize], dtype: DType) -> Tensor {
    let bytes = dtype.byte_len(dims.iter().product()).unwrap();
    Tensor {
        constant: Some(Constant::of_static(&ZEROS[..bytes])),
        ..computed(dims, dtype)
    }
}

fn computed(dims: &[usize], dtype: DType) -> Tensor {
    Tensor {
        name: "t".to_owned(),
        ..Tensor::new(dtype, Some(dims.to_vec()))
    }
}

/// A tensor of integers that stand for reals.
fn encoded(tensor: Tensor, scales: &[f32], kind: EncodingKind) -> Tensor {
    Tensor {
        encoding: Some(Encoding {
            kind,
            scales: scales.to_vec(),
            zero_points: vec![1; scales.len()],
            real_dtype: DType::F32,
        }),
        ..tensor
    }
}

/// One node over tensors, of which those without data are inputs; the last one is its output.
fn part(op: Op, tensors: Vec<Tensor>, attributes: &[(Attr, AttrValue)]) -> Part {
    let last = tensors.len() - 1;
    let inputs: Vec<usize> = (0..last).collect();
    let mut node = Node::new(op, &inputs, &[last]);
    for (attr, value) in attributes {
        node.attributes.set(*attr, value.clone());
    }
    Part {
        inputs: inputs
            .into_iter()
            .filter(|&index| tensors[index].constant.is_none())
            .collect(),
        outputs: vec![last],
        nodes: vec![node],
        tensors,
        ..Part::default()
    }
}

fn kinds(program: &Program) -> Vec<&'static str> {
    program
        .operations
        .iter()
        .map(|operation| operation.kind)
        .collect()
}

fn arg<'a>(program: &'a Program, name: &str) -> &'a Arg {
    let args = program.operations.iter().flat_map(|operation| &operation.args);
    &args.into_iter().find(|(given, _)| *given == name).unwrap().1
}

fn conv(dtype: DType) -> Part {
    let pads = AttrValue::Ints([1i64, 0, 1, 2].to_vec());
    part(
        Op::Conv,
        vec![
            computed(&[1, 2, 8, 8], dtype),
            data(&[4, 2, 3, 3], dtype),
            data(&[4], dtype),
            computed(&[1, 4, 8, 8], dtype),
        ],
        &[(Attr::Pads, pads)],
    )
}

#[test]
fn convolution_is_one_operation_with_padding_per_axis() {
    let program = whole(&conv(DType::F32), GPU, true).unwrap();
    assert_eq!(kinds(&program), ["conv"]);
    assert_eq!(*arg(&program, "pad"), Arg::Ints(vec![1, 1, 0, 2]));
    assert_eq!(program.values[program.inputs[0]].name, "in0");
    assert_eq!(program.values[program.outputs[0]].name, "out0");
    assert_eq!(program.work().0, 4 * 64 * 2 * 9);
}

#[test]
fn reduced_precision_computes_in_16_bits_between_ports_of_32() {
    let refusal = whole(&conv(DType::F32), NPU, true).unwrap_err();
    assert_eq!(refusal.reason(), Reason::DType);
    assert!(
        refusal.words().contains("precision \"reduced\""),
        "{}",
        refusal.words()
    );
    let program = whole(&conv(DType::F32), REDUCED, true).unwrap();
    assert_eq!(kinds(&program), ["cast", "conv", "cast"]);
    let types = |ids: &[usize]| ids.iter().map(|&id| program.values[id].ty).collect::<Vec<_>>();
    assert_eq!(types(&program.inputs), [Type::F32]);
    assert_eq!(types(&program.outputs), [Type::F32]);
    assert_eq!(types(&program.operations[1].outputs), [Type::F16]);
    // a model of 16 bits needs no leave
    assert_eq!(kinds(&whole(&conv(DType::F16), NPU, true).unwrap()), ["conv"]);
}

#[test]
fn scalars_have_one_axis_and_outputs_come_from_operations() {
    let sum = part(
        Op::ReduceSum,
        vec![computed(&[2, 3], DType::F32), computed(&[], DType::F32)],
        &[(Attr::Keepdims, AttrValue::Int(0))],
    );
    let program = whole(&sum, GPU, true).unwrap();
    assert_eq!(kinds(&program), ["reduce_sum", "reshape"]);
    assert_eq!(program.values[program.outputs[0]].dims, [1]);
    let same = part(
        Op::Identity,
        vec![computed(&[2], DType::F32), computed(&[2], DType::F32)],
        &[],
    );
    assert_eq!(kinds(&whole(&same, GPU, true).unwrap()), ["identity"]);
}

#[test]
fn each_refusal_has_its_reason() {
    let unary = |op, tensor: Tensor| {
        let mut out = tensor.clone();
        out.constant = None;
        let part = part(op, vec![tensor, out], &[]);
        whole(&part, GPU, true).unwrap_err().reason()
    };
    assert_eq!(unary(Op::NonZero, computed(&[2], DType::F32)), Reason::Op);
    assert_eq!(unary(Op::Relu, computed(&[2], DType::F64)), Reason::DType);
    assert_eq!(unary(Op::Relu, computed(&[2], DType::I32)), Reason::DType);
    assert_eq!(unary(Op::Relu, computed(&[1; 6], DType::F32)), Reason::Rank);
    assert_eq!(unary(Op::Relu, computed(&[0, 2], DType::F32)), Reason::Shape);
    assert_eq!(
        unary(Op::Relu, Tensor::new(DType::F32, None)),
        Reason::DynamicShape
    );
    let wide = encoded(computed(&[2], DType::I16), &[0.5], EncodingKind::PerTensor);
    assert_eq!(unary(Op::Relu, wide), Reason::Encoding);
    let apart = encoded(
        computed(&[2], DType::U8),
        &[0.5, 1.0],
        EncodingKind::PerAxis { axis: 0 },
    );
    assert_eq!(unary(Op::Relu, apart), Reason::Encoding);
    let mut weights = conv(DType::F32);
    weights.tensors[1].constant = None;
    weights.inputs.push(1);
    assert_eq!(
        whole(&weights, GPU, true).unwrap_err().reason(),
        Reason::NotConstant
    );
    assert_eq!(
        whole(
            &part(
                Op::Relu,
                vec![computed(&[2], DType::I32), computed(&[2], DType::I32)],
                &[]
            ),
            NPU,
            true
        )
        .unwrap_err()
        .reason(),
        Reason::DType
    );
}

/// A convolution of bytes, its bytes of weights with a scale per output channel.
fn bytes(scale: f32) -> Part {
    let whole = EncodingKind::PerTensor;
    part(
        Op::Conv,
        vec![
            encoded(computed(&[1, 3, 8, 8], DType::U8), &[scale], whole),
            encoded(
                data(&[2, 3, 1, 1], DType::I8),
                &[0.25, 0.5],
                EncodingKind::PerAxis { axis: 0 },
            ),
            encoded(computed(&[1, 2, 8, 8], DType::I8), &[2.0], whole),
        ],
        &[],
    )
}

#[test]
fn byte_operations_are_dequantised_and_weights_stay_bytes() {
    for (target, ty) in [(REDUCED, Type::F16), (GPU, Type::F32)] {
        let program = whole(&bytes(0.5), target, true).unwrap();
        let wanted = [
            "cast",
            "dequantize",
            "constexpr_affine_dequantize",
            "conv",
            "quantize",
            "cast",
        ];
        assert_eq!(kinds(&program), wanted);
        let types: Vec<Type> = program
            .operations
            .iter()
            .map(|operation| program.values[operation.outputs[0]].ty)
            .collect();
        assert_eq!(types, [Type::U8, ty, ty, ty, Type::I8, Type::F16]);
        let ports = [program.inputs[0], program.outputs[0]];
        assert_eq!(ports.map(|id| program.values[id].ty), [Type::F16; 2]);
        let given = &program.operations[1].args;
        assert!(given.contains(&("scale", Arg::Real(ty, 0.5))), "{given:?}");
        assert!(
            given.contains(&("zero_point", Arg::Real(Type::U8, 1.0))),
            "{given:?}"
        );
    }
}

#[test]
fn scale_outside_f16_is_refused_with_f16_reals() {
    for scale in [1e-6, 1e4] {
        assert!(whole(&bytes(scale), GPU, true).is_ok());
        let refusal = whole(&bytes(scale), REDUCED, true).unwrap_err();
        assert_eq!(refusal.reason(), Reason::Encoding);
    }
    assert_eq!(whole(&bytes(0.5), NPU, true).unwrap_err().reason(), Reason::DType);
}
