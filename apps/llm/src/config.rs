//! A model's hyper-parameters: architecture, sizes, positions, norms, and the tensors the file must
//! have.
//!
//! Invariants:
//! 1. A [`Config`] agrees with its file: each tensor of [`Config::tensors`] exists with its shape,
//!    and no other exists.
//! 2. Settings that change answers are read, or refused by name where the architecture's row does
//!    not have them.
//!
//! Not here: what the tensors are computed with.

mod architecture;
mod attention;
mod experts;
mod parameters;
mod rope;
mod tensors;

pub use parameters::{
    Activation, Architecture, Config, Experts, Norms, QkNorm, RopePairing, RopeScaling, Routing, Window, Yarn,
};
pub use tensors::ExpectedTensor;

use crate::gguf::{Gguf, Value, ValueType};
use crate::{Error, Result};
use architecture::Description;
pub(crate) use architecture::Presence;

/// Longest name of an architecture that is shown.
const LONGEST_NAME: usize = 64;

/// Most layers; bounds the work on a file that states too many.
const MAX_LAYERS: u32 = 4096;

impl Config {
    /// Reads the hyper-parameters and checks the file's tensors against them.
    ///
    /// # Errors
    /// The architecture or a setting is not supported, a key is missing or out of range, or a
    /// tensor is missing, has another shape, or does not belong to the architecture.
    pub fn read(file: &Gguf) -> Result<Config> {
        let architecture = architecture(file)?;
        let keys = Keys {
            file,
            architecture,
            row: architecture.description(),
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
    Architecture::of_name(name).ok_or_else(|| {
        let names = Architecture::ALL.map(Architecture::name);
        // a name of a file may be long
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        let nearest = names.into_iter().min_by_key(|known| distance(&shown, known));
        Error::unsupported(format!(
            "architecture {shown:?} is not supported; the nearest name of a supported architecture is {}, and all are {}",
            nearest.unwrap_or_default(),
            names.join(", ")
        ))
    })
}

/// Number of characters to add, remove or replace to make one name of another (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (index, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.chars().count()]
}

/// The keys of one architecture.
struct Keys<'a> {
    file: &'a Gguf,
    architecture: Architecture,
    row: &'static Description,
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

    /// A positive number that the architecture's files may state; `None` for 0.
    fn positive_if(&self, is_read: bool, key: &str) -> Result<Option<f32>> {
        match self.file.float(&self.key(key))? {
            _ if !is_read => Ok(None),
            None | Some(0.0) => Ok(None),
            Some(_) => self.positive(key),
        }
    }

    fn config(&self) -> Result<Config> {
        let row = self.row;
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
        let scale = |key: &str| Ok::<_, Error>(self.positive_if(row.has_scales, key)?.unwrap_or(1.0));
        let experts = self.experts()?;
        let feed_forward = match (experts, self.size("feed_forward_length")?) {
            (_, Some(inner)) => inner,
            (Some(experts), None) => experts.feed_forward,
            (None, None) => self.needed_size("feed_forward_length")?,
        };
        let by_width = row.scores_by_width == Some(layers);
        Ok(Config {
            architecture: self.architecture,
            layers,
            embedding,
            feed_forward,
            heads,
            kv_heads,
            head_size,
            rope_dims,
            rope_base: self.positive("rope.freq_base")?.unwrap_or(10_000.0),
            // a converter may reorder rows of queries and keys; a folder has them as trained
            rope_pairing: if self.file.is_checkpoint() {
                RopePairing::Halves
            } else {
                row.pairing
            },
            rope_scaling: self.rope_scaling(context)?,
            unrotated_every: row.unrotated_every,
            norms: row.norms,
            norm_epsilon,
            context,
            vocabulary: self.vocabulary()?,
            qkv_bias: self.has(row.qkv_bias, "blk.0.attn_q.bias"),
            output_bias: self.has(row.output_bias, "blk.0.attn_output.bias"),
            qk_norm: row.qk_norm,
            is_fused: row.is_fused,
            activation: row.activation,
            experts,
            window: self.window(context)?,
            has_sinks: row.has_sinks,
            embedding_scale: if row.scales_by_width {
                (embedding as f32).sqrt()
            } else {
                scale("embedding_scale")?
            },
            residual_scale: scale("residual_scale")?,
            attention_scale: match self.positive_if(row.has_scales, "attention.scale")? {
                None if by_width => Some((heads as f32 / embedding as f32).sqrt()),
                stated => stated,
            },
            logit_scale: 1.0 / scale("logit_scale")?,
            attention_cap: self.positive_if(row.has_caps, "attn_logit_softcapping")?,
            logit_cap: self.positive_if(row.has_caps, "final_logit_softcapping")?,
            tied: self.file.tensor("output.weight").is_none(),
        })
    }

    /// Whether the model has some tensors, of which `one` is one.
    fn has(&self, presence: Presence, one: &str) -> bool {
        match presence {
            Presence::Never => false,
            Presence::Always => true,
            Presence::IfStored => self.file.tensor(one).is_some(),
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

    /// Refuses settings that change answers and that no architecture here supports, unless they are
    /// off.
    fn refuse_unknown(&self) -> Result<()> {
        let row = self.row;
        for (key, is_read) in [
            ("expert_count", row.experts.is_some()),
            ("expert_shared_count", row.shared_expert),
            ("expert_group_count", false),
            ("leading_dense_block_count", false),
            ("moe_every_n_layers", false),
            ("interleave_moe_layer_step", false),
            ("nextn_predict_layers", false),
            ("router_logit_softcapping", false),
            ("attention.output_scale", false),
            ("attention.shared_kv_layers", false),
            ("rope.scaling.yarn_log_multiplier", false),
            ("attention.max_alibi_bias", false),
            ("attention.clamp_kqv", false),
            ("attention.temperature_scale", false),
            ("attention.scale", row.has_scales),
            ("embedding_scale", row.has_scales),
            ("residual_scale", row.has_scales),
            ("logit_scale", row.has_scales),
            ("attn_logit_softcapping", row.has_caps),
            ("final_logit_softcapping", row.has_caps),
        ] {
            if is_read {
                continue;
            }
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
}

#[cfg(test)]
mod tests;
