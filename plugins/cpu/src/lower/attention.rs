//! Attention as one step, reading and writing heads where they lie.
//!
//! A transposition between `[batch, rows, heads, size]` and `[batch, heads, rows, size]` around an attention is not
//! computed: [`super::fuse`] finds it by [`swaps_heads`], and the strides say the same.

use polychip_cpu_kernels::attention::{AttentionParams, AttentionPlan, HeadStrides};
use polychip_lowering::Layout;
use polychip_ops::{Attr, AttrKey, AttrValue, Op, axis, broadcast};
use polychip_sdk::Result;

use super::builder::{Lowering, kernel_error, storage_of};
use super::encoding::{is_unrounded, stands_for_f32};
use super::tail::Tail;
use crate::part::{Node, Part, TensorIndex};
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

/// The shape of an attention that the kernel computes.
fn params(part: &Part, node: &Node) -> Option<AttentionParams> {
    let attributes = &node.attributes;
    // an attribute that this does not know may change the result
    const KNOWN: &[Attr] = &[
        Attr::IsCausal,
        Attr::KvNumHeads,
        Attr::LeftWindowSize,
        Attr::QNumHeads,
        Attr::QkMatmulOutputMode,
        Attr::RightWindowSize,
        Attr::Scale,
        Attr::Softcap,
        Attr::SoftmaxPrecision,
    ];
    let known =
        |(key, _): (&AttrKey, &AttrValue)| matches!(key, AttrKey::Known(attr) if KNOWN.contains(attr));
    let cached =
        node.inputs.iter().skip(4).any(Option::is_some) || node.outputs.iter().skip(1).any(Option::is_some);
    let tensors = || node.inputs.iter().chain(&node.outputs).flatten();
    if node.op != Op::Attention
        || cached
        || !attributes.iter().all(known)
        || !tensors().all(|&t| stands_for_f32(part, t))
    {
        return None;
    }
    let count = |attr: Attr| attributes.int(attr).and_then(|n| usize::try_from(n).ok());
    let heads = |tensor: TensorIndex, attr: Attr| Heads::new(part.dims(tensor)?, count(attr));
    let q = heads(node.input(0)?, Attr::QNumHeads)?;
    let k = heads(node.input(1)?, Attr::KvNumHeads)?;
    let v = heads(node.input(2)?, Attr::KvNumHeads)?;
    let y = heads(node.output(0)?, Attr::QNumHeads)?;
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
            let (dims, scores) = (part.dims(mask)?, [q.batch, q.heads, q.rows, k.rows]);
            // a mask of fewer keys hides the rest, even one of a single key: it is no broadcast
            if dims.last() != Some(&k.rows) {
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
    let causal = attributes.int(Attr::IsCausal).unwrap_or(0) != 0;
    let scale = attributes.float(Attr::Scale);
    Some(AttentionParams {
        batch: q.batch,
        heads: q.heads,
        kv_heads: k.heads,
        queries: q.rows,
        keys: k.rows,
        size: q.size,
        value_size: v.size,
        q: q.strides,
        k: k.strides,
        v: v.strides,
        mask,
        out: y.strides,
        scale: scale.unwrap_or_else(|| 1.0 / (q.size as f32).sqrt()),
        softcap: attributes.float(Attr::Softcap).unwrap_or(0.0),
        past: 0,
        left: count(Attr::LeftWindowSize),
        right: if causal {
            Some(0)
        } else {
            count(Attr::RightWindowSize)
        },
    })
}

/// Whether these kernels cover a node.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    params(part, node).is_some()
}

/// What a transposition of `[batch, rows, heads, size]` and back reads, where the node is one.
pub(super) fn swaps_heads(part: &Part, node: &Node) -> Option<TensorIndex> {
    let (x, y) = (node.input(0)?, node.output(0)?);
    let swaps = node.op == Op::Transpose
        && node.attributes.ints(Attr::Perm) == Some(&[0, 2, 1, 3])
        && is_unrounded(part, x)
        && is_unrounded(part, y)
        && part.dims(x)?.len() == 4;
    swaps.then_some(x)
}

/// Lowers Attention without a cache.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, tail: &Tail) -> Result<bool> {
    let (Some(q), Some(k), Some(v), Some(y)) = (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Ok(false);
    };
    let Some(mut params) = params(l.part, node) else {
        return Ok(false);
    };
    let elements = l.elements(&[q, k, v, y]);
    let storage = storage_of(elements);
    let mut reads = Vec::new();
    for (tensor, strides, heads, rows, size) in [
        (q, &mut params.q, params.heads, params.queries, params.size),
        (k, &mut params.k, params.kv_heads, params.keys, params.size),
        (v, &mut params.v, params.kv_heads, params.keys, params.value_size),
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
    let with_mask = match node.input(3) {
        Some(mask) => {
            reads.push(l.rows(mask)?);
            true
        }
        None => false,
    };
    let target = match tail.output {
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
