//! The supported architectures: one row of data each, by which files are read and graphs are built.
//!
//! Invariant: no other code asks which architecture a model is; it reads the row, or the [`Config`]
//! that was made of it.
//!
//! To add an architecture, add a variant and a row, and compare it with another implementation
//! (`device-tests/witness/llm/architectures.py`).
//!
//! [`Config`]: super::Config

use std::fmt;

use super::parameters::{Activation, Architecture, Norms, QkNorm, RopePairing, Routing};

/// Whether a file of the architecture has some tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Never,
    Always,
    /// If its first layer has.
    IfStored,
}

/// Layers that see a window of positions only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Whether each file states a window.
    pub(crate) is_needed: bool,
    /// Every so many layers, one sees all positions; without a number, none does.
    pub(crate) full_every: Option<u32>,
    /// Base of the angles of layers with a window, if they have their own; those are not scaled.
    pub(crate) rope_base: Option<f32>,
}

/// What the blocks of an architecture are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    architecture: Architecture,
    /// Name in files, which also prefixes the family's keys.
    pub(crate) name: &'static str,
    pub(crate) norms: Norms,
    pub(crate) qk_norm: Option<QkNorm>,
    /// Biases of queries, keys and values.
    pub(crate) qkv_bias: Presence,
    /// Bias of the product behind attention.
    pub(crate) output_bias: Presence,
    /// Whether queries, keys and values are one matrix, and gate and up another.
    pub(crate) is_fused: bool,
    pub(crate) activation: Activation,
    /// Which values are rotated together in GGUF files; converters of some families reorder rows.
    pub(crate) pairing: RopePairing,
    /// Every so many layers, one does not rotate.
    pub(crate) unrotated_every: Option<u32>,
    pub(crate) windows: Option<Windows>,
    /// Whether embedded tokens are multiplied by the root of their width.
    pub(crate) scales_by_width: bool,
    /// Whether files state factors of embeddings, scores, blocks and logits.
    pub(crate) has_scales: bool,
    /// Whether files state caps of scores and logits.
    pub(crate) has_caps: bool,
    /// The number of layers of the one model whose scores are scaled by the embedding's width per
    /// head instead of the head's size. Files do not state it.
    pub(crate) scores_by_width: Option<u32>,
    /// How tokens are routed, if files may have experts.
    pub(crate) experts: Option<Routing>,
    /// Whether experts and their router have biases.
    pub(crate) expert_bias: bool,
    /// Whether there is an expert that every token has.
    pub(crate) shared_expert: bool,
    /// Whether each head has a score that no position has.
    pub(crate) has_sinks: bool,
    /// Whether the bounds of YaRN's ramp are whole numbers.
    pub(crate) whole_ramp: bool,
}

const BEFORE: Norms = Norms {
    attention: Some("attn_norm"),
    attended: None,
    feed_forward: Some("ffn_norm"),
    fed: None,
};
const AROUND: Norms = Norms {
    attended: Some("post_attention_norm"),
    fed: Some("post_ffw_norm"),
    ..BEFORE
};
const BEHIND: Norms = Norms {
    attention: None,
    feed_forward: None,
    ..AROUND
};

const LLAMA: Description = Description {
    architecture: Architecture::Llama,
    name: "llama",
    norms: BEFORE,
    qk_norm: None,
    qkv_bias: Presence::IfStored,
    output_bias: Presence::Never,
    is_fused: false,
    activation: Activation::Silu,
    pairing: RopePairing::Interleaved,
    unrotated_every: None,
    windows: Some(Windows {
        is_needed: false,
        full_every: None,
        rope_base: None,
    }),
    scales_by_width: false,
    has_scales: false,
    has_caps: false,
    scores_by_width: None,
    experts: Some(Routing::OfChosen),
    expert_bias: false,
    shared_expert: false,
    has_sinks: false,
    whole_ramp: true,
};
const QWEN2: Description = Description {
    architecture: Architecture::Qwen2,
    name: "qwen2",
    qkv_bias: Presence::Always,
    pairing: RopePairing::Halves,
    windows: None,
    experts: None,
    ..LLAMA
};
const QWEN3: Description = Description {
    architecture: Architecture::Qwen3,
    name: "qwen3",
    qk_norm: Some(QkNorm::PerHead),
    qkv_bias: Presence::IfStored,
    ..QWEN2
};
const GEMMA: Description = Description {
    architecture: Architecture::Gemma,
    name: "gemma",
    qkv_bias: Presence::Never,
    activation: Activation::GeluTanh,
    scales_by_width: true,
    ..QWEN2
};
const GEMMA2: Description = Description {
    architecture: Architecture::Gemma2,
    name: "gemma2",
    norms: AROUND,
    windows: Some(Windows {
        is_needed: true,
        full_every: Some(2),
        rope_base: None,
    }),
    has_caps: true,
    scores_by_width: Some(46),
    ..GEMMA
};
const GRANITE: Description = Description {
    architecture: Architecture::Granite,
    name: "granite",
    has_scales: true,
    windows: None,
    experts: None,
    ..LLAMA
};

