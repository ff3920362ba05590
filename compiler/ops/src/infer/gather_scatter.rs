//! Shapes of reads and writes by index.
//!
//! Invariant: what is written keeps the shape of the tensor written to.
//! Not here: whether the indices are in range (they are data).

use crate::infer::call::{Call, Out, Result, bad_input, bail, make_value, show, unknown};
use crate::{Attr, Dim, Op, Value};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::Compress => compress(call),
        Op::Gather => gather(call),
        Op::GatherElements => gather_elements(call),
        Op::GatherND => gather_nd(call),
        Op::ScatterND => scatter_nd(call),
        Op::TensorScatter => tensor_scatter(call),
        // Scatter is the older name of ScatterElements.
        _ => scatter_elements(call),
    }
}

fn compress(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.length(1)?;
    let axis = call.attributes.int(Attr::Axis);
    // A condition that is known selects a number that is known.
    let chosen = match call.value(1) {
        Some(Value::Literal(literal)) => literal
            .as_i64s()
            .map(|flags| flags.iter().filter(|flag| **flag != 0).count()),
        _ => None,
    };
    let Some(dims) = call.dims(0) else {
        let out = if axis.is_some() {
            Out::unranked()
        } else {
            Out::dims(unknown(1))
        };
        return Ok(vec![out.bounded()]);
    };
    let (mut shape, axis) = match axis {
        Some(axis) => (dims.to_vec(), call.axis(axis, dims.len())?),
        None => (vec![call.product(dims)?], 0),
    };
    if let (Some(count), Dim::Known(size)) = (count, &shape[axis])
        && count > *size
    {
        bad_input!(call, 1, "longer than the {size} it chooses from");
    }
    match chosen {
        Some(chosen) => {
            shape[axis] = Dim::Known(chosen);
            Ok(vec![Out::dims(shape)])
        }
        None => {
            if let Some(count) = count {
                shape[axis] = Dim::Known(count);
            }
            Ok(vec![Out::dims(shape).bounded()])
        }
    }
}

fn gather(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len())?;
    let indices_known = call.ints(1);
    if let (Some(indices), Dim::Known(size)) = (&indices_known, &dims[axis]) {
        let size = i64::try_from(*size).map_err(|_| call.overflow())?;
        if let Some(index) = indices.iter().find(|index| **index >= size || **index < -size) {
            bail!(call, Value, "index {index} is outside axis {axis} of size {size}");
        }
    }
    let Some(indices) = call.dims(1) else {
        return Ok(vec![Out::unranked()]);
    };
    let mut shape = dims[..axis].to_vec();
    shape.extend_from_slice(indices);
    shape.extend_from_slice(&dims[axis + 1..]);
    let value = match (dims, indices_known) {
        ([_], Some(places)) => gathered(call, &places, shape.len()),
        _ => None,
    };
    Ok(vec![Out::dims(shape).valued(value)])
}

fn gathered(call: &Call<'_>, places: &[i64], rank: usize) -> Option<Value> {
    let dtype = call.dtype(0).filter(|dtype| dtype.is_int())?;
    let elements = call.elements(0)?;
    let mut gathered = Vec::with_capacity(places.len());
    for &place in places {
        let place = crate::axis::normalise(place, elements.len())?;
        gathered.push(elements[place].clone());
    }
    make_value(dtype, rank, gathered)
}

fn gather_elements(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 1)?;
    let indices = call.dims(1);
    if let (Some(dims), Some(indices)) = (call.dims(0), indices) {
        call.rank_is(1, dims.len())?;
        let axis = call.axis(call.int(Attr::Axis), dims.len())?;
        not_wider(call, 1, indices, dims, axis)?;
    }
    let shape = match (indices, call.dims(0)) {
        (Some(indices), _) => Some(indices.to_vec()),
        (None, dims) => dims.map(|dims| unknown(dims.len())),
    };
    Ok(vec![Out::new(shape)])
}

