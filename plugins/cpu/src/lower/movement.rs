//! Ops that move elements and compute nothing: reshapes as views, the others as strided copies.
//!
//! Invariant: works on elements of 1, 2, 4 and 8 bytes, whatever they mean.

use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::{BlockMode, Blocks, Pad, PadMode, Split, Transpose};
use polychip_ops::{Op, axis, broadcast};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error};
use super::encoding::is_unrounded;
use super::steps::{self, dense, strided};
use super::tensor_forms::ChannelSlice;
use crate::part::{Node, TensorIndex};
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.outputs.iter().copied().flatten().next()) else {
        return Ok(false);
    };
    if !matches!(l.real_dtype(x).byte_width(), Some(1 | 2 | 4 | 8)) || l.real_dtype(x) != l.real_dtype(y) {
        return Ok(false);
    }
    let by_values = |t: TensorIndex| l.part.tensors[t].constant.is_none();
    let shaped = matches!(node.op, Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Expand);
    if shaped && node.input(1).is_some_and(by_values) {
        // a shape that is given at run time may be another than the declared one: the reference compares
        return Ok(false);
    }
    match node.op {
        Op::Identity => same(l, x, y),
        Op::Dropout if node.outputs.len() <= 1 && !trains(l, node) => same(l, x, y),
        Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze => {
            let shape = l.shape(y)?.to_vec();
            if shape.iter().product::<usize>() != l.shape(x)?.iter().product::<usize>() {
                return Err(Error::bad_argument(format!(
                    "{:?} is not reshaped to {shape:?}",
                    l.shape(x)?
                )));
            }
            let storage = l.moved_as(x, &[Some(y)]);
            let rows = l.read(x, Layout::RowMajor, storage)?;
            let view = l.view(rows, shape);
            l.tensor_forms[y].set(Layout::RowMajor, storage, view);
            Ok(true)
        }
        Op::Transpose => transpose(l, node, x, y),
        Op::Slice => slice(l, node, x, y),
        Op::Split => split(l, node, x),
        Op::Expand => {
            let (from, into) = (l.shape(x)?, l.shape(y)?.to_vec());
            let strides = broadcast::strides(from, &into)
                .ok_or_else(|| Error::bad_argument(format!("{from:?} does not expand to {into:?}")))?;
            let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
            let storage = l.moved_as(x, &[Some(y)]);
            let rows = l.read(x, Layout::RowMajor, storage)?;
            let result = l.write(y, Layout::RowMajor, storage)?;
            strided(
                l,
                "expand",
                &into,
                (rows, 0, &strides),
                (result, 0, &dense(&into)?),
            )?;
            Ok(true)
        }
        Op::Pad => pad(l, node, x, y),
        Op::DepthToSpace | Op::SpaceToDepth => blocks(l, node, x, y),
        _ => Ok(false),
    }
}

/// Whether a Dropout is asked to drop anything.
fn trains(l: &Lowering<'_>, node: &Node) -> bool {
    node.input(2).is_some_and(|t| l.part.scalar(t) != Some(0.0))
}

fn same(l: &mut Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let storage = l.moved_as(x, &[Some(y)]);
    let layout = l.layout(x);
    let shape = layout.dims(l.shape(y)?);
    let value = l.read(x, layout, storage)?;
    let view = l.view(value, shape);
    l.tensor_forms[y].set(layout, storage, view);
    Ok(true)
}

fn transpose(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let dims = l.shape(x)?;
    let rank = dims.len();
    let Ok(Transpose { perm }) = node.typed() else {
        return Ok(false);
    };
    let permutation: Vec<usize> = match perm {
        Some(perm) => axis::normalise_all(&perm, rank)
            .ok_or_else(|| Error::bad_argument(format!("perm {perm:?} of a tensor of rank {rank}")))?,
        None => (0..rank).rev().collect(),
    };
    if permutation.len() != rank {
        return Err(Error::bad_argument(format!(
            "perm {permutation:?} of a tensor of rank {rank}"
        )));
    }
    let moved: Vec<usize> = permutation.iter().map(|&axis| dims[axis]).collect();
    let shape = l.shape(y)?.to_vec();
    if moved != shape {
        return Err(Error::bad_argument(format!(
            "{dims:?} permuted by {permutation:?} is not {shape:?}"
        )));
    }
    // where only axes of size 1 move, memory stays as it is
    let order = |permutation: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
        permutation.filter(|&axis| dims[axis] != 1).collect()
    };
    let storage = l.moved_as(x, &[Some(y)]);
    if rank >= 3 && permutation == Layout::ChannelsLast.permutation(rank) && l.has_channels(x) {
        let value = l.read(x, Layout::ChannelsLast, storage)?;
        let view = l.view(value, shape);
        l.tensor_forms[y].set(Layout::RowMajor, storage, view);
        return Ok(true);
    }
    if order(&mut permutation.iter().copied()).is_sorted() {
        let value = l.read(x, Layout::RowMajor, storage)?;
        let view = l.view(value, shape);
        l.tensor_forms[y].set(Layout::RowMajor, storage, view);
        return Ok(true);
    }
    if rank >= 3 && permutation == Layout::ChannelsLast.to(Layout::RowMajor, rank) && l.wishes[y].is_none() {
        // y's channels-last form is x as it is; it is moved only where someone wants it row-major
        let storage = match storage {
            // stored elements are in ONNX order
            Storage::Stored => Storage::Real,
            other => other,
        };
        let value = l.read(x, Layout::RowMajor, storage)?;
        let view = l.view(value, Layout::ChannelsLast.dims(&shape));
        l.tensor_forms[y].set(Layout::ChannelsLast, storage, view);
        return Ok(true);
    }
    let plan = TransposePlan::new(dims, &permutation).map_err(kernel_error)?;
    let rows = l.read(x, Layout::RowMajor, storage)?;
    let result = l.write(y, Layout::RowMajor, storage)?;
    steps::transpose(l, "transpose", plan, rows, result);
    Ok(true)
}

