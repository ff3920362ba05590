//! What each tensor of a part is on the NPU: type, encoding, shape.
//!
//! Invariants:
//! 1. Integers of 8 bits stand for reals; without an encoding, their own or a node's beside them, they are refused.
//! 2. A float tensor gets an encoding only where that cannot change the result: between a node and a Relu or Clip that
//!    alone reads it and whose own result is quantised. Rounding and clamping are monotone.
//!
//! Not here: constants as weights (`lower`).

use polychip_lowering::{Node, Outcome, Part, Refusal, Tensor, TensorIndex};
use polychip_ops::{DType, Op};
use polychip_sdk::{EncodingKind, Reason};

use crate::program::{Quant, Type};

/// The library's tensors have four axes at most.
const MOST_AXES: usize = 4;

/// What a tensor is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Info {
    pub(crate) ty: Type,
    pub(crate) quant: Quant,
    /// ONNX shape.
    pub(crate) shape: Vec<usize>,
    /// The encoding is that of a node beside it: other nodes see plain integers.
    pub(crate) borrowed: bool,
}

fn own(tensor: &Tensor) -> Outcome<Info> {
    let name = &tensor.name;
    if !tensor.plain {
        return Err(Refusal::dtype(format!("tensor {name} is no plain tensor")));
    }
    let Some(shape) = tensor.dims.clone() else {
        let what = format!("tensor {name} has its shape only after the run");
        return Err(Refusal::new(Reason::DynamicShape, what));
    };
    if shape.len() > MOST_AXES {
        let what = format!(
            "tensor {name} has {} axes, the library's at most {MOST_AXES}",
            shape.len()
        );
        return Err(Refusal::new(Reason::Rank, what));
    }
    let elements = polychip_ops::axis::product(&shape).unwrap_or(usize::MAX);
    if elements > i32::MAX as usize / 8 || (elements == 0 && !tensor.is_constant()) {
        return Err(Refusal::shape(format!(
            "tensor {name} of shape {shape:?} is empty or beyond 2^28 elements"
        )));
    }
    let ty = match tensor.dtype {
        DType::F32 => Type::F32,
        DType::F16 => Type::F16,
        DType::I32 => Type::I32,
        DType::Bool => Type::Bool,
        DType::U8 => Type::U8,
        DType::I8 => Type::S8,
        // parameters: axes, shapes, indices
        DType::I64 if tensor.is_constant() => Type::I32,
        dtype => {
            return Err(Refusal::dtype(format!(
                "tensor {name} is of {dtype}, which the library does not have"
            )));
        }
    };
    let mut quant = Quant::default();
    if let Some(encoding) = &tensor.encoding {
        if encoding.kind == EncodingKind::PerTensor {
            quant.scale = encoding.scales.first().copied().unwrap_or(0.0);
            quant.zero = encoding.zero_points.first().copied().unwrap_or(0);
        } else if !tensor.is_constant() {
            return Err(Refusal::encoding(format!(
                "tensor {name} has more than one scale; only weights may"
            )));
        }
        if !ty.is_quantised() && !tensor.is_constant() {
            return Err(Refusal::encoding(format!(
                "tensor {name} has an encoding of {}",
                tensor.dtype
            )));
        }
    }
    Ok(Info {
        ty,
        quant,
        shape,
        borrowed: false,
    })
}

/// The one scale and zero point that a QuantizeLinear or DequantizeLinear names.
pub(crate) fn named(part: &Part, node: &Node) -> Option<Quant> {
    let scale = part.tensors[node.input(1)?].literal()?.scalar_as_f64()? as f32;
    let zero = match node.input(2) {
        Some(zero) => part.tensors[zero].literal()?.scalar_as_i64()?,
        None => 0,
    };
    let zero = i32::try_from(zero).ok()?;
    (scale.is_finite() && scale > 0.0).then_some(Quant { scale, zero })
}

/// What all tensors of a graph are.
pub(crate) fn infos(part: &Part) -> Vec<Outcome<Info>> {
    let mut infos: Vec<Outcome<Info>> = part.tensors.iter().map(own).collect();
    for node in &part.nodes {
        let integers = match node.op {
            Op::QuantizeLinear => node.output(0),
            Op::DequantizeLinear => node.input(0),
            _ => None,
        };
        if let Some(tensor) = integers.filter(|&tensor| !part.is_constant(tensor))
            && let Ok(info) = &mut infos[tensor]
            && info.ty.is_quantised()
            && info.quant == Quant::default()
            && let Some(quant) = named(part, node)
        {
            (info.quant, info.borrowed) = (quant, true);
        }
    }
    let uses = part.uses();
    for node in part
        .nodes
        .iter()
        .rev()
        .filter(|node| matches!(node.op, Op::Relu | Op::Clip))
    {
        let (Some(input), Some(output)) = (node.input(0), node.output(0)) else {
            continue;
        };
        let inside = uses[input] == 1 && !part.inputs.contains(&input) && !part.is_constant(input);
        if let (true, Ok(behind)) = (inside, infos[output].clone())
            && behind.ty.is_quantised()
            && let Ok(info) = &mut infos[input]
            && info.ty.is_float()
        {
            (info.ty, info.quant) = (behind.ty, behind.quant);
        }
    }
    for (info, tensor) in infos.iter_mut().zip(&part.tensors) {
        let bare = |info: &Info| info.ty.is_quantised() && info.quant == Quant::default();
        if info.as_ref().is_ok_and(bare) && !tensor.is_constant() {
            let what = format!(
                "tensor {} of {} has no encoding, and the library's have one",
                tensor.name, tensor.dtype
            );
            *info = Err(Refusal::encoding(what));
        }
    }
    infos
}

/// The tensor of each node's results and operands.
pub(crate) fn of(infos: &[Outcome<Info>], tensor: TensorIndex) -> Outcome<&Info> {
    infos[tensor].as_ref().map_err(Clone::clone)
}
