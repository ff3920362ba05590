//! Shapes of ops that move elements or read shapes.
//!
//! Invariant: elements are neither made nor lost but where the op says so, and where the elements
//! are those of a shape, their values follow.
//! Not here: reads by index (`gather_scatter`), resampling (`image`).

use crate::infer::call::{Call, MAX_VALUE, Out, Result, bad_input, bail, make_value, unknown};
use crate::{Attr, DType, Dim, Element, Op, Value};

mod reshape;
mod slice;

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::CenterCropPad => center(call),
        Op::Concat => concat(call),
        Op::DepthToSpace => blocks(call, true),
        Op::SpaceToDepth => blocks(call, false),
        Op::Expand => expand(call),
        Op::Flatten => flatten(call),
        Op::Pad => pad(call),
        Op::Reshape => reshape::infer(call),
        Op::ReverseSequence => reverse(call),
        Op::Shape => shape(call),
        Op::Size => size(call),
        Op::Slice => slice::infer(call),
        Op::Split => split(call),
        Op::Squeeze => squeeze(call),
        Op::Tile => tile(call),
        Op::Transpose => transpose(call),
        _ => unsqueeze(call),
    }
}

fn shape(call: &Call<'_>) -> Result<Vec<Out>> {
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::dims(unknown(1))]);
    };
    let rank = i64::try_from(dims.len()).map_err(|_| call.overflow())?;
    let place = |value: i64| {
        let value = if value < 0 {
            value.saturating_add(rank)
        } else {
            value
        };
        usize::try_from(value.clamp(0, rank)).unwrap_or(0)
    };
    let start = place(call.int(Attr::Start));
    let end = place(call.attributes.int(Attr::End).unwrap_or(rank)).max(start);
    let elements: Vec<Element> = dims[start..end].iter().map(Element::from).collect();
    let count = elements.len();
    let value = make_value(DType::I64, 1, elements);
    Ok(vec![Out::dims(vec![Dim::Known(count)]).valued(value)])
}

fn size(call: &Call<'_>) -> Result<Vec<Out>> {
    let value = match call.dims(0) {
        Some(dims) => make_value(DType::I64, 0, vec![Element::from(&call.product(dims)?)]),
        None => None,
    };
    Ok(vec![Out::scalar().valued(value)])
}

fn concat(call: &Call<'_>) -> Result<Vec<Out>> {
    let ranked = (0..call.inputs.len()).find_map(|index| call.dims(index));
    let Some(first) = ranked else {
        return Ok(vec![Out::unranked()]);
    };
    let axis = call.axis(call.int(Attr::Axis), first.len())?;
    let mut shape = first.to_vec();
    let mut along = Dim::Known(0);
    for index in 0..call.inputs.len() {
        call.rank_is(index, first.len())?;
        let Some(dims) = call.dims(index) else {
            along = Dim::Unknown;
            continue;
        };
        along = call.plus(&along, &dims[axis])?;
        for (other, (have, dim)) in shape.iter_mut().zip(dims).enumerate() {
            if other == axis {
                continue;
            }
            if have.differs(dim) {
                bad_input!(call, index, "axis {other} is {have} in the inputs before");
            }
            *have = have.or_known(dim);
        }
    }
    shape[axis] = along;
    let value = if first.len() == 1 { joined(call) } else { None };
    Ok(vec![Out::dims(shape).valued(value)])
}

/// The values of vectors one after the other, unknown ones where an input has none.
fn joined(call: &Call<'_>) -> Option<Value> {
    let dtype = call.dtype(0)?;
    let mut joined = Vec::new();
    for index in 0..call.inputs.len() {
        let count = call.dims(index)?[0].known()?;
        if joined.len() + count > MAX_VALUE {
            return None;
        }
        match call.elements(index) {
            Some(elements) => joined.extend(elements),
            None => joined.extend(vec![Element::Unknown; count]),
        }
    }
    dtype.is_int().then(|| make_value(dtype, 1, joined)).flatten()
}

