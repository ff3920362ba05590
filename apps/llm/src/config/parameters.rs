//! The hyper-parameters themselves.
//!
//! Not here: how a file states them (`config`).

use std::fmt;

/// A supported model family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama and models built like it: Mistral, SmolLM.
    Llama,
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen 3: norms of queries and keys per head.
    Qwen3,
}

impl Architecture {
    pub(super) const ALL: [Architecture; 3] = [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3];

    /// Name in files, which also prefixes the family's keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which two values of a head are rotated together (RoFormer, arXiv 2104.09864).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairing {
    /// Values 2·i and 2·i+1.
    Interleaved,
    /// Values i and i + n/2 of the n rotated values.
    Halves,
}

/// How position angles are scaled for long contexts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Unscaled.
    None,
    /// Positions are divided by this number.
    Linear(f32),
    /// Each angle is divided by its value in the tensor `rope_freqs.weight` (Llama 3.1).
    Factors,
}

/// A model's hyper-parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The model family.
    pub architecture: Architecture,
    /// Number of blocks of attention and feed-forward.
    pub layers: u32,
    /// Width of the residual stream.
    pub embedding: u32,
    /// Inner width of a feed-forward block.
    pub feed_forward: u32,
    /// Number of query heads.
    pub heads: u32,
    /// Number of key heads, and of value heads; divides `heads`.
    pub kv_heads: u32,
    /// Width of a head, for queries, keys and values; even.
    pub head_size: u32,
    /// Number of rotated values at the start of a head; even, at most `head_size`.
    pub rope_dims: u32,
    /// Base of the angles: position · base^(-2·i / rope_dims).
    pub rope_base: f32,
    /// Which values are rotated together.
    pub rope_pairing: RopePairing,
    /// How angles are scaled.
    pub rope_scaling: RopeScaling,
    /// Number added to the mean square before its root.
    pub norm_epsilon: f32,
    /// Number of positions that the model was trained for.
    pub context: u32,
    /// Number of rows of the embedding table.
    pub vocabulary: u32,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether queries and keys are normalized per head before they are rotated.
    pub qk_norm: bool,
    /// Whether the embedding table is also the output matrix.
    pub tied: bool,
}
