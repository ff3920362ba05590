//! Normalisations: over the last dimensions, per channel with constant statistics, per image, and across
//! neighbouring channels.

use polychip_cpu_kernels::Unary;
use polychip_cpu_kernels::norm::{self as kernel, Norm, NormExtras, NormParams};
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::{self, BatchNorm, Lrn};
use polychip_ops::{DType, Op, Operator, axis};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, image};
use super::encoding::stands_for_f32;
use super::epilogue::FusedEpilogue;
use crate::part::{Node, Part, Tensor};
use crate::step::ValueId;
use crate::weights::Recipe;
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<bool> {
    let extra = node.outputs.iter().skip(1).any(Option::is_some);
    if extra || node.input(0).is_none() || node.output(0).is_none() || !l.all_f32(node) {
        return Ok(false);
    }
    let Ok(operator) = node.operator() else {
        return Ok(false);
    };
    match operator {
        Operator::LayerNormalization(own) => rows(l, node, (Norm::Layer, own), fused),
        Operator::RMSNormalization(own) => rows(l, node, (Norm::Rms, own), fused),
        Operator::BatchNormalization(own) => batch(l, node, own),
        Operator::InstanceNormalization(own) => grouped(l, node, None, own.epsilon),
        Operator::GroupNormalization(own) => grouped(l, node, Some(own.groups.get()), own.epsilon),
        Operator::LRN(own) => across(l, node, own),
        _ => Ok(false),
    }
}

/// Whether a node is a normalisation over rows that the kernel covers, so that it may add a residual on its way.
pub(super) fn adds(part: &Part, node: &Node) -> bool {
    let adds = || -> Option<bool> {
        let tensors = || node.inputs.iter().chain(&node.outputs).flatten();
        let extra = node.outputs.iter().skip(1).any(Option::is_some);
        let dims = part.dims(node.input(0)?)?;
        let along = node.typed::<operator::Norm>().ok()?.axis;
        let columns: usize = dims[axis::normalise(along, dims.len())?..].iter().product();
        let per_column = |i: usize| {
            node.input(i).is_none_or(|t| {
                part.dims(t)
                    .is_some_and(|dims| dims.iter().product::<usize>() == columns)
            })
        };
        Some(
            matches!(node.op, Op::LayerNormalization | Op::RMSNormalization)
                && !extra
                && part.dims(node.output(0)?).is_some()
                && tensors().all(|&t| stands_for_f32(part, t))
                && per_column(1)
                && per_column(2),
        )
    };
    adds().unwrap_or(false)
}

fn rows(
    l: &mut Lowering<'_>,
    node: &Node,
    (norm, own): (Norm, operator::Norm),
    fused: &FusedEpilogue,
) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let dims = l.shape(x)?;
    let along = own.axis;
    let axis = axis::normalise(along, dims.len())
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {}", dims.len())))?;
    let (rows, columns) = (
        dims[..axis].iter().product::<usize>(),
        dims[axis..].iter().product::<usize>(),
    );
    let mut reads = match fused.sum {
        Some(sum) => vec![l.rows(sum.addends[0])?, l.rows(sum.addends[1])?],
        None => vec![l.rows(x)?],
    };
    let mut parameter = |l: &mut Lowering<'_>, i: usize| -> Result<Option<Option<usize>>> {
        let Some(t) = node.input(i) else {
            return Ok(Some(None));
        };
        if l.shape(t)?.iter().product::<usize>() != columns {
            return Ok(None);
        }
        reads.push(l.rows(t)?);
        Ok(Some(Some(reads.len() - 1)))
    };
    let (Some(scale), Some(bias)) = (parameter(l, 1)?, parameter(l, 2)?) else {
        return Ok(false);
    };
    let mut writes = vec![l.write_f32_or(Storage::Bf16, y, Layout::RowMajor)?];
    let with_residual = fused.sum.is_some();
    let with_sum = fused.sum.is_some_and(|sum| sum.is_stored);
    if with_sum {
        writes.push(l.write_rows(x)?);
    }
    let with_rounded = l.reduced && l.part.plain_f32(y) && l.precision.is_both(y);
    if with_rounded {
        let shape = l.shape(y)?.to_vec();
        let rounded = l.fresh(DType::BF16, shape)?;
        l.tensor_forms[y].set(Layout::RowMajor, Storage::Bf16, rounded);
        writes.push(rounded);
    }
    let (isa, epsilon) = (l.isa, own.epsilon);
    l.step(
        "norm",
        &reads,
        &writes,
        None,
        Box::new(move |o| {
            let params = NormParams {
                norm,
                epsilon,
                scale: scale.map(|i| o.read(i)),
                bias: bias.map(|i| o.read(i)),
                residual: with_residual.then(|| o.read(1)),
            };
            let y = o.slice_mut(0);
            let extras = NormExtras {
                sum: with_sum.then(|| o.write(1)),
                rounded: with_rounded.then(|| o.write(1 + usize::from(with_sum))),
            };
            kernel::norm(isa, o.pool, rows, columns, params, o.read(0), y, extras);
            Ok(())
        }),
    )
    .is(Class::Normalise);
    Ok(true)
}

