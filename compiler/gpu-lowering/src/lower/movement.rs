//! Ops that move elements and compute nothing: reshapes as views, the others as one kernel.
//!
//! Invariant: a tensor with the encoding of its source keeps its integers; others are moved as real values.

use polychip_gpu_kernels::Scalar;
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::operator::{BlockMode, Blocks, Shape, Split, Transpose};
use polychip_ops::{Op, axis};

use super::builder::Lowering;
use super::map;
use super::tensor_forms::Permuted;
use super::values::count;

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let Some(y) = node.writes().next() else {
        return Ok(false);
    };
    if let Op::Shape | Op::Size = node.op {
        return sizes(l, node, y);
    }
    let Some(x) = node.input(0) else { return Ok(false) };
    match node.op {
        Op::Identity => view(l, x, y)?,
        Op::Dropout => {
            if node.input(2).is_some_and(|t| l.part.scalar(t) != Some(0.0)) || node.output(1).is_some() {
                return Err(Refusal::op("Dropout that trains is not offered"));
            }
            view(l, x, y)?;
        }
        Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze => {
            if node.input(1).is_some_and(|t| !l.part.is_constant(t)) {
                return Err(Refusal::constant(format!(
                    "the shape of {} comes from the run",
                    node.op_name
                )));
            }
            view(l, x, y)?;
        }
        Op::Transpose => transpose(l, node, x, y)?,
        Op::Slice => slice(l, node, x, y)?,
        Op::Split => split(l, node, x)?,
        Op::DepthToSpace | Op::SpaceToDepth => blocks(l, node, x, y)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// What moves from one tensor to another: its integers where both have one encoding.
pub(super) fn carried(l: &Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Storage {
    let tensors = &l.part.tensors;
    if tensors[x].encoding.is_some() && tensors[x].encoding == tensors[y].encoding {
        Storage::Stored
    } else {
        Storage::Real
    }
}

/// The form in which an image exists.
pub(super) fn kept(l: &Lowering<'_>, x: TensorIndex) -> Outcome<Layout> {
    let dims = l.dims(x)?;
    Ok(if l.is_channels_only(x) && !Layout::is_same(dims) {
        Layout::ChannelsLast
    } else {
        Layout::RowMajor
    })
}

/// The list in a constant input; `None` for an absent input.
pub(super) fn list(l: &Lowering<'_>, node: &Node, input: usize) -> Outcome<Option<Vec<i64>>> {
    node.input(input)
        .map(|t| {
            l.part.integers(t).ok_or_else(|| {
                Refusal::constant(format!("input {input} of {} comes from the run", node.op_name))
            })
        })
        .transpose()
}

fn sizes(l: &mut Lowering<'_>, node: &Node, y: TensorIndex) -> Outcome<bool> {
    let Some(x) = node.input(0) else { return Ok(false) };
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    let rank = dims.len() as i64;
    let bound = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
    let values: Vec<i64> = if node.op == Op::Size {
        vec![dims.iter().product::<usize>() as i64]
    } else {
        let own: Shape = node.typed()?;
        let (start, end) = (bound(own.start), bound(own.end.unwrap_or(rank)));
        dims.get(start..end)
            .unwrap_or(&[])
            .iter()
            .map(|&dim| dim as i64)
            .collect()
    };
    if values.len() != out.iter().product::<usize>() {
        return Err(Refusal::shape(format!("{} sizes for {out:?}", values.len())));
    }
    let scalar = l.stored_scalar(y)?;
    if scalar != Scalar::I64 {
        return Err(Refusal::dtype("a shape of other than int64"));
    }
    let value = l.constant(scalar, out, || {
        Ok(values.iter().flat_map(|v| v.to_le_bytes()).collect())
    })?;
    l.define(y, Layout::RowMajor, Storage::Real, value)?;
    Ok(true)
}

/// The same memory under another name or shape.
fn view(l: &mut Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let (from, to) = (l.dims(x)?, l.dims(y)?);
    if count(from)? != count(to)? {
        return Err(Refusal::shape(format!("{from:?} is not reshaped to {to:?}")));
    }
    let kind = carried(l, x, y);
    let layout = if from == to { kept(l, x)? } else { Layout::RowMajor };
    let value = l.get(x, layout, kind)?;
    l.define(y, layout, kind, value)
}

/// The permutation of a Transpose.
pub(super) fn permutation(node: &Node, rank: usize) -> Outcome<Vec<usize>> {
    let order = match node.typed::<Transpose>()?.perm {
        Some(perm) => axis::normalise_all(&perm, rank),
        None => Some((0..rank).rev().collect()),
    };
    order
        .filter(|order| order.len() == rank)
        .ok_or_else(|| Refusal::attribute(format!("perm of a tensor of rank {rank}")))
}

fn transpose(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    let rank = dims.len();
    let order = permutation(node, rank)?;
    if order.iter().map(|&axis| dims[axis]).ne(out.iter().copied()) {
        return Err(Refusal::shape(format!(
            "{dims:?} permuted by {order:?} is not {out:?}"
        )));
    }
    let kind = carried(l, x, y);
    let exists = |l: &Lowering<'_>, layout| l.forms[x].get(layout, kind).is_some();
    let plain = kind == Storage::Real && l.outer_kind(y) == Storage::Real;
    if plain
        && !exists(l, Layout::RowMajor)
        && !exists(l, Layout::ChannelsLast)
        && let Some(permuted) = l.forms[x].permuted
    {
        // a permutation of a permutation
        let inner = permuted.order(rank);
        let order: Vec<usize> = order.iter().map(|&axis| inner[axis]).collect();
        if order.is_sorted() {
            return l.define(y, Layout::RowMajor, kind, permuted.value);
        }
    }
    let to_last = Layout::ChannelsLast.dims(&(0..rank).collect::<Vec<_>>());
    if rank >= 3 && order == to_last && exists(l, Layout::ChannelsLast) {
        let value = l.get(x, Layout::ChannelsLast, kind)?;
        return l.define(y, Layout::RowMajor, kind, value);
    }
    // where only axes of size 1 move, memory stays as it is
    if order.iter().copied().filter(|&axis| dims[axis] != 1).is_sorted() {
        let value = l.get(x, Layout::RowMajor, kind)?;
        return l.define(y, Layout::RowMajor, kind, value);
    }
    let mut to_first = vec![0, rank.saturating_sub(1)];
    to_first.extend(1..rank.saturating_sub(1));
    if rank >= 3 && order == to_first && !Layout::is_same(out) {
        // y's channels-last form is x as it is; it is moved only where someone wants it in ONNX order
        let value = l.get(x, Layout::RowMajor, kind)?;
        return l.define(y, Layout::ChannelsLast, kind, value);
    }
    if plain && l.wishes[y].is_none() && (exists(l, Layout::RowMajor) || !l.is_channels_only(x)) {
        // its readers may read it through the permutation
        let value = l.get(x, Layout::RowMajor, kind)?;
        l.forms[y].permuted = Permuted::new(value, &order);
        return Ok(());
    }
    // read as it lies
    let from = if exists(l, Layout::RowMajor) || Layout::is_same(dims) {
        Layout::RowMajor
    } else {
        kept(l, x)?
    };
    let value = l.get(x, from, kind)?;
    let (_, target) = l.destination(y, Layout::RowMajor, kind)?;
    l.define(y, Layout::RowMajor, kind, target)?;
    let order: Vec<usize> = order.iter().map(|&axis| from.place(axis, rank)).collect();
    map::permute(l, value, &from.dims(dims), &order, target)
}

fn slice(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    let rank = dims.len();
    let missing = || Refusal::constant("the bounds of a Slice come from the run");
    let first = list(l, node, 1)?.ok_or_else(missing)?;
    let axes = list(l, node, 3)?.unwrap_or_else(|| (0..first.len() as i64).collect());
    let stride = list(l, node, 4)?.unwrap_or_else(|| vec![1; first.len()]);
    let axes = axis::normalise_all(&axes, rank)
        .filter(|axes| axes.len() == first.len() && stride.len() == first.len())
        .ok_or_else(|| Refusal::attribute(format!("a Slice along {axes:?} of rank {rank}")))?;
    let (mut starts, mut steps) = (vec![0u64; rank], vec![1i64; rank]);
    for ((&axis, &start), &step) in axes.iter().zip(&first).zip(&stride) {
        let size = dims[axis] as i64;
        let start = if start < 0 {
            start.saturating_add(size)
        } else {
            start
        };
        starts[axis] = start.clamp(0, if step < 0 { (size - 1).max(0) } else { size }) as u64;
        steps[axis] = step;
    }
    cut(l, x, y, &starts, &steps, out)
}

/// Takes a box out of a tensor; lists are in ONNX order.
fn cut(
    l: &mut Lowering<'_>,
    x: TensorIndex,
    y: TensorIndex,
    starts: &[u64],
    steps: &[i64],
    out: &[usize],
) -> Outcome<()> {
    let dims = l.dims(x)?;
    let rank = dims.len();
    let (kind, layout) = (carried(l, x, y), kept(l, x)?);
    if out.len() != rank {
        return Err(Refusal::shape(format!("a slice of {dims:?} is not {out:?}")));
    }
    for axis in 0..rank {
        // the last index stays inside
        let last = starts[axis] as i128 + i128::from(steps[axis]) * (out[axis] as i128 - 1);
        if out[axis] > 0 && !(0..dims[axis] as i128).contains(&last) {
            return Err(Refusal::shape(format!(
                "a slice of {dims:?} that leaves it along axis {axis}"
            )));
        }
    }
    if out == dims && steps.iter().all(|&step| step == 1) {
        let value = l.get(x, layout, kind)?;
        return l.define(y, layout, kind, value);
    }
    let value = l.get(x, layout, kind)?;
    let (_, target) = l.destination(y, layout, kind)?;
    l.define(y, layout, kind, target)?;
    let memory = layout.dims(dims);
    let mut step = vec![1i64; rank];
    for axis in (1..rank).rev() {
        step[axis - 1] = step[axis] * memory[axis] as i64;
    }
    let (mut offset, mut strides) = (0, vec![0i64; rank]);
    for axis in 0..rank {
        let at = layout.place(axis, rank);
        offset += starts[axis] * step[at] as u64;
        strides[at] = step[at].saturating_mul(steps[axis]);
    }
    map::pick(l, value, &layout.dims(out), strides, offset, target)
}

fn split(l: &mut Lowering<'_>, node: &Node, x: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    let rank = dims.len();
    let along = node.typed::<Split>()?.axis;
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of rank {rank}")))?;
    let sizes: Vec<u64> = match list(l, node, 1)? {
        Some(sizes) => sizes.iter().map(|&size| size.max(0) as u64).collect(),
        None => {
            let whole = node.outputs.iter().map(|output| match output {
                Some(t) => l.dims(*t).map(|dims| dims.get(axis).copied().unwrap_or(0) as u64),
                None => Err(Refusal::op("a Split without sizes and with an unused output")),
            });
            whole.collect::<Outcome<_>>()?
        }
    };
    if sizes.iter().sum::<u64>() != dims[axis] as u64 || sizes.len() < node.outputs.len() {
        return Err(Refusal::shape(format!("{dims:?} is not split into {sizes:?}")));
    }
    let mut starts = vec![0; rank];
    let steps = vec![1; rank];
    for (output, &size) in node.outputs.iter().zip(&sizes) {
        if let Some(y) = *output {
            let out = l.dims(y)?;
            if size > 0 {
                cut(l, x, y, &starts, &steps, out)?;
            } else {
                let kind = carried(l, x, y);
                let (_, value) = l.destination(y, Layout::RowMajor, kind)?;
                l.define(y, Layout::RowMajor, kind, value)?;
                l.define(y, Layout::ChannelsLast, kind, value)?;
            }
        }
        starts[axis] += size;
    }
    Ok(())
}

fn blocks(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let (&[n, c, h, w], &[_, out_c, out_h, out_w]) = (l.dims(x)?, l.dims(y)?) else {
        return Err(Refusal::shape(format!("{} of other than rank 4", node.op_name)));
    };
    let blocks: Blocks = node.typed()?;
    let b = blocks.size.get();
    let (shape, order) = if node.op == Op::SpaceToDepth {
        if out_h.checked_mul(b) != Some(h) || out_w.checked_mul(b) != Some(w) {
            return Err(Refusal::shape(format!("blocks of {b} in {h} x {w}")));
        }
        let order = match blocks.mode {
            BlockMode::Dcr => [0, 3, 5, 1, 2, 4],
            BlockMode::Crd => [0, 1, 3, 5, 2, 4],
        };
        ([n, c, out_h, b, out_w, b], order)
    } else {
        if b.checked_mul(b).and_then(|bb| bb.checked_mul(out_c)) != Some(c) {
            return Err(Refusal::shape(format!("{c} channels in blocks of {b}")));
        }
        match blocks.mode {
            BlockMode::Dcr => ([n, b, b, out_c, h, w], [0, 3, 4, 1, 5, 2]),
            BlockMode::Crd => ([n, out_c, b, b, h, w], [0, 1, 4, 2, 5, 3]),
        }
    };
    let kind = carried(l, x, y);
    let value = l.get(x, Layout::RowMajor, kind)?;
    let (_, target) = l.destination(y, Layout::RowMajor, kind)?;
    l.define(y, Layout::RowMajor, kind, target)?;
    map::permute(l, value, &shape, &order, target)
}

/// Extents before an axis, of it, and after it.
pub(super) fn around(dims: &[usize], axis: usize) -> [u64; 3] {
    let product = |dims: &[usize]| dims.iter().map(|&dim| dim as u64).product();
    [
        product(&dims[..axis]),
        dims[axis] as u64,
        product(&dims[axis + 1..]),
    ]
}
