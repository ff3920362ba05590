//! Attention: scores, mask, softmax and weighted sum as four steps per node, without any transposition.

use half::bf16;
use polychip_cpu_kernels::gemm::{Elements, MAX_BATCH_DIMS, MatMulParams, Strides};
use polychip_cpu_kernels::{Binary, softmax};
use polychip_ops::{Attr, AttrKey, AttrValue, DType, Op};
use polychip_sdk::Result;

use super::{Form, IDENTITY, Lowering, elementwise, matmul};
use crate::part::{Node, TensorIndex};

/// Where heads and rows of an operand lie.
struct Heads {
    batch: usize,
    heads: usize,
    rows: usize,
    size: usize,
    strides: Strides,
}

impl Heads {
    /// `[batch, heads, rows, size]`, or `[batch, rows, heads * size]` with the head count beside it.
    fn new(dims: &[usize], heads: Option<usize>) -> Option<Self> {
        let (batch, heads, rows, size, strides) = match (dims, heads) {
            (&[batch, heads, rows, size], _) => {
                (batch, heads, rows, size, [heads * rows * size, rows * size, size])
            }
            (&[batch, rows, width], Some(heads)) if heads > 0 && width % heads == 0 => {
                let size = width / heads;
                (batch, heads, rows, size, [rows * width, size, width])
            }
            _ => return None,
        };
        let [per_batch, per_head, per_row] = strides;
        let mut all = [0; MAX_BATCH_DIMS];
        all[MAX_BATCH_DIMS - 2] = per_batch;
        all[MAX_BATCH_DIMS - 1] = per_head;
        Some(Self {
            batch,
            heads,
            rows,
            size,
            strides: Strides {
                batch: all,
                row: per_row,
                column: 1,
            },
        })
    }
}

