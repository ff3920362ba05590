//! Tiny models with random weights: complete files that every reader of this crate accepts.

use half::f16;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::GgufWriter;
use crate::config::Presence;
use crate::config::{Architecture, Config, Experts, RopeScaling, Window};
use crate::gguf::TensorType;

/// Positions that a token sees in layers with a window, if the architecture has such layers: fewer
/// than the texts of most tests.
const WINDOW: u32 = 24;

/// Limits of scores and of logits, if the architecture has them.
const CAPS: (f32, f32) = (50.0, 30.0);

/// Parameters of a tiny model.
#[derive(Clone, Copy, Debug)]
pub struct TinyModel {
    /// The model family.
    pub architecture: Architecture,
    /// The type of its matrices.
    pub kind: TensorType,
    /// Number of blocks.
    pub layers: u32,
    /// Whether the embedding table is also the output matrix.
    pub tied: bool,
    /// Seed of the weights.
    pub seed: u64,
}

impl TinyModel {
    /// The file's hyper-parameters.
    #[must_use]
    pub fn config(&self) -> Config {
        let row = self.architecture.description();
        let embedding: u32 = 256;
        Config {
            architecture: self.architecture,
            layers: self.layers,
            // rows are whole blocks of every type
            embedding,
            feed_forward: 256,
            heads: 4,
            kv_heads: 2,
            head_size: 64,
            rope_dims: 64,
            rope_base: 10_000.0,
            rope_pairing: row.pairing,
            rope_scaling: RopeScaling::None,
            unrotated_every: row.unrotated_every,
            norms: row.norms,
            norm_epsilon: 1e-5,
            context: 512,
            vocabulary: byte_level_tokens().0.len() as u32,
            qkv_bias: row.qkv_bias == Presence::Always,
            output_bias: row.output_bias == Presence::Always,
            qk_norm: row.qk_norm,
            is_fused: row.is_fused,
            activation: row.activation,
            experts: row.experts.filter(|_| self.has_experts()).map(|routing| Experts {
                count: 4,
                used: 2,
                feed_forward: 256,
                routing,
                has_bias: row.expert_bias,
                shared: row.shared_expert.then_some(256),
            }),
            window: row
                .windows
                .filter(|windows| windows.is_needed)
                .map(|windows| Window {
                    size: WINDOW,
                    full_every: windows.full_every,
                    rope_base: windows.rope_base,
                }),
            has_sinks: row.has_sinks,
            embedding_scale: if row.scales_by_width {
                (embedding as f32).sqrt()
            } else {
                1.0
            },
            residual_scale: 1.0,
            attention_scale: None,
            logit_scale: 1.0,
            attention_cap: row.has_caps.then_some(CAPS.0),
            logit_cap: row.has_caps.then_some(CAPS.1),
            tied: self.tied,
        }
    }

    /// Whether its layers have experts; files of Llama may have them.
    fn has_experts(&self) -> bool {
        self.architecture != Architecture::Llama
    }

    /// The file under construction, for a test to change.
    #[must_use]
    pub fn writer(&self) -> GgufWriter {
        let config = self.config();
        let mut writer = GgufWriter::new();
        let name = self.architecture.name();
        writer.text("general.architecture", name);
        for (key, value) in [
            ("block_count", config.layers),
            ("context_length", config.context),
            ("embedding_length", config.embedding),
            ("feed_forward_length", config.feed_forward),
            ("attention.head_count", config.heads),
            ("attention.head_count_kv", config.kv_heads),
        ] {
            writer.u32(&format!("{name}.{key}"), value);
        }
        writer.f32(
            &format!("{name}.attention.layer_norm_rms_epsilon"),
            config.norm_epsilon,
        );
        if let Some(experts) = config.experts {
            writer.u32(&format!("{name}.expert_count"), experts.count);
            writer.u32(&format!("{name}.expert_used_count"), experts.used);
            if let Some(shared) = experts.shared {
                writer.u32(&format!("{name}.expert_shared_feed_forward_length"), shared);
            }
        }
        if let Some(window) = config.window {
            writer.u32(&format!("{name}.attention.sliding_window"), window.size);
        }
        for (key, cap) in [
            ("attn_logit_softcapping", config.attention_cap),
            ("final_logit_softcapping", config.logit_cap),
        ] {
            if let Some(cap) = cap {
                writer.f32(&format!("{name}.{key}"), cap);
            }
        }
        tokenizer(&mut writer);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        for tensor in config.tensors() {
            let weights = tensor.dims.iter().product::<u64>() as usize;
            let kind = if tensor.is_small() {
                TensorType::F32
            } else {
                self.kind
            };
            let data = random_blocks(kind, weights / kind.block_len(), &mut random);
            writer.tensor(&tensor.name, kind, &tensor.dims, data);
        }
        writer
    }
}

