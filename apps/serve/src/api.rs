//! The interfaces of the server: how requests and answers are written.
//!
//! Each reads its JSON as [`Asked`] and writes answers as a [`Reply`]; all else is shared.
//!
//! Invariant: the pieces of a stream form the text and calls of the same request's single object.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod embeddings;
pub(crate) mod info;
pub(crate) mod messages;
pub(crate) mod ollama;
pub(crate) mod responses;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::answer::{FinishReason, Part, Whole};
use crate::fields::Notes;
use crate::job::Usage;
use crate::problem::Problem;
use crate::request::Asked;

/// The end of a stream of OpenAI's interfaces.
const DONE: &str = "[DONE]";

/// What an interface reads a body as: the request, and how its answer is written. The model's name is for answers.
pub(crate) type Read = fn(&[u8], &str, &mut Notes) -> Result<(Asked, Box<dyn Reply>), Problem>;

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The event's name, where the interface names events.
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
}

impl Frame {
    fn new(data: &Value) -> Frame {
        Frame {
            name: None,
            data: data.to_string(),
        }
    }

    fn named(name: &'static str, data: &Value) -> Frame {
        Frame {
            name: Some(name),
            data: data.to_string(),
        }
    }

    fn done() -> Frame {
        Frame {
            name: None,
            data: DONE.to_owned(),
        }
    }
}

/// Writes an answer as an interface's clients expect it.
pub(crate) trait Reply: Send {
    /// The answers as one object.
    fn whole(&mut self, answers: &[&Whole]) -> Value;
    /// The first events of a stream; the prompts have so many tokens.
    fn open(&mut self, prompts: &[usize], out: &mut Vec<Frame>);
    /// A part of one of the answers.
    fn part(&mut self, choice: usize, part: &Part, out: &mut Vec<Frame>);
    /// One of the answers has ended.
    fn end(&mut self, choice: usize, whole: &Whole, out: &mut Vec<Frame>);
    /// All have.
    fn close(&mut self, answers: &[&Whole], out: &mut Vec<Frame>);
    /// Something failed; nothing follows.
    fn fail(&mut self, problem: &Problem, out: &mut Vec<Frame>) {
        out.push(Frame::new(&problem.json()));
    }
    /// Whether a stream has lines of JSON instead of events.
    fn is_lines(&self) -> bool {
        false
    }
    /// What the ids of calls begin with.
    fn call_prefix(&self) -> &'static str {
        "call_"
    }
}

/// A random name.
fn id(prefix: &str) -> Result<String, Problem> {
    let id = getrandom::u64().map_err(|error| Problem::internal(format!("no random name: {error}")))?;
    Ok(format!("{prefix}{id:016x}"))
}

/// What all answers to a request took: the tokens of a prompt are counted once, however many answers it has.
fn total(answers: &[&Whole]) -> Usage {
    let mut total = Usage {
        prompt: 0,
        reused: 0,
        answer: 0,
    };
    for answer in answers {
        if answer.is_first {
            total.prompt += answer.usage.prompt;
            total.reused += answer.usage.reused;
        }
        total.answer += answer.usage.answer;
    }
    total
}

/// As OpenAI's chats and texts report it.
fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.answer,
        "total_tokens": usage.prompt + usage.answer,
        "prompt_tokens_details": {"cached_tokens": usage.reused},
    })
}

/// OpenAI's word for why an answer ended.
fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::End | FinishReason::Stop(_) => "stop",
        FinishReason::Length => "length",
        FinishReason::Calls => "tool_calls",
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
