//! Attention as one step, reading and writing heads where they lie. With a past, the node's own positions are first
//! appended to it.
//!
//! A transposition between `[batch, rows, heads, size]` and `[batch, heads, rows, size]` around an attention is not
//! computed: [`super::fuse`] finds it by [`swaps_heads`], and the strides say the same.

use polychip_cpu_kernels::attention::{AttentionParams, AttentionPlan, HeadStrides};
use polychip_cpu_kernels::convert;
use polychip_cpu_kernels::gemm::Elements;
use polychip_lowering::Layout;
use polychip_ops::operator::{Attention, Transpose};
use polychip_ops::{DType, Op, axis, broadcast};
use polychip_sdk::Result;

use super::builder::{Lowering, kernel_error, storage_of};
use super::encoding::{is_unrounded, stands_for_f32};
use super::epilogue::FusedEpilogue;
use crate::part::{Node, Part, TensorIndex};
use crate::step::ValueId;
use crate::work::Class;

/// Where heads and rows of an operand lie.
struct Heads {
    batch: usize,
    heads: usize,
    rows: usize,
    size: usize,
    strides: HeadStrides,
}

impl Heads {
    /// `[batch, heads, rows, size]`, or `[batch, rows, heads * size]` with the head count beside it.
    fn new(dims: &[usize], heads: Option<usize>) -> Option<Self> {
        let (batch, heads, rows, size, inside) = match (dims, heads) {
            (&[batch, heads, rows, size], _) => (batch, heads, rows, size, false),
            (&[batch, rows, width], Some(heads)) if heads > 0 && width % heads == 0 => {
                (batch, heads, rows, width / heads, true)
            }
            _ => return None,
        };
        // the strides are smaller than the number of elements, which was counted
        axis::product(dims)?;
        Some(Self {
            batch,
            heads,
            rows,
            size,
            strides: if inside {
                HeadStrides::heads_inside(heads, rows, size)
            } else {
                HeadStrides::heads_outside(heads, rows, size)
            },
        })
    }
}

/// Parameters of an attention that the kernel supports.
struct Supported {
    params: AttentionParams,
    /// The length of the past (0 for an empty one), if the node concatenates one with its own keys and its own
    /// values.
    joined: Option<usize>,
}

