//! The response to a client: one object, or a stream of events.
//!
//! Invariant: the pieces of a stream form the text of the same request's single object.

use std::time::{SystemTime, UNIX_EPOCH};

use polychip_llm::Finish;
use serde_json::{Value, json};

use crate::job::{Ended, Usage};
use crate::problem::Problem;

/// The end of a stream.
pub(crate) const DONE: &str = "[DONE]";

/// What all objects of an answer say.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    id: String,
    created: u64,
    model: String,
    is_chat: bool,
    /// Whether each event of a stream has a field for what the answer took.
    wants_usage: bool,
}

impl Reply {
    /// A reply to a chat, or to a request for a continuation.
    pub(crate) fn new(model: &str, is_chat: bool, wants_usage: bool) -> Result<Reply, Problem> {
        let id = getrandom::u64().map_err(|error| Problem::internal(format!("no random name: {error}")))?;
        let prefix = if is_chat { "chatcmpl" } else { "cmpl" };
        Ok(Reply {
            id: format!("{prefix}-{id:016x}"),
            created: seconds(),
            model: model.to_owned(),
            is_chat,
            wants_usage,
        })
    }

    fn object(&self, object: &str, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    /// The whole answer.
    pub(crate) fn whole(&self, text: &str, ended: &Ended) -> Value {
        let finish = word(ended.finish);
        let (object, choice) = if self.is_chat {
            (
                "chat.completion",
                json!({
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": null},
                    "logprobs": null,
                    "finish_reason": finish,
                }),
            )
        } else {
            ("text_completion", text_choice(text, Some(finish)))
        };
        let mut whole = self.object(object, json!([choice]));
        whole["usage"] = usage(ended.usage);
        whole
    }

    fn event(&self, choices: Value) -> Value {
        let object = if self.is_chat {
            "chat.completion.chunk"
        } else {
            "text_completion"
        };
        let mut event = self.object(object, choices);
        if self.wants_usage {
            event["usage"] = Value::Null;
        }
        event
    }

    /// The first event, where there is one before any text.
    pub(crate) fn opening(&self) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": ""});
        self.is_chat
            .then(|| self.event(json!([chat_choice(delta, None)])))
    }

    /// A piece of the text.
    pub(crate) fn piece(&self, text: &str) -> Value {
        let choice = if self.is_chat {
            chat_choice(json!({"content": text}), None)
        } else {
            text_choice(text, None)
        };
        self.event(json!([choice]))
    }

    /// The last events: the rest of the text, why it ended, and what it took where that is wanted.
    pub(crate) fn closing(&self, ended: &Ended) -> Vec<Value> {
        let mut events = Vec::new();
        if !ended.rest.is_empty() {
            events.push(self.piece(&ended.rest));
        }
        let finish = Some(word(ended.finish));
        let choice = if self.is_chat {
            chat_choice(json!({}), finish)
        } else {
            text_choice("", finish)
        };
        events.push(self.event(json!([choice])));
        if self.wants_usage {
            let mut last = self.event(json!([]));
            last["usage"] = usage(ended.usage);
            events.push(last);
        }
        events
    }
}

fn chat_choice(delta: Value, finish: Option<&str>) -> Value {
    json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish})
}

fn text_choice(text: &str, finish: Option<&str>) -> Value {
    json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish})
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.answer,
        "total_tokens": usage.prompt + usage.answer,
        "prompt_tokens_details": {"cached_tokens": usage.reused},
    })
}

/// OpenAI's word for why an answer ended.
fn word(finish: Finish) -> &'static str {
    match finish {
        Finish::End | Finish::Stop(_) | Finish::Cancelled => "stop",
        Finish::Length | Finish::Room => "length",
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
