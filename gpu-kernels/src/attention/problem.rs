//! What is attended to: sizes, the mask, and the sources of keys and values.
//!
//! Not here: kernels for it (`attention`, `step`).

use serde::{Deserialize, Serialize};

use super::past::Past;
use crate::{Access, Scalar};

/// A mask that is added to the scores, or of truth values: which keys a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mask {
    /// Type: that of the queries, or truth values.
    pub scalar: Scalar,
    /// Elements from one batch to the next, head, query; 0 where it is broadcast. Keys lie side by side.
    pub strides: [u64; 3],
    /// How it is bound.
    pub access: Access,
}

/// `softmax(scale * q k' + mask) v`. Bindings: q `[batch, heads, queries, depth]`, k `[batch, kv_heads, keys,
/// depth]`, v `[batch, kv_heads, keys, value_depth]`, the past's keys, values and visible positions if there is one,
/// the mask if any, output `[batch, heads, queries, value_depth]`. A mask's columns are the positions of the past,
/// then the keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Type of all: `f32` or `f16`.
    pub scalar: Scalar,
    /// Batches.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// KV heads, a divisor of `heads`.
    pub kv_heads: u64,
    /// Queries.
    pub queries: u64,
    /// Keys.
    pub keys: u64,
    /// Values of a query and of a key.
    pub depth: u64,
    /// Values of a value.
    pub value_depth: u64,
    /// Factor of the scores.
    pub scale: f32,
    /// Query `i` sees keys up to `i` and this many more only: 0 for ONNX `is_causal`.
    pub causal: Option<i64>,
    /// Mask.
    pub mask: Option<Mask>,
    /// Whether heads lie inside the sequence, `[batch, queries, heads, depth]` and so on, in all tensors but the past.
    pub heads_inside: bool,
    /// The KV cache of earlier positions. Excludes `causal`.
    pub past: Option<Past>,
}

/// The source of a tile of keys and their values.
pub(super) struct Source<'a> {
    /// The key binding and the value binding.
    pub(super) names: [&'a str; 2],
    /// Whether heads lie inside the sequence.
    pub(super) heads_inside: bool,
    /// Positions that there are.
    pub(super) length: u64,
    /// Text of the position behind the last one that is read.
    pub(super) end: String,
    /// Text of the position behind the last one that may be seen.
    pub(super) bound: String,
    /// First column of the mask.
    pub(super) column: u64,
    /// As [`Attention::causal`].
    pub(super) causal: Option<i64>,
}
