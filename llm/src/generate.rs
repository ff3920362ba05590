//! What is asked of an answer, what it comes to, and an answer in one call.
//!
//! Not here: the steps of an answer, which a caller may take by turns with those of others (`generation`).

use std::ops::ControlFlow;
use std::time::Duration;

use crate::generation::{Generation, Step};
use crate::sequence::Sequence;
use crate::{Grammar, Result, Sampling, Speculated, Speculation, TokenId};

/// What is asked of an answer.
#[derive(Clone, Debug)]
pub struct Generate {
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Texts at which the answer ends; they are not part of it.
    pub stop: Vec<String>,
    /// The model's own end of an answer does not end it: for measurements.
    pub ignore_end: bool,
    /// What the text must be.
    pub grammar: Option<Grammar>,
    /// How next tokens are guessed, so that one run may give several; they are the same tokens. An answer that takes its steps with
    /// others guesses nothing.
    pub speculation: Option<Speculation>,
}

impl Generate {
    /// At most so many tokens, the most likely one always.
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
    /// The model said that it is whole.
    End,
    /// It has as many tokens as were asked for.
    Length,
    /// A stop string came, this one of them.
    Stop(usize),
    /// There is no room for more positions.
    Room,
    /// The caller did not want it to go on.
    Cancelled,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its tokens, without the one that ended it.
    pub tokens: Vec<TokenId>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that had been read before.
    pub reused_tokens: usize,
    /// What came of guesses; none where none were asked for.
    pub speculated: Option<Speculated>,
    /// Time of reading the prompt, up to the logits of the first token.
    pub prefill: Duration,
    /// Time of the tokens after the first, without the calls of the caller.
    pub decode: Duration,
}

impl Answer {
    /// Tokens of the prompt read per second, those reused left out.
    #[must_use]
    pub fn prefill_tokens_per_s(&self) -> f64 {
        (self.prompt_tokens - self.reused_tokens) as f64 / self.prefill.as_secs_f64().max(1e-9)
    }

    /// Tokens of the answer after the first one, per second; none where there is no second.
    #[must_use]
    pub fn decode_tokens_per_s(&self) -> Option<f64> {
        let later = self.tokens.len().checked_sub(1).filter(|later| *later > 0)?;
        Some(later as f64 / self.decode.as_secs_f64().max(1e-9))
    }
}

impl Sequence {
    /// Answers a prompt, which is the whole text so far: what the sequence has read of it already is not read again. Each
    /// piece of text is given to `each` as soon as it is whole, and `each` says whether to go on.
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
    /// The prompt is empty or does not fit the room, a setting is out of its range, or a device failed.
    pub fn generate(
        &mut self,
        prompt: &[TokenId],
        wanted: &Generate,
        each: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Answer> {
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
        Ok(generation.into_answer().1)
    }

    /// Keeps what the sequence has read of a text, and forgets the rest; gives how many tokens that are. The last token
    /// of the text is always read anew, for its logits.
    pub(crate) fn reuse(&mut self, text: &[TokenId]) -> usize {
        let same = self.shared(text);
        let kept = same.min(text.len().saturating_sub(1));
        self.truncate(kept);
        kept
    }
}
