//! Embeddings of texts: the mean of the hidden states of all tokens, of length 1.

use crate::chunk::{LADDER, rung};
use crate::{Result, Sequence, TokenId};

/// Tokens that are read in one run: each gives a row of hidden states.
const ROWS: usize = 128;

/// The sum of the hidden states that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    sum: Vec<f64>,
}

impl Pool {
    /// Reads the next tokens of a text, of at most `rows`; returns how many.
    pub(crate) fn read(&mut self, sequence: &mut Sequence, left: &[TokenId], rows: usize) -> Result<usize> {
        let most = rung(left.len()).min(rows.clamp(1, ROWS));
        // sessions have the ladder's sizes alone
        let size = LADDER.into_iter().find(|rung| *rung <= most).unwrap_or(1);
        let chunk = &left[..size.min(left.len())];
        let width = sequence.model().sizes().embedding as usize;
        self.sum.resize(width, 0.0);
        sequence.append_hidden(chunk, size, &mut |hidden| {
            for row in hidden.chunks_exact(width) {
                for (sum, value) in self.sum.iter_mut().zip(row) {
                    *sum += f64::from(*value);
                }
            }
        })?;
        Ok(chunk.len())
    }

    /// The mean, of length 1.
    pub(crate) fn embedding(&self) -> Vec<f32> {
        let length = self.sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        let by = if length > 0.0 { length } else { 1.0 };
        self.sum.iter().map(|value| (value / by) as f32).collect()
    }
}

impl Sequence {
    /// The embedding of a text: the mean of its tokens' hidden states behind the last norm, scaled to length 1. Forgets what
    /// the sequence has read before.
    ///
    /// ```no_run
    /// use polychip_llm::{LanguageModel, Options, Specials};
    ///
    /// let model = LanguageModel::open("model.gguf", Options::new())?;
    /// let text = model.tokenizer().encode_prompt("a red bicycle", Specials::AsText)?;
    /// let embedding = model.sequence()?.embedding(&text)?;
    /// # Ok::<(), polychip_llm::Error>(())
    /// ```
    ///
    /// # Errors
    /// The text is empty or does not fit the context, the model is an exported graph, or a device failed.
    pub fn embedding(&mut self, text: &[TokenId]) -> Result<Vec<f32>> {
        self.truncate(0);
        self.check(text)?;
        let mut pool = Pool::default();
        let mut left = text;
        while !left.is_empty() {
            let read = pool.read(self, left, ROWS)?;
            left = &left[read..];
        }
        Ok(pool.embedding())
    }
}
