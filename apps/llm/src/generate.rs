//! Request and result of an answer.
//!
//! Not here: generation, in one call or step by step (`generation`).

use std::time::Duration;

use crate::{Grammar, Sampling, Speculated, Speculation, TokenId};

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
    /// Scores each token of the answer, beside this many of the most likely tokens; `None` scores nothing.
    pub scores: Option<usize>,
    /// Scores the tokens of the prompt, too, if `scores` is set. The prompt is then read anew.
    pub scores_prompt: bool,
    /// Pools the hidden states of the prompt instead of answering it: [`Generation::take_embedding`](crate::Generation::take_embedding)
    /// gives its embedding. The prompt is then read anew, and `max_tokens` must be 0.
    pub pools: bool,
    /// Control tokens that appear in the text by name, such as `[TOOL_CALLS]`.
    pub shown: Vec<TokenId>,
    /// A grammar that applies from a text on.
    pub trigger: Option<Trigger>,
}

/// A text after which an answer must match a grammar.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The text. It takes effect if a token ends with it, or with it and blanks.
    pub text: String,
    /// Whether it has an effect only as the beginning of the answer.
    pub at_start: bool,
    /// What must follow.
    pub grammar: Grammar,
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
            scores: None,
            scores_prompt: false,
            pools: false,
            shown: Vec::new(),
            trigger: None,
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
