//! Sizes of a model, independent of its graphs' source.

/// Sizes of a model for code that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Number of blocks of attention and feed-forward.
    pub layers: u32,
    /// Width of the residual stream.
    pub embedding: u32,
    /// Number of key heads, and of value heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_size: u32,
    /// Number of positions that the model was trained for.
    pub context: u32,
    /// Number of logits per position.
    pub vocabulary: u32,
}
