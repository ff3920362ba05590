//! The hyper-parameters themselves.
//!
//! Not here: how a file states them (`config`), what an architecture is made of (`architecture`).

/// A supported model family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// Llama and models built like it: Mistral, Mixtral, SmolLM, DeepSeek's distilled Llama.
    Llama,
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen 3: norms of queries and keys per head.
    Qwen3,
    /// Qwen 1.5 and 2 with experts, and one expert that every token has.
    Qwen2Moe,
    /// Qwen 3 with experts.
    Qwen3Moe,
    /// Phi 3, 3.5 and 4: fused products.
    Phi3,
    /// Gemma.
    Gemma,
    /// Gemma 2: norms around each block, capped scores, and windows in every other layer.
    Gemma2,
    /// Gemma 3, text: as Gemma 2, with norms of queries and keys instead of caps.
    Gemma3,
    /// Granite 3 and 4 without experts: factors on the stream, the scores and the logits.
    Granite,
    /// Granite with experts.
    GraniteMoe,
    /// OLMo 2: norms behind each block.
    Olmo2,
    /// OLMoE.
    OlMoe,
    /// SmolLM 3: every fourth layer does not rotate.
    SmolLm3,
    /// OpenAI's open models: experts with biases, attention sinks.
    GptOss,
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
    /// Each angle is divided by its value in `rope_factors_short.weight`, or, where the capacity
    /// exceeds the positions of the first training, `rope_factors_long.weight` (LongRoPE, arXiv
    /// 2402.13753).
    LongShort {
        /// Positions of the first training.
        original: u32,
        /// Factor on cosines and sines.
        magnitude: f32,
    },
    /// YaRN (arXiv 2309.00071).
    Yarn(Yarn),
}

/// Parameters of YaRN: angles that turn seldom within the context of the first training are divided
/// by a factor, those that turn often are not, and those in between are interpolated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Divisor of angles that turn seldom.
    pub factor: f32,
    /// Positions of the first training.
    pub original: u32,
    /// Turns from which an angle turns often.
    pub fast: f32,
    /// Turns below which an angle turns seldom.
    pub slow: f32,
    /// Whether the ends of the interpolation are rounded to whole angles.
    pub is_whole: bool,
    /// Factor on cosines and sines.
    pub magnitude: f32,
}

/// The norms of a layer, by the names of their tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Norms {
    /// Of the stream before attention.
    pub attention: Option<&'static str>,
    /// Of what attention adds to the stream.
    pub attended: Option<&'static str>,
    /// Of the stream before the feed-forward block.
    pub feed_forward: Option<&'static str>,
    /// Of what the feed-forward block adds to the stream.
    pub fed: Option<&'static str>,
}

/// How queries and keys are normalized before they are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head apart.
    PerHead,
    /// All heads as one row.
    Whole,
}

/// The function of the gate in a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU by its approximation with a hyperbolic tangent.
    GeluTanh,
    /// `g · sigmoid(1.702 · g) · (u + 1)` of a gate up to 7 and `u` within ±7 (gpt-oss).
    ClampedSwish,
}

/// How the weights of a token's experts are made of the router's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Softmax over all experts; those of the chosen ones need not sum to 1.
    OfAll,
    /// Softmax over the chosen experts.
    OfChosen,
}

/// The experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts.
    pub count: u32,
    /// Number of experts that a token has.
    pub used: u32,
    /// Inner width of an expert.
    pub feed_forward: u32,
    /// How experts are weighed.
    pub routing: Routing,
    /// Whether the router and the experts have biases.
    pub has_bias: bool,
    /// Inner width of the expert that every token has, if there is one.
    pub shared: Option<u32>,
}

/// Attention that sees a window of positions only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Number of positions that a token sees, with itself.
    pub size: u32,
    /// Every so many layers, one sees all positions; without a number, none does.
    pub full_every: Option<u32>,
    /// Base of the angles in layers with a window, if they have their own; those are not scaled.
    pub rope_base: Option<f32>,
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
    /// Inner width of a feed-forward block without experts.
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
    /// Every so many layers, one does not rotate queries and keys.
    pub unrotated_every: Option<u32>,
    /// The norms of a layer.
    pub norms: Norms,
    /// Number added to the mean square before its root.
    pub norm_epsilon: f32,
    /// Number of positions that the model was trained for.
    pub context: u32,
    /// Number of rows of the embedding table.
    pub vocabulary: u32,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether the product behind attention has a bias.
    pub output_bias: bool,
    /// How queries and keys are normalized before they are rotated.
    pub qk_norm: Option<QkNorm>,
    /// Whether queries, keys and values are one matrix, and gate and up another.
    pub is_fused: bool,
    /// The function of the gate.
    pub activation: Activation,
    /// The experts of each layer, if it has any.
    pub experts: Option<Experts>,
    /// The window of attention, if it matters: the context is longer, or it has its own angles.
    pub window: Option<Window>,
    /// Whether each head has a score that no position has, which takes part in its softmax.
    pub has_sinks: bool,
    /// Factor on embedded tokens.
    pub embedding_scale: f32,
    /// Factor on what each block adds to the stream.
    pub residual_scale: f32,
    /// Factor on scores, if it is not the inverse square root of the head size.
    pub attention_scale: Option<f32>,
    /// Factor on logits.
    pub logit_scale: f32,
    /// Limit of scores, `c · tanh(score / c)`.
    pub attention_cap: Option<f32>,
    /// Limit of logits, `c · tanh(logit / c)`.
    pub logit_cap: Option<f32>,
    /// Whether the embedding table is also the output matrix.
    pub tied: bool,
}

impl Config {
    /// The window of a layer, if it has one.
    #[must_use]
    pub fn window_of(&self, layer: u32) -> Option<Window> {
        let is_full = |every: u32| (layer + 1).is_multiple_of(every);
        self.window
            .filter(|window| !window.full_every.is_some_and(is_full))
    }

    /// Whether a layer rotates queries and keys.
    #[must_use]
    pub fn is_rotated(&self, layer: u32) -> bool {
        let is_not = |every: u32| (layer + 1).is_multiple_of(every);
        !self.unrotated_every.is_some_and(is_not)
    }
}