fn expand(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.list_length(1)?;
    let Some(elements) = call.elements(1) else {
        let rank = count.zip(call.dims(0)).map(|(count, dims)| count.max(dims.len()));
        return Ok(vec![Out::new(rank.map(unknown))]);
    };
    let target: Result<Vec<Dim>> = elements
        .iter()
        .map(|element| call.size(element, "a size of shape"))
        .collect();
    let shape = call.broadcast(&[call.dims(0), Some(&target?)])?;
    let value = match (&shape, call.elements(0)) {
        (Some(shape), Some(own)) if own.len() == 1 && shape.len() <= 1 => {
            let count = shape.first().map_or(Some(1), Dim::known);
            let dtype = call.dtype(0).filter(|dtype| dtype.is_int());
            count
                .filter(|count| *count <= MAX_VALUE)
                .zip(dtype)
                .and_then(|(count, dtype)| make_value(dtype, shape.len(), vec![own[0].clone(); count]))
        }
        _ => None,
    };
    Ok(vec![Out::new(shape).valued(value)])
}

fn flatten(call: &Call<'_>) -> Result<Vec<Out>> {
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::dims(unknown(2))]);
    };
    let axis = call.int(Attr::Axis);
    let rank = dims.len();
    let place = match axis {
        _ if i64::try_from(rank) == Ok(axis) => rank,
        0 => 0,
        axis => call.axis(axis, rank)?,
    };
    let shape = vec![call.product(&dims[..place])?, call.product(&dims[place..])?];
    let value = reshape::same_values(call, &shape);
    Ok(vec![Out::dims(shape).valued(value)])
}

/// The axes that an optional input names, all of them where it is missing; `None` if unknown.
fn axes_of(call: &Call<'_>, index: usize, rank: usize) -> Result<Option<Vec<usize>>> {
    if !call.has(index) {
        return Ok(Some((0..rank).collect()));
    }
    call.rank_is(index, 1)?;
    match call.ints(index) {
        Some(axes) => call.axes(&axes, rank).map(Some),
        None => Ok(None),
    }
}

fn pad(call: &Call<'_>) -> Result<Vec<Out>> {
    let mode = call.word(Attr::Mode, &["constant", "reflect", "edge", "wrap"])?;
    let count = call.list_length(1)?;
    call.check_scalar(2)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axes = axes_of(call, 3, dims.len())?;
    if let (Some(count), Some(axes)) = (count, &axes)
        && count != 2 * axes.len()
    {
        bad_input!(call, 1, "{} axes need {} values", axes.len(), 2 * axes.len());
    }
    let (Some(axes), Some(pads)) = (axes, call.elements(1)) else {
        return Ok(vec![Out::dims(unknown(dims.len()))]);
    };
    let mut shape = dims.to_vec();
    for (place, &axis) in axes.iter().enumerate() {
        let (begin, end) = (&pads[place], &pads[place + axes.len()]);
        shape[axis] = match (&dims[axis], begin.int(), end.int()) {
            (dim, Some(0), Some(0)) => dim.clone(),
            (Dim::Known(size), Some(begin), Some(end)) => {
                let size = i64::try_from(*size).map_err(|_| call.overflow())?;
                let sum = size.checked_add(begin).and_then(|sum| sum.checked_add(end));
                let sum = sum.ok_or_else(|| call.overflow())?;
                match usize::try_from(sum) {
                    Ok(sum) if sum > 0 && size == 0 && mode != "constant" => {
                        bail!(call, Value, "axis {axis} is empty, which mode {mode} cannot pad")
                    }
                    Ok(sum) => Dim::Known(sum),
                    Err(_) => {
                        bail!(
                            call,
                            Value,
                            "pads {begin} and {end} on axis {axis} of size {size}"
                        )
                    }
                }
            }
            _ => Dim::Unknown,
        };
    }
    Ok(vec![Out::dims(shape)])
}

