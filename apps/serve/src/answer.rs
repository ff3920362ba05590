//! Answers on their way to a client: text, calls and scores, of one or several answers to a request.
//!
//! Invariants:
//! 1. All interfaces get the same parts; the parts of an answer form its [`Whole`].
//! 2. Answers of a request are read alternately, so that none holds up another.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use polychip_llm::{CallParser, CallPart, Finish, LanguageModel, TokenId, TokenScore};

use crate::job::{Ended, Event, Events, Piece, Usage};
use crate::problem::Problem;

/// A token of a text, with the logarithm of its probability.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    pub(crate) token: Spelled,
    /// `None` for the first token of a prompt.
    pub(crate) logprob: Option<f32>,
    pub(crate) top: Vec<(Spelled, f32)>,
}

/// A token's text and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

impl Spelled {
    fn new(model: &LanguageModel, token: TokenId) -> Spelled {
        let mut bytes = Vec::new();
        // a token of the model is in its vocabulary, or has no text
        let _ = model.tokenizer().append_bytes(token, &mut bytes);
        Spelled {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
        }
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text {
        text: String,
        scores: Vec<Scored>,
    },
    /// A call begins.
    Call {
        index: usize,
        id: String,
        name: String,
    },
    /// The next of a call's arguments.
    Arguments {
        index: usize,
        text: String,
    },
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    End,
    /// A stop string, by its index.
    Stop(usize),
    Length,
    /// The client is to call tools.
    Calls,
}

/// An answer, as far as it has come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Whole {
    pub(crate) text: String,
    /// Of the text's tokens, if they are wanted.
    pub(crate) scores: Option<Vec<Scored>>,
    pub(crate) calls: Vec<Call>,
    /// The prompt's, if that is wanted instead of an answer.
    pub(crate) embedding: Vec<f32>,
    pub(crate) finish: FinishReason,
    pub(crate) usage: Usage,
    /// Whether it is the first answer to its prompt.
    pub(crate) is_first: bool,
}

/// What an answer's reader needs to know of the request.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) parser: Option<CallParser>,
    /// The prompt, if the answer begins with it: its text and tokens.
    pub(crate) echoed: Option<(String, Vec<TokenId>)>,
    pub(crate) has_scores: bool,
    pub(crate) has_short_ids: bool,
    pub(crate) call_prefix: &'static str,
    pub(crate) is_first: bool,
}

/// One of the answers to a request.
struct Choice {
    events: Events,
    model: LanguageModel,
    reading: Reading,
    whole: Whole,
    is_over: bool,
}

/// The answers to a request.
pub(crate) struct Answers {
    choices: Vec<Choice>,
    /// Whose turn is next.
    next: usize,
    deadline: std::pin::Pin<Box<tokio::time::Sleep>>,
    ends: Instant,
    timeout: Duration,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    Parts(usize, Vec<Part>),
    /// The last parts of an answer.
    Ended(usize, Vec<Part>),
    Failed(Problem),
    /// All have ended.
    Over,
}

impl Answers {
    pub(crate) fn new(
        answers: Vec<(Events, Reading)>,
        model: &LanguageModel,
        ends: Instant,
        timeout: Duration,
    ) -> Answers {
        let choices = answers.into_iter().map(|(events, reading)| Choice {
            events,
            model: model.clone(),
            whole: Whole {
                text: String::new(),
                scores: reading.has_scores.then(Vec::new),
                calls: Vec::new(),
                embedding: Vec::new(),
                finish: FinishReason::End,
                usage: Usage {
                    prompt: 0,
                    reused: 0,
                    answer: 0,
                },
                is_first: reading.is_first,
            },
            reading,
            is_over: false,
        });
        Answers {
            choices: choices.collect(),
            next: 0,
            deadline: Box::pin(tokio::time::sleep_until(ends.into())),
            ends,
            timeout,
        }
    }

    /// The answers as far as they have come.
    pub(crate) fn wholes(&self) -> Vec<&Whole> {
        self.choices.iter().map(|choice| &choice.whole).collect()
    }

    /// One of them.
    pub(crate) fn whole(&self, choice: usize) -> &Whole {
        &self.choices[choice].whole
    }

    /// What comes next of any of the answers.
    pub(crate) async fn next(&mut self) -> Next {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if self.choices.iter().all(|choice| choice.is_over) {
            return Poll::Ready(Next::Over);
        }
        if Instant::now() >= self.ends || self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Next::Failed(Problem::timeout(self.timeout.as_secs())));
        }
        for step in 0..self.choices.len() {
            let index = (self.next + step) % self.choices.len();
            let choice = &mut self.choices[index];
            if choice.is_over {
                continue;
            }
            if let Poll::Ready(event) = choice.events.poll_next(context) {
                self.next = index + 1;
                return Poll::Ready(match choice.take(event) {
                    Ok(parts) if choice.is_over => Next::Ended(index, parts),
                    Ok(parts) => Next::Parts(index, parts),
                    Err(problem) => Next::Failed(problem),
                });
            }
        }
        Poll::Pending
    }
}