fn batch(l: &mut Lowering<'_>, node: &Node, own: BatchNorm) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if own.training || l.shape(x)?.len() < 2 {
        return Ok(false);
    }
    let channels = l.shape(x)?[1];
    let mut sources = Vec::new();
    for i in 1..5 {
        match node.input(i) {
            Some(t) if l.part.tensors[t].is_constant() => sources.push(l.source(t)?),
            _ => return Ok(false),
        }
    }
    if sources.iter().any(|source| source.elements() != Some(channels)) {
        return Err(Error::bad_argument(format!(
            "batch normalisation of {channels} channels"
        )));
    }
    let epsilon = f64::from(own.epsilon);
    let recipe = |shift: bool| {
        let recipe = Recipe::new("batch").by((shift, channels, epsilon));
        sources.iter().fold(recipe, Recipe::of)
    };
    let recipes = [recipe(false), recipe(true)];
    // in f64, as folding would
    let factors = move |shift: bool| -> Result<Vec<f32>> {
        let values = sources.iter().map(Tensor::reals).collect::<Result<Vec<_>, _>>()?;
        Ok((0..channels)
            .map(|c| {
                let [scale, bias, mean, variance] = [0, 1, 2, 3].map(|i| f64::from(values[i][c]));
                let factor = scale / (variance + epsilon).sqrt();
                if shift {
                    (bias - mean * factor) as f32
                } else {
                    factor as f32
                }
            })
            .collect())
    };
    let again = factors.clone();
    let [recipe, other] = recipes;
    let scale = l.packed(vec![channels], recipe, move |target| {
        target.copy_from_slice(&factors(false)?);
        Ok(())
    })?;
    let shift = l.packed(vec![channels], other, move |target| {
        target.copy_from_slice(&again(true)?);
        Ok(())
    })?;
    let rank = l.shape(x)?.len();
    if rank > 2 && !l.has_channels(x) {
        // an image in ONNX order stays so
        let [_, _, plane] = image(l.shape(x)?)?;
        let input = l.rows(x)?;
        let output = l.write_rows(y)?;
        planes(l, input, [scale, shift], output, plane);
        return Ok(true);
    }
    let layout = if rank == 2 {
        Layout::RowMajor
    } else {
        Layout::ChannelsLast
    };
    let storage = l.kept(x, &[Some(y)]);
    let (input, output) = (l.read(x, layout, storage)?, l.write(y, layout, storage)?);
    let isa = l.isa;
    l.step(
        "scale shift",
        &[input, scale, shift],
        &[output],
        None,
        Box::new(move |o| {
            kernel::scale_shift(
                isa,
                o.pool,
                o.read(1),
                o.read(2),
                Unary::Identity,
                o.slice(0),
                o.slice_mut(0),
            );
            Ok(())
        }),
    )
    .is(Class::Arithmetic);
    Ok(true)
}

