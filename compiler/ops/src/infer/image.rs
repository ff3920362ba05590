//! Shapes of resampling and boxes; images are `[n, c, ...]`.
//!
//! Invariant: sizes from scales are cut to integers in 32-bit floats, as the scales are stored.
//! Not here: coordinates and weights of samples (the kernels').

use crate::infer::call::{Call, Out, Result, bad_input, bail, unknown};
use crate::{Attr, Dim, Element, Op, Value};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::AffineGrid => affine_grid(call),
        Op::GridSample => grid_sample(call),
        Op::ImageDecoder => {
            call.rank_is(0, 1)?;
            let format = call.word(Attr::PixelFormat, &["RGB", "BGR", "Grayscale"])?;
            let channels = Dim::Known(if format == "Grayscale" { 1 } else { 3 });
            Ok(vec![Out::dims(vec![Dim::Unknown, Dim::Unknown, channels])])
        }
        Op::NonMaxSuppression => suppression(call),
        Op::Upsample => upsample(call),
        _ => resize(call),
    }
}

/// The 32-bit floats of an input, if its values are known.
fn floats(call: &Call<'_>, index: usize) -> Option<Vec<f32>> {
    let values = call.value(index).and_then(Value::as_f64s)?;
    Some(values.into_iter().map(|value| value as f32).collect())
}

/// A size times a scale, cut to an integer.
fn scaled(call: &Call<'_>, dim: &Dim, scale: f32) -> Result<Dim> {
    if !scale.is_finite() || scale < 0.0 {
        bail!(call, Value, "a scale is {scale}");
    }
    Ok(match dim {
        dim if scale == 1.0 => dim.clone(),
        Dim::Known(size) => {
            let product = (*size as f32 * scale).floor();
            if product > 1e15 {
                return Err(call.overflow());
            }
            Dim::Known(product as usize)
        }
        _ => Dim::Unknown,
    })
}

fn upsample(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.list_length(1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::new(count.map(unknown))]);
    };
    if let Some(count) = count
        && count != dims.len()
    {
        bad_input!(call, 1, "the image has rank {}", dims.len());
    }
    let Some(scales) = floats(call, 1) else {
        return Ok(vec![Out::dims(unknown(dims.len()))]);
    };
    let shape: Result<Vec<Dim>> = dims
        .iter()
        .zip(scales)
        .map(|(dim, scale)| scaled(call, dim, scale))
        .collect();
    Ok(vec![Out::dims(shape?)])
}

fn resize(call: &Call<'_>) -> Result<Vec<Out>> {
    if call.word(Attr::Mode, &["nearest", "linear", "cubic"])? == "nearest" {
        let roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
        call.word(Attr::NearestMode, &roundings)?;
    }
    let policies = ["stretch", "not_larger", "not_smaller"];
    let policy = call.word(Attr::KeepAspectRatioPolicy, &policies)?;
    // Older exporters leave a port empty by a tensor without elements.
    let given = |index: usize| -> Result<bool> {
        let count = call.list_length(index)?;
        Ok(call.has(index) && count != Some(0))
    };
    let (by_scales, by_sizes) = (given(2)?, given(3)?);
    if by_scales == by_sizes {
        let which = if by_scales { "both" } else { "neither" };
        bail!(call, Arity, "has {which} of scales and sizes, needs one");
    }
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axes = match call.attributes.ints(Attr::Axes) {
        Some(axes) => call.axes(axes, dims.len())?,
        None => (0..dims.len()).collect(),
    };
    let source = if by_scales { 2 } else { 3 };
    if let Some(count) = call.list_length(source)?
        && count != axes.len()
    {
        bad_input!(call, source, "{} axes need as many values", axes.len());
    }
    let mut shape = dims.to_vec();
    if by_scales {
        let crop = call.str(Attr::CoordinateTransformationMode) == "tf_crop_and_resize";
        if let Some(roi) = floats(call, 1).filter(|_| crop)
            && roi.len() != 2 * axes.len()
        {
            bad_input!(call, 1, "{} axes need {} values", axes.len(), 2 * axes.len());
        }
        // the region does not count, whatever the words of the op say: not for ONNX's own shape inference and reference
        let scales = floats(call, 2);
        for (place, &axis) in axes.iter().enumerate() {
            shape[axis] = match &scales {
                None => Dim::Unknown,
                Some(scales) => scaled(call, &dims[axis], scales[place])?,
            };
        }
        return Ok(vec![Out::dims(shape)]);
    }
    let sizes = call
        .elements(3)
        .unwrap_or_else(|| vec![Element::Unknown; axes.len()]);
    for (&axis, element) in axes.iter().zip(&sizes) {
        shape[axis] = call.size(element, "a size")?;
    }
    if policy != "stretch" {
        keep_aspect(&mut shape, dims, &axes, policy == "not_larger");
    }
    Ok(vec![Out::dims(shape)])
}

