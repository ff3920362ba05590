//! An answer in progress. Each step is one run of a device, and the caller chooses which answer
//! steps next.
//!
//! Invariants:
//! 1. A prefix of the prompt that the sequence has already read is not read again.
//! 2. Pieces of text hold whole characters and no part of a stop string; concatenated, they are the
//!    answer's text.
//! 3. Grammars and speculation do not interact: a draft token is accepted if it equals the token
//!    drawn, however it was proposed.
//! 4. An answer that is cut does not end with a part of a character.
//! 5. Afterwards the sequence holds prompt and answer, except the answer's last token, which has
//!    not been read.

use std::borrow::BorrowMut;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::chunk::{LADDER, rung};
use crate::detokenizer::Pieces;
use crate::embedding::Pool;
use crate::grammar::{GrammarState, Sent};
use crate::sequence::Sequence;
use crate::speculation::{Drafter, ROWS};
use crate::{
    Batch, Completion, Error, Finish, Generate, Grammar, LanguageModel, Result, Sampler, StopStrings,
    TokenId, TokenScore, Trigger,
};

/// Tokens of a prompt that are scored in one run: each takes a row of logits.
const SCORED_ROWS: usize = 128;

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A chunk of the prompt was read; more is left.
    Read,
    /// One token of the answer was chosen, or several with speculation. Holds the text that is now
    /// complete, often none.
    Piece(String),
    /// The answer has ended; holds the last of its text.
    Finished(String),
}

/// An answer in progress, over an owned or borrowed sequence.
///
/// ```
/// # use polychip_llm::testing::TinyModel;
/// # use polychip_llm::{Architecture, Gguf, LanguageModel, Options, gguf::TensorType};
/// # let model = TinyModel { architecture: Architecture::Llama, kind: TensorType::Q8_0, layers: 1, tied: true, seed: 0 };
/// # let model = LanguageModel::of("tiny", Gguf::read(model.writer().finish().into())?, Options::new().capacity(64))?;
/// use polychip_llm::{Generate, Generation, Step};
///
/// let mut answers = [[40, 41], [50, 51]]
///     .iter()
///     .map(|prompt| Generation::new(model.sequence()?, prompt, &Generate::greedy(4)))
///     .collect::<Result<Vec<_>, _>>()?;
/// // interleaves two answers
/// while !answers.is_empty() {
///     let mut going = Vec::new();
///     for mut answer in answers {
///         match answer.step(128)? {
///             Step::Finished(_) => {}
///             Step::Read | Step::Piece(_) => going.push(answer),
///         }
///     }
///     answers = going;
/// }
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Generation<S: BorrowMut<Sequence> = Sequence> {
    sequence: S,
    model: LanguageModel,
    prompt: Vec<TokenId>,
    reused: usize,
    wanted: usize,
    ignore_end: bool,
    sampler: Sampler,
    grammar: Option<GrammarState>,
    trigger: Option<Armed>,
    /// How many of the most likely tokens each token is scored with.
    scored: Option<usize>,
    scores_prompt: bool,
    pool: Option<Pool>,
    scores: Vec<TokenScore>,
    prompt_scores: Vec<TokenScore>,
    /// Whether a token is chosen without waiting for what its grammar makes of it.
    is_patient: bool,
    drafter: Option<Drafter>,
    text: Text,
    tokens: Vec<TokenId>,
    /// The last token of `tokens`, if the sequence has yet to read it.
    unread: Option<TokenId>,
    finish: Option<Finish>,
    prefill: Duration,
    decode: Duration,
}