fn center(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.list_length(1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axes = match call.attributes.ints(Attr::Axes) {
        Some(axes) => call.axes(axes, dims.len())?,
        None => (0..dims.len()).collect(),
    };
    if let Some(count) = count
        && count != axes.len()
    {
        bad_input!(call, 1, "{} axes need as many values", axes.len());
    }
    let mut shape = dims.to_vec();
    let elements = call
        .elements(1)
        .unwrap_or_else(|| vec![Element::Unknown; axes.len()]);
    for (&axis, element) in axes.iter().zip(&elements) {
        shape[axis] = call.size(element, "a size of shape")?;
    }
    Ok(vec![Out::dims(shape)])
}

fn blocks(call: &Call<'_>, to_space: bool) -> Result<Vec<Out>> {
    call.rank_is(0, 4)?;
    call.word(Attr::Mode, &["DCR", "CRD"])?;
    let block = Dim::Known(call.size_from(call.int(Attr::Blocksize), 1, "blocksize")?);
    let area = call.times(&block, &block)?;
    let Some([batch, channels, height, width]) = call.dims(0) else {
        return Ok(vec![Out::dims(unknown(4))]);
    };
    let shape = if to_space {
        vec![
            batch.clone(),
            call.divide(channels, &area, "the number of channels")?,
            call.times(height, &block)?,
            call.times(width, &block)?,
        ]
    } else {
        vec![
            batch.clone(),
            call.times(channels, &area)?,
            call.divide(height, &block, "the height")?,
            call.divide(width, &block, "the width")?,
        ]
    };
    Ok(vec![Out::dims(shape)])
}

fn reverse(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 2)?;
    call.rank_is(1, 1)?;
    let (batch, time) = (call.int(Attr::BatchAxis), call.int(Attr::TimeAxis));
    if !matches!((batch, time), (0, 1) | (1, 0)) {
        bail!(
            call,
            Attribute,
            "batch_axis is {batch} and time_axis {time}, not 0 and 1"
        );
    }
    if let Some(dims) = call.dims(0) {
        call.expect_dim(1, 0, if batch == 0 { &dims[0] } else { &dims[1] })?;
    }
    Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec))])
}

fn split(call: &Call<'_>) -> Result<Vec<Out>> {
    let stated = call.attributes.int(Attr::NumOutputs);
    if call.has(1) && stated.is_some() {
        bail!(call, Attribute, "has both num_outputs and the input split");
    }
    if let Some(stated) = stated
        && usize::try_from(stated) != Ok(call.outputs)
    {
        bail!(
            call,
            Attribute,
            "num_outputs is {stated}, the node has {} outputs",
            call.outputs
        );
    }
    if let Some(count) = call.list_length(1)?
        && count != call.outputs
    {
        bad_input!(call, 1, "the node has {} outputs", call.outputs);
    }
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked(); call.outputs]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len())?;
    let mut parts = vec![Dim::Unknown; call.outputs];
    if call.has(1) {
        if let Some(elements) = call.elements(1) {
            let mut sum = Dim::Known(0);
            for (part, element) in parts.iter_mut().zip(&elements) {
                *part = call.size(element, "a part")?;
                sum = call.plus(&sum, part)?;
            }
            if sum.differs(&dims[axis]) {
                bad_input!(call, 0, "the parts of axis {axis} add up to {sum}");
            }
        }
    } else if call.outputs == 1 {
        parts[0] = dims[axis].clone();
    } else if let Dim::Known(size) = dims[axis] {
        let chunk = size.div_ceil(call.outputs);
        let Some(last) = chunk
            .checked_mul(call.outputs - 1)
            .and_then(|all| size.checked_sub(all))
        else {
            bad_input!(call, 0, "axis {axis} does not give {} parts", call.outputs);
        };
        parts.fill(Dim::Known(chunk));
        parts[call.outputs - 1] = Dim::Known(last);
    }
    let values = if dims.len() == 1 { call.elements(0) } else { None };
    let mut begin = Some(0);
    let mut outs = Vec::with_capacity(parts.len());
    for part in parts {
        let end = begin
            .zip(part.known())
            .and_then(|(begin, part): (usize, _)| begin.checked_add(part));
        let value = match (&values, begin, end, call.dtype(0)) {
            (Some(values), Some(begin), Some(end), Some(dtype)) if dtype.is_int() => values
                .get(begin..end)
                .and_then(|values| make_value(dtype, 1, values.to_vec())),
            _ => None,
        };
        begin = end;
        let mut shape = dims.to_vec();
        shape[axis] = part;
        outs.push(Out::dims(shape).valued(value));
    }
    Ok(outs)
}

