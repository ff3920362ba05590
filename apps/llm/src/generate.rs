//! Request and result of an answer, and generation in one call.
//!
//! Not here: the steps of an answer, which a caller may interleave with those of others
//! (`generation`).

use std::ops::ControlFlow;
use std::time::Duration;

use crate::generation::{Generation, Step};
use crate::sequence::Sequence;
use crate::{Grammar, Result, Sampling, Speculated, Speculation, TokenId};

/// Request for an answer.
#[derive(Clone, Debug)]
pub struct Generate {
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Strings that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Whether to continue past the model's own end of an answer, for measurements.
    pub ignore_end: bool,
    /// Grammar that the text must match.
    pub grammar: Option<Grammar>,
    /// Speculative decoding, so that one run may yield several tokens. The tokens are the same as
    /// without it. Answers that step together do not use it.
    pub speculation: Option<Speculation>,
}

impl Generate {
    /// Requests at most `max_tokens` tokens, always the most likely one.
    #[must_use]
    pub fn greedy(max_tokens: usize) -> Generate {
        Generate {
            max_tokens,
            sampling: Sampling::greedy(),
            stop: Vec::new(),
            ignore_end: false,
            grammar: None,
            speculation: None,
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    End,
    /// It reached the requested number of tokens.
    Length,
    /// A stop string occurred; this is its index.
    Stop(usize),
    /// The context is full.
    Room,
    /// The caller cancelled.
    Cancelled,
}

/// A finished answer.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Text of the answer.
    pub text: String,
    /// Tokens of the answer, without the one that ended it.
    pub tokens: Vec<TokenId>,
    /// Why the answer ended.
    pub finish: Finish,
    /// Number of tokens in the prompt.
    pub prompt_tokens: usize,
    /// Number of prompt tokens that had been read before.
    pub reused_tokens: usize,
    /// Counts of speculative decoding; `None` if it was not requested.
    pub speculated: Option<Speculated>,
    /// Time of reading the prompt, up to the logits of the first token.
    pub prefill: Duration,
    /// Time of the tokens after the first, without the caller's callbacks.
    pub decode: Duration,
}

impl Completion {
    /// Prompt tokens read per second, without the reused ones.
    #[must_use]
    pub fn prefill_tokens_per_s(&self) -> f64 {
        (self.prompt_tokens - self.reused_tokens) as f64 / self.prefill.as_secs_f64().max(1e-9)
    }

    /// Answer tokens after the first, per second; `None` without a second token.
    #[must_use]
    pub fn decode_tokens_per_s(&self) -> Option<f64> {
        let later = self.tokens.len().checked_sub(1).filter(|later| *later > 0)?;
        Some(later as f64 / self.decode.as_secs_f64().max(1e-9))
    }
}

impl Sequence {
    /// Answers a prompt, which is the whole text so far; the part that the sequence has already
    /// read is not read again. Calls `each` with each piece of text as soon as it is complete, and
    /// stops if it returns `Break`.
    ///
    /// ```no_run
    /// use std::ops::ControlFlow;
    /// use polychip_llm::{Generate, LanguageModel, Options, Specials};
    ///
    /// let model = LanguageModel::open("model.gguf", Options::new())?;
    /// let prompt = model.tokenizer().encode_prompt("Once upon a time", Specials::AsText)?;
    /// let answer = model.sequence()?.generate(&prompt, &Generate::greedy(50), &mut |piece| {
    ///     print!("{piece}");
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), polychip_llm::Error>(())
    /// ```
    ///
    /// # Errors
    /// The prompt is empty or does not fit the context, a setting is out of range, or a device
    /// failed.
    pub fn generate(
        &mut self,
        prompt: &[TokenId],
        wanted: &Generate,
        each: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Completion> {
        let mut generation = Generation::new(self, prompt, wanted)?;
        loop {
            match generation.step(usize::MAX)? {
                Step::Read => {}
                Step::Piece(piece) => {
                    if !piece.is_empty() && each(&piece).is_break() {
                        // it ends anyway
                        let _ = each(&generation.cancel());
                        break;
                    }
                }
                Step::Finished(piece) => {
                    if !piece.is_empty() {
                        // it ends anyway
                        let _ = each(&piece);
                    }
                    break;
                }
            }
        }
        Ok(generation.into_completion().1)
    }

    /// Keeps the part of `text` that the sequence has read and forgets the rest; returns the number
    /// of kept tokens. The last token of `text` is always read again, for its logits.
    pub(crate) fn reuse(&mut self, text: &[TokenId]) -> usize {
        let same = self.shared(text);
        let kept = same.min(text.len().saturating_sub(1));
        self.truncate(kept);
        kept
    }
}
