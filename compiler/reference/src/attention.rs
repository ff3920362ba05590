//! Attention ops.
//!
//! Invariant: three-dimensional inputs are split into heads, computed, and joined again.

use polychip_cpu_kernels::reference::attention::{self as kernel, Attention, LinearRule, Shown};
use polychip_cpu_kernels::reference::{Result, Tensor, shape};
use polychip_ops::operator::{self, Rotary, Scores, UpdateRule};
use polychip_ops::{DType, DTypes, Op};

use crate::call::{Call, Outputs, bad};
use crate::row::{BOOL, FLOATS, Row};

const I64: DTypes = DTypes::of(&[DType::I64]);
const MASK: DTypes = FLOATS.with(BOOL);

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Attention => Row {
            takes: &[FLOATS, FLOATS, FLOATS, MASK, FLOATS, FLOATS, I64],
            run: attention,
        },
        Op::RotaryEmbedding => Row {
            takes: &[FLOATS, FLOATS, FLOATS, I64],
            run: rotary,
        },
        Op::LinearAttention => Row {
            takes: &[FLOATS],
            run: linear,
        },
        _ => return None,
    })
}

fn heads(x: &Tensor, heads: Option<usize>, attribute: &str) -> Result<Tensor> {
    match heads {
        _ if x.rank() != 3 => Ok(x.clone()),
        Some(heads) => kernel::split_heads(x, heads),
        None => bad(format!("attribute {attribute} is missing")),
    }
}

fn attention(c: &Call<'_>) -> Outputs {
    let packed = c.input(0)?.rank() == 3;
    let node: operator::Attention = c.typed()?;
    let q = heads(c.input(0)?, node.q_heads, "q_num_heads")?;
    let mut k = heads(c.input(1)?, node.kv_heads, "kv_num_heads")?;
    let mut v = heads(c.input(2)?, node.kv_heads, "kv_num_heads")?;
    let mut past = 0;
    match (c.optional(4), c.optional(5)) {
        (None, None) => {}
        (Some(past_k), Some(past_v)) if past_k.rank() == 4 && past_v.rank() == 4 => {
            past = past_k.shape()[2];
            k = shape::concat(&[past_k, &k], 2)?;
            v = shape::concat(&[past_v, &v], 2)?;
        }
        _ => return bad("past_key and past_value come together, in four dims"),
    }
    let valid = c.optional_ints(6)?;
    let window = |limit: i64| (limit >= 0).then_some(limit);
    let size = q.shape().get(3).copied().unwrap_or(1) as f64;
    let p = Attention {
        scale: node.scale.map_or(1.0 / size.sqrt(), f64::from),
        softcap: node.softcap.into(),
        causal: node.causal,
        left: window(node.left_window),
        right: window(node.right_window),
        valid: valid.as_deref(),
        past,
        shown: match node.scores {
            Scores::Raw => Shown::Raw,
            Scores::Capped => Shown::Capped,
            Scores::Biased => Shown::Biased,
            Scores::Probabilities => Shown::Probabilities,
        },
    };
    let (y, scores) = kernel::attention(&q, &k, &v, c.optional(3), p)?;
    let y = if packed { kernel::join_heads(&y)? } else { y };
    Ok(vec![y, k, v, scores])
}

fn rotary(c: &Call<'_>) -> Outputs {
    let input = c.input(0)?;
    let node: Rotary = c.typed()?;
    let x = heads(input, node.heads, "num_heads")?;
    let y = kernel::rotary(
        &x,
        c.input(1)?,
        c.input(2)?,
        c.optional(3),
        node.rotated,
        node.interleaved,
    )?;
    Ok(vec![if input.rank() == 3 {
        kernel::join_heads(&y)?
    } else {
        y
    }])
}

fn linear(c: &Call<'_>) -> Outputs {
    let node: operator::LinearAttention = c.typed()?;
    let (gated, delta) = match node.rule {
        UpdateRule::Linear => (false, false),
        UpdateRule::Gated => (true, false),
        UpdateRule::Delta => (false, true),
        UpdateRule::GatedDelta => (true, true),
    };
    let scale = f64::from(node.scale);
    let (y, state) = kernel::linear_attention(
        (c.input(0)?, c.input(1)?, c.input(2)?),
        c.optional(3),
        c.optional(4),
        c.optional(5),
        (node.q_heads, node.kv_heads),
        (scale != 0.0).then_some(scale),
        LinearRule { gated, delta },
    )?;
    Ok(vec![y, state])
}
