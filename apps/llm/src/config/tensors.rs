//! The tensors of an architecture, with their shapes, and the check that a file has exactly those.

use super::parameters::{Config, QkNorm, RopeScaling};
use crate::gguf::{Gguf, Tensor};
use crate::{Error, Result};

/// A tensor that a model must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Name in the file.
    pub name: String,
    /// Dimensions, innermost first.
    pub dims: Vec<u64>,
}

impl ExpectedTensor {
    fn new(name: impl Into<String>, dims: &[u32]) -> ExpectedTensor {
        ExpectedTensor {
            name: name.into(),
            dims: dims.iter().copied().map(u64::from).collect(),
        }
    }

    /// Whether it is a norm, bias or factor: few numbers that are used as floats.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.dims.len() == 1 || self.name.ends_with(".bias")
    }
}

pub(super) fn expected(config: &Config) -> impl Iterator<Item = ExpectedTensor> + '_ {
    let Config {
        embedding,
        vocabulary,
        ..
    } = *config;
    let mut whole = vec![
        ExpectedTensor::new("token_embd.weight", &[embedding, vocabulary]),
        ExpectedTensor::new("output_norm.weight", &[embedding]),
    ];
    if !config.tied {
        whole.push(ExpectedTensor::new("output.weight", &[embedding, vocabulary]));
    }
    let factors: &[&str] = match config.rope_scaling {
        RopeScaling::Factors => &["rope_freqs.weight"],
        RopeScaling::LongShort { .. } => &["rope_factors_long.weight", "rope_factors_short.weight"],
        _ => &[],
    };
    for name in factors {
        whole.push(ExpectedTensor::new(*name, &[config.rope_dims / 2]));
    }
    whole
        .into_iter()
        .chain((0..config.layers).flat_map(|layer| of_layer(config, layer)))
}

fn of_layer(config: &Config, layer: u32) -> Vec<ExpectedTensor> {
    let embedding = config.embedding;
    // a product that leaves u32 is no shape of any tensor in a file of that architecture
    let queries = config.heads.saturating_mul(config.head_size);
    let keys = config.kv_heads.saturating_mul(config.head_size);
    let mut parts: Vec<(&str, Vec<u32>)> = Vec::new();
    if config.is_fused {
        let all = queries.saturating_add(keys.saturating_mul(2));
        parts.push(("attn_qkv.weight", vec![embedding, all]));
    } else {
        parts.push(("attn_q.weight", vec![embedding, queries]));
        parts.push(("attn_k.weight", vec![embedding, keys]));
        parts.push(("attn_v.weight", vec![embedding, keys]));
    }
    parts.push(("attn_output.weight", vec![queries, embedding]));
    if config.qkv_bias {
        parts.push(("attn_q.bias", vec![queries]));
        parts.push(("attn_k.bias", vec![keys]));
        parts.push(("attn_v.bias", vec![keys]));
    }
    if config.output_bias {
        parts.push(("attn_output.bias", vec![embedding]));
    }
    if let Some(norm) = config.qk_norm {
        let of = |whole: u32| match norm {
            QkNorm::PerHead => config.head_size,
            QkNorm::Whole => whole,
        };
        parts.push(("attn_q_norm.weight", vec![of(queries)]));
        parts.push(("attn_k_norm.weight", vec![of(keys)]));
    }
    if config.has_sinks {
        parts.push(("attn_sinks.weight", vec![config.heads]));
    }
    feed_forward(config, &mut parts);
    let norms = &config.norms;
    let norms = [norms.attention, norms.attended, norms.feed_forward, norms.fed];
    let norms = norms
        .into_iter()
        .flatten()
        .map(|name| ExpectedTensor::new(format!("blk.{layer}.{name}.weight"), &[embedding]));
    let parts = parts
        .into_iter()
        .map(|(part, dims)| ExpectedTensor::new(format!("blk.{layer}.{part}"), &dims));
    norms.chain(parts).collect()
}

fn feed_forward(config: &Config, parts: &mut Vec<(&str, Vec<u32>)>) {
    let embedding = config.embedding;
    let Some(experts) = config.experts else {
        let inner = config.feed_forward;
        if config.is_fused {
            parts.push(("ffn_up.weight", vec![embedding, inner.saturating_mul(2)]));
        } else {
            parts.push(("ffn_gate.weight", vec![embedding, inner]));
            parts.push(("ffn_up.weight", vec![embedding, inner]));
        }
        parts.push(("ffn_down.weight", vec![inner, embedding]));
        return;
    };
    let (count, inner) = (experts.count, experts.feed_forward);
    parts.push(("ffn_gate_inp.weight", vec![embedding, count]));
    parts.push(("ffn_gate_exps.weight", vec![embedding, inner, count]));
    parts.push(("ffn_up_exps.weight", vec![embedding, inner, count]));
    parts.push(("ffn_down_exps.weight", vec![inner, embedding, count]));
    if experts.has_bias {
        parts.push(("ffn_gate_inp.bias", vec![count]));
        parts.push(("ffn_gate_exps.bias", vec![inner, count]));
        parts.push(("ffn_up_exps.bias", vec![inner, count]));
        parts.push(("ffn_down_exps.bias", vec![embedding, count]));
    }
    if let Some(shared) = experts.shared {
        parts.push(("ffn_gate_inp_shexp.weight", vec![embedding]));
        parts.push(("ffn_gate_shexp.weight", vec![embedding, shared]));
        parts.push(("ffn_up_shexp.weight", vec![embedding, shared]));
        parts.push(("ffn_down_shexp.weight", vec![shared, embedding]));
    }
}

/// Compares a file's tensors with the expected ones; stops at the first difference.
pub(super) fn check(file: &Gguf, config: &Config) -> Result<()> {
    let mut known = std::collections::BTreeSet::new();
    for expected in expected(config) {
        let tensor = file
            .tensor(&expected.name)
            .ok_or_else(|| Error::config(format!("tensor {:?} is missing", expected.name)))?;
        fits(&tensor, &expected)?;
        known.insert(tensor.name());
    }
    match file.tensors().find(|tensor| !known.contains(tensor.name())) {
        None => Ok(()),
        Some(tensor) => Err(Error::unsupported(format!(
            "tensor {:?} is unknown for architecture {}, and ignoring it would change the answers",
            tensor.name(),
            config.architecture
        ))),
    }
}

fn fits(tensor: &Tensor<'_>, expected: &ExpectedTensor) -> Result<()> {
    if tensor.dims() != expected.dims {
        return Err(Error::config(format!(
            "tensor {:?} has dimensions {:?}, but the metadata states {:?} (innermost first)",
            expected.name,
            tensor.dims(),
            expected.dims
        )));
    }
    if expected.is_small() && !tensor.kind().is_float() {
        return Err(Error::unsupported(format!(
            "tensor {:?} has type {}: norms, biases and factors must be floats",
            expected.name,
            tensor.kind()
        )));
    }
    Ok(())
}
