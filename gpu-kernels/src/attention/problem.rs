//! What is attended to: sizes, the mask, and the sources of K and V.
//!
//! Not here: kernels for it (`attention`, `step`).

use serde::{Deserialize, Serialize};

use super::past::Past;
use crate::{Access, Scalar};

/// A mask: either numbers added to the scores, or booleans that say which keys a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mask {
    /// Element type: that of the queries, or boolean.
    pub scalar: Scalar,
    /// Strides between batches, heads and queries, in elements; 0 if the mask is broadcast. Keys
    /// are contiguous.
    pub strides: [u64; 3],
    /// How it is bound.
    pub access: Access,
}

/// What is still to be done to queries, new keys and new values before they are used: then it is done in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewRows {
    /// Queries and keys are rotated by their positions.
    pub rotary: Option<RotaryTables>,
    /// Keys, once rotated, and values are rounded to f16, as the past holds them.
    pub rounded: bool,
}

/// Rotation of queries and keys as in [`crate::Rotary`], of whose positions there is one per query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RotaryTables {
    /// The number of leading features that are rotated; an even number.
    pub rotated: u64,
    /// Whether the features of a pair are neighbours.
    pub interleaved: bool,
    /// Rows of cosines and sines.
    pub cached: u64,
    /// Type of the positions: `i32` or `i64`.
    pub positions: Scalar,
    /// How cosines and sines are bound.
    pub access: Access,
}

/// `softmax(scale * q k' + mask) v`. Bindings: q `[batch, heads, queries, depth]`, k `[batch, kv_heads, keys,
/// depth]`, v `[batch, kv_heads, keys, value_depth]`, the past's keys, values and visible positions if there is one,
/// the mask if any, cosines, sines and positions `[batch, queries]` if rows are rotated here, output `[batch, heads, queries, value_depth]`. A mask's columns are the positions of the past,
/// then the keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Element type of all tensors: `f32` or `f16`.
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
    /// Elements of a query and of a key.
    pub depth: u64,
    /// Values of a value.
    pub value_depth: u64,
    /// Factor of the scores.
    pub scale: f32,
    /// If set, query `i` sees keys up to `i` plus this number: 0 for ONNX `is_causal`.
    pub causal: Option<i64>,
    /// Mask.
    pub mask: Option<Mask>,
    /// Whether all tensors except the past have the heads after the sequence:
    /// `[batch, queries, heads, depth]`.
    pub heads_inside: bool,
    /// The KV cache of earlier positions. Excludes `causal`.
    pub past: Option<Past>,
    /// What the kernel does to the new rows first; only for few queries over a past.
    pub new_rows: Option<NewRows>,
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