impl<S: BorrowMut<Sequence>> Generation<S> {
    /// Begins an answer to a prompt, which is the whole text so far. The sequence keeps the common
    /// prefix it has already read and forgets the rest. Runs nothing yet.
    ///
    /// # Errors
    /// The prompt is empty or does not fit the context, a setting is out of range, or speculation
    /// is requested with prefill and decode placement.
    pub fn new(mut sequence: S, prompt: &[TokenId], wanted: &Generate) -> Result<Generation<S>> {
        let sampler = Sampler::new(wanted.sampling.clone())?;
        let own = sequence.borrow_mut();
        let model = own.model().clone();
        if prompt.is_empty() {
            return Err(Error::tokenizer("there are no tokens to read"));
        }
        if prompt.len() > model.capacity() {
            let words = format!("a prompt of {} tokens does", prompt.len());
            return Err(Error::room(words, model.capacity()));
        }
        if wanted.speculation.is_some() && model.phases().is_some() {
            return Err(Error::config(
                "speculative decoding cannot be combined with phases: the cost of verification runs is not measured",
            ));
        }
        own.wake_anew()?;
        let scores_prompt = wanted.scores_prompt && wanted.scores.is_some();
        if wanted.pools && wanted.max_tokens > 0 {
            return Err(Error::config(format!(
                "an embedding has no answer of {} tokens: max_tokens must be 0",
                wanted.max_tokens
            )));
        }
        let reused = if scores_prompt || wanted.pools {
            own.truncate(0);
            0
        } else {
            own.reuse(prompt)
        };
        own.expect(wanted.max_tokens);
        Ok(Generation {
            sequence,
            model,
            prompt: prompt.to_vec(),
            reused,
            wanted: wanted.max_tokens,
            ignore_end: wanted.ignore_end,
            sampler,
            grammar: wanted.grammar.as_ref().map(Grammar::begin),
            trigger: wanted.trigger.clone().map(Armed::new),
            scored: wanted.scores,
            scores_prompt,
            pool: wanted.pools.then(Pool::default),
            scores: Vec::new(),
            prompt_scores: Vec::new(),
            is_patient: false,
            drafter: wanted.speculation.as_ref().map(Drafter::new),
            text: Text {
                pieces: Pieces::showing(&wanted.shown),
                stops: StopStrings::new(wanted.stop.iter().cloned()),
                whole: String::new(),
            },
            tokens: Vec::new(),
            unread: None,
            finish: None,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        })
    }

    /// Advances by one run: up to `rows` tokens of the prompt, or one token of the answer. Does
    /// nothing once the answer has ended.
    ///
    /// # Errors
    /// A device failed, or every logit is NaN; both end the answer.
    pub fn step(&mut self, rows: usize) -> Result<Step> {
        if self.finish.is_some() {
            return Ok(Step::Finished(String::new()));
        }
        if let Some(step) = self.awaited_end() {
            return step;
        }
        let started = Instant::now();
        let reads = self.unread.is_none();
        let step = self.draft_tokens().and_then(|draft_tokens| {
            if draft_tokens.is_empty() {
                self.run(rows)
                    .and_then(|whole| if whole { self.choose() } else { Ok(Step::Read) })
            } else {
                self.verify(&draft_tokens)
            }
        });
        if reads {
            self.prefill += started.elapsed()
        } else {
            self.decode += started.elapsed()
        }
        if step.is_err() {
            self.finish = Some(Finish::Cancelled);
        }
        step
    }

    /// Advances all answers by one token each, in one run that reads the model's weights once.
    /// [`Batch::size`] returns the best number of answers. No answer may still be reading its
    /// prompt. Finished answers are left unchanged.
    ///
    /// # Errors
    /// A device failed, which ends all of the answers. If every logit of one answer is NaN, only
    /// that answer ends.
    pub fn step_together(batch: &mut Batch, answers: &mut [&mut Self]) -> Result<Vec<Result<Step>>> {
        if let Some(answer) = answers.iter().find(|answer| answer.is_reading()) {
            return Err(Error::config(format!(
                "an answer that has processed {} of {} prompt tokens cannot join a batch",
                answer.sequence().len(),
                answer.prompt.len()
            )));
        }
        let started = Instant::now();
        let mut ends: Vec<Option<Result<Step>>> =
            answers.iter_mut().map(|answer| answer.awaited_end()).collect();
        let mut tokens = Vec::with_capacity(answers.len());
        for answer in answers.iter_mut().filter(|answer| answer.finish.is_none()) {
            if let Some(token) = answer.unread.take() {
                tokens.push((answer.sequence.borrow_mut(), token));
            }
        }
        let run = batch.step(&mut tokens);
        drop(tokens);
        let mut steps = Vec::with_capacity(answers.len());
        for (answer, end) in answers.iter_mut().zip(&mut ends) {
            if let Some(end) = end.take() {
                steps.push(end);
                continue;
            }
            if answer.finish.is_some() {
                steps.push(Ok(Step::Finished(String::new())));
                continue;
            }
            let step = match run {
                Ok(()) => answer.choose(),
                Err(_) => Ok(Step::Read),
            };
            if run.is_err() || step.is_err() {
                answer.finish = Some(Finish::Cancelled);
            }
            answer.decode += started.elapsed();
            steps.push(step);
        }
        run.map(|()| steps)
    }

    /// Does not wait, from now on, for what a grammar's sandbox process makes of a token: [`Generation::is_waiting`] says
    /// when it has, and the next step ends an answer that is complete. Before that, a step waits.
    pub fn without_waiting(&mut self) {
        self.is_patient = true;
    }

