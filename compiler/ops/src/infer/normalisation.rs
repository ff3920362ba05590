//! Shapes of normalisations, softmaxes and dropout: the first output has the shape of the input.
//!
//! Invariant: scales and biases have the sizes that the op says, or broadcast where it lets them.
//! Not here: the numbers.

use crate::infer::call::{Call, Out, Result, bad_input, bail};
use crate::{Attr, DType, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    let same = || Out::new(call.dims(0).map(<[_]>::to_vec));
    match call.op {
        Op::BatchNormalization => batch(call),
        Op::Dropout => {
            call.check_scalar(1)?;
            call.check_scalar(2)?;
            Ok(vec![same().valued(None), same().typed(Some(DType::Bool))])
        }
        Op::GroupNormalization => {
            call.rank_at_least(0, 2)?;
            let channels = per_channel(call, 1)?;
            per_channel(call, 2)?;
            let groups = call.size_from(call.int(Attr::NumGroups), 1, "num_groups")?;
            call.divide(&channels, &Dim::Known(groups), "the number of channels")?;
            Ok(vec![same()])
        }
        Op::InstanceNormalization => {
            call.rank_at_least(0, 3)?;
            per_channel(call, 1)?;
            per_channel(call, 2)?;
            Ok(vec![same()])
        }
        Op::LayerNormalization => layer(call),
        Op::RMSNormalization => {
            if let Some(dims) = call.dims(0) {
                call.axis(call.int(Attr::Axis), dims.len())?;
                call.broadcasts_into(1, dims)?;
            }
            Ok(vec![same()])
        }
        Op::LRN => {
            call.rank_at_least(0, 3)?;
            call.size_from(call.int(Attr::Size), 1, "size")?;
            Ok(vec![same()])
        }
        Op::MeanVarianceNormalization => {
            if let (Some(dims), Some(axes)) = (call.dims(0), call.spec.ints(call.attributes, Attr::Axes)) {
                call.axes(axes, dims.len())?;
            }
            Ok(vec![same()])
        }
        // Hardmax, LogSoftmax, LpNormalization and Softmax.
        _ => {
            if let Some(dims) = call.dims(0) {
                // A scalar is softmaxed as a vector of one element.
                call.axis(call.int(Attr::Axis), dims.len().max(1))?;
            }
            Ok(vec![same()])
        }
    }
}

/// Checks a vector with one value per channel (axis 1 of input 0) and gives the channels.
fn per_channel(call: &Call<'_>, index: usize) -> Result<Dim> {
    call.rank_is(index, 1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(Dim::Unknown);
    };
    let channels = dims.get(1).cloned().unwrap_or(Dim::Known(1));
    call.expect_dim(index, 0, &channels)?;
    Ok(match call.dims(index) {
        Some(own) => channels.or_known(&own[0]),
        None => channels,
    })
}

fn batch(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 1)?;
    let mut channels = Dim::Unknown;
    for index in 1..=4 {
        channels = channels.or_known(&per_channel(call, index)?);
    }
    if call.outputs > 1 && !call.flag(Attr::TrainingMode) {
        bail!(
            call,
            Arity,
            "has {} outputs, gives 1 outside training mode",
            call.outputs
        );
    }
    let running = Out::dims(vec![channels]);
    Ok(vec![
        Out::new(call.dims(0).map(<[_]>::to_vec)),
        running.clone(),
        running,
    ])
}

fn layer(call: &Call<'_>) -> Result<Vec<Out>> {
    let Some(dims) = call.dims(0) else {
        let stash = call.dtype_attr(Attr::StashType)?;
        let statistic = Out::unranked().typed(stash);
        return Ok(vec![Out::unranked(), statistic.clone(), statistic]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len())?;
    for index in [1, 2] {
        call.broadcasts_into(index, dims)?;
        if call.dims(index).is_some_and(|own| own.len() > dims.len() - axis) {
            let leading = &call.dims(index).unwrap_or_default();
            let extra = leading.len() - (dims.len() - axis);
            if leading[..extra]
                .iter()
                .any(|dim| dim.known().is_some_and(|size| size != 1))
            {
                bad_input!(call, index, "wider than the axes from {axis} on");
            }
        }
    }
    let mut statistics = dims.to_vec();
    statistics[axis..].fill(Dim::Known(1));
    let statistic = Out::dims(statistics).typed(call.dtype_attr(Attr::StashType)?);
    Ok(vec![Out::dims(dims.to_vec()), statistic.clone(), statistic])
}
