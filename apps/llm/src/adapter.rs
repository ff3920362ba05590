//! LoRA adapters (arXiv 2106.09685): low-rank products, from a separate file, that are added to a
//! model's own.
//!
//! Invariants:
//! 1. An adapter changes matrices of the model, with products of matching shape, or is refused.
//! 2. The model's weights stay unchanged: an adapter is two small additional products at run time.
//!
//! Not here: adapters in safetensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::config::Config;
use crate::gguf::{Gguf, Tensor};
use crate::{Error, Result};

/// A LoRA adapter: low-rank additions to the matrix products of a model.
#[derive(Clone, Debug)]
pub struct Adapter {
    path: PathBuf,
    scale: f32,
    architecture: String,
    parts: BTreeMap<String, Part>,
}

/// The addition to one product: `b * (a * x)`.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) rank: usize,
    pub(crate) depth: usize,
    pub(crate) columns: usize,
    /// f32 `[rank, depth]`.
    pub(crate) a: Bytes,
    /// f32 `[columns, rank]`, scaled.
    pub(crate) b: Bytes,
}

impl Adapter {
    /// Reads an adapter from a GGUF file, as LoRA converters write it, and multiplies its additions
    /// by `scale` (1 is the strength it was trained with).
    ///
    /// # Errors
    /// The file is malformed, holds no adapter or an unsupported kind, or one of its low-rank pairs
    /// is incomplete.
    pub fn open(path: impl AsRef<Path>, scale: f32) -> Result<Adapter> {
        let path = path.as_ref();
        Adapter::read(path, &Gguf::open(path)?, scale)
    }

    /// Reads an adapter from an open file, like [`Adapter::open`]; error messages call it `name`.
    ///
    /// # Errors
    /// As [`Adapter::open`].
    pub fn read(name: impl Into<PathBuf>, file: &Gguf, scale: f32) -> Result<Adapter> {
        let path = name.into();
        let wrong = |words: String| Error::config(format!("adapter {}: {words}", path.display()));
        if !scale.is_finite() {
            return Err(wrong(format!(
                "the scale must be a finite number, and is {scale}"
            )));
        }
        let kind = (file.text("general.type")?, file.text("adapter.type")?);
        if kind != (Some("adapter"), Some("lora")) {
            return Err(Error::unsupported(format!(
                "adapter {}: keys \"general.type\" and \"adapter.type\" are {:?} and {:?}, supported are \"adapter\" and \"lora\"",
                path.display(),
                kind.0.unwrap_or("missing"),
                kind.1.unwrap_or("missing")
            )));
        }
        let architecture = file.text("general.architecture")?.unwrap_or_default().to_owned();
        let alpha = file.float("adapter.lora.alpha")?.unwrap_or(0.0);
        let mut parts = BTreeMap::new();
        for tensor in file.tensors() {
            let Some((base, which)) = tensor.name().rsplit_once(".lora_") else {
                let words = format!("tensor {:?} is not part of a low-rank pair", tensor.name());
                return Err(wrong(words));
            };
            let other = match which {
                "a" => "b",
                _ => "a",
            };
            let partner = format!("{base}.lora_{other}");
            let partner = file
                .tensor(&partner)
                .ok_or_else(|| wrong(format!("tensor {:?} has no partner {partner:?}", tensor.name())))?;
            if which != "a" {
                continue;
            }
            let part = Part::new(&tensor, &partner, alpha, scale).ok_or_else(|| {
                wrong(format!(
                    "tensors {:?} and {:?} with dimensions {:?} and {:?} (innermost first) cannot be multiplied",
                    tensor.name(),
                    partner.name(),
                    tensor.dims(),
                    partner.dims()
                ))
            })?;
            parts.insert(base.to_owned(), part);
        }
        if parts.is_empty() {
            return Err(wrong("it has no tensors".to_owned()));
        }
        Ok(Adapter {
            path,
            scale,
            architecture,
            parts,
        })
    }

    /// Path of the file, or the name given to [`Adapter::read`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Factor on the adapter's additions, relative to the strength it was trained with.
    #[must_use]
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Hashes the additions and their scale.
    pub(crate) fn identify(&self, hasher: &mut blake3::Hasher) {
        for (name, part) in &self.parts {
            hasher.update(name.as_bytes()).update(&part.a).update(&part.b);
        }
    }

    /// The addition to the product with this weight tensor.
    pub(crate) fn part(&self, weight: &str) -> Option<&Part> {
        self.parts.get(weight)
    }

    /// Checks that the adapter fits a model.
    pub(crate) fn check(&self, file: &Gguf, config: &Config) -> Result<()> {
        let wrong = |words: String| Error::config(format!("adapter {}: {words}", self.path.display()));
        if self.architecture != config.architecture.name() {
            return Err(wrong(format!(
                "its architecture is {:?}, and the model's is {}",
                self.architecture, config.architecture
            )));
        }
        if file.is_checkpoint() {
            return Err(Error::unsupported(format!(
                "adapter {}: a GGUF adapter needs a GGUF model, because a safetensors folder orders rows differently",
                self.path.display()
            )));
        }
        for (name, part) in &self.parts {
            // embeddings are looked up, not multiplied
            let matrix = file.tensor(name).filter(|_| name != "token_embd.weight");
            let matrix = matrix.ok_or_else(|| {
                wrong(format!(
                    "it changes {name:?}, which is not a weight matrix of the model"
                ))
            })?;
            let wanted = [part.depth as u64, part.columns as u64];
            if matrix.dims() != wanted {
                return Err(wrong(format!(
                    "it changes {name:?} with dimensions {wanted:?}, but the model's are {:?} (innermost first)",
                    matrix.dims()
                )));
            }
        }
        Ok(())
    }
}

impl Part {
    fn new(a: &Tensor<'_>, b: &Tensor<'_>, alpha: f32, scale: f32) -> Option<Part> {
        let (&[depth, rank], &[inner, columns]) = (a.dims(), b.dims()) else {
            return None;
        };
        if rank != inner {
            return None;
        }
        // alpha 0 is none
        let trained = if alpha == 0.0 { 1.0 } else { alpha / rank as f32 };
        let floats = |tensor: &Tensor<'_>, by: f32| {
            let mut values = vec![0.0; tensor.len()];
            tensor.dequantize(0, &mut values);
            let bytes = values.iter().flat_map(|value| (value * by).to_le_bytes());
            Bytes::from(bytes.collect::<Vec<u8>>())
        };
        Some(Part {
            rank: usize::try_from(rank).ok()?,
            depth: usize::try_from(depth).ok()?,
            columns: usize::try_from(columns).ok()?,
            a: floats(a, 1.0),
            b: floats(b, trained * scale),
        })
    }
}