impl Choice {
    fn take(&mut self, event: Event) -> Result<Vec<Part>, Problem> {
        let mut parts = Vec::new();
        let ended = match event {
            Event::Failed(problem) => return Err(problem),
            Event::Piece(piece) => {
                self.piece(piece, &mut parts)?;
                None
            }
            Event::Ended(Ended {
                mut rest,
                finish,
                usage,
            }) => {
                self.is_over = true;
                self.whole.embedding = rest.embedding.take().unwrap_or_default();
                self.piece(rest, &mut parts)?;
                let left = self.reading.parser.as_mut().map(CallParser::finish);
                self.add(left.unwrap_or_default(), &mut parts)?;
                Some((finish, usage))
            }
        };
        for part in &parts {
            self.keep(part);
        }
        if let Some((finish, usage)) = ended {
            self.whole.usage = usage;
            self.whole.finish = match finish {
                Finish::Length | Finish::Room => FinishReason::Length,
                _ if !self.whole.calls.is_empty() => FinishReason::Calls,
                Finish::Stop(index) => FinishReason::Stop(index),
                Finish::End | Finish::Cancelled => FinishReason::End,
            };
        }
        Ok(parts)
    }

    fn piece(&mut self, piece: Piece, parts: &mut Vec<Part>) -> Result<(), Problem> {
        self.echo(piece.prompt_scores, parts);
        self.text(&piece.text, piece.scores, parts)
    }

    /// Begins with the prompt, where that is wanted.
    fn echo(&mut self, scores: Vec<TokenScore>, parts: &mut Vec<Part>) {
        let Some((text, tokens)) = self.reading.echoed.take() else {
            return;
        };
        let mut scored = Vec::new();
        if self.reading.has_scores {
            scored.extend(tokens.first().map(|token| Scored {
                token: Spelled::new(&self.model, *token),
                logprob: None,
                top: Vec::new(),
            }));
            scored.extend(scores.into_iter().map(|score| self.scored(score)));
        }
        parts.push(Part::Text { text, scores: scored });
    }

    fn scored(&self, score: TokenScore) -> Scored {
        let top = score.top.into_iter();
        Scored {
            token: Spelled::new(&self.model, score.token),
            logprob: Some(score.logprob),
            top: top
                .map(|(token, logprob)| (Spelled::new(&self.model, token), logprob))
                .collect(),
        }
    }

    /// Adds text of the answer, and the scores of its tokens.
    fn text(&mut self, text: &str, scores: Vec<TokenScore>, parts: &mut Vec<Part>) -> Result<(), Problem> {
        let mut scores: Vec<Scored> = scores.into_iter().map(|score| self.scored(score)).collect();
        let found = match &mut self.reading.parser {
            Some(parser) => parser.push(text),
            None if text.is_empty() => Vec::new(),
            None => vec![CallPart::Text(text.to_owned())],
        };
        let before = parts.len();
        self.add(found, parts)?;
        if scores.is_empty() {
            return Ok(());
        }
        let first = parts[before..].iter_mut().find_map(|part| match part {
            Part::Text { scores, .. } => Some(scores),
            Part::Call { .. } | Part::Arguments { .. } => None,
        });
        match first {
            Some(of_text) => of_text.append(&mut scores),
            None => parts.push(Part::Text {
                text: String::new(),
                scores,
            }),
        }
        Ok(())
    }

    fn add(&mut self, found: Vec<CallPart>, parts: &mut Vec<Part>) -> Result<(), Problem> {
        let new = parts
            .iter()
            .filter(|part| matches!(part, Part::Call { .. }))
            .count();
        let mut calls = self.whole.calls.len() + new;
        for part in found {
            parts.push(match part {
                CallPart::Text(text) => Part::Text {
                    text,
                    scores: Vec::new(),
                },
                CallPart::Call { name } => {
                    calls += 1;
                    Part::Call {
                        index: calls - 1,
                        id: self.call_id()?,
                        name,
                    }
                }
                CallPart::Arguments(text) => Part::Arguments {
                    index: calls.saturating_sub(1),
                    text,
                },
            });
        }
        Ok(())
    }

    fn call_id(&self) -> Result<String, Problem> {
        let id = getrandom::u64().map_err(|error| Problem::internal(format!("no random name: {error}")))?;
        Ok(if self.reading.has_short_ids {
            // of nine letters and digits, or such templates refuse it
            format!("{:09x}", id & 0xf_ffff_ffff)
        } else {
            format!("{}{id:016x}", self.reading.call_prefix)
        })
    }

    fn keep(&mut self, part: &Part) {
        match part {
            Part::Text { text, scores } => {
                self.whole.text.push_str(text);
                if let Some(all) = &mut self.whole.scores {
                    all.extend_from_slice(scores);
                }
            }
            Part::Call { id, name, .. } => self.whole.calls.push(Call {
                id: id.clone(),
                name: name.clone(),
                arguments: String::new(),
            }),
            Part::Arguments { index, text } => {
                if let Some(call) = self.whole.calls.get_mut(*index) {
                    call.arguments.push_str(text);
                }
            }
        }
    }
}
