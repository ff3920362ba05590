//! Scaled dot-product attention in one kernel: no matrix of scores reaches memory.
//!
//! Invariant: products, exponentials and sums are in f32, whatever the storage.

use serde::{Deserialize, Serialize};

use crate::{Access, Scalar};

/// A mask that is added to the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mask {
    /// Elements from one batch to the next, head, query; 0 where it is broadcast. Keys lie side by side.
    pub strides: [u64; 3],
    /// How it is bound.
    pub access: Access,
}

/// `softmax(scale * q k' + mask) v`. Bindings: q `[batch, heads, queries, depth]`, k `[batch, kv_heads, keys,
/// depth]`, v `[batch, kv_heads, keys, value_depth]`, the mask if any, output `[batch, heads, queries,
/// value_depth]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Type of all: `f32` or `f16`.
    pub scalar: Scalar,
    /// Batches.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values, a divisor of `heads`.
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
    /// Whether query `i` sees keys up to `i + keys - queries` only.
    pub causal: bool,
    /// Mask.
    pub mask: Option<Mask>,
    /// Whether heads lie inside the sequence, `[batch, queries, heads, depth]` and so on, in all tensors.
    pub heads_inside: bool,
}
