//! Shapes of convolutions and their relatives: images `[n, c, ...]`, weights `[m, c / group, ...]`.
//!
//! Invariant: channels, groups, weights and biases agree, or are not all known.
//! Not here: where the windows lie (`geometry`).

use crate::infer::call::{Call, Out, Result, bad_input, bail, unknown};
use crate::operator::{transposed_window, window};
use crate::{Attr, Dim, Op, axis};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::Conv | Op::ConvInteger => Ok(vec![Out::new(plain(call, 0, 1, 2)?)]),
        Op::DeformConv => deform(call),
        Op::ConvTranspose => transpose(call),
        Op::CausalConvWithState => causal(call),
        _ => col2im(call),
    }
}

/// The kernel sizes from the weights, checked against `kernel_shape`; `None` where neither
/// tells them all.
fn kernel(call: &Call<'_>, weights: usize) -> Result<Option<Vec<usize>>> {
    let from_weights = call.dims(weights).map(|dims| &dims[2..]);
    let Some(stated) = call
        .attributes
        .ints(Attr::KernelShape)
        .filter(|list| !list.is_empty())
    else {
        return Ok(from_weights.and_then(|dims| dims.iter().map(Dim::known).collect()));
    };
    let axes = from_weights.map_or(stated.len(), <[_]>::len);
    let stated = crate::geometry::sizes(call.op, Attr::KernelShape, stated, axes, 1)?;
    for (axis, (stated, dim)) in stated.iter().zip(from_weights.unwrap_or_default()).enumerate() {
        if dim.known().is_some_and(|size| size != *stated) {
            bad_input!(call, weights, "kernel_shape says {stated} on spatial axis {axis}");
        }
    }
    Ok(Some(stated))
}

fn group(call: &Call<'_>) -> Result<usize> {
    call.size_from(call.int(Attr::Group), 1, "group")
}

/// The shape of a convolution from its image and weights; the bias is checked where one is named.
pub(super) fn plain(call: &Call<'_>, image: usize, weights: usize, bias: usize) -> Result<Option<Vec<Dim>>> {
    call.rank_at_least(image, 3)?;
    call.rank_at_least(weights, 3)?;
    let x = call.dims(image);
    let w = call.dims(weights);
    if let Some(w) = w {
        call.rank_is(image, w.len())?;
    }
    if let Some(x) = x {
        call.rank_is(weights, x.len())?;
    }
    let group = group(call)?;
    if let (Some(x), Some(w)) = (x, w) {
        let channels = call.times(&w[1], &Dim::Known(group))?;
        if x[1].differs(&channels) {
            let (have, per) = (&x[1], &w[1]);
            bad_input!(
                call,
                weights,
                "takes {group} groups of {per} channels, the image has {have}"
            );
        }
    }
    let features = w.map_or(Dim::Unknown, |w| w[0].clone());
    if features.known().is_some_and(|features| features % group != 0) {
        bad_input!(
            call,
            weights,
            "its {features} features are not divisible by group {group}"
        );
    }
    if call.op == Op::Conv {
        call.rank_is(bias, 1)?;
        call.expect_dim(bias, 0, &features)?;
    }
    let kernel = kernel(call, weights)?;
    let Some(rank) = x.or(w).map(<[_]>::len) else {
        return Ok(None);
    };
    let batch = x.map_or(Dim::Unknown, |x| x[0].clone());
    let mut shape = vec![batch, features];
    match (x, kernel) {
        (Some(x), Some(kernel)) => {
            shape.extend(
                window(call.op, call.attributes)?
                    .over(&kernel)?
                    .output_dims(&x[2..])?,
            );
        }
        _ => shape.extend(unknown(rank - 2)),
    }
    Ok(Some(shape))
}

fn deform(call: &Call<'_>) -> Result<Vec<Out>> {
    let shape = plain(call, 0, 1, usize::MAX)?;
    let Some(shape) = shape else {
        return Ok(vec![Out::unranked()]);
    };
    call.rank_is(3, 1)?;
    call.expect_dim(3, 0, &shape[1])?;
    let groups = call.size_from(call.int(Attr::OffsetGroup), 1, "offset_group")?;
    if let Some(points) = kernel(call, 1)?.and_then(|kernel| axis::product(&kernel)) {
        let points = call.times(&Dim::Known(groups), &Dim::Known(points))?;
        for (input, per_point) in [(2, shape.len() - 2), (4, 1)] {
            let mut want = shape.clone();
            want[1] = call.times(&points, &Dim::Known(per_point))?;
            call.expect_dims(input, &want)?;
        }
    }
    Ok(vec![Out::dims(shape)])
}

