//! What each tensor of a part is on a chip: stored type, encoding, shape.
//!
//! Invariants:
//! 1. A tensor whose integers carry an encoding is of a `fixed` type; plain integers stay plain.
//! 2. A float tensor gets an encoding only where that cannot change the result: between a node and a Relu or Clip that
//!    alone reads it and whose own result is quantised. Rounding and clamping are monotone, so quantising before the
//!    clamp with the encoding behind it gives the same integers.
//! 3. Where a chip's bytes are signed, encoded unsigned ones are of its type, with zero points less 128.
//!
//! Not here: constants as operands (`constant`).

use polychip_ops::{DType, Op};
use polychip_sdk::{EncodingKind, Reason};

use super::program::{Quant, Type};
use super::traits::{Stores, Traits};
use crate::{Node, Outcome, Part, Refusal, Tensor, TensorIndex};

/// What a tensor is.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Stored type inside the part. Tensors of 64-bit integers are [`Type::Int32`] inside.
    pub ty: Type,
    /// Encoding; per tensor, but for constants.
    pub quant: Quant,
    /// ONNX shape.
    pub shape: Vec<usize>,
    /// The encoding is that of a node beside it, not the tensor's own: other nodes see plain integers.
    pub borrowed: bool,
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

/// What a tensor is, from its own record.
fn own(tensor: &Tensor, chip: &dyn Stores) -> Outcome<Info> {
    let name = &tensor.name;
    if !tensor.plain {
        return Err(Refusal::dtype(format!("tensor {name} is no plain tensor")));
    }
    let Some(shape) = tensor.dims.clone() else {
        let what = format!("the shape of tensor {name} is known only after the run");
        return Err(Refusal::new(Reason::DynamicShape, what));
    };
    let most = chip.traits().most_axes;
    if shape.len() > most {
        let what = format!("tensor {name} has {} axes; at most {most} are taken", shape.len());
        return Err(Refusal::new(Reason::Rank, what));
    }
    let elements = polychip_ops::axis::product(&shape);
    let fits = elements.is_some_and(|count| count <= (i32::MAX / 8) as usize);
    // an empty constant is a parameter left out: who reads it as data refuses it
    if !fits || (elements == Some(0) && !tensor.is_constant()) {
        return Err(Refusal::shape(format!(
            "tensor {name} of shape {shape:?} is empty or has more than 2^28 elements"
        )));
    }
    let Some(ty) = stored(tensor.dtype, tensor.encoding.is_some()) else {
        return Err(Refusal::dtype(not_stored(tensor)));
    };
    let mut quant = Quant::None;
    if let Some(encoding) = &tensor.encoding {
        match (encoding.kind, encoding.scales.first()) {
            (EncodingKind::PerTensor, Some(&scale)) => {
                let zero = encoding.zero_points.first().copied().unwrap_or(0);
                quant = Quant::PerTensor { scale, zero };
            }
            // constants of finer encodings are read by the nodes that know what to do with them
            _ if tensor.is_constant() => {}
            _ => {
                let what = format!("tensor {name} has more than one scale; only constants may");
                return Err(Refusal::encoding(what));
            }
        }
    }
    Ok(Info {
        ty,
        quant,
        shape,
        borrowed: false,
    })
}

fn not_stored(tensor: &Tensor) -> String {
    let encoded = if tensor.encoding.is_some() {
        " with an encoding"
    } else {
        ""
    };
    format!(
        "tensor {} is of {}{encoded}, which the chip does not store",
        tensor.name, tensor.dtype
    )
}

/// The type and encoding in which a chip keeps integers of these.
pub(super) fn kept(ty: Type, quant: Quant, traits: &Traits) -> (Type, Quant) {
    match (ty, quant) {
        (Type::Ufixed8, Quant::PerTensor { scale, zero }) if traits.signed_bytes => {
            let zero = zero - 128;
            (Type::Sfixed8, Quant::PerTensor { scale, zero })
        }
        (Type::Ufixed8, quant) if traits.signed_bytes => (Type::Sfixed8, quant),
        as_is => as_is,
    }
}

/// The encoding that the inputs at `scale` and `scale + 1` of a node name for integers of a type.
pub(super) fn named(part: &Part, node: &Node, ty: Type, scale: usize) -> Option<(Type, Quant)> {
    let ty = ty.fixed().filter(|&ty| ty != Type::Sfixed32)?;
    let zero = match node.input(scale + 1) {
        None => 0,
        Some(zero) => part.tensors[zero].literal()?.scalar_as_i64()?,
    };
    let scale = part.tensors[node.input(scale)?].literal()?.scalar_as_f64()? as f32;
    let zero = i32::try_from(zero).ok()?;
    (scale.is_finite() && scale > 0.0).then_some((ty, Quant::PerTensor { scale, zero }))
}

/// Tensors for which a node names an encoding, each with the input that holds the scale.
fn borrows(node: &Node) -> impl Iterator<Item = (TensorIndex, usize)> + '_ {
    let places: &[(bool, usize, usize)] = match node.op {
        Op::QuantizeLinear => &[(false, 0, 1)],
        Op::DequantizeLinear => &[(true, 0, 1)],
        Op::QLinearConv | Op::QLinearMatMul => &[(true, 0, 1), (true, 3, 4), (false, 0, 6)],
        _ => &[],
    };
    places.iter().filter_map(|&(input, place, scale)| {
        let tensor = if input {
            node.input(place)
        } else {
            node.output(place)
        };
        Some((tensor?, scale))
    })
}

/// What all tensors of a graph are, or why one is none that the chip has.
pub fn infos(part: &Part, chip: &dyn Stores) -> Vec<Outcome<Info>> {
    let mut infos: Vec<Outcome<Info>> = part.tensors.iter().map(|tensor| own(tensor, chip)).collect();
    for node in &part.nodes {
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
    let uses = part.uses();
    let clamps = |node: &&Node| matches!(node.op, Op::Relu | Op::Clip);
    for node in part.nodes.iter().rev().filter(clamps) {
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
        if let Ok(known) = info {
            (known.ty, known.quant) = kept(known.ty, known.quant.clone(), chip.traits());
        }
        let wide = tensor.dtype == DType::I64 && !chip.traits().wide_ports;
        if let Ok(known) = info
            && !tensor.is_constant()
            && (wide || !chip.stores(known.ty))
        {
            let plain = known.ty.fixed().is_some() && !known.ty.is_quantised();
            *info = Err(match plain {
                true if chip.stores(Type::Ufixed8) || chip.stores(Type::Sfixed8) => {
                    Refusal::encoding(format!(
                        "tensor {} of {} has no encoding, and the chip's integers have one",
                        tensor.name, tensor.dtype
                    ))
                }
                _ if tensor.encoding.is_some() => Refusal::encoding(not_stored(tensor)),
                _ => Refusal::dtype(not_stored(tensor)),
            });
        }
    }
    infos
}
