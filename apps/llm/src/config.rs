//! A model's hyper-parameters: architecture, sizes, positions, norms, and the tensors the file must
//! have.
//!
//! Invariants:
//! 1. A [`Config`] agrees with its file: each tensor of [`Config::tensors`] exists with its shape,
//!    and no other exists.
//! 2. Unknown settings that change answers are refused by name: architectures, position scaling,
//!    experts, windows.
//!
//! Not here: what the tensors are computed with.

mod parameters;
mod tensors;

pub use parameters::{Architecture, Config, RopePairing, RopeScaling};
pub use tensors::ExpectedTensor;

use crate::gguf::{Gguf, Value, ValueType};
use crate::{Error, Result};

/// Most layers; bounds the work on a file that states too many.
const MAX_LAYERS: u32 = 4096;

impl Config {
    /// Reads the hyper-parameters and checks the file's tensors against them.
    ///
    /// # Errors
    /// The architecture or a setting is not supported, a key is missing or out of range, or a
    /// tensor is missing, has another shape, or does not belong to the architecture.
    pub fn read(file: &Gguf) -> Result<Config> {
        let keys = Keys {
            file,
            architecture: architecture(file)?,
        };
        let config = keys.config()?;
        tensors::check(file, &config)?;
        Ok(config)
    }

    /// The model's tensors with their shapes, innermost dimension first.
    pub fn tensors(&self) -> impl Iterator<Item = ExpectedTensor> + '_ {
        tensors::expected(self)
    }
}

fn architecture(file: &Gguf) -> Result<Architecture> {
    let name = file.text("general.architecture")?.ok_or_else(|| {
        Error::config("key \"general.architecture\" is missing: the file contains no model")
    })?;
    let known = |one: &Architecture| one.name() == name;
    Architecture::ALL.into_iter().find(known).ok_or_else(|| {
        let names = Architecture::ALL.map(Architecture::name).join(", ");
        Error::unsupported(format!(
            "architecture {name:?} is not supported; supported architectures are {names}"
        ))
    })
}

/// The keys of one architecture.
struct Keys<'a> {
    file: &'a Gguf,
    architecture: Architecture,
}

