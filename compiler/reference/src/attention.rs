//! Attention ops.
//!
//! Invariant: three-dimensional inputs are split into heads, computed, and joined again.

use polychip_cpu_kernels::reference::attention::{self as kernel, Attention, LinearRule, Shown};
use polychip_cpu_kernels::reference::{Result, Tensor, shape};
use polychip_ops::{Attr, DType, DTypes, Op};

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

fn heads(c: &Call<'_>, x: &Tensor, attr: Attr) -> Result<Tensor> {
    if x.rank() == 3 {
        kernel::split_heads(x, c.required_size(attr)?)
    } else {
        Ok(x.clone())
    }
}

fn attention(c: &Call<'_>) -> Outputs {
    let packed = c.input(0)?.rank() == 3;
    let q = heads(c, c.input(0)?, Attr::QNumHeads)?;
    let mut k = heads(c, c.input(1)?, Attr::KvNumHeads)?;
    let mut v = heads(c, c.input(2)?, Attr::KvNumHeads)?;
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
    let window = |attr| {
        let limit = c.int(attr, -1);
        (limit >= 0).then_some(limit)
    };
    let size = q.shape().get(3).copied().unwrap_or(1) as f64;
    let p = Attention {
        scale: c
            .attributes
            .float(Attr::Scale)
            .map_or(1.0 / size.sqrt(), f64::from),
        softcap: c.float(Attr::Softcap, 0.0),
        causal: c.flag(Attr::IsCausal, false),
        left: window(Attr::LeftWindowSize),
        right: window(Attr::RightWindowSize),
        valid: valid.as_deref(),
        past,
        shown: match c.int(Attr::QkMatmulOutputMode, 0) {
            0 => Shown::Raw,
            1 => Shown::Capped,
            2 => Shown::Biased,
            3 => Shown::Probabilities,
            other => return bad(format!("qk_matmul_output_mode is {other}")),
        },
    };
    let (y, scores) = kernel::attention(&q, &k, &v, c.optional(3), p)?;
    let y = if packed { kernel::join_heads(&y)? } else { y };
    Ok(vec![y, k, v, scores])
}

fn rotary(c: &Call<'_>) -> Outputs {
    let input = c.input(0)?;
    let x = heads(c, input, Attr::NumHeads)?;
    let Ok(rotated) = usize::try_from(c.int(Attr::RotaryEmbeddingDim, 0)) else {
        return bad("rotary_embedding_dim is negative");
    };
    let interleaved = c.flag(Attr::Interleaved, false);
    let y = kernel::rotary(&x, c.input(1)?, c.input(2)?, c.optional(3), rotated, interleaved)?;
    Ok(vec![if input.rank() == 3 {
        kernel::join_heads(&y)?
    } else {
        y
    }])
}

fn linear(c: &Call<'_>) -> Outputs {
    let rule = match c.text(Attr::UpdateRule, "gated_delta") {
        "linear" => LinearRule {
            gated: false,
            delta: false,
        },
        "gated" => LinearRule {
            gated: true,
            delta: false,
        },
        "delta" => LinearRule {
            gated: false,
            delta: true,
        },
        "gated_delta" => LinearRule {
            gated: true,
            delta: true,
        },
        other => return bad(format!("update_rule is {other:?}")),
    };
    let scale = c.float(Attr::Scale, 0.0);
    let (y, state) = kernel::linear_attention(
        (c.input(0)?, c.input(1)?, c.input(2)?),
        c.optional(3),
        c.optional(4),
        c.optional(5),
        (
            c.required_size(Attr::QNumHeads)?,
            c.required_size(Attr::KvNumHeads)?,
        ),
        (scale != 0.0).then_some(scale),
        rule,
    )?;
    Ok(vec![y, state])
}
