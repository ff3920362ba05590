//! An answer, token by token.
//!
//! Invariants:
//! 1. What a sequence has read and the prompt begins with is not read again.
//! 2. Pieces of text hold whole characters and nothing of a stop string; all of them together are the answer's text.
//! 3. The sequence holds prompt and answer afterwards, but for the answer's last token, which no one has read yet.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::sequence::Sequence;
use crate::{Detokenizer, Error, Result, Sampler, Sampling, StopStrings, TokenId};

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
    /// Time from the call to the logits of the first token.
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
        let started = Instant::now();
        let mut sampler = Sampler::new(wanted.sampling.clone())?;
        if prompt.len() > self.model().capacity() {
            return Err(Error::config(format!(
                "a prompt of {} tokens does not fit the room for {} positions (Options::capacity)",
                prompt.len(),
                self.model().capacity()
            )));
        }
        let reused = self.reuse(prompt);
        self.append(&prompt[reused..])?;
        let prefill = started.elapsed();
        let model = self.model().clone();
        let tokenizer = model.tokenizer();
        let mut text = Text {
            detokenizer: Detokenizer::new(tokenizer),
            stops: StopStrings::new(wanted.stop.iter().cloned()),
            whole: String::new(),
        };
        let (mut tokens, mut decode) = (Vec::new(), Duration::ZERO);
        let finish = loop {
            if tokens.len() >= wanted.max_tokens {
                break Finish::Length;
            }
            let chosen = Instant::now();
            let token = sampler.choose(self.logits(), self.tokens())?;
            if tokenizer.is_end(token) && !wanted.ignore_end {
                break Finish::End;
            }
            tokens.push(token);
            let (flow, stop) = text.push(token, each)?;
            if let Some(stop) = stop {
                break Finish::Stop(stop);
            }
            if flow.is_break() {
                break Finish::Cancelled;
            }
            if tokens.len() >= wanted.max_tokens {
                break Finish::Length;
            }
            if self.room() == 0 {
                break Finish::Room;
            }
            self.append(&[token])?;
            decode += chosen.elapsed();
        };
        if !matches!(finish, Finish::Stop(_)) {
            text.finish(each);
        }
        Ok(Answer {
            text: text.whole,
            tokens,
            finish,
            prompt_tokens: prompt.len(),
            reused_tokens: reused,
            prefill,
            decode,
        })
    }

    /// Keeps what the sequence has read of a text, and forgets the rest; gives how many tokens that are. The last token
    /// of the text is always read anew, for its logits.
    fn reuse(&mut self, text: &[TokenId]) -> usize {
        let same = self.tokens().iter().zip(text).take_while(|(a, b)| a == b).count();
        let kept = same.min(text.len().saturating_sub(1));
        self.truncate(kept);
        kept
    }
}

/// The text of an answer in the making.
struct Text<'a> {
    detokenizer: Detokenizer<'a>,
    stops: StopStrings,
    whole: String,
}

impl Text<'_> {
    fn push(
        &mut self,
        token: TokenId,
        each: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(ControlFlow<()>, Option<usize>)> {
        let piece = self.detokenizer.push(token)?;
        let (piece, stopped) = self.stops.push(&piece);
        Ok((self.give(&piece, each), stopped.map(|stopped| stopped.index)))
    }

    fn give(&mut self, piece: &str, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        if piece.is_empty() {
            return ControlFlow::Continue(());
        }
        self.whole.push_str(piece);
        each(piece)
    }

    /// What was held back.
    fn finish(&mut self, each: &mut dyn FnMut(&str) -> ControlFlow<()>) {
        let rest = self.detokenizer.finish();
        let (mut rest, stopped) = self.stops.push(&rest);
        if stopped.is_none() {
            rest.push_str(&self.stops.finish());
        }
        // it ends anyway
        let _ = self.give(&rest, each);
    }
}