fn slice(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let rank = l.shape(x)?.len();
    let list = |i: usize| node.input(i).map(|t| l.part.integers(t));
    let (Some(Some(starts)), Some(Some(_))) = (list(1), list(2)) else {
        return Ok(false);
    };
    let axes = match list(3) {
        None => (0..starts.len() as i64).collect(),
        Some(Some(axes)) => axes,
        Some(None) => return Ok(false),
    };
    let steps = match list(4) {
        None => vec![1; starts.len()],
        Some(Some(steps)) => steps,
        Some(None) => return Ok(false),
    };
    let axes = axis::normalise_all(&axes, rank)
        .filter(|axes| axes.len() == starts.len() && steps.len() == starts.len())
        .ok_or_else(|| Error::bad_argument(format!("a slice with axes {axes:?} of rank {rank}")))?;
    let (layout, dims) = l.keep(x)?;
    let out = l.shape(y)?;
    let out = layout.dims(out);
    let strides = dense(&dims)?;
    let mut from = strides.clone();
    let mut offset = 0usize;
    for ((&axis, start), step) in axes.iter().zip(starts).zip(steps) {
        let at = layout.place(axis, rank);
        let size = dims[at] as i64;
        let start = if start < 0 {
            start.saturating_add(size)
        } else {
            start
        };
        let start = start.clamp(0, if step < 0 { (size - 1).max(0) } else { size });
        offset += start as usize * strides[at] as usize;
        let step =
            isize::try_from(step).map_err(|_| Error::unsupported("a step beyond the address space"))?;
        from[at] = from[at].saturating_mul(step);
    }
    let storage = l.moved_as(x, &[Some(y)]);
    let value = l.read(x, layout, storage)?;
    let is_piece = from == strides && contiguous(&dims, &out);
    if is_piece && l.wishes[y].is_none() && !out.contains(&0) {
        let piece = l.subview(value, offset, out)?;
        l.tensor_forms[y].set(layout, storage, piece);
        return Ok(true);
    }
    let result = l.write(y, layout, storage)?;
    strided(
        l,
        "slice",
        &out,
        (value, offset, &from),
        (result, 0, &dense(&out)?),
    )?;
    Ok(true)
}

/// Whether a box of `part` sizes in a tensor of `dims` is one run of memory.
fn contiguous(dims: &[usize], part: &[usize]) -> bool {
    let Some(last) = dims.iter().zip(part).rposition(|(whole, part)| whole != part) else {
        return true;
    };
    part[..last].iter().all(|&size| size == 1)
}

fn split(l: &mut Lowering<'_>, node: &Node, x: TensorIndex) -> Result<bool> {
    let rank = l.shape(x)?.len();
    let Ok(Split { axis: along, .. }) = node.typed() else {
        return Ok(false);
    };
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {rank}")))?;
    // an unused output still has a size: only the list or the other outputs give it
    let sizes: Vec<usize> = match node.input(1).map(|t| l.part.integers(t)) {
        Some(Some(sizes)) => sizes
            .iter()
            .map(|&size| usize::try_from(size).unwrap_or(usize::MAX))
            .collect(),
        Some(None) => return Ok(false),
        None if node.outputs.iter().all(Option::is_some) => node
            .outputs
            .iter()
            .flatten()
            .map(|&t| l.shape(t).map(|s| s[axis]))
            .collect::<Result<_>>()?,
        None => return Ok(false),
    };
    let (layout, dims) = l.keep(x)?;
    let at = layout.place(axis, rank);
    if sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size)) != Some(dims[at]) {
        return Err(Error::bad_argument(format!(
            "{dims:?} is not split into {sizes:?}"
        )));
    }
    let storage = l.moved_as(x, &node.outputs);
    let plain = |t: TensorIndex| is_unrounded(l.part, t) && l.wishes[t].is_none();
    if layout == Layout::ChannelsLast
        && at == rank - 1
        && sizes.iter().all(|&size| size > 0)
        && !dims.contains(&0)
        && is_unrounded(l.part, x)
        && node.outputs.iter().flatten().all(|&t| plain(t))
    {
        // pieces are looked at where they are
        let (value, stride) = l.image(x, storage)?;
        let len = l.values[value.0 as usize].bytes / l.width(value);
        let mut first = 0;
        for (output, &size) in node.outputs.iter().zip(&sizes) {
            if let Some(y) = *output {
                let value = l.subview(value, first, vec![len - first])?;
                l.tensor_forms[y].channel_slice = Some(ChannelSlice {
                    value,
                    stride,
                    storage,
                });
            }
            first += size;
        }
        return Ok(true);
    }
    let value = l.read(x, layout, storage)?;
    let strides = dense(&dims)?;
    let mut offset = 0;
    for (output, &size) in node.outputs.iter().zip(&sizes) {
        if let Some(y) = *output {
            let mut shape = dims.clone();
            shape[at] = size;
            let view = contiguous(&dims, &shape) && l.wishes[y].is_none() && !shape.contains(&0);
            if view {
                let piece = l.subview(value, offset, shape)?;
                l.tensor_forms[y].set(layout, storage, piece);
            } else {
                let result = l.write(y, layout, storage)?;
                let to = dense(&shape)?;
                strided(l, "split", &shape, (value, offset, &strides), (result, 0, &to))?;
            }
        }
        offset += size * strides[at] as usize;
    }
    Ok(true)
}