/// The parameters of an attention, if the kernel supports it.
fn supported(part: &Part, node: &Node) -> Option<Supported> {
    let attributes: Attention = node.typed().ok()?;
    // lengths of what is no padding, and products that are wanted themselves
    let more =
        node.inputs.iter().skip(6).any(Option::is_some) || node.outputs.iter().skip(3).any(Option::is_some);
    let pasts = [node.input(4), node.input(5)];
    let presents = [node.output(1), node.output(2)];
    let is_behind = pasts.iter().chain(&presents).any(Option::is_some);
    let plain = [node.input(1), node.input(2)]
        .into_iter()
        .chain(pasts)
        .chain(presents);
    let mut tensors = node.inputs.iter().enumerate().filter(|(i, _)| *i != 3);
    if more
        || pasts[0].is_some() != pasts[1].is_some()
        || !tensors.all(|(_, t)| t.is_none_or(|t| stands_for_f32(part, t)))
        || !node.outputs.iter().flatten().all(|&t| stands_for_f32(part, t))
        || is_behind && !plain.flatten().all(|t| part.plain_f32(t))
    {
        return None;
    }
    let heads = |tensor: TensorIndex, count: Option<usize>| Heads::new(part.dims(tensor)?, count);
    let q = heads(node.input(0)?, attributes.q_heads)?;
    let k = heads(node.input(1)?, attributes.kv_heads)?;
    let v = heads(node.input(2)?, attributes.kv_heads)?;
    let y = heads(node.output(0)?, attributes.q_heads)?;
    let before = match pasts[0] {
        Some(past) => *part.dims(past)?.get(2)?,
        None => 0,
    };
    let keys = before.checked_add(k.rows)?;
    for ([past, present], size) in [[pasts[0], presents[0]], [pasts[1], presents[1]]]
        .into_iter()
        .zip([k.size, v.size])
    {
        let are = |tensor: Option<TensorIndex>, rows: usize| {
            tensor.is_none_or(|tensor| part.dims(tensor) == Some(&[k.batch, k.heads, rows, size]))
        };
        if !are(past, before) || !are(present, keys) {
            return None;
        }
    }
    let fit = (q.batch, q.size) == (k.batch, k.size)
        && (v.batch, v.heads, v.rows) == (k.batch, k.heads, k.rows)
        && (y.batch, y.heads, y.rows, y.size) == (q.batch, q.heads, q.rows, v.size)
        && k.heads > 0
        && q.heads.is_multiple_of(k.heads)
        && q.size > 0;
    if !fit {
        return None;
    }
    let mask = match node.input(3) {
        None => None,
        Some(mask) => {
            let (dims, scores) = (part.dims(mask)?, [q.batch, q.heads, q.rows, keys]);
            // a mask of fewer keys hides the rest, even one of a single key: it is no broadcast
            if dims.last() != Some(&keys) || !(is_truth(part, mask) || stands_for_f32(part, mask)) {
                return None;
            }
            let strides = broadcast::strides(dims, &scores)?;
            Some(HeadStrides {
                batch: strides[0],
                head: strides[1],
                row: strides[2],
            })
        }
    };
    let window = |size: i64| usize::try_from(size).ok();
    let params = AttentionParams {
        batch: q.batch,
        heads: q.heads,
        kv_heads: k.heads,
        queries: q.rows,
        keys,
        size: q.size,
        value_size: v.size,
        q: q.strides,
        k: k.strides,
        v: v.strides,
        mask,
        out: y.strides,
        scale: attributes.scale.unwrap_or_else(|| 1.0 / (q.size as f32).sqrt()),
        softcap: attributes.softcap,
        past: before,
        left: window(attributes.left_window),
        right: if attributes.causal {
            Some(0)
        } else {
            window(attributes.right_window)
        },
    };
    let joined = is_behind.then_some(before);
    Some(Supported { params, joined })
}

/// Whether a tensor is of truth values.
fn is_truth(part: &Part, tensor: TensorIndex) -> bool {
    part.tensors[tensor].dtype == DType::Bool && part.tensors[tensor].encoding.is_none()
}

/// Whether these kernels cover a node.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    supported(part, node).is_some()
}

/// What a transposition of `[batch, rows, heads, size]` and back reads, where the node is one.
pub(super) fn swaps_heads(part: &Part, node: &Node) -> Option<TensorIndex> {
    let (x, y) = (node.input(0)?, node.output(0)?);
    let swaps = node.op == Op::Transpose
        && node.typed::<Transpose>().ok()?.perm.as_deref() == Some(&[0, 2, 1, 3])
        && is_unrounded(part, x)
        && is_unrounded(part, y)
        && part.dims(x)?.len() == 4;
    swaps.then_some(x)
}

/// A mask as what is added to scores. One step for all that read a mask of truth values.
fn added(l: &mut Lowering<'_>, mask: TensorIndex) -> Result<ValueId> {
    if !is_truth(l.part, mask) {
        return l.rows(mask);
    }
    if let Some(&known) = l.added.get(&mask) {
        return Ok(known);
    }
    let reads = [l.rows(mask)?];
    let value = l.fresh(DType::F32, l.shape(mask)?.to_vec())?;
    let isa = l.isa;
    l.step(
        "mask",
        &reads,
        &[value],
        None,
        Box::new(move |o| {
            let hides = |seen: u8| if seen == 0 { f32::NEG_INFINITY } else { 0.0 };
            convert::each(isa, o.pool, o.read::<u8>(0), o.write::<f32>(0), hides);
            Ok(())
        }),
    )
    .is(Class::Copy);
    l.added.insert(mask, value);
    Ok(value)
}

