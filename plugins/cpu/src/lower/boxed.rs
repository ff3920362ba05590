//! Concat and edits of sequences on boxed tensors: they copy whole elements, for which no kernel is lowered.
//!
//! A loop that carries a growing tensor or a sequence runs such nodes with another size each round. So an operand that
//! nothing reads later is edited where it lies: a Concat along the first axis appends to memory that grows by factors, a
//! sequence takes or loses an element. Any other Concat is one copy of each operand.
//!
//! Not here: kernels lowered for the shapes of a run (`dynamic_shapes`), all other nodes (`reference`).

use polychip_cpu_kernels::reference::tensor::MAX_ELEMENTS;
use polychip_ops::operator::Along;
use polychip_ops::{Attributes, DType, Op, Operator, axis};
use polychip_reference::{Tensor, edit_sequence, element};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::step::{Given, Operands};

/// Whether a node may be computed so.
pub(super) fn covers(l: &Lowering<'_>, node: &Node) -> bool {
    let first = node.output(0).map(|y| l.dtype(y));
    let mut tensors = node.reads().chain(node.output(0)).map(|t| &l.part.tensors[t]);
    match node.op {
        Op::SequenceInsert | Op::SequenceErase => true,
        Op::Concat => tensors.all(|t| {
            Some(t.dtype) == first && is_number(t.dtype) && t.plain && !t.packed && t.encoding.is_none()
        }),
        _ => false,
    }
}

/// Whether boxed tensors of this type hold numbers of whole bytes, or truth values.
fn is_number(dtype: DType) -> bool {
    let wide = matches!(
        dtype,
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 | DType::Bool
    );
    wide || (dtype.is_int() && dtype.byte_width().is_some())
}

/// Computes a node whose only result is its first; `false` where nothing was computed.
///
/// # Errors
/// The operands do not fit the op.
pub(super) fn run(
    o: &mut Operands<'_>,
    op: Op,
    attributes: &Attributes,
    dtype: DType,
    places: &[Option<usize>],
) -> Result<bool> {
    match op {
        Op::Concat => concat(o, attributes, dtype, places),
        _ => edit(o, op, places),
    }
}

fn edit(o: &mut Operands<'_>, op: Op, places: &[Option<usize>]) -> Result<bool> {
    let Some(sequence) = places.first().copied().flatten().and_then(|i| o.take(i)) else {
        return Ok(false);
    };
    let others = places
        .iter()
        .skip(1)
        .map(|place| place.map(|i| o.taken(i)).transpose());
    let others = others.collect::<Result<Vec<_>>>()?;
    let mut inputs = vec![None];
    inputs.extend(others.iter().map(Option::as_deref));
    let edited = edit_sequence(op, sequence, &inputs).map_err(super::body::failure)?;
    o.store(0, edited).map(|()| true)
}

/// The shape of a concatenation, and its axis; none where the shapes do not fit, which the evaluator tells.
fn joined(shapes: &[&[usize]], along: i64) -> Option<(Vec<usize>, usize)> {
    let (first, rest) = shapes.split_first()?;
    let axis = axis::normalise(along, first.len())?;
    let mut shape = first.to_vec();
    for other in rest {
        let fits = other.len() == shape.len() && (0..shape.len()).all(|d| d == axis || shape[d] == other[d]);
        if !fits {
            return None;
        }
        shape[axis] = shape[axis].checked_add(other[axis])?;
    }
    let elements = axis::product(&shape)?;
    (elements <= MAX_ELEMENTS).then_some((shape, axis))
}

fn concat(
    o: &mut Operands<'_>,
    attributes: &Attributes,
    dtype: DType,
    places: &[Option<usize>],
) -> Result<bool> {
    let Ok(Along { axis: along }) = Operator::attributes(Op::Concat, attributes) else {
        return Ok(false);
    };
    let Some(places) = places.iter().copied().collect::<Option<Vec<usize>>>() else {
        return Ok(false);
    };
    let shapes: Option<Vec<&[usize]>> = places.iter().map(|&i| o.dims(i)).collect();
    let Some((shape, axis)) = shapes.and_then(|shapes| joined(&shapes, along)) else {
        return Ok(false);
    };
    let outer: usize = shape[..axis].iter().product();
    let failed =
        |error: polychip_cpu_kernels::reference::Error| Error::new(ErrorKind::Persistent, error.to_string());
    let first = if outer == 1 { o.take(places[0]) } else { None };
    let rest = &places[usize::from(first.is_some())..];
    let given = rest.iter().map(|&i| o.given_in_place(i));
    let given = given.collect::<Result<Vec<_>>>()?;
    let pieces = given.iter().map(|given| match given {
        Given::Memory(bytes, ..) => Some(*bytes),
        Given::Boxed(tensor) => tensor.bytes(),
    });
    let pieces: Option<Vec<&[u8]>> = pieces.collect();
    let pieces = pieces.ok_or_else(|| Error::new(ErrorKind::Persistent, "numbers without bytes"))?;
    let joined = match first {
        Some(first) => first.append(shape, &pieces).map_err(failed)?,
        None => {
            let len = |piece: &&[u8]| piece.len().checked_div(outer).unwrap_or(0);
            let row = |row: usize| {
                pieces
                    .iter()
                    .map(move |piece| &piece[row * len(piece)..][..len(piece)])
            };
            let rows: Vec<&[u8]> = (0..outer).flat_map(row).collect();
            let empty = Tensor::zeros(element(dtype), vec![0]).map_err(failed)?;
            empty.append(shape, &rows).map_err(failed)?
        }
    };
    o.store(0, joined).map(|()| true)
}