fn tokenizer(writer: &mut GgufWriter) {
    let (tokens, types, merges) = byte_level_tokens();
    let last = tokens.len() as u32 - 1;
    writer.text("tokenizer.ggml.model", "gpt2");
    writer.text("tokenizer.ggml.pre", "smollm");
    writer.texts("tokenizer.ggml.tokens", &tokens);
    writer.i32s("tokenizer.ggml.token_type", &types);
    writer.texts("tokenizer.ggml.merges", &merges);
    writer.u32("tokenizer.ggml.bos_token_id", last - 1);
    writer.u32("tokenizer.ggml.eos_token_id", last);
    writer.text(
        "tokenizer.chat_template",
        "{% for message in messages %}{{ '<|start|>' + message['role'] + '\\n' + message['content'] + '<|end|>' }}{% endfor %}",
    );
}

/// A small byte-level vocabulary: all bytes, a few words, two control tokens at the end. Returns
/// tokens, types and merges.
#[must_use]
pub fn byte_level_tokens() -> (Vec<String>, Vec<i32>, Vec<String>) {
    let mut tokens: Vec<String> = crate::tokenizer::byte_alphabet()
        .iter()
        .map(char::to_string)
        .collect();
    let mut merges = Vec::new();
    for (left, right) in [
        ("h", "e"),
        ("l", "l"),
        ("he", "ll"),
        ("hell", "o"),
        ("Ġ", "Ġ"),
        ("Ġ", "w"),
        ("1", "2"),
        ("o", "r"),
    ] {
        tokens.push(format!("{left}{right}"));
        merges.push(format!("{left} {right}"));
    }
    let mut types = vec![1; tokens.len()];
    tokens.extend(["<|start|>".to_owned(), "<|end|>".to_owned()]);
    types.extend([3, 3]);
    (tokens, types, merges)
}

/// The same vocabulary as a `tokenizer.json`.
#[must_use]
pub fn tokenizer_json() -> Value {
    let (tokens, types, merges) = byte_level_tokens();
    let vocabulary: serde_json::Map<String, Value> = tokens
        .iter()
        .zip(&types)
        .enumerate()
        .filter(|(_, (_, kind))| **kind == 1)
        .map(|(id, (token, _))| (token.clone(), id.into()))
        .collect();
    let added: Vec<Value> = tokens
        .iter()
        .zip(&types)
        .enumerate()
        .filter(|(_, (_, kind))| **kind == 3)
        .map(|(id, (token, _))| json!({ "id": id, "content": token, "special": true, "lstrip": false }))
        .collect();
    json!({
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Digits", "individual_digits": true },
            { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        ] },
        "post_processor": null,
        "model": { "type": "BPE", "vocab": vocabulary, "merges": merges, "byte_fallback": false },
    })
}

/// Largest weight of random blocks: products of a few hundred keep the magnitude of their factors.
const LARGEST: f32 = 0.15;

/// Largest value that a scale is multiplied by.
fn steps(kind: TensorType) -> f32 {
    match kind {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => 1.0,
        TensorType::Q4_0 => 8.0,
        TensorType::Q4_1 => 15.0,
        TensorType::Q8_0 => 128.0,
        TensorType::Q4_K => 63.0 * 15.0,
        TensorType::Q5_K => 63.0 * 31.0,
        TensorType::Q6_K => 128.0 * 32.0,
        TensorType::Q5_0 => 16.0,
        TensorType::Q5_1 => 31.0,
        TensorType::Q2_K => 15.0 * 3.0,
        TensorType::Q3_K => 32.0 * 4.0,
        TensorType::IQ4_NL => 127.0,
        TensorType::IQ4_XS => 32.0 * 127.0,
        TensorType::MXFP4 => 12.0,
    }
}

/// Blocks with random values and small finite scales and minima.
pub fn random_blocks(kind: TensorType, count: usize, random: &mut impl Rng) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * kind.block_bytes());
    let range = -LARGEST / steps(kind)..LARGEST / steps(kind);
    for _ in 0..count {
        match kind {
            TensorType::F32 => out.extend(random.random_range(range.clone()).to_le_bytes()),
            TensorType::F16 => out.extend(f16::from_f32(random.random_range(range.clone())).to_le_bytes()),
            TensorType::BF16 => {
                let value = half::bf16::from_f32(random.random_range(range.clone()));
                out.extend(value.to_le_bytes());
            }
            quantised => {
                let start = out.len();
                out.resize(start + quantised.block_bytes(), 0);
                let block = &mut out[start..];
                random.fill_bytes(block);
                let mut scale = |at: usize| {
                    let value = f16::from_f32(random.random_range(range.clone()));
                    block[at..at + 2].copy_from_slice(&value.to_le_bytes());
                };
                match quantised {
                    TensorType::Q4_0
                    | TensorType::Q5_0
                    | TensorType::Q8_0
                    | TensorType::IQ4_NL
                    | TensorType::IQ4_XS => scale(0),
                    TensorType::Q6_K => scale(208),
                    TensorType::Q3_K => scale(108),
                    TensorType::Q2_K => {
                        scale(80);
                        scale(82);
                    }
                    // 2^-7 times at most 12, and less
                    TensorType::MXFP4 => block[0] = 119 + block[0] % 3,
                    _ => {
                        scale(0);
                        scale(2);
                    }
                }
            }
        }
    }
    out
}
