//! Sizes of a model, whatever its graphs are made of.

/// Sizes of a model that whoever runs it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Blocks of attention and feed-forward.
    pub layers: u32,
    /// Width of the residual stream.
    pub embedding: u32,
    /// Heads of keys and of values.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_size: u32,
    /// Positions that the model was trained for.
    pub context: u32,
    /// Tokens that there are logits of.
    pub vocabulary: u32,
}
