//! An answer in the making: a step is one run of a device, and whoever calls it chooses who is next.
//!
//! Invariants:
//! 1. What a sequence has read and the prompt begins with is not read again.
//! 2. Pieces of text hold whole characters and nothing of a stop string; all of them together are the answer's text.
//! 3. A grammar and guesses do not meet: a guess stands where the token is drawn that was guessed, whatever made it likely.
//! 4. The sequence holds prompt and answer afterwards, but for the answer's last token, which no one has read yet.

use std::borrow::BorrowMut;
use std::time::{Duration, Instant};

use crate::detokenizer::Pieces;
use crate::grammar::Held;
use crate::sequence::Sequence;
use crate::speculation::{Guesser, ROWS};
use crate::{
    Answer, Batch, Error, Finish, Generate, Grammar, LanguageModel, Result, Sampler, StopStrings, TokenId,
};

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A chunk of the prompt was read; more of it is left.
    Read,
    /// A token of the answer was chosen, or several where guesses stood, and this much of its text is whole: often nothing.
    Piece(String),
    /// The answer has ended, with this as the last of its text.
    Finished(String),
}

/// An answer in the making, over a sequence of its own or a borrowed one.
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
/// // two answers by turns
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
    grammar: Option<Held>,
    guesser: Option<Guesser>,
    text: Text,
    tokens: Vec<TokenId>,
    /// The last token of `tokens`, where the sequence has yet to read it.
    unread: Option<TokenId>,
    finish: Option<Finish>,
    prefill: Duration,
    decode: Duration,
}

