//! Normalisations and Dropout: outputs of training, statistics per element, scales per group.

use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};

use super::rewrite::Rewrite;
use crate::Error;

/// Before 14 the outputs behind the first were those of training, with other meanings than now; they
/// are dropped. Before 9 `spatial` 0 meant statistics for each element of a sample.
pub(super) fn batch(rewrite: &mut Rewrite<'_, '_>) -> Result<bool, Error> {
    rewrite.node.outputs.truncate(1);
    let spatial = match rewrite.take("spatial") {
        Some(AttrValue::Int(spatial)) => spatial,
        _ => 1,
    };
    let Some(output) = rewrite.node.output(0).filter(|_| spatial == 0) else {
        return Ok(false);
    };
    let epsilon = rewrite.node.attributes.float(Attr::Epsilon).unwrap_or(1e-5);
    let [x, scale, shift, mean, variance] = [0, 1, 2, 3, 4].map(|slot| rewrite.input(slot));
    let (x, variance) = (x?, variance?);
    let none = Attributes::new;
    let epsilon = rewrite.scalar_like("epsilon", epsilon, x)?;
    let sum = rewrite.step(Op::Add, &[variance, epsilon], "variance", none())?;
    let deviation = rewrite.step(Op::Sqrt, &[sum], "deviation", none())?;
    let centred = rewrite.step(Op::Sub, &[x, mean?], "centred", none())?;
    let normal = rewrite.step(Op::Div, &[centred, deviation], "normal", none())?;
    let scaled = rewrite.step(Op::Mul, &[normal, scale?], "scaled", none())?;
    let name = rewrite.node.name.clone();
    rewrite.emit(Op::Add, &[scaled, shift?], output, &name, none())?;
    Ok(true)
}

/// Before 21 scale and bias were per group; now they are per channel.
pub(super) fn group(rewrite: &mut Rewrite<'_, '_>) -> Result<bool, Error> {
    let x = rewrite.input(0)?;
    let Some(groups) = rewrite
        .node
        .attributes
        .int(Attr::NumGroups)
        .filter(|&groups| groups > 0)
    else {
        return Err(rewrite.malformed("num_groups is missing or not positive"));
    };
    let channels = rewrite
        .input_ty(0)
        .and_then(|ty| ty.shape.as_ref()?.get(1)?.known());
    let grid = match channels.and_then(|channels| i64::try_from(channels).ok()) {
        Some(channels) => rewrite.constant("grid", &Literal::i64s(&[groups, channels / groups])),
        None => {
            let range = Attributes::new().with_int(Attr::Start, 1).with_int(Attr::End, 2);
            let channels = rewrite.step(Op::Shape, &[x], "channels", range)?;
            let groups = rewrite.constant("groups", &Literal::i64s(&[groups]));
            let each = rewrite.step(Op::Div, &[channels, groups], "each", Attributes::new())?;
            let axis = Attributes::new().with_int(Attr::Axis, 0);
            rewrite.step(Op::Concat, &[groups, each], "grid", axis)?
        }
    };
    let column = rewrite.constant("column", &Literal::i64s(&[-1, 1]));
    let flat = rewrite.constant("flat", &Literal::i64s(&[-1]));
    for (slot, role) in [(1, "scale"), (2, "bias")] {
        let per_group = rewrite.input(slot)?;
        let none = Attributes::new;
        let tall = rewrite.step(
            Op::Reshape,
            &[per_group, column],
            &format!("{role}.column"),
            none(),
        )?;
        let wide = rewrite.step(Op::Expand, &[tall, grid], &format!("{role}.grid"), none())?;
        let per_channel = rewrite.step(Op::Reshape, &[wide, flat], role, none())?;
        rewrite.set_input(slot, per_channel);
    }
    Ok(false)
}

/// Before 12 `ratio` was an attribute; before 10 the mask had the type of the data.
pub(super) fn dropout(rewrite: &mut Rewrite<'_, '_>) -> Result<bool, Error> {
    if let Some(AttrValue::Float(ratio)) = rewrite.take("ratio") {
        let ratio = rewrite.constant("ratio", &Literal::scalar_f32(ratio));
        rewrite.set_input(1, ratio);
    }
    let Some(mask) = rewrite.node.output(1).filter(|_| rewrite.version < 10) else {
        return Ok(false);
    };
    let x = rewrite.input(0)?;
    let name = rewrite.name("mask");
    let bits = rewrite.target.fresh(name.clone());
    rewrite.node.outputs[1] = Some(bits);
    let node = rewrite.node.clone();
    rewrite.target.add(node)?;
    match rewrite.target.ty(x).map(|ty| ty.dtype) {
        Some(dtype) if dtype != DType::Bool => {
            let to = Attributes::new().with_int(Attr::To, i64::from(dtype.code()));
            rewrite.emit(Op::Cast, &[bits], mask, &name, to)?;
        }
        _ => rewrite.emit(Op::CastLike, &[bits, x], mask, &name, Attributes::new())?,
    }
    Ok(true)
}
