//! What a file states of attention: heads, and the window of positions.

use super::{Keys, Window};
use crate::gguf::Value;
use crate::{Error, Result};

impl Keys<'_> {
    pub(super) fn heads(&self) -> Result<(u32, u32)> {
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

    pub(super) fn head_size(&self, embedding: u32, heads: u32) -> Result<u32> {
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

    pub(super) fn refuse_both_ways(&self) -> Result<()> {
        let key = self.key("attention.causal");
        match self.file.flag(&key)? {
            Some(false) => Err(Error::unsupported(format!(
                "key {key:?} is false: attention to later tokens is not supported"
            ))),
            _ => Ok(()),
        }
    }

    /// The window of positions that a token sees; one as long as the context changes
    /// nothing but angles.
    pub(super) fn window(&self, context: u32) -> Result<Option<Window>> {
        let key = self.key("attention.sliding_window");
        let size = self.file.integer(&key)?.filter(|&size| size != 0);
        let Some(windows) = self.row.windows else {
            return match size {
                Some(size) if size < context => Err(Error::unsupported(format!(
                    "key {key:?} is {size}: an attention window below the context of {context} is not supported for architecture {}",
                    self.architecture
                ))),
                _ => Ok(None),
            };
        };
        let Some(size) = size else {
            return if windows.is_needed {
                Err(Error::config(format!("key {key:?} is missing")))
            } else {
                Ok(None)
            };
        };
        let rope_base = match windows.rope_base {
            None => None,
            usual => self.positive("rope.freq_base_swa")?.or(usual),
        };
        let window = Window {
            size,
            full_every: self.full_every(windows.full_every)?,
            rope_base,
        };
        Ok((size < context || rope_base.is_some()).then_some(window))
    }

    /// Every how many layers one sees all positions: what the file states, or what is usual.
    fn full_every(&self, usual: Option<u32>) -> Result<Option<u32>> {
        let key = self.key("attention.sliding_window_pattern");
        match self.file.value(&key) {
            None => Ok(usual),
            Some(Value::Array(flags)) => {
                // by layer, whether it has a window
                let is_usual = flags.values().zip(1u32..).all(|(flag, layer)| {
                    let is_full = usual.is_some_and(|every| layer.is_multiple_of(every));
                    matches!(flag, Value::Bool(has_window) if has_window != is_full)
                });
                if is_usual {
                    Ok(usual)
                } else {
                    Err(Error::unsupported(format!(
                        "key {key:?} states other layers with a window than architecture {} has",
                        self.architecture
                    )))
                }
            }
            Some(_) => Ok(self.size("attention.sliding_window_pattern")?.or(usual)),
        }
    }
}
