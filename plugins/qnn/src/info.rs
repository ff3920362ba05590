//! What each tensor of a part is on the NPU: stored type, encoding, shape.
//!
//! Invariants:
//! 1. A tensor whose integers carry an encoding is of a `fixed` type; plain integers stay plain.
//! 2. A float tensor gets an encoding only where that cannot change the result: between a node and a Relu or
//!    Clip that alone reads it and whose own result is quantised. Rounding and clamping are monotone, so
//!    quantising before the clamp with the encoding behind it gives the same integers.
//!
//! Not here: constants as operands (`constant`).

use polychip_lowering::{Node, Outcome, Part, Refusal, Tensor, TensorIndex};
use polychip_ops::{DType, Op};
use polychip_sdk::{Encoding, EncodingKind, Reason};

use crate::program::{Quant, Type};

/// What a tensor is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Info {
    /// Stored type inside the part. Tensors of 64-bit integers are [`Type::Int32`] inside.
    pub(crate) ty: Type,
    /// Encoding; per tensor, but for constants.
    pub(crate) quant: Quant,
    /// ONNX shape.
    pub(crate) shape: Vec<usize>,
    /// The encoding is that of a node beside it, not the tensor's own: other nodes see plain integers.
    pub(crate) borrowed: bool,
}

/// The stored type of an element type; `encoded` where integers stand for reals.
fn stored(dtype: DType, encoded: bool) -> Option<Type> {
    Some(match (dtype, encoded) {
        (DType::U8, true) => Type::Ufixed8,
        (DType::I8, true) | (DType::I4 | DType::U4, true) => Type::Sfixed8,
        (DType::U16, true) => Type::Ufixed16,
        (DType::I16, true) => Type::Sfixed16,
        (DType::I32, true) => Type::Sfixed32,
        (DType::U8, false) => Type::Uint8,
        (DType::I8, false) => Type::Int8,
        (DType::U16, false) => Type::Uint16,
        (DType::I16, false) => Type::Int16,
        (DType::I32 | DType::I64, false) => Type::Int32,
        (DType::U32, false) => Type::Uint32,
        (DType::F16, false) => Type::Float16,
        (DType::F32, false) => Type::Float32,
        (DType::Bool, false) => Type::Bool8,
        _ => return None,
    })
}

/// The encoding of a tensor that is no constant.
fn per_tensor(encoding: &Encoding) -> Option<Quant> {
    let one = encoding.kind == EncodingKind::PerTensor;
    let scale = *encoding.scales.first().filter(|_| one)?;
    let zero = encoding.zero_points.first().copied().unwrap_or(0);
    Some(Quant::PerTensor {
        scale,
        offset: zero.checked_neg()?,
    })
}

/// What a tensor is, from its own record.
fn own(tensor: &Tensor) -> Outcome<Info> {
    let name = &tensor.name;
    if !tensor.plain {
        return Err(Refusal::new(
            Reason::DType,
            format!("tensor {name} is no plain tensor"),
        ));
    }
    let Some(shape) = tensor.dims.clone() else {
        let what = format!("the shape of tensor {name} is known only after the run");
        return Err(Refusal::new(Reason::DynamicShape, what));
    };
    let elements = polychip_ops::axis::product(&shape);
    let fits = elements.is_some_and(|count| count <= (i32::MAX / 8) as usize);
    // an empty constant is a parameter left out: who reads it as data refuses it
    let empty = elements == Some(0) && !tensor.is_constant();
    if !fits || empty {
        let what = format!("tensor {name} of shape {shape:?} is empty or has more than 2^28 elements");
        return Err(Refusal::new(Reason::Shape, what));
    }
    let encoding = tensor.encoding.as_ref();
    let Some(ty) = stored(tensor.dtype, encoding.is_some()) else {
        let what = format!(
            "tensor {name} is of {}, which the NPU does not store",
            tensor.dtype
        );
        return Err(Refusal::new(Reason::DType, what));
    };
    let quant = match encoding {
        None => Quant::None,
        // constants of finer encodings are read by the nodes that know what to do with them
        Some(encoding) => match per_tensor(encoding) {
            Some(quant) => quant,
            None if tensor.is_constant() => Quant::None,
            None => {
                let what = format!("tensor {name} has more than one scale; only constants may");
                return Err(Refusal::new(Reason::Encoding, what));
            }
        },
    };
    Ok(Info {
        ty,
        quant,
        shape,
        borrowed: false,
    })
}