fn transpose(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 3)?;
    call.rank_at_least(1, 3)?;
    let (x, w) = (call.dims(0), call.dims(1));
    let group = group(call)?;
    if let (Some(x), Some(w)) = (x, w) {
        call.rank_is(1, x.len())?;
        if x[1].differs(&w[0]) {
            bad_input!(call, 1, "takes {} channels, the image has {}", w[0], x[1]);
        }
        if w[0].known().is_some_and(|channels| channels % group != 0) {
            bad_input!(
                call,
                1,
                "its {} channels are not divisible by group {group}",
                w[0]
            );
        }
    }
    let features = match w {
        Some(w) => call.times(&w[1], &Dim::Known(group))?,
        None => Dim::Unknown,
    };
    call.rank_is(2, 1)?;
    call.expect_dim(2, 0, &features)?;
    let kernel = kernel(call, 1)?;
    let Some(rank) = x.or(w).map(<[_]>::len) else {
        return Ok(vec![Out::unranked()]);
    };
    let mut shape = vec![x.map_or(Dim::Unknown, |x| x[0].clone()), features];
    match (x, kernel) {
        (Some(x), Some(kernel)) => {
            let window = transposed_window(call.op, call.attributes)?.over(&kernel)?;
            shape.extend(window.output_dims(&x[2..])?);
        }
        _ => shape.extend(unknown(rank - 2)),
    }
    Ok(vec![Out::dims(shape)])
}

fn causal(call: &Call<'_>) -> Result<Vec<Out>> {
    for index in [0, 1, 3] {
        call.rank_is(index, 3)?;
    }
    call.rank_is(2, 1)?;
    call.word(Attr::Activation, &["none", "silu", "swish"])?;
    let x = call.dims(0).map_or_else(|| unknown(3), <[_]>::to_vec);
    let w = call.dims(1).map_or_else(|| unknown(3), <[_]>::to_vec);
    let channels = call.merge(&x[1], &w[0], "the number of channels")?;
    call.expect_dim(1, 1, &Dim::Known(1))?;
    call.expect_dim(2, 0, &channels)?;
    let kept = match &w[2] {
        Dim::Known(0) => bad_input!(call, 1, "its kernel is empty"),
        Dim::Known(size) => Dim::Known(size - 1),
        _ => call.dims(3).map_or(Dim::Unknown, |past| past[2].clone()),
    };
    let state = vec![x[0].clone(), channels.clone(), kept];
    call.expect_dims(3, &state)?;
    Ok(vec![
        Out::dims(vec![x[0].clone(), channels, x[2].clone()]),
        Out::dims(state),
    ])
}

fn col2im(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_is(0, 3)?;
    let axes = match (call.list_length(1)?, call.list_length(2)?) {
        (Some(a), Some(b)) if a != b => {
            bail!(call, Shape, "image_shape has {a} axes, block_shape {b}")
        }
        (a, b) => a.or(b),
    };
    let Some(axes) = axes else {
        return Ok(vec![Out::unranked()]);
    };
    let sizes = |index: usize| -> Result<Vec<Dim>> {
        match call.elements(index) {
            None => Ok(unknown(axes)),
            Some(elements) => elements
                .iter()
                .map(|element| call.size(element, "a size"))
                .collect(),
        }
    };
    let (image, block) = (sizes(1)?, sizes(2)?);
    let x = call.dims(0).map_or_else(|| unknown(3), <[_]>::to_vec);
    let channels = match (&x[1], call.product(&block)?) {
        (rows @ Dim::Known(_), points @ Dim::Known(_)) => call.divide(rows, &points, "the number of rows")?,
        _ => Dim::Unknown,
    };
    let known = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<Vec<_>>>();
    if let (Some(image), Some(block)) = (known(&image), known(&block)) {
        let window = window(call.op, call.attributes)?.over(&block)?;
        let placed = window.resolve(&image)?;
        let blocks = axis::product(&placed.output).ok_or_else(|| call.overflow())?;
        if x[2].differs(&Dim::Known(blocks)) {
            bad_input!(call, 0, "the image has {blocks} blocks");
        }
    }
    let mut shape = vec![x[0].clone(), channels];
    shape.extend(image);
    Ok(vec![Out::dims(shape)])
}
