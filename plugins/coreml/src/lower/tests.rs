//! What nodes become, and what is refused.

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
fn a_convolution_is_one_operation_with_its_padding_axis_by_axis() {
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
fn scalars_have_one_axis_and_outputs_are_made_by_operations() {
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
    let mut quantised = computed(&[2], DType::U8);
    quantised.encoding = Some(Encoding {
        kind: EncodingKind::PerTensor,
        scales: vec![0.5],
        zero_points: vec![],
        real_dtype: DType::F32,
    });
    assert_eq!(unary(Op::Relu, quantised), Reason::Encoding);
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