impl<S: BorrowMut<Sequence>> Generation<S> {
    /// Begins an answer to a prompt, which is the whole text so far: what the sequence has read of it already is kept, the
    /// rest of the sequence forgotten. Nothing is run yet.
    ///
    /// # Errors
    /// The prompt is empty or does not fit the room, a setting is out of its range, or guesses are asked for where phases are placed.
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
                "guessed tokens (speculation) and phases do not go together: what confirms guesses is not measured",
            ));
        }
        let reused = own.reuse(prompt);
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
            guesser: wanted.speculation.as_ref().map(Guesser::new),
            text: Text {
                pieces: Pieces::default(),
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

    /// Goes on by one run: of at most `rows` tokens of the prompt, or of one token of the answer. Nothing is run once it has
    /// finished.
    ///
    /// # Errors
    /// A device failed, or no logit is a number; that ends the answer.
    pub fn step(&mut self, rows: usize) -> Result<Step> {
        if self.finish.is_some() {
            return Ok(Step::Finished(String::new()));
        }
        let started = Instant::now();
        let reads = self.unread.is_none();
        let step = self.guesses().and_then(|guesses| match guesses.is_empty() {
            true => self.run(rows).and_then(|whole| match whole {
                true => self.choose(),
                false => Ok(Step::Read),
            }),
            false => self.confirm(&guesses),
        });
        match reads {
            true => self.prefill += started.elapsed(),
            false => self.decode += started.elapsed(),
        }
        if step.is_err() {
            self.finish = Some(Finish::Cancelled);
        }
        step
    }

    /// Goes on by one run of all of them: a token of each answer, with one read of the model's weights. As many as
    /// [`Batch::size`] says are best; none may be reading its prompt. Those that have finished stay as they are.
    ///
    /// # Errors
    /// A device failed, which ends all of them. That no logit of one is a number ends that one.
    pub fn step_together(batch: &mut Batch, answers: &mut [&mut Self]) -> Result<Vec<Result<Step>>> {
        if let Some(answer) = answers.iter().find(|answer| answer.is_reading()) {
            return Err(Error::config(format!(
                "an answer that has read {} of {} tokens of its prompt cannot take a step with others",
                answer.sequence().len(),
                answer.prompt.len()
            )));
        }
        let started = Instant::now();
        let mut tokens = Vec::with_capacity(answers.len());
        for answer in answers.iter_mut() {
            if let Some(token) = answer.unread.take() {
                tokens.push((answer.sequence.borrow_mut(), token));
            }
        }
        let run = batch.step(&mut tokens);
        drop(tokens);
        let mut steps = Vec::with_capacity(answers.len());
        for answer in answers.iter_mut() {
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

    /// Reads a chunk of the prompt, or the answer's last token: whether all is read then.
    fn run(&mut self, rows: usize) -> Result<bool> {
        let sequence = self.sequence.borrow_mut();
        if let Some(token) = self.unread.take() {
            let started = Instant::now();
            sequence.append(&[token])?;
            if let Some(guesser) = &mut self.guesser {
                guesser.stepped(started.elapsed());
            }
            return Ok(true);
        }
        let left = &self.prompt[sequence.len()..];
        let read = sequence.append_next(left, rows)?;
        Ok(read == left.len())
    }

    /// Tokens that may follow the one that was chosen last.
    fn guesses(&mut self) -> Result<Vec<TokenId>> {
        let (Some(guesser), Some(token)) = (&mut self.guesser, self.unread) else {
            return Ok(Vec::new());
        };
        let sequence = self.sequence.borrow_mut();
        let most = (self.wanted - self.tokens.len())
            .min(sequence.room())
            .saturating_sub(1);
        let text: Vec<TokenId> = sequence.tokens().iter().copied().chain([token]).collect();
        guesser.guess(sequence, &text, most, &self.sampler)
    }

    /// Reads the answer's last token and guesses behind it by one run, and chooses tokens as far as the guesses stand.
    fn confirm(&mut self, guesses: &[TokenId]) -> Result<Step> {
        let started = Instant::now();
        let sequence = self.sequence.borrow_mut();
        let before = sequence.len();
        let token = self.unread.take();
        let tokens: Vec<TokenId> = token.into_iter().chain(guesses.iter().copied()).collect();
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
            if self.unread.as_ref() != guesses.get(accepted) {
                break Ok(Step::Piece(text));
            }
            // it was read already
            self.unread = None;
            accepted += 1;
        };
        let behind = &logits[accepted * vocabulary..][..vocabulary];
        self.sequence.borrow_mut().go_back(before + 1 + accepted, behind);
        if let Some(guesser) = &mut self.guesser {
            guesser.confirmed(guesses.len(), accepted, took);
        }
        step
    }

    /// Chooses the next token behind the sequence's logits.
    fn choose(&mut self) -> Result<Step> {
        let sequence = self.sequence.borrow_mut();
        let read = sequence.len();
        // lent, so that the sequence's tokens can be looked at meanwhile
        let logits = sequence.lend_logits();
        let step = self.choose_behind(&logits, read);
        self.sequence.borrow_mut().keep_logits(logits);
        step
    }

    /// Chooses the next token behind the logits of the sequence's first `read` tokens.
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
        let is_whole = match &mut self.grammar {
            None => false,
            Some(grammar) => grammar.take(token)?,
        };
        let room = self.model.capacity() - read;
        self.tokens.push(token);
        let (piece, stop) = self.text.push(&self.model, token)?;
        if let Some(stop) = stop {
            self.finish = Some(Finish::Stop(stop));
            return Ok(Step::Finished(piece));
        }
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
        piece.push_str(&self.text.finish());
        Step::Finished(piece)
    }

    /// Takes over what another sequence of the model has read of the prompt, where that is more than this one's has: how many
    /// tokens need not be read for that. None once the answer has begun.
    ///
    /// # Errors
    /// As [`Sequence::copy`].
    pub fn take_over(&mut self, other: &Sequence) -> Result<usize> {
        let sequence = self.sequence.borrow_mut();
        let len = other.shared(&self.prompt).min(self.prompt.len() - 1);
        if !self.tokens.is_empty() || self.finish.is_some() || len <= sequence.len() {
            return Ok(0);
        }
        let gained = len - sequence.len();
        sequence.copy(other, len)?;
        self.reused += gained;
        Ok(gained)
    }

    /// Ends the answer where it is, and gives what was held back of its text.
    pub fn cancel(&mut self) -> String {
        if self.finish.is_some() {
            return String::new();
        }
        self.finish = Some(Finish::Cancelled);
        self.text.finish()
    }

    /// The sequence that it is made on.
    #[must_use]
    pub fn sequence(&self) -> &Sequence {
        self.sequence.borrow()
    }

    /// Whether the prompt, or a part of it, is still to be read.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.finish.is_none() && self.tokens.is_empty()
    }

    /// The prompt.
    #[must_use]
    pub fn prompt(&self) -> &[TokenId] {
        &self.prompt
    }

    /// Those of them that had been read before.
    #[must_use]
    pub fn reused_tokens(&self) -> usize {
        self.reused
    }

    /// The answer's tokens so far, without the one that ended it.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Why the answer ended, once it has.
    #[must_use]
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// The sequence, and the answer as far as it went: cancelled where it had not finished.
    #[must_use]
    pub fn into_answer(mut self) -> (S, Answer) {
        self.cancel();
        let answer = Answer {
            text: self.text.whole,
            tokens: self.tokens,
            finish: self.finish.unwrap_or(Finish::Cancelled),
            prompt_tokens: self.prompt.len(),
            reused_tokens: self.reused,
            speculated: self.guesser.map(|guesser| guesser.count),
            prefill: self.prefill,
            decode: self.decode,
        };
        (self.sequence, answer)
    }
}

/// The text of an answer in the making.
#[derive(Debug)]
struct Text {
    pieces: Pieces,
    stops: StopStrings,
    whole: String,
}

impl Text {
    /// What is whole now, and the stop string that ended the text.
    fn push(&mut self, model: &LanguageModel, token: TokenId) -> Result<(String, Option<usize>)> {
        let piece = self.pieces.push(model.tokenizer(), token)?;
        let (piece, stopped) = self.stops.push(&piece);
        self.whole.push_str(&piece);
        Ok((piece, stopped.map(|stopped| stopped.index)))
    }

    /// What was held back.
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