/// Keys or values behind those of before, `[batch, heads, before + rows, size]`, in the node's output where it has one.
fn join(
    l: &mut Lowering<'_>,
    [past, present]: [Option<TensorIndex>; 2],
    (new, strides): (ValueId, HeadStrides),
    [batch, heads, before, rows, size]: [usize; 5],
) -> Result<ValueId> {
    let mut reads = vec![new];
    if let Some(past) = past {
        reads.push(l.rows(past)?);
    }
    let total = before + rows;
    let target = match present {
        Some(present) => l.write_rows(present)?,
        None => l.fresh(DType::F32, vec![batch, heads, total, size])?,
    };
    let has_past = past.is_some();
    l.step(
        "keys or values behind a past",
        &reads,
        &[target],
        None,
        Box::new(move |o| {
            let new = o.read::<f32>(0);
            let past: &[f32] = if has_past { o.read(1) } else { &[] };
            let whole = o.write::<f32>(0);
            if total * size == 0 {
                return Ok(());
            }
            for (head, whole) in whole.chunks_exact_mut(total * size).enumerate() {
                let (old, own) = whole.split_at_mut(before * size);
                old.copy_from_slice(&past[head * before * size..][..before * size]);
                let first = head / heads * strides.batch + head % heads * strides.head;
                for (row, own) in own.chunks_exact_mut(size).enumerate() {
                    own.copy_from_slice(&new[first + row * strides.row..][..size]);
                }
            }
            Ok(())
        }),
    )
    .is(Class::Copy);
    Ok(target)
}

/// Lowers Attention.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<bool> {
    let (Some(q), Some(k), Some(v), Some(y)) = (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Ok(false);
    };
    let Some(Supported { mut params, joined }) = supported(l.part, node) else {
        return Ok(false);
    };
    let new = params.keys - joined.unwrap_or(0);
    // what is joined is copied as it is
    let elements = match joined {
        Some(_) => Elements::F32,
        None => l.elements(&[q, k, v, y]),
    };
    let storage = storage_of(elements);
    let mut reads = Vec::new();
    for (tensor, strides, heads, rows, size) in [
        (q, &mut params.q, params.heads, params.queries, params.size),
        (k, &mut params.k, params.kv_heads, new, params.size),
        (v, &mut params.v, params.kv_heads, new, params.value_size),
    ] {
        let source = match l.transposed[tensor] {
            Some(source) => {
                *strides = HeadStrides::heads_inside(heads, rows, size);
                source
            }
            None => tensor,
        };
        reads.push(l.read(source, Layout::RowMajor, storage)?);
    }
    if let Some(before) = joined {
        for (i, (strides, size)) in [(&mut params.k, params.size), (&mut params.v, params.value_size)]
            .into_iter()
            .enumerate()
        {
            let (batch, heads) = (params.batch, params.kv_heads);
            let tensors = [node.input(4 + i), node.output(1 + i)];
            let own = (reads[1 + i], *strides);
            reads[1 + i] = join(l, tensors, own, [batch, heads, before, new, size])?;
            *strides = HeadStrides::heads_outside(heads, params.keys, size);
        }
    }
    let with_mask = match node.input(3) {
        Some(mask) => {
            reads.push(added(l, mask)?);
            true
        }
        None => false,
    };
    let target = match fused.output {
        Some(transposed) => {
            params.out = HeadStrides::heads_inside(params.heads, params.queries, params.value_size);
            transposed
        }
        None => y,
    };
    let output = l.write_f32_or(storage, target, Layout::RowMajor)?;
    let plan = AttentionPlan::of(elements, l.isa, params).map_err(kernel_error)?;
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let scores = [params.batch, params.heads, params.queries, params.keys];
    let products = scores.iter().fold(params.size + params.value_size, |all, &size| {
        all.saturating_mul(size)
    });
    l.step(
        "attention",
        &reads,
        &[output],
        scratch,
        Box::new(move |o| {
            let mask = with_mask.then(|| o.read(3));
            let (y, scratch) = (o.slice_mut(0), o.scratch(1));
            plan.run(o.pool, o.slice(0), o.slice(1), o.slice(2), mask, y, scratch);
            Ok(())
        }),
    )
    .does(Class::Attention, products);
    Ok(true)
}
