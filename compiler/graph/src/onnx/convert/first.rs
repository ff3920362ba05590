//! Opsets 1 to 5, the first: element types were said in words, shapes and axes in attributes or inputs of floats, and every
//! node said which of its inputs it may overwrite.
//!
//! Invariant: what comes out means in opset 6 what the node meant; where a node leaves out what opset 1 had no default for,
//! it is refused by name.
//! Not here: opset 6 itself (`legacy`), ops that never became part of a numbered opset (`withdrawn`).

use polychip_ops::{Attr, AttrKey, AttrValue, Attributes, DType, Literal, Op};

use super::rewrite::Rewrite;
use crate::Error;

/// Says in opset 6 what the node says in an older one.
pub(super) fn five(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    // which inputs a node may overwrite: a hint to whoever ran it
    rewrite.take("consumed_inputs");
    match rewrite.node.op {
        Op::Cast => cast(rewrite)?,
        Op::Concat if rewrite.version < 4 => default_int(rewrite, Attr::Axis, 1),
        Op::Reshape if rewrite.version < 5 => rewrite.ints_to_input("shape", 1),
        Op::Pad if rewrite.version < 2 => {
            if let Some(pads) = rewrite.take("paddings") {
                rewrite.node.attributes.set(AttrKey::Known(Attr::Pads), pads);
            }
        }
        Op::LpPool | Op::GlobalLpPool if rewrite.version < 2 => norm(rewrite)?,
        Op::Split if rewrite.version < 2 => split(rewrite)?,
        Op::Tile => tile(rewrite)?,
        // the constants had fewer digits
        Op::Selu => {
            default_float(rewrite, Attr::Alpha, 1.6732);
            default_float(rewrite, Attr::Gamma, 1.0507);
        }
        _ => {}
    }
    Ok(())
}

fn default_int(rewrite: &mut Rewrite<'_, '_>, attr: Attr, value: i64) {
    if rewrite.node.attributes.get(attr).is_none() {
        rewrite.node.attributes.set(attr, AttrValue::Int(value));
    }
}

fn default_float(rewrite: &mut Rewrite<'_, '_>, attr: Attr, value: f32) {
    if rewrite.node.attributes.get(attr).is_none() {
        rewrite.node.attributes.set(attr, AttrValue::Float(value));
    }
}

/// The element type was the name that it has in ONNX's enumeration.
fn cast(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    let Some(word) = rewrite.node.attributes.str(Attr::To).map(str::to_uppercase) else {
        return Ok(());
    };
    let dtype = match word.as_str() {
        "FLOAT" => DType::F32,
        "UINT8" => DType::U8,
        "INT8" => DType::I8,
        "UINT16" => DType::U16,
        "INT16" => DType::I16,
        "INT32" => DType::I32,
        "INT64" => DType::I64,
        "STRING" => DType::String,
        "BOOL" => DType::Bool,
        "FLOAT16" => DType::F16,
        "DOUBLE" => DType::F64,
        "UINT32" => DType::U32,
        "UINT64" => DType::U64,
        _ => return Err(rewrite.unsupported(&format!("a cast to \"{word}\""))),
    };
    rewrite
        .node
        .attributes
        .set(Attr::To, AttrValue::Int(dtype.code().into()));
    Ok(())
}

/// The order of a norm was a float, 2 where it was left out.
fn norm(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    let Some(AttrValue::Float(order)) = rewrite.node.attributes.get(Attr::P).cloned() else {
        return Ok(());
    };
    if order.fract() != 0.0 || !(1.0..1e6).contains(&order) {
        return Err(rewrite.unsupported(&format!("a norm of order {order}")));
    }
    rewrite.node.attributes.set(Attr::P, AttrValue::Int(order as i64));
    Ok(())
}

/// Lengths came as an attribute, or as an input of the data's own type.
fn split(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    if rewrite.node.attributes.int(Attr::Axis).is_none() {
        return Err(rewrite.unsupported("a split without an axis (opset 1 has no default)"));
    }
    let Some(lengths) = rewrite.node.input(1) else {
        return Ok(());
    };
    // conversions of later opsets take the attribute for the input
    rewrite.take("split");
    let to = Attributes::new().with_int(Attr::To, DType::I64.code().into());
    let lengths = rewrite.step(Op::Cast, &[lengths], "lengths", to)?;
    rewrite.set_input(1, lengths);
    Ok(())
}

/// One axis was repeated so many times, both of them scalars of the data's own type.
fn tile(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    let Some(rank) = rewrite.input_ty(0).and_then(|ty| ty.rank()) else {
        return Err(rewrite.unsupported("tiling of a tensor whose rank is not known"));
    };
    let (times, axis) = (rewrite.input(1)?, rewrite.input(2)?);
    let to = || Attributes::new().with_int(Attr::To, DType::I64.code().into());
    let one = rewrite.constant("one", &Literal::i64s(&[1]));
    let mut pair = Vec::new();
    for (tensor, role) in [(axis, "axis"), (times, "times")] {
        let whole = rewrite.step(Op::Cast, &[tensor], &format!("{role}.whole"), to())?;
        pair.push(rewrite.step(Op::Reshape, &[whole, one], role, Attributes::new())?);
    }
    let ones = rewrite.constant("ones", &Literal::i64s(&vec![1; rank]));
    let repeats = rewrite.step(
        Op::ScatterElements,
        &[ones, pair[0], pair[1]],
        "repeats",
        Attributes::new(),
    )?;
    rewrite.node.inputs.truncate(1);
    rewrite.set_input(1, repeats);
    Ok(())
}