/// Lowers Attention without a cache, causal mask, window or soft cap, where queries and keys have as many heads.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(q), Some(k), Some(v), Some(y)) = (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Ok(false);
    };
    let attributes = &node.attributes;
    let cached =
        node.inputs.iter().skip(4).any(Option::is_some) || node.outputs.iter().skip(1).any(Option::is_some);
    // an attribute that this does not know (a window, say) may change the result
    const KNOWN: &[Attr] = &[
        Attr::IsCausal,
        Attr::KvNumHeads,
        Attr::QNumHeads,
        Attr::QkMatmulOutputMode,
        Attr::Scale,
        Attr::Softcap,
        Attr::SoftmaxPrecision,
    ];
    let strange = attributes.iter().any(|pair| match pair {
        (AttrKey::Known(Attr::LeftWindowSize | Attr::RightWindowSize), AttrValue::Int(size)) => *size != -1,
        (AttrKey::Known(attr), _) => !KNOWN.contains(attr),
        _ => true,
    });
    if node.op != Op::Attention
        || strange
        || cached
        || !l.all_f32(node)
        || attributes.int(Attr::IsCausal).unwrap_or(0) != 0
        || attributes.float(Attr::Softcap).unwrap_or(0.0) != 0.0
    {
        return Ok(false);
    }
    let count = |attr: Attr| attributes.int(attr).and_then(|n| usize::try_from(n).ok());
    let (q_heads, kv_heads) = (count(Attr::QNumHeads), count(Attr::KvNumHeads));
    let heads =
        |t: TensorIndex, heads: Option<usize>| Ok::<_, polychip_sdk::Error>(Heads::new(l.shape(t)?, heads));
    let (Some(qs), Some(ks), Some(vs), Some(ys)) = (
        heads(q, q_heads)?,
        heads(k, kv_heads)?,
        heads(v, kv_heads)?,
        heads(y, q_heads)?,
    ) else {
        return Ok(false);
    };
    let same = (qs.batch, qs.heads, qs.size) == (ks.batch, ks.heads, ks.size)
        && (vs.batch, vs.heads, vs.rows) == (ks.batch, ks.heads, ks.rows)
        && (ys.batch, ys.heads, ys.rows, ys.size) == (qs.batch, qs.heads, qs.rows, vs.size);
    let scores_shape = vec![qs.batch, qs.heads, qs.rows, ks.rows];
    let mask = node.input(3);
    let fits = match mask {
        None => true,
        Some(t) => {
            // a mask of fewer keys hides the rest, even one of a single key: it is no broadcast
            let mask = l.shape(t)?;
            mask.last() == Some(&ks.rows)
                && polychip_ops::broadcast::shapes(&[mask, &scores_shape]).as_deref()
                    == Some(&scores_shape[..])
        }
    };
    if !same || !fits || qs.size == 0 {
        return Ok(false);
    }
    let alpha = attributes
        .float(Attr::Scale)
        .unwrap_or_else(|| 1.0 / (qs.size as f32).sqrt());
    let batch = {
        let mut sizes = [1; MAX_BATCH_DIMS];
        sizes[MAX_BATCH_DIMS - 2..].copy_from_slice(&[qs.batch, qs.heads]);
        sizes
    };
    let dense = Heads::new(&scores_shape, None).map_or_else(Strides::default, |scores| scores.strides);
    let flipped = Strides {
        row: ks.strides.column,
        column: ks.strides.row,
        ..ks.strides
    };
    let elements = l.elements(&[q, k, v, y]);
    let brief = elements == Elements::Bf16;
    let (q, k, v) = (
        l.form_as(q, Form::Rows, brief)?,
        l.form_as(k, Form::Rows, brief)?,
        l.form_as(v, Form::Rows, brief)?,
    );
    // the scores are f32 until they are weights
    let mut scores = l.fresh(DType::F32, scores_shape.clone())?;
    let params = MatMulParams {
        batch,
        m: qs.rows,
        k: qs.size,
        n: ks.rows,
        a: qs.strides,
        b: flipped,
        c: dense,
        alpha,
        activation: IDENTITY,
    };
    matmul::product(l, elements, params, q, k, scores)?;
    if let Some(mask) = mask {
        let mask = l.rows(mask)?;
        let masked = l.fresh(DType::F32, scores_shape.clone())?;
        elementwise::emit(l, Binary::Add, scores, mask, masked)?;
        scores = masked;
    }
    let weights = l.fresh(if brief { DType::BF16 } else { DType::F32 }, scores_shape)?;
    let sizes = [qs.batch * qs.heads * qs.rows, ks.rows, 1];
    let isa = l.isa;
    let masked = mask.is_some();
    l.step(
        "softmax",
        &[scores],
        &[weights],
        None,
        Box::new(move |o| {
            if brief {
                let scores = o.read::<f32>(0);
                let hidden = if masked {
                    hidden_rows(scores, sizes[1])
                } else {
                    Vec::new()
                };
                let weights: &mut [bf16] = o.write(0);
                softmax::softmax(isa, o.pool, sizes, scores, &mut *weights);
                for row in hidden {
                    weights[row * sizes[1]..][..sizes[1]].fill(bf16::ZERO);
                }
                return Ok(());
            }
            let weights: &mut [f32] = o.write(0);
            let scores = o.shared().is_none().then(|| o.read::<f32>(0));
            let hidden = if masked {
                hidden_rows(scores.unwrap_or(weights), sizes[1])
            } else {
                Vec::new()
            };
            match scores {
                None => softmax::softmax_in_place(isa, o.pool, sizes, &mut *weights),
                Some(scores) => softmax::softmax(isa, o.pool, sizes, scores, &mut *weights),
            }
            for row in hidden {
                weights[row * sizes[1]..][..sizes[1]].fill(0.0);
            }
            Ok(())
        }),
    )
    .may_share = vec![0];
    let output = l.result_near(y, Form::Rows, brief)?;
    let params = MatMulParams {
        batch,
        m: qs.rows,
        k: ks.rows,
        n: vs.size,
        a: dense,
        b: vs.strides,
        c: ys.strides,
        alpha: 1.0,
        activation: IDENTITY,
    };
    matmul::product(l, elements, params, weights, v, output)?;
    Ok(true)
}

/// The rows that the mask hides whole: attention makes them zero, where softmax alone makes them NaN.
fn hidden_rows(scores: &[f32], keys: usize) -> Vec<usize> {
    let rows = scores.chunks_exact(keys.max(1)).enumerate();
    rows.filter(|(_, row)| row.iter().all(|&score| score == f32::NEG_INFINITY))
        .map(|(row, _)| row)
        .collect()
}