const ROWS: [Description; 15] = [
    LLAMA,
    QWEN2,
    QWEN3,
    Description {
        architecture: Architecture::Qwen2Moe,
        name: "qwen2moe",
        experts: Some(Routing::OfAll),
        shared_expert: true,
        ..QWEN2
    },
    Description {
        architecture: Architecture::Qwen3Moe,
        name: "qwen3moe",
        experts: Some(Routing::OfChosen),
        ..QWEN3
    },
    Description {
        architecture: Architecture::Phi3,
        name: "phi3",
        qkv_bias: Presence::Never,
        is_fused: true,
        pairing: RopePairing::Halves,
        experts: None,
        ..LLAMA
    },
    GEMMA,
    GEMMA2,
    Description {
        architecture: Architecture::Gemma3,
        name: "gemma3",
        qk_norm: Some(QkNorm::PerHead),
        windows: Some(Windows {
            is_needed: true,
            full_every: Some(6),
            rope_base: Some(10_000.0),
        }),
        scores_by_width: Some(62),
        ..GEMMA2
    },
    GRANITE,
    Description {
        architecture: Architecture::GraniteMoe,
        name: "granitemoe",
        experts: Some(Routing::OfChosen),
        ..GRANITE
    },
    Description {
        architecture: Architecture::Olmo2,
        name: "olmo2",
        norms: BEHIND,
        qk_norm: Some(QkNorm::Whole),
        qkv_bias: Presence::Never,
        windows: Some(Windows {
            is_needed: false,
            full_every: Some(4),
            rope_base: None,
        }),
        ..QWEN2
    },
    Description {
        architecture: Architecture::OlMoe,
        name: "olmoe",
        qk_norm: Some(QkNorm::Whole),
        qkv_bias: Presence::Never,
        experts: Some(Routing::OfAll),
        ..QWEN2
    },
    Description {
        architecture: Architecture::SmolLm3,
        name: "smollm3",
        unrotated_every: Some(4),
        windows: None,
        experts: None,
        ..LLAMA
    },
    Description {
        architecture: Architecture::GptOss,
        name: "gpt-oss",
        norms: Norms {
            feed_forward: Some("post_attention_norm"),
            ..BEFORE
        },
        output_bias: Presence::Always,
        activation: Activation::ClampedSwish,
        windows: Some(Windows {
            is_needed: true,
            full_every: Some(2),
            rope_base: None,
        }),
        experts: Some(Routing::OfChosen),
        expert_bias: true,
        has_sinks: true,
        whole_ramp: false,
        ..QWEN2
    },
];

static TABLE: [Description; 15] = ROWS;

impl Architecture {
    /// All architectures.
    pub const ALL: [Architecture; 15] = {
        let mut all = [Architecture::Llama; 15];
        let mut at = 0;
        while at < all.len() {
            all[at] = ROWS[at].architecture;
            at += 1;
        }
        all
    };

    /// What its blocks are made of.
    pub(crate) fn description(self) -> &'static Description {
        let row = TABLE.iter().find(|row| row.architecture == self);
        row.expect("invariant: each architecture has a row")
    }

    /// Name in files, which also prefixes the family's keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// The architecture of this name.
    pub(super) fn of_name(name: &str) -> Option<Architecture> {
        let row = TABLE.iter().find(|row| row.name == name);
        row.map(|row| row.architecture)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
