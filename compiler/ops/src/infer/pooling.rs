//! Shapes of pools over windows, whole images and regions; images are `[n, c, ...]`.
//!
//! Invariant: batch and channels stay, but for pools over regions, where the regions are the batch.
//! Not here: where the windows lie (`geometry`).

use crate::geometry::sizes;
use crate::infer::call::{Call, Out, Result, bad_input, bail, unknown};
use crate::operator::{transposed_window, window};
use crate::{Attr, DType, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::GlobalAveragePool | Op::GlobalLpPool | Op::GlobalMaxPool => global(call),
        Op::MaxRoiPool | Op::RoiAlign => regions(call),
        Op::MaxUnpool => unpool(call),
        _ => windows(call),
    }
}

fn windows(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 3)?;
    let stated = call.attributes.ints(Attr::KernelShape).unwrap_or_default();
    let axes = call.dims(0).map_or(stated.len(), |dims| dims.len() - 2);
    let kernel = sizes(call.op, Attr::KernelShape, stated, axes, 1)?;
    let window = window(call.op, call.attributes)?.over(&kernel)?;
    let shape = match call.dims(0) {
        Some(dims) => {
            let mut shape = dims[..2].to_vec();
            shape.extend(window.output_dims(&dims[2..])?);
            shape
        }
        None => unknown(axes + 2),
    };
    Ok(vec![
        Out::dims(shape.clone()),
        Out::dims(shape).typed(Some(DType::I64)),
    ])
}

fn global(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 2)?;
    let shape = call.dims(0).map(|dims| {
        let mut shape = dims.to_vec();
        shape[2..].fill(Dim::Known(1));
        shape
    });
    Ok(vec![Out::new(shape)])
}

fn regions(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_is(0, 4)?;
    call.rank_is(1, 2)?;
    let (columns, pooled) = if call.op == Op::RoiAlign {
        let modes = ["half_pixel", "output_half_pixel"];
        call.word(Attr::CoordinateTransformationMode, &modes)?;
        call.word(Attr::Mode, &["avg", "max"])?;
        let height = call.size_from(call.int(Attr::OutputHeight), 1, "output_height")?;
        let width = call.size_from(call.int(Attr::OutputWidth), 1, "output_width")?;
        (4, vec![height, width])
    } else {
        let pooled = call.attributes.ints(Attr::PooledShape).unwrap_or_default();
        (5, sizes(call.op, Attr::PooledShape, pooled, 2, 1)?)
    };
    call.expect_dim(1, 1, &Dim::Known(columns))?;
    let mut count = call.dims(1).map_or(Dim::Unknown, |rois| rois[0].clone());
    if call.op == Op::RoiAlign {
        call.rank_is(2, 1)?;
        if let Some(batch) = call.dims(2) {
            count = call.merge(&count, &batch[0], "the number of regions")?;
        }
    }
    let channels = call.dims(0).map_or(Dim::Unknown, |dims| dims[1].clone());
    let mut shape = vec![count, channels];
    shape.extend(pooled.into_iter().map(Dim::Known));
    Ok(vec![Out::dims(shape)])
}

fn unpool(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 3)?;
    if let Some(dims) = call.dims(0) {
        call.expect_dims(1, dims)?;
    }
    if call.has(2) {
        let rank = call.dims(0).map(<[_]>::len).or(call.list_length(2)?);
        if let (Some(rank), Some(count)) = (rank, call.list_length(2)?)
            && rank != count
        {
            bad_input!(call, 2, "the image has rank {rank}");
        }
        let shape = match (call.elements(2), rank) {
            (Some(elements), _) => {
                let sizes: Result<Vec<Dim>> = elements
                    .iter()
                    .map(|element| call.size(element, "an output size"))
                    .collect();
                Some(sizes?)
            }
            (None, rank) => rank.map(unknown),
        };
        return Ok(vec![Out::new(shape)]);
    }
    let stated = call.attributes.ints(Attr::KernelShape).unwrap_or_default();
    let axes = call.dims(0).map_or(stated.len(), |dims| dims.len() - 2);
    let kernel = sizes(call.op, Attr::KernelShape, stated, axes, 1)?;
    let window = transposed_window(call.op, call.attributes)?.over(&kernel)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::dims(unknown(axes + 2))]);
    };
    if dims[2..].contains(&Dim::Known(0)) {
        bail!(call, Shape, "the image is empty");
    }
    let mut shape = dims[..2].to_vec();
    shape.extend(window.output_dims(&dims[2..])?);
    Ok(vec![Out::dims(shape)])
}