    /// Whether a grammar's sandbox process has yet to say which tokens may come next. Never waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.finish.is_none() && self.grammar.as_ref().is_some_and(GrammarState::is_waiting)
    }

    /// The end of an answer whose last token completed it, or was the last that it may have, where that was awaited.
    fn awaited_end(&mut self) -> Option<Result<Step>> {
        if !self.is_patient || self.unread.is_none() {
            return None;
        }
        match self.grammar.as_mut()?.is_complete() {
            Ok(false) if self.tokens.len() >= self.wanted => {
                Some(Ok(self.end(Finish::Length, String::new())))
            }
            Ok(false) if self.sequence.borrow_mut().room() == 0 => {
                Some(Ok(self.end(Finish::Room, String::new())))
            }
            Ok(false) => None,
            Ok(true) => Some(Ok(self.end(Finish::End, String::new()))),
            Err(error) => {
                self.finish = Some(Finish::Cancelled);
                Some(Err(error))
            }
        }
    }

    /// Reads a chunk of the prompt, or the answer's last token; returns whether everything is read.
    fn run(&mut self, rows: usize) -> Result<bool> {
        let sequence = self.sequence.borrow_mut();
        if let Some(token) = self.unread.take() {
            let started = Instant::now();
            sequence.append(&[token])?;
            if let Some(drafter) = &mut self.drafter {
                drafter.stepped(started.elapsed());
            }
            return Ok(true);
        }
        let left = &self.prompt[sequence.len()..];
        if let Some(pool) = &mut self.pool {
            return Ok(pool.read(sequence, left, rows)? == left.len());
        }
        if self.scores_prompt {
            return self.run_scored(rows);
        }
        let read = sequence.append_next(left, rows)?;
        Ok(read == left.len())
    }

    /// Reads a chunk of the prompt and scores its tokens; returns whether everything is read.
    fn run_scored(&mut self, rows: usize) -> Result<bool> {
        let sequence = self.sequence.borrow_mut();
        let start = sequence.len();
        let left = &self.prompt[start..];
        let size = rung(left.len()).min(rows.clamp(1, SCORED_ROWS));
        // sessions have the ladder's sizes alone
        let size = LADDER.into_iter().find(|rung| *rung <= size).unwrap_or(1);
        let chunk = &left[..size.min(left.len())];
        let vocabulary = self.model.sizes().vocabulary as usize;
        let mut logits = Vec::new();
        sequence.append_rows(chunk, size, &mut |all| logits.extend_from_slice(all))?;
        let top = self.scored.unwrap_or(0);
        let behind = self.prompt[start + 1..].iter();
        for (row, token) in logits.chunks_exact(vocabulary).zip(behind) {
            self.prompt_scores.push(TokenScore::new(row, *token, top));
        }
        let is_whole = chunk.len() == left.len();
        if let Some(last) = logits.chunks_exact(vocabulary).last() {
            sequence.keep_logits(last.to_vec());
        }
        Ok(is_whole)
    }

    /// Draft tokens after the last chosen one.
    fn draft_tokens(&mut self) -> Result<Vec<TokenId>> {
        let (Some(drafter), Some(token)) = (&mut self.drafter, self.unread) else {
            return Ok(Vec::new());
        };
        let sequence = self.sequence.borrow_mut();
        let most = (self.wanted - self.tokens.len())
            .min(sequence.room())
            .saturating_sub(1);
        let text: Vec<TokenId> = sequence.tokens().iter().copied().chain([token]).collect();
        drafter.propose(sequence, &text, most, &self.sampler)
    }

    /// Reads the answer's last token and the draft tokens after it in one run, and chooses tokens
    /// until a draft token is rejected.
    fn verify(&mut self, draft_tokens: &[TokenId]) -> Result<Step> {
        let started = Instant::now();
        let sequence = self.sequence.borrow_mut();
        let before = sequence.len();
        let token = self.unread.take();
        let tokens: Vec<TokenId> = token.into_iter().chain(draft_tokens.iter().copied()).collect();
        let mut logits = Vec::new();
        sequence.append_rows(&tokens, ROWS, &mut |all| logits.extend_from_slice(all))?;
        let took = started.elapsed();
        let vocabulary = self.model.sizes().vocabulary as usize;
        let mut text = String::new();
        let mut accepted = 0;
        let step = loop {
            let behind = &logits[accepted * vocabulary..][..vocabulary];
            let step = self.choose_behind(behind, before + 1 + accepted);
            match step {
                Ok(Step::Piece(piece)) => text.push_str(&piece),
                Ok(Step::Finished(rest)) => {
                    text.push_str(&rest);
                    break Ok(Step::Finished(text));
                }
                other => break other,
            }
            if self.unread.as_ref() != draft_tokens.get(accepted) {
                break Ok(Step::Piece(text));
            }
            // it was read already
            self.unread = None;
            accepted += 1;
        };
        let behind = &logits[accepted * vocabulary..][..vocabulary];
        self.sequence.borrow_mut().go_back(before + 1 + accepted, behind);
        if let Some(drafter) = &mut self.drafter {
            drafter.verified(draft_tokens.len(), accepted, took);
        }
        step
    }

    /// Chooses the next token from the sequence's logits.
    fn choose(&mut self) -> Result<Step> {
        let sequence = self.sequence.borrow_mut();
        let read = sequence.len();
        // lent, so that the sequence's tokens can be looked at meanwhile
        let logits = sequence.lend_logits();
        let step = self.choose_behind(&logits, read);
        self.sequence.borrow_mut().keep_logits(logits);
        step
    }

    /// Chooses the next token from the logits after the sequence's first `read` tokens.
    fn choose_behind(&mut self, logits: &[f32], read: usize) -> Result<Step> {
        if self.wanted == 0 {
            return Ok(self.end(Finish::Length, String::new()));
        }
        let own: &Sequence = self.sequence.borrow();
        let before = &own.tokens()[..read];
        let token = match &mut self.grammar {
            None => self.sampler.choose(logits, before)?,
            Some(grammar) => {
                let mut logits = logits.to_vec();
                grammar.mask(&mut logits)?;
                self.sampler.choose(&logits, before)?
            }
        };
        let is_end = self.model.tokenizer().is_end(token);
        // a grammar allows an end where the text is whole alone
        if is_end && (!self.ignore_end || self.grammar.is_some()) {
            return Ok(self.end(Finish::End, String::new()));
        }
        let sent = match &mut self.grammar {
            None => Sent::Known(false),
            Some(grammar) => grammar.send(token)?,
        };
        let room = self.model.capacity() - read;
        self.tokens.push(token);
        if let Some(top) = self.scored {
            self.scores.push(TokenScore::new(logits, token, top));
        }
        let (piece, stop) = self.text.push(&self.model, token, self.trigger.as_mut())?;
        if let Some(grammar) = self.trigger.as_ref().and_then(Armed::fired) {
            self.grammar = Some(grammar);
            self.trigger = None;
        }
        if let Some(stop) = stop {
            self.finish = Some(Finish::Stop(stop));
            return Ok(Step::Finished(piece));
        }
        let is_whole = match (sent, &mut self.grammar) {
            (Sent::Known(is_whole), _) => is_whole,
            (Sent::Awaited, Some(grammar)) if !self.is_patient => grammar.is_complete()?,
            (Sent::Awaited, _) => {
                // also the last token: `awaited_end` ends the answer once the reply has come
                self.unread = Some(token);
                return Ok(Step::Piece(piece));
            }
        };
        if is_whole {
            return Ok(self.end(Finish::End, piece));
        }
        if self.tokens.len() >= self.wanted {
            return Ok(self.end(Finish::Length, piece));
        }
        if room == 0 {
            return Ok(self.end(Finish::Room, piece));
        }
        self.unread = Some(token);
        Ok(Step::Piece(piece))
    }

    fn end(&mut self, finish: Finish, mut piece: String) -> Step {
        self.finish = Some(finish);
        if matches!(finish, Finish::Length | Finish::Room) {
            self.text.pieces.cut();
        }
        piece.push_str(&self.text.finish());
        Step::Finished(piece)
    }

    /// Copies the prompt prefix that another sequence of the model has read, if longer than this
    /// sequence's own. Returns the number of tokens saved; 0 once the answer has begun.
    ///
    /// # Errors
    /// As [`Sequence::copy`].
    pub fn take_over(&mut self, other: &Sequence) -> Result<usize> {
        let sequence = self.sequence.borrow_mut();
        let len = other.shared(&self.prompt).min(self.prompt.len() - 1);
        if self.scores_prompt
            || self.pool.is_some()
            || !self.tokens.is_empty()
            || self.finish.is_some()
            || len <= sequence.len()
        {
            return Ok(0);
        }
        let gained = len - sequence.len();
        sequence.copy(other, len)?;
        self.reused += gained;
        Ok(gained)
    }

    /// Ends the answer here and returns the text that was held back.
    pub fn cancel(&mut self) -> String {
        if self.finish.is_some() {
            return String::new();
        }
        self.finish = Some(Finish::Cancelled);
        self.text.pieces.cut();
        self.text.finish()
    }

    /// The underlying sequence.
    #[must_use]
    pub fn sequence(&self) -> &Sequence {
        self.sequence.borrow()
    }

    /// Whether part of the prompt is still unread.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.finish.is_none() && self.tokens.is_empty()
    }

    /// Tokens of the prompt.
    #[must_use]
    pub fn prompt(&self) -> &[TokenId] {
        &self.prompt
    }

    /// Number of prompt tokens that had been read before.
    #[must_use]
    pub fn reused_tokens(&self) -> usize {
        self.reused
    }

    /// Tokens of the answer so far, without the one that ended it.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Takes the scores of the tokens that were chosen since the last call; none unless [`Generate::scores`] is set.
    #[must_use]
    pub fn take_scores(&mut self) -> Vec<TokenScore> {
        std::mem::take(&mut self.scores)
    }

    /// Takes the scores of the prompt's tokens from the second on, as far as it is read; none unless
    /// [`Generate::scores_prompt`] is set.
    #[must_use]
    pub fn take_prompt_scores(&mut self) -> Vec<TokenScore> {
        std::mem::take(&mut self.prompt_scores)
    }

    /// Takes the prompt's embedding once it is read; `None` unless [`Generate::pools`] is set.
    #[must_use]
    pub fn take_embedding(&mut self) -> Option<Vec<f32>> {
        self.finish?;
        self.pool.take().map(|pool| pool.embedding())
    }

    /// Why the answer ended; `None` while it is in progress.
    #[must_use]
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Returns the sequence and the answer so far, marked cancelled if it had not ended.
    #[must_use]
    pub fn into_completion(mut self) -> (S, Completion) {
        self.cancel();
        let answer = Completion {
            text: self.text.whole,
            tokens: self.tokens,
            finish: self.finish.unwrap_or(Finish::Cancelled),
            prompt_tokens: self.prompt.len(),
            reused_tokens: self.reused,
            speculated: self.drafter.map(|drafter| drafter.count),
            prefill: self.prefill,
            decode: self.decode,
        };
        (self.sequence, answer)
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

/// A trigger that waits for its text.
#[derive(Debug)]
struct Armed {
    trigger: Trigger,
    /// The text so far, of which only the end matters unless the trigger's text must be at the start.
    seen: String,
    /// Whether its text has come; `None` if it can have no effect any more.
    has_fired: Option<bool>,
}

impl Armed {
    fn new(trigger: Trigger) -> Armed {
        Armed {
            trigger,
            seen: String::new(),
            has_fired: Some(false),
        }
    }

    /// Looks for the text in the next piece of the answer.
    fn push(&mut self, piece: &str) {
        if self.has_fired.is_none() {
            return;
        }
        self.seen.push_str(piece);
        let text = &self.trigger.text;
        if let Some(at) = self.seen.find(text.as_str()) {
            let is_allowed = !self.trigger.at_start || self.seen[..at].trim().is_empty();
            // a grammar cannot begin within a token
            let is_exact = self.seen[at + text.len()..].trim().is_empty();
            self.has_fired = (is_allowed && is_exact).then_some(true);
            return;
        }
        if self.trigger.at_start {
            let begun = self.seen.trim_start();
            if !text.starts_with(begun) {
                self.has_fired = None;
            }
            return;
        }
        let mut kept = self.seen.len().saturating_sub(text.len());
        while !self.seen.is_char_boundary(kept) {
            kept -= 1;
        }
        self.seen.drain(..kept);
    }

    /// The grammar, from here on, if the text has come.
    fn fired(&self) -> Option<GrammarState> {
        (self.has_fired == Some(true)).then(|| self.trigger.grammar.begin())
    }
}

/// Text of an answer in progress.
#[derive(Debug)]
struct Text {
    pieces: Pieces,
    stops: StopStrings,
    whole: String,
}

impl Text {
    /// Returns the text that is now complete, and the stop string that ended it.
    fn push(
        &mut self,
        model: &LanguageModel,
        token: TokenId,
        trigger: Option<&mut Armed>,
    ) -> Result<(String, Option<usize>)> {
        let piece = self.pieces.push(model.tokenizer(), token)?;
        if let Some(trigger) = trigger {
            trigger.push(&piece);
        }
        let (piece, stopped) = self.stops.push(&piece);
        self.whole.push_str(&piece);
        Ok((piece, stopped.map(|stopped| stopped.index)))
    }

    /// Returns the text that was held back.
    fn finish(&mut self) -> String {
        let rest = self.pieces.finish();
        let (mut rest, stopped) = self.stops.push(&rest);
        if stopped.is_none() {
            rest.push_str(&self.stops.finish());
        }
        self.whole.push_str(&rest);
        rest
    }
}