fn squeeze(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.list_length(1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axes = match (call.has(1), call.ints(1)) {
        (true, Some(axes)) => call.axes(&axes, dims.len())?,
        (true, None) => {
            let rank = count.and_then(|count| dims.len().checked_sub(count));
            return Ok(vec![Out::new(rank.map(unknown))]);
        }
        (false, _) if dims.iter().all(|dim| dim.known().is_some()) => (0..dims.len())
            .filter(|&axis| dims[axis] == Dim::Known(1))
            .collect(),
        (false, _) => return Ok(vec![Out::unranked()]),
    };
    for &axis in &axes {
        if dims[axis].known().is_some_and(|size| size != 1) {
            bad_input!(call, 0, "axis {axis} to be squeezed is not 1");
        }
    }
    let kept = |axis: &usize| !axes.contains(axis);
    let shape: Vec<Dim> = (0..dims.len())
        .filter(kept)
        .map(|axis| dims[axis].clone())
        .collect();
    let value = reshape::same_values(call, &shape);
    Ok(vec![Out::dims(shape).valued(value)])
}

fn unsqueeze(call: &Call<'_>) -> Result<Vec<Out>> {
    call.check_axes_rank(1)?;
    let (dims, Some(axes)) = (call.dims(0), call.ints(1)) else {
        let count = match call.dims(1) {
            Some([]) => Some(1),
            Some(_) => call.list_length(1)?,
            None => None,
        };
        let rank = count.zip(call.dims(0)).map(|(count, dims)| count + dims.len());
        return Ok(vec![Out::new(rank.map(unknown))]);
    };
    let Some(dims) = dims else {
        return Ok(vec![Out::unranked()]);
    };
    let rank = dims.len() + axes.len();
    let axes = call.axes(&axes, rank)?;
    let mut rest = dims.iter().cloned();
    let mut shape = Vec::with_capacity(rank);
    for axis in 0..rank {
        let dim = if axes.contains(&axis) {
            Some(Dim::Known(1))
        } else {
            rest.next()
        };
        shape.push(dim.expect("invariant: the rank counts both"));
    }
    let value = reshape::same_values(call, &shape);
    Ok(vec![Out::dims(shape).valued(value)])
}

fn tile(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.list_length(1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::new(count.map(unknown))]);
    };
    if let Some(count) = count
        && count != dims.len()
    {
        bad_input!(call, 1, "input 0 has rank {}", dims.len());
    }
    let Some(repeats) = call.elements(1) else {
        return Ok(vec![Out::dims(unknown(dims.len()))]);
    };
    let mut shape = Vec::with_capacity(dims.len());
    for (dim, repeat) in dims.iter().zip(&repeats) {
        shape.push(call.times(dim, &call.size(repeat, "a repeat")?)?);
    }
    Ok(vec![Out::dims(shape)])
}

fn transpose(call: &Call<'_>) -> Result<Vec<Out>> {
    let perm = call.attributes.ints(Attr::Perm);
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::new(perm.map(|perm| unknown(perm.len())))]);
    };
    let Some(perm) = perm else {
        return Ok(vec![Out::dims(dims.iter().rev().cloned().collect())]);
    };
    if perm.len() != dims.len() {
        bail!(
            call,
            Attribute,
            "perm has {} axes, input 0 rank {}",
            perm.len(),
            dims.len()
        );
    }
    let order = call.axes(perm, dims.len())?;
    let shape: Vec<Dim> = order.iter().map(|&axis| dims[axis].clone()).collect();
    let value = if dims.len() <= 1 {
        call.value(0).cloned()
    } else {
        None
    };
    Ok(vec![Out::dims(shape).valued(value)])
}

impl Call<'_> {
    /// An error unless an input of axes has rank 0 or 1.
    fn check_axes_rank(&self, index: usize) -> Result<()> {
        match self.dims(index) {
            Some(dims) if dims.len() > 1 => bad_input!(self, index, "not a list of axes"),
            _ => Ok(()),
        }
    }
}