fn pad(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    if !node.typed::<Pad>().is_ok_and(|pad| pad.mode == PadMode::Constant) {
        return Ok(false);
    }
    let rank = l.shape(x)?.len();
    let Some(pads) = node.input(1).and_then(|t| l.part.integers(t)) else {
        return Ok(false);
    };
    let axes: Vec<usize> = match node.input(3) {
        None => (0..rank).collect(),
        Some(t) => match l
            .part
            .integers(t)
            .and_then(|axes| axis::normalise_all(&axes, rank))
        {
            Some(axes) => axes,
            None => return Ok(false),
        },
    };
    // what a negative pad cuts away is the reference's
    if pads.len() != 2 * axes.len() || pads.iter().any(|&pad| pad < 0) {
        return Ok(false);
    }
    let value = match node.input(2) {
        None => 0.0,
        Some(t) => match l.part.scalar(t) {
            Some(value) => value,
            None => return Ok(false),
        },
    };
    let is_f32 = l.is_f32(x);
    if !is_f32 && value != 0.0 {
        return Ok(false);
    }
    let (layout, dims) = l.keep(x)?;
    let out = l.shape(y)?;
    let out = layout.dims(out);
    let strides = dense(&out)?;
    let mut offset = 0usize;
    for (i, &axis) in axes.iter().enumerate() {
        let at = layout.place(axis, rank);
        let (before, after) = (pads[i] as usize, pads[axes.len() + i] as usize);
        if before
            .checked_add(dims[at])
            .and_then(|sum| sum.checked_add(after))
            != Some(out[at])
        {
            return Err(Error::bad_argument(format!(
                "{dims:?} padded by {pads:?} is not {out:?}"
            )));
        }
        offset += before * strides[at] as usize;
    }
    let from = l.read(x, layout, Storage::Real)?;
    let result = l.write(y, layout, Storage::Real)?;
    let word = value as f32;
    l.step(
        "fill",
        &[],
        &[result],
        None,
        Box::new(move |o| {
            if is_f32 {
                o.write::<f32>(0).fill(word);
            } else {
                o.write::<u8>(0).fill(0);
            }
            Ok(())
        }),
    )
    .is(Class::Copy);
    strided(
        l,
        "pad",
        &dims,
        (from, 0, &dense(&dims)?),
        (result, offset, &strides),
    )?;
    Ok(true)
}

fn blocks(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let (&[n, c, h, w], &[_, out_c, out_h, out_w]) = (l.shape(x)?, l.shape(y)?) else {
        return Ok(false);
    };
    let Ok(Blocks { size, mode }) = node.typed() else {
        return Ok(false);
    };
    let b = size.get();
    let (shape, permutation) = if node.op == Op::SpaceToDepth {
        if out_h.checked_mul(b) != Some(h) || out_w.checked_mul(b) != Some(w) {
            return Ok(false);
        }
        let permutation = match mode {
            BlockMode::Dcr => [0, 3, 5, 1, 2, 4],
            BlockMode::Crd => [0, 1, 3, 5, 2, 4],
        };
        ([n, c, out_h, b, out_w, b], permutation)
    } else {
        if b.checked_mul(b).and_then(|bb| bb.checked_mul(out_c)) != Some(c) {
            return Ok(false);
        }
        match mode {
            BlockMode::Dcr => ([n, b, b, out_c, h, w], [0, 3, 4, 1, 5, 2]),
            BlockMode::Crd => ([n, out_c, b, b, h, w], [0, 1, 4, 2, 5, 3]),
        }
    };
    let plan = TransposePlan::new(&shape, &permutation).map_err(kernel_error)?;
    let storage = l.moved_as(x, &[Some(y)]);
    let rows = l.read(x, Layout::RowMajor, storage)?;
    let result = l.write(y, Layout::RowMajor, storage)?;
    steps::transpose(l, "blocks", plan, rows, result);
    Ok(true)
}
