//! The tensors of an architecture, with their shapes, and the check that a file has exactly those.

use super::parameters::{Config, RopeScaling};
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
    fn is_vector(&self) -> bool {
        self.dims.len() == 1
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
    if config.rope_scaling == RopeScaling::Factors {
        whole.push(ExpectedTensor::new("rope_freqs.weight", &[config.rope_dims / 2]));
    }
    whole
        .into_iter()
        .chain((0..config.layers).flat_map(|layer| of_layer(config, layer)))
}

fn of_layer(config: &Config, layer: u32) -> Vec<ExpectedTensor> {
    let (embedding, inner) = (config.embedding, config.feed_forward);
    // a product that leaves u32 is no shape of any tensor in a file of that architecture
    let queries = config.heads.saturating_mul(config.head_size);
    let keys = config.kv_heads.saturating_mul(config.head_size);
    let mut parts: Vec<(&str, Vec<u32>)> = vec![
        ("attn_norm.weight", vec![embedding]),
        ("attn_q.weight", vec![embedding, queries]),
        ("attn_k.weight", vec![embedding, keys]),
        ("attn_v.weight", vec![embedding, keys]),
        ("attn_output.weight", vec![queries, embedding]),
        ("ffn_norm.weight", vec![embedding]),
        ("ffn_gate.weight", vec![embedding, inner]),
        ("ffn_up.weight", vec![embedding, inner]),
        ("ffn_down.weight", vec![inner, embedding]),
    ];
    if config.qkv_bias {
        parts.push(("attn_q.bias", vec![queries]));
        parts.push(("attn_k.bias", vec![keys]));
        parts.push(("attn_v.bias", vec![keys]));
    }
    if config.qk_norm {
        parts.push(("attn_q_norm.weight", vec![config.head_size]));
        parts.push(("attn_k_norm.weight", vec![config.head_size]));
    }
    parts
        .into_iter()
        .map(|(part, dims)| ExpectedTensor::new(format!("blk.{layer}.{part}"), &dims))
        .collect()
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
    if expected.is_vector() && !tensor.kind().is_float() {
        return Err(Error::unsupported(format!(
            "tensor {:?} has type {}: norms, biases and factors must be floats",
            expected.name,
            tensor.kind()
        )));
    }
    Ok(())
}