/// Gives all axes the scale of the one that shrinks the most, or the least.
fn keep_aspect(shape: &mut [Dim], dims: &[Dim], axes: &[usize], smallest: bool) {
    let mut scale: Option<f32> = None;
    for &axis in axes {
        let (Some(want), Some(have)) = (shape[axis].known(), dims[axis].known()) else {
            axes.iter().for_each(|&axis| shape[axis] = Dim::Unknown);
            return;
        };
        let own = want as f32 / have as f32;
        scale = Some(match scale {
            None => own,
            Some(scale) if smallest => scale.min(own),
            Some(scale) => scale.max(own),
        });
    }
    for &axis in axes {
        if let (Some(have), Some(scale)) = (dims[axis].known(), scale) {
            let size = (scale * have as f32 + 0.5).floor();
            shape[axis] = if size.is_finite() {
                Dim::Known(size as usize)
            } else {
                Dim::Unknown
            };
        }
    }
}

fn grid_sample(call: &Call<'_>) -> Result<Vec<Out>> {
    call.word(Attr::Mode, &["linear", "nearest", "cubic"])?;
    call.word(Attr::PaddingMode, &["zeros", "border", "reflection"])?;
    call.rank_at_least(0, 3)?;
    call.rank_at_least(1, 3)?;
    let (x, grid) = (call.dims(0), call.dims(1));
    if let (Some(x), Some(grid)) = (x, grid) {
        call.rank_is(1, x.len())?;
        call.expect_dim(1, grid.len() - 1, &Dim::Known(x.len() - 2))?;
        call.expect_dim(1, 0, &x[0])?;
    }
    let Some(rank) = x.or(grid).map(<[_]>::len) else {
        return Ok(vec![Out::unranked()]);
    };
    let x = x.map_or_else(|| unknown(rank), <[_]>::to_vec);
    let grid = grid.map_or_else(|| unknown(rank), <[_]>::to_vec);
    let mut shape = vec![x[0].or_known(&grid[0]), x[1].clone()];
    shape.extend_from_slice(&grid[1..rank - 1]);
    Ok(vec![Out::dims(shape)])
}

fn affine_grid(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_is(0, 3)?;
    let axes = match call.list_length(1)? {
        Some(4) => 2,
        Some(5) => 3,
        Some(count) => bad_input!(call, 1, "{count} sizes are neither 4 nor 5"),
        None => match call.dims(0).map(|dims| &dims[1]) {
            Some(Dim::Known(axes @ 2..=3)) => *axes,
            Some(Dim::Known(_)) => bad_input!(call, 0, "neither [n, 2, 3] nor [n, 3, 4]"),
            _ => return Ok(vec![Out::unranked()]),
        },
    };
    call.expect_dim(0, 1, &Dim::Known(axes))?;
    call.expect_dim(0, 2, &Dim::Known(axes + 1))?;
    let batch = call.dims(0).map_or(Dim::Unknown, |dims| dims[0].clone());
    let mut shape = match call.elements(1) {
        None => {
            let mut shape = unknown(axes + 1);
            shape[0] = batch;
            shape
        }
        Some(sizes) => {
            let sizes: Result<Vec<Dim>> = sizes.iter().map(|size| call.size(size, "a size")).collect();
            let mut sizes = sizes?;
            sizes.remove(1);
            sizes[0] = call.merge(&sizes[0], &batch, "the batch")?;
            sizes
        }
    };
    shape.push(Dim::Known(axes));
    Ok(vec![Out::dims(shape)])
}

fn suppression(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_is(0, 3)?;
    call.rank_is(1, 3)?;
    for index in 2..=4 {
        call.check_scalar(index)?;
    }
    call.expect_dim(0, 2, &Dim::Known(4))?;
    let boxes = call.dims(0).map_or_else(|| unknown(3), <[_]>::to_vec);
    let scores = call.dims(1).map_or_else(|| unknown(3), <[_]>::to_vec);
    let batch = call.merge(&boxes[0], &scores[0], "the batch")?;
    let spatial = call.merge(&boxes[1], &scores[2], "the number of boxes")?;
    // Without a limit the op selects nothing.
    let limit = if call.has(2) { call.scalar(2)? } else { Some(0) };
    let per_class = match (limit, &spatial) {
        (Some(limit), Dim::Known(boxes)) => {
            Dim::Known(usize::try_from(limit.max(0)).map_or(*boxes, |limit| limit.min(*boxes)))
        }
        (Some(limit), _) => call.size(&Element::Int(limit.max(0)), "the limit")?,
        (None, spatial) => spatial.clone(),
    };
    let most = call.product(&[batch, scores[1].clone(), per_class])?;
    Ok(vec![Out::dims(vec![most, Dim::Known(3)]).bounded()])
}
