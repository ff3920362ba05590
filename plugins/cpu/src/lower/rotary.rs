//! RotaryEmbedding: pairs of features rotated by the angles of their position.
//!
//! Not here: attention itself (`attention`).

use polychip_cpu_kernels::attention::{Rotary, rotary};
use polychip_ops::operator;
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(cosines), Some(sines), Some(y)) =
        (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Ok(false);
    };
    let floats = [x, cosines, sines, y].iter().all(|&t| l.is_f32(t));
    if node.op != Op::RotaryEmbedding || !floats {
        return Ok(false);
    }
    let Ok(attributes) = node.typed::<operator::Rotary>() else {
        return Ok(false);
    };
    let heads = attributes.heads.unwrap_or(0);
    // where the rows of one head are, and how far they are from each other
    let (batch, heads, rows, size, inside) = match *l.shape(x)? {
        [batch, heads, rows, size] => (batch, heads, rows, size, false),
        [batch, rows, width] if heads > 0 && width % heads == 0 => (batch, heads, rows, width / heads, true),
        _ => return Ok(false),
    };
    let rotated = match attributes.rotated {
        0 => size,
        some => some,
    };
    if rotated > size || rotated % 2 != 0 || rotated == 0 {
        return Ok(false);
    }
    let half = rotated / 2;
    let positions = node.input(3);
    let cached = l.shape(cosines)?.to_vec();
    let fits = match (positions, &cached[..]) {
        (Some(positions), &[_, of]) => {
            of == half && l.dtype(positions) == DType::I64 && l.shape(positions)? == [batch, rows]
        }
        (None, &[of, own, angles]) => (of, own, angles) == (batch, rows, half),
        _ => false,
    };
    if !fits || l.shape(sines)? != cached || l.shape(y)? != l.shape(x)? {
        return Ok(false);
    }
    let plan = Rotary {
        batch,
        heads,
        rows,
        size,
        heads_inside: inside,
        rotated,
        interleaved: attributes.interleaved,
    };
    let mut reads = vec![l.rows(x)?, l.rows(cosines)?, l.rows(sines)?];
    if let Some(positions) = positions {
        reads.push(l.rows(positions)?);
    }
    let (isa, has_positions, to) = (l.isa, positions.is_some(), l.write_rows(y)?);
    l.step(
        "RotaryEmbedding",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            let positions = has_positions.then(|| o.read::<i64>(3));
            let caches = (o.read(1), o.read(2));
            rotary(isa, o.pool, plan, o.read(0), caches, positions, o.write(0)).map_err(|position| {
                let message = format!("RotaryEmbedding: position {position} is outside the caches");
                Error::new(ErrorKind::BadArgument, message)
            })
        }),
    )
    .is(Class::Arithmetic);
    Ok(true)
}
