//! The shape that a Slice gives: starts and ends clamped, steps of either sign.
//!
//! Invariants:
//! 1. Bounds are clamped as ONNX does, so that a slice past the end is empty and no error.
//! 2. A named axis that is taken whole keeps its name.
//!
//! Not here: negative pads, which cut as well (`pad` of the class).

use crate::infer::call::{Call, Out, Result, bad_input, bail, make_value, unknown};
use crate::{Dim, Element};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    let mut count = None;
    for index in 1..=4 {
        let length = call.list_length(index)?;
        if let (Some(count), Some(length)) = (count, length)
            && count != length
        {
            bad_input!(call, index, "not of the {count} values that starts has");
        }
        count = count.or(length);
    }
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axes = match (call.has(3), call.ints(3), count) {
        (true, Some(axes), _) => call.axes(&axes, dims.len())?,
        (false, _, Some(count)) if count <= dims.len() => (0..count).collect(),
        (false, _, Some(count)) => {
            bad_input!(call, 1, "{count} axes are more than the rank {}", dims.len())
        }
        _ => return Ok(vec![Out::dims(unknown(dims.len()))]),
    };
    let list = |index: usize, default: Element| {
        let missing = if call.has(index) {
            Element::Unknown
        } else {
            default
        };
        call.elements(index).unwrap_or_else(|| vec![missing; axes.len()])
    };
    let starts = list(1, Element::Unknown);
    let ends = list(2, Element::Unknown);
    let steps = list(4, Element::Int(1));
    let mut shape = dims.to_vec();
    let mut taken = Some((0, 1));
    for (place, &axis) in axes.iter().enumerate() {
        let (start, end, step) = (&starts[place], &ends[place], &steps[place]);
        if *step == Element::Int(0) {
            bail!(call, Value, "the step on axis {axis} is 0");
        }
        let (dim, from) = sliced(&dims[axis], start, end, step);
        shape[axis] = dim;
        taken = from;
    }
    let value = match (dims, taken, shape[..].first()) {
        ([_], Some((start, step)), Some(Dim::Known(count))) => picked(call, start, step, *count),
        _ => None,
    };
    Ok(vec![Out::dims(shape).valued(value)])
}

/// The size that is left of an axis, and where the elements start and how far they stand apart.
fn sliced(dim: &Dim, start: &Element, end: &Element, step: &Element) -> (Dim, Option<(i64, i64)>) {
    // From here on an end means the end, whatever the size: exporters write such values for it.
    const FAR: i64 = i32::MAX as i64 - 1;
    let whole_end = match (dim, end) {
        (Dim::Symbol(name), Element::Symbol(end)) => name == end,
        (_, Element::Int(end)) => *end >= FAR,
        _ => false,
    };
    let (size, start, end, step) = match (dim, start, end, step) {
        (Dim::Known(size), Element::Int(start), Element::Int(end), Element::Int(step)) => {
            (*size, *start, *end, *step)
        }
        (dim, Element::Int(0), _, Element::Int(1)) if whole_end => {
            return (dim.clone(), Some((0, 1)));
        }
        (dim, Element::Int(start), Element::Int(end), Element::Int(-1))
            if (*start == -1 || *start >= FAR) && *end <= -FAR =>
        {
            return (dim.clone(), None);
        }
        (_, Element::Int(start), Element::Int(end), Element::Int(1))
            if start == end || (*start >= 0 && *end >= 0 && end <= start) =>
        {
            return (Dim::Known(0), Some((0, 1)));
        }
        _ => return (Dim::Unknown, None),
    };
    let Ok(size) = i64::try_from(size) else {
        return (Dim::Unknown, None);
    };
    let from_end = |value: i64| {
        if value < 0 {
            value.saturating_add(size)
        } else {
            value
        }
    };
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let start = from_end(start).clamp(low.max(0), high.max(0));
    let end = from_end(end).clamp(low, high.max(low));
    let room = if step > 0 { end - start } else { start - end };
    let count = if size == 0 || room <= 0 {
        0
    } else {
        let step = step.unsigned_abs();
        u64::try_from(room).map_or(0, |room| room.div_ceil(step))
    };
    (
        usize::try_from(count).map_or(Dim::Unknown, Dim::Known),
        Some((start, step)),
    )
}

fn picked(call: &Call<'_>, start: i64, step: i64, count: usize) -> Option<crate::Value> {
    let elements = call.elements(0)?;
    let dtype = call.dtype(0).filter(|dtype| dtype.is_int())?;
    let mut picked = Vec::with_capacity(count.min(elements.len()));
    for place in 0..count {
        let offset = step.checked_mul(i64::try_from(place).ok()?)?;
        let index = usize::try_from(start.checked_add(offset)?).ok()?;
        picked.push(elements.get(index)?.clone());
    }
    make_value(dtype, 1, picked)
}