/// The encoding that the inputs at `scale` and `scale + 1` of a node name for integers of a type.
pub(crate) fn named(part: &Part, node: &Node, ty: Type, scale: usize) -> Option<(Type, Quant)> {
    let ty = match ty {
        Type::Uint8 | Type::Ufixed8 => Type::Ufixed8,
        Type::Int8 | Type::Sfixed8 => Type::Sfixed8,
        Type::Uint16 | Type::Ufixed16 => Type::Ufixed16,
        Type::Int16 | Type::Sfixed16 => Type::Sfixed16,
        _ => return None,
    };
    let zero = match node.input(scale + 1) {
        None => 0,
        Some(zero) => part.tensors[zero].literal()?.scalar_as_i64()?,
    };
    let scale = part.tensors[node.input(scale)?].literal()?.scalar_as_f64()? as f32;
    let offset = i32::try_from(zero.checked_neg()?).ok()?;
    (scale.is_finite() && scale > 0.0).then_some((ty, Quant::PerTensor { scale, offset }))
}

/// Tensors for which a node names an encoding, each with the input that holds the scale.
fn borrows(node: &Node) -> Vec<(TensorIndex, usize)> {
    let places: &[(bool, usize, usize)] = match node.op {
        Op::QuantizeLinear => &[(false, 0, 1)],
        Op::DequantizeLinear => &[(true, 0, 1)],
        Op::QLinearConv | Op::QLinearMatMul => &[(true, 0, 1), (true, 3, 4), (false, 0, 6)],
        _ => &[],
    };
    let tensor = |&(input, place, scale): &(bool, usize, usize)| {
        let tensor = if input {
            node.input(place)
        } else {
            node.output(place)
        };
        tensor.map(|tensor| (tensor, scale))
    };
    places.iter().filter_map(tensor).collect()
}

/// What all tensors of a graph are.
pub(crate) fn infos(part: &Part) -> Vec<Outcome<Info>> {
    let mut infos: Vec<Outcome<Info>> = part.tensors.iter().map(own).collect();
    let mut readers = vec![0usize; infos.len()];
    let mut fed = vec![false; infos.len()];
    for &input in &part.inputs {
        fed[input] = true;
    }
    for node in &part.nodes {
        for input in node.inputs.iter().copied().flatten() {
            readers[input] += 1;
        }
        for (tensor, scale) in borrows(node) {
            if let Ok(info) = &mut infos[tensor]
                && info.quant == Quant::None
                && !part.is_constant(tensor)
                && let Some((ty, quant)) = named(part, node, info.ty, scale)
            {
                (info.ty, info.quant, info.borrowed) = (ty, quant, true);
            }
        }
    }
    for &output in &part.outputs {
        // an output is read outside, as what it is
        readers[output] += 2;
    }
    for node in part.nodes.iter().rev() {
        if !matches!(node.op, Op::Relu | Op::Clip) {
            continue;
        }
        let (Some(input), Some(output)) = (node.input(0), node.output(0)) else {
            continue;
        };
        let Ok(behind) = infos[output].clone() else {
            continue;
        };
        let alone = readers[input] == 1 && !fed[input];
        if let Ok(info) = &mut infos[input]
            && alone
            && info.ty.is_float()
            && behind.ty.is_quantised()
            && !part.is_constant(input)
        {
            (info.ty, info.quant) = (behind.ty, behind.quant);
        }
    }
    infos
}
