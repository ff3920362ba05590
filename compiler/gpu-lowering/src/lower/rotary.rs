//! RotaryEmbedding: pairs of features rotated by the angles of their position.

use polychip_gpu_kernels::{Access, Rotary, Scalar};
use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Op, operator};

use super::builder::Lowering;
use super::values::is_float;

/// Lowers RotaryEmbedding.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    match node.output(0) {
        Some(y) if node.op == Op::RotaryEmbedding => rotated(l, node, y).map(|()| true),
        _ => Ok(false),
    }
}

/// Lowers RotaryEmbedding as what computes `out`: its own output, or that rounded to 16 bits.
pub(super) fn rotated(l: &mut Lowering<'_>, node: &Node, out: TensorIndex) -> Outcome<()> {
    let (Some(x), Some(cosines), Some(sines), Some(y)) =
        (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Err(Refusal::op("RotaryEmbedding without operands"));
    };
    let dtype = l.part.real(x);
    if !is_float(dtype) || [cosines, sines, y].iter().any(|&t| l.part.real(t) != dtype) {
        return Err(Refusal::dtype(format!(
            "RotaryEmbedding of {} is not offered",
            dtype.name()
        )));
    }
    let own: operator::Rotary = node.typed()?;
    let heads = own.heads.unwrap_or(0);
    let (batch, heads, rows, size, inside) = match *l.dims(x)? {
        [batch, heads, rows, size] => (batch, heads, rows, size, false),
        [batch, rows, width] if heads > 0 && width % heads == 0 => (batch, heads, rows, width / heads, true),
        ref dims => return Err(Refusal::shape(format!("RotaryEmbedding of {dims:?}"))),
    };
    let rotated = match own.rotated {
        0 => size,
        some => some,
    };
    let tables = l.dims(cosines)?;
    let fits = match (node.input(3), tables) {
        (Some(positions), &[_, half]) => half * 2 == rotated && l.dims(positions)? == [batch, rows],
        (None, &[of, own, half]) => (of, own, half * 2) == (batch, rows, rotated),
        _ => false,
    };
    if !fits || l.dims(sines)? != tables || l.dims(y)? != l.dims(x)? {
        return Err(Refusal::shape(format!(
            "RotaryEmbedding of {:?} with angles of {tables:?}",
            l.dims(x)?
        )));
    }
    let from = l.rows(x)?;
    let mut values = vec![from, l.rows(cosines)?, l.rows(sines)?];
    let constant = values[1..]
        .iter()
        .all(|&value| l.access(value) == Access::Constant);
    let mut positions = None;
    if let Some(t) = node.input(3) {
        let value = l.rows(t)?;
        let scalar = l.stored(value).scalar;
        if !matches!(scalar, Scalar::I64 | Scalar::I32) {
            let message = format!("positions of {} are not offered", scalar.name());
            return Err(Refusal::dtype(message));
        }
        positions = Some(scalar);
        values.push(value);
    }
    let target = l.result(out, Layout::RowMajor)?;
    values.push(target);
    let kernel = Rotary {
        scalar: l.stored(from).scalar,
        output: l.stored(target).scalar,
        batch: batch as u64,
        heads: heads as u64,
        rows: rows as u64,
        size: size as u64,
        rotated: rotated as u64,
        interleaved: own.interleaved,
        heads_inside: inside,
        cached: tables[..tables.len() - 1].iter().product::<usize>() as u64,
        positions,
        access: if constant { Access::Constant } else { Access::Read },
    };
    l.launch(&kernel, &values)
}