impl Keys<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn size(&self, key: &str) -> Result<Option<u32>> {
        let key = self.key(key);
        match self.file.integer(&key)? {
            Some(0) => Err(Error::config(format!("key {key:?} is 0"))),
            found => Ok(found),
        }
    }

    fn needed_size(&self, key: &str) -> Result<u32> {
        self.size(key)?
            .ok_or_else(|| Error::config(format!("key {:?} is missing", self.key(key))))
    }

    fn positive(&self, key: &str) -> Result<Option<f32>> {
        let key = self.key(key);
        match self.file.float(&key)? {
            Some(value) if value <= 0.0 => Err(Error::config(format!(
                "key {key:?} is {value}; it must be above 0"
            ))),
            found => Ok(found),
        }
    }

    fn config(&self) -> Result<Config> {
        let layers = self.needed_size("block_count")?;
        if layers > MAX_LAYERS {
            let key = self.key("block_count");
            return Err(Error::unsupported(format!(
                "key {key:?} is {layers}; the supported maximum is {MAX_LAYERS}"
            )));
        }
        let embedding = self.needed_size("embedding_length")?;
        let (heads, kv_heads) = self.heads()?;
        let head_size = self.head_size(embedding, heads)?;
        let rope_dims = self.size("rope.dimension_count")?.unwrap_or(head_size);
        if rope_dims > head_size || !rope_dims.is_multiple_of(2) {
            return Err(Error::config(format!(
                "key {:?} is {rope_dims}: it must be even and at most the head size {head_size}",
                self.key("rope.dimension_count")
            )));
        }
        self.refuse_unknown()?;
        self.refuse_both_ways()?;
        let norm_epsilon = self
            .positive("attention.layer_norm_rms_epsilon")?
            .ok_or_else(|| {
                let key = self.key("attention.layer_norm_rms_epsilon");
                Error::config(format!("key {key:?} is missing"))
            })?;
        let context = self.needed_size("context_length")?;
        self.refuse_window(context)?;
        Ok(Config {
            architecture: self.architecture,
            layers,
            embedding,
            feed_forward: self.needed_size("feed_forward_length")?,
            heads,
            kv_heads,
            head_size,
            rope_dims,
            rope_base: self.positive("rope.freq_base")?.unwrap_or(10_000.0),
            rope_pairing: match self.architecture {
                // its converter reorders rows of queries and keys
                Architecture::Llama if !self.file.is_checkpoint() => RopePairing::Interleaved,
                _ => RopePairing::Halves,
            },
            rope_scaling: self.rope_scaling()?,
            norm_epsilon,
            context,
            vocabulary: self.vocabulary()?,
            qkv_bias: match self.architecture {
                Architecture::Qwen2 => true,
                Architecture::Llama | Architecture::Qwen3 => self.file.tensor("blk.0.attn_q.bias").is_some(),
            },
            qk_norm: self.architecture == Architecture::Qwen3,
            tied: self.file.tensor("output.weight").is_none(),
        })
    }

    fn heads(&self) -> Result<(u32, u32)> {
        let heads = self.needed_size("attention.head_count")?;
        let kv_heads = self.size("attention.head_count_kv")?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            return Err(Error::config(format!(
                "{heads} heads ({:?}) are not a multiple of {kv_heads} key heads ({:?})",
                self.key("attention.head_count"),
                self.key("attention.head_count_kv")
            )));
        }
        Ok((heads, kv_heads))
    }

    fn head_size(&self, embedding: u32, heads: u32) -> Result<u32> {
        let size = match self.size("attention.key_length")? {
            Some(size) => size,
            None if embedding.is_multiple_of(heads) => embedding / heads,
            None => {
                return Err(Error::config(format!(
                    "the embedding size {embedding} is not a multiple of {heads} heads, and key {:?} is missing",
                    self.key("attention.key_length")
                )));
            }
        };
        if !size.is_multiple_of(2) {
            return Err(Error::config(format!(
                "the head size {size} must be even, because pairs of values are rotated"
            )));
        }
        match self.size("attention.value_length")? {
            Some(values) if values != size => Err(Error::unsupported(format!(
                "a value head size of {values} with a key head size of {size} is not supported"
            ))),
            _ => Ok(size),
        }
    }

    fn vocabulary(&self) -> Result<u32> {
        let table = self
            .file
            .tensor("token_embd.weight")
            .ok_or_else(|| Error::config("tensor \"token_embd.weight\" is missing"))?;
        let rows = table.dims().get(1).copied().unwrap_or(1);
        let rows = u32::try_from(rows)
            .map_err(|_| Error::unsupported(format!("a vocabulary of {rows} tokens is not supported")))?;
        if let Some(stated) = self.size("vocab_size")?
            && stated != rows
        {
            return Err(Error::config(format!(
                "key {:?} is {stated}, tensor \"token_embd.weight\" has {rows} rows",
                self.key("vocab_size")
            )));
        }
        let tokens = self.file.array("tokenizer.ggml.tokens", ValueType::Text)?;
        if let Some(tokens) = tokens
            && tokens.len() > rows as usize
        {
            return Err(Error::config(format!(
                "{} tokens (\"tokenizer.ggml.tokens\") and {rows} rows of \"token_embd.weight\"",
                tokens.len()
            )));
        }
        Ok(rows)
    }

    fn rope_scaling(&self) -> Result<RopeScaling> {
        let key = self.key("rope.scaling.type");
        let factor = match self.positive("rope.scaling.factor")? {
            None => self.positive("rope.scale_linear")?,
            found => found,
        };
        let factors = self.file.tensor("rope_freqs.weight").is_some();
        match (self.file.text(&key)?, factor, factors) {
            // a file of the time before the type had a key
            (None, Some(factor), false) if factor != 1.0 => Ok(RopeScaling::Linear(factor)),
            (None | Some("none"), _, false) => Ok(RopeScaling::None),
            (None | Some("none"), None | Some(1.0), true) => Ok(RopeScaling::Factors),
            (Some("linear"), Some(factor), false) => Ok(RopeScaling::Linear(factor)),
            (Some("linear"), None, false) => Err(Error::config(format!(
                "key {key:?} is \"linear\", and key {:?} is missing",
                self.key("rope.scaling.factor")
            ))),
            (Some(other), ..) if !matches!(other, "none" | "linear") => Err(Error::unsupported(format!(
                "position scaling {other:?} (key {key:?}) is not supported; expected none, linear, or the tensor rope_freqs.weight"
            ))),
            _ => Err(Error::unsupported(
                "position scaling by both a factor and the tensor rope_freqs.weight is not supported",
            )),
        }
    }

    /// Refuses settings that change answers and that no architecture here supports, unless they are
    /// off.
    fn refuse_unknown(&self) -> Result<()> {
        for key in [
            "expert_count",
            "attention.max_alibi_bias",
            "attention.clamp_kqv",
            "attention.scale",
            "embedding_scale",
            "residual_scale",
            "logit_scale",
            "attn_logit_softcapping",
            "final_logit_softcapping",
        ] {
            let key = self.key(key);
            let off = match self.file.value(&key) {
                None => true,
                Some(Value::F32(value)) => value == 0.0,
                Some(value) => value.integer() == Some(0),
            };
            if !off {
                return Err(Error::unsupported(format!(
                    "key {key:?} is set, which is not supported"
                )));
            }
        }
        Ok(())
    }

    fn refuse_both_ways(&self) -> Result<()> {
        let key = self.key("attention.causal");
        match self.file.flag(&key)? {
            Some(false) => Err(Error::unsupported(format!(
                "key {key:?} is false: attention to later tokens is not supported"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses an attention window shorter than the context; a longer one changes nothing.
    fn refuse_window(&self, context: u32) -> Result<()> {
        let key = self.key("attention.sliding_window");
        match self.file.integer(&key)? {
            Some(window) if window != 0 && window < context => Err(Error::unsupported(format!(
                "key {key:?} is {window}: an attention window below the context of {context} is not supported"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