/// An error where a shape is larger than another on any axis but one.
fn not_wider(call: &Call<'_>, input: usize, shape: &[Dim], within: &[Dim], except: usize) -> Result<()> {
    for (axis, (dim, limit)) in shape.iter().zip(within).enumerate() {
        if axis != except
            && dim
                .known()
                .zip(limit.known())
                .is_some_and(|(size, limit)| size > limit)
        {
            bad_input!(call, input, "axis {axis} is more than that of {}", show(within));
        }
    }
    Ok(())
}

fn gather_nd(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 1)?;
    call.rank_at_least(1, 1)?;
    let batch = call.size_from(call.int(Attr::BatchDims), 0, "batch_dims")?;
    let (Some(dims), Some(indices)) = (call.dims(0), call.dims(1)) else {
        return Ok(vec![Out::unranked()]);
    };
    if batch >= dims.len().min(indices.len()) {
        let ranks = (dims.len(), indices.len());
        bail!(
            call,
            Attribute,
            "batch_dims is {batch}, the ranks are {} and {}",
            ranks.0,
            ranks.1
        );
    }
    let mut shape = Vec::new();
    for (axis, (a, b)) in dims[..batch].iter().zip(&indices[..batch]).enumerate() {
        if a.differs(b) {
            bad_input!(call, 1, "batch axis {axis} of the data is {a}");
        }
        shape.push(a.or_known(b));
    }
    let (last, lead) = indices[batch..]
        .split_last()
        .expect("invariant: batch is below the rank");
    shape.extend_from_slice(lead);
    let Some(depth) = last.known() else {
        return Ok(vec![Out::unranked()]);
    };
    if depth == 0 || depth > dims.len() - batch {
        bad_input!(
            call,
            1,
            "indexes {depth} axes of {} in {}",
            dims.len() - batch,
            show(dims)
        );
    }
    shape.extend_from_slice(&dims[batch + depth..]);
    Ok(vec![Out::dims(shape)])
}

fn scatter_elements(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 1)?;
    if call.op == Op::ScatterElements {
        call.word(Attr::Reduction, &["none", "add", "mul", "max", "min"])?;
    }
    if let Some(dims) = call.dims(0) {
        call.rank_is(1, dims.len())?;
        call.rank_is(2, dims.len())?;
        let axis = call.axis(call.int(Attr::Axis), dims.len())?;
        if let Some(indices) = call.dims(1) {
            not_wider(call, 1, indices, dims, axis)?;
        }
    }
    if let Some(indices) = call.dims(1) {
        call.expect_dims(2, indices)?;
    }
    Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec))])
}

fn scatter_nd(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 1)?;
    call.rank_at_least(1, 1)?;
    call.word(Attr::Reduction, &["none", "add", "mul", "max", "min"])?;
    if let (Some(dims), Some([lead @ .., last])) = (call.dims(0), call.dims(1))
        && let Some(depth) = last.known()
    {
        if depth > dims.len() {
            bad_input!(call, 1, "indexes {depth} axes of {}", show(dims));
        }
        let mut want = lead.to_vec();
        want.extend_from_slice(&dims[depth..]);
        call.expect_dims(2, &want)?;
    }
    Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec))])
}

fn tensor_scatter(call: &Call<'_>) -> Result<Vec<Out>> {
    call.word(Attr::Mode, &["linear", "circular"])?;
    call.rank_at_least(0, 2)?;
    call.rank_is(2, 1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len())?;
    if axis == 0 {
        bail!(call, Attribute, "axis is 0, the axis of the batch");
    }
    call.expect_dim(2, 0, &dims[0])?;
    call.rank_is(1, dims.len())?;
    if let Some(update) = call.dims(1) {
        let mut want = dims.to_vec();
        want[axis] = Dim::Unknown;
        call.expect_dims(1, &want)?;
        let room = dims[axis].known().zip(update[axis].known());
        if room.is_some_and(|(room, wanted)| wanted > room) {
            bad_input!(call, 1, "longer on axis {axis} than the cache {}", show(dims));
        }
    }
    Ok(vec![Out::dims(dims.to_vec())])
}