/// Normalisation over each channel's pixels, or over each group of channels, then scale and bias per channel.
fn grouped(l: &mut Lowering<'_>, node: &Node, groups: Option<usize>, epsilon: f32) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let (Some(scale), Some(bias)) = (node.input(1), node.input(2)) else {
        return Ok(false);
    };
    let dims = l.shape(x)?.to_vec();
    let Ok([n, c, spatial]) = image(&dims) else {
        return Ok(false);
    };
    let groups = groups.unwrap_or(c);
    if groups == 0 || c % groups != 0 || [scale, bias].iter().any(|&t| l.part.dims(t) != Some(&[c][..])) {
        return Ok(false);
    }
    let (rows, columns) = (n * groups, c / groups * spatial);
    let input = l.rows(x)?;
    if groups == c {
        let (scale, bias) = (l.rows(scale)?, l.rows(bias)?);
        let output = l.write_rows(y)?;
        let isa = l.isa;
        l.step(
            "norm",
            &[input, scale, bias],
            &[output],
            None,
            Box::new(move |o| {
                let (x, numbers) = (o.read(0), [o.read(1), o.read(2)]);
                kernel::norm_planes(isa, o.pool, spatial, epsilon, numbers, x, o.write(0));
                Ok(())
            }),
        )
        .is(Class::Normalise);
        return Ok(true);
    }
    let normal = l.fresh(DType::F32, dims.clone())?;
    let isa = l.isa;
    l.step(
        "norm",
        &[input],
        &[normal],
        None,
        Box::new(move |o| {
            let params = NormParams {
                norm: Norm::Layer,
                epsilon,
                scale: None,
                bias: None,
                residual: None,
            };
            let y = o.slice_mut(0);
            let extras = NormExtras::default();
            kernel::norm(isa, o.pool, rows, columns, params, o.read(0), y, extras);
            Ok(())
        }),
    );
    let (scale, bias) = (l.rows(scale)?, l.rows(bias)?);
    let output = l.write_rows(y)?;
    planes(l, normal, [scale, bias], output, spatial);
    Ok(true)
}

/// Adds a step that scales and shifts each plane of an image in ONNX order.
fn planes(l: &mut Lowering<'_>, x: ValueId, [scale, shift]: [ValueId; 2], y: ValueId, plane: usize) {
    let isa = l.isa;
    l.step(
        "scale shift",
        &[x, scale, shift],
        &[y],
        None,
        Box::new(move |o| {
            let x = o.shared().is_none().then(|| o.read(0));
            kernel::scale_shift_planes(isa, o.pool, o.read(1), o.read(2), x, o.write(0), plane);
            Ok(())
        }),
    )
    .is(Class::Arithmetic)
    .may_share = vec![0];
}

/// Local response normalisation: each value over a power of the squares of neighbouring channels.
fn across(l: &mut Lowering<'_>, node: &Node, own: Lrn) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let size = own.size.get();
    let Ok([_, c, _]) = image(l.shape(x)?) else {
        return Ok(false);
    };
    if c == 0 {
        return Ok(false);
    }
    let alpha = own.alpha / size as f32;
    let (beta, bias) = (own.beta, own.bias);
    let (before, after) = ((size - 1) / 2, size - 1 - (size - 1) / 2);
    let (input, output) = (l.channels(x)?, l.write_channels(y)?);
    l.step(
        "across channels",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            let (x, y) = (o.read::<f32>(0), o.write::<f32>(0));
            for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
                y.fill(0.0);
                for shift in 0..=(before + after).min(2 * c) {
                    // y[i] += x[i + shift - before]^2 where that channel exists
                    if shift < before {
                        let skip = before - shift;
                        if skip < c {
                            y[skip..].iter_mut().zip(x).for_each(|(y, x)| *y += x * x);
                        }
                    } else if shift - before < c {
                        y.iter_mut()
                            .zip(&x[shift - before..])
                            .for_each(|(y, x)| *y += x * x);
                    }
                }
                if beta == 0.75 {
                    for (y, x) in y.iter_mut().zip(x) {
                        let root = (bias + alpha * *y).sqrt();
                        *y = x / (root * root.sqrt());
                    }
                } else {
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = x / (bias + alpha * *y).powf(beta);
                    }
                }
            }
            Ok(())
        }),
    )
    .is(Class::NormaliseAcross);
    Ok(true)
}
