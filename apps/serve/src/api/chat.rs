//! OpenAI's chats: `POST /v1/chat/completions`.

use polychip_llm::{Message, Tool};
use serde_json::{Map, Value, json};

use super::{Frame, Reply, finish_reason, id, seconds, total, usage};
use crate::answer::{Call, Part, Scored, Whole};
use crate::fields::{Fields, Notes, wrong};
use crate::problem::Problem;
use crate::request::{
    Asked, Input, MaxTokens, ToolChoice, Tools, call_field, read_common, read_content, read_format,
    read_scores,
};

/// Reads a request for a chat.
pub(crate) fn read(body: &[u8], model: &str, notes: &mut Notes) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let messages = fields
        .take("messages")
        .ok_or_else(|| Problem::missing("messages"))?;
    let mut asked = Asked::new(Input::Chat(read_messages(messages, notes)?), "messages");
    let newer = fields.count("max_completion_tokens", 1)?;
    let older = fields.count("max_tokens", 1)?;
    asked.max_tokens = match (newer, older) {
        (Some(newer), Some(older)) if newer != older => {
            return Err(Problem::value(
                "max_tokens",
                "`max_tokens` and `max_completion_tokens` differ; give only one",
            ));
        }
        (Some(tokens), _) => Some(MaxTokens {
            tokens,
            param: "max_completion_tokens",
        }),
        (None, older) => older.map(|tokens| MaxTokens {
            tokens,
            param: "max_tokens",
        }),
    };
    let has_scores = fields.flag("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0)?;
    if has_scores {
        asked.scores = Some(read_scores(top.unwrap_or(0), "top_logprobs")?);
    } else if top.is_some_and(|top| top > 0) {
        let words = "`top_logprobs` requires `logprobs` to be true";
        return Err(Problem::value("top_logprobs", words));
    }
    asked.tools = read_tools(&mut fields, notes)?;
    if let Some(format) = fields.take("response_format") {
        asked.format = read_format(format, "response_format", Some("json_schema"), notes)?;
    }
    // what would change the answer in a way that the server cannot
    fields.only("functions", &[json!([])])?;
    fields.only("function_call", &[json!("none"), json!("auto")])?;
    fields.only("modalities", &[json!(["text"])])?;
    for name in ["audio", "web_search_options"] {
        fields.only(name, &[])?;
    }
    read_common(&mut fields, &mut asked, notes)?;
    fields.finish(notes)?;
    let reply = ChatReply {
        id: id("chatcmpl-")?,
        created: seconds(),
        model: model.to_owned(),
        wants_usage: asked.wants_usage,
        has_scores,
        count: asked.count,
    };
    Ok((asked, Box::new(reply)))
}

fn read_tools(fields: &mut Fields, notes: &mut Notes) -> Result<Tools, Problem> {
    let mut list = Vec::new();
    match fields.take("tools") {
        None => {}
        Some(Value::Array(tools)) => {
            for (index, tool) in tools.into_iter().enumerate() {
                let mut fields = Fields::of(tool, &format!("tools[{index}]"))?;
                expect_function(&mut fields)?;
                let path = fields.path("function");
                let function = fields.take("function").ok_or_else(|| Problem::missing(&path))?;
                let mut function = Fields::of(function, &path)?;
                list.push(read_function(&mut function)?);
                function.finish(notes)?;
                fields.finish(notes)?;
            }
        }
        Some(other) => return Err(wrong("tools", "an array of tools", &other)),
    }
    let choice = match fields.take("tool_choice") {
        None => None,
        Some(Value::String(word)) => Some(choice_word(&word)?),
        Some(named) => {
            let mut named = Fields::of(named, "tool_choice")?;
            expect_function(&mut named)?;
            let function = named
                .take("function")
                .ok_or_else(|| Problem::missing("tool_choice.function"))?;
            let mut function = Fields::of(function, "tool_choice.function")?;
            let name = function.text("name")?;
            function.finish(notes)?;
            named.finish(notes)?;
            Some(ToolChoice::Named(
                name.ok_or_else(|| Problem::missing("tool_choice.function.name"))?,
            ))
        }
    };
    let are_parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    Tools::new(list, choice, are_parallel, "tools")
}

/// Refuses tools of other types than functions.
pub(super) fn expect_function(fields: &mut Fields) -> Result<(), Problem> {
    match fields.text("type")?.as_deref() {
        Some("function") | None => Ok(()),
        Some(other) => {
            let words = format!("tool type {other:?} is not supported, only function");
            Err(Problem::unsupported(fields.path("type"), words))
        }
    }
}

/// A function's name, description and parameters.
pub(super) fn read_function(fields: &mut Fields) -> Result<Tool, Problem> {
    let name = fields.text("name")?;
    // arguments are held to the schema whatever this is
    fields.flag("strict")?;
    let description = fields.text("description")?;
    let parameters = fields.take("parameters").unwrap_or_else(|| json!({}));
    if !parameters.is_object() {
        return Err(wrong(&fields.path("parameters"), "a JSON schema", &parameters));
    }
    Ok(Tool {
        name: name.ok_or_else(|| Problem::missing(&fields.path("name")))?,
        description,
        parameters,
    })
}

/// A choice of tools by its word.
pub(super) fn choice_word(word: &str) -> Result<ToolChoice, Problem> {
    match word {
        "none" => Ok(ToolChoice::None),
        "auto" => Ok(ToolChoice::Auto),
        "required" => Ok(ToolChoice::Required),
        other => {
            let words = format!("`tool_choice` is {other:?}; it must be none, auto, required or a function");
            Err(Problem::value("tool_choice", words))
        }
    }
}

fn read_messages(messages: Value, notes: &mut Notes) -> Result<Vec<Message>, Problem> {
    let Value::Array(messages) = messages else {
        return Err(wrong("messages", "an array of messages", &messages));
    };
    if messages.is_empty() {
        return Err(Problem::value("messages", "there are no messages"));
    }
    let messages = messages.into_iter().enumerate();
    messages
        .map(|(index, message)| read_message(message, &format!("messages[{index}]"), notes))
        .collect()
}

fn read_message(message: Value, name: &str, notes: &mut Notes) -> Result<Message, Problem> {
    let mut fields = Fields::of(message, name)?;
    let role = fields
        .text("role")?
        .ok_or_else(|| Problem::missing(&fields.path("role")))?;
    let role = match &*role {
        "developer" | "system" => "system",
        "user" => "user",
        "assistant" => "assistant",
        "tool" => "tool",
        other => {
            let words = format!(
                "role {other:?} is not supported; supported roles are system, developer, user, assistant and tool"
            );
            return Err(Problem::unsupported(fields.path("role"), words));
        }
    };
    let content = match fields.take("content") {
        Some(content) => read_content(content, &fields.path("content"), &["text", "refusal"], notes)?,
        // an assistant may have called a tool instead
        None if role == "assistant" => String::new(),
        None => return Err(Problem::missing(&fields.path("content"))),
    };
    let mut message = Message::new(role, content);
    match role {
        "assistant" => {
            if let Some(calls) = fields.take("tool_calls") {
                let calls = read_calls(calls, &fields.path("tool_calls"), notes)?;
                if !calls.is_empty() {
                    message = message.with_field("tool_calls", calls.into());
                }
            }
            fields.neutral("annotations", &[json!([])]);
            for name in ["audio", "function_call"] {
                fields.only(name, &[])?;
            }
        }
        "tool" => {
            if let Some(id) = fields.text("tool_call_id")? {
                message = message.with_field("tool_call_id", id.into());
            }
            if let Some(name) = fields.text("name")? {
                message = message.with_field("name", name.into());
            }
        }
        _ => {}
    }
    fields.finish(notes)?;
    Ok(message)
}

fn read_calls(calls: Value, name: &str, notes: &mut Notes) -> Result<Vec<Value>, Problem> {
    let Value::Array(calls) = calls else {
        return Err(wrong(name, "an array of calls", &calls));
    };
    let mut read = Vec::with_capacity(calls.len());
    for (index, call) in calls.into_iter().enumerate() {
        let mut fields = Fields::of(call, &format!("{name}[{index}]"))?;
        expect_function(&mut fields)?;
        let id = fields.text("id")?.unwrap_or_default();
        // in pieces of a stream
        fields.take("index");
        let path = fields.path("function");
        let function = fields.take("function").ok_or_else(|| Problem::missing(&path))?;
        let mut function = Fields::of(function, &path)?;
        let name = function.text("name")?;
        let name = name.ok_or_else(|| Problem::missing(&function.path("name")))?;
        let arguments = function.take("arguments").unwrap_or_else(|| json!({}));
        if !arguments.is_string() && !arguments.is_object() {
            return Err(wrong(&function.path("arguments"), "JSON as a text", &arguments));
        }
        function.finish(notes)?;
        fields.finish(notes)?;
        read.push(call_field(&id, &name, arguments));
    }
    Ok(read)
}

/// Writes answers to chats.
struct ChatReply {
    id: String,
    created: u64,
    model: String,
    /// Whether each event of a stream has a field for what the answer took.
    wants_usage: bool,
    has_scores: bool,
    /// Answers to the chat.
    count: usize,
}

impl ChatReply {
    fn object(&self, object: &str, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn event(&self, choices: Value) -> Value {
        let mut event = self.object("chat.completion.chunk", choices);
        if self.wants_usage {
            event["usage"] = Value::Null;
        }
        event
    }

    fn choice(&self, index: usize, delta: Value, logprobs: Value, finish: Option<&str>) -> Frame {
        let choice = json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        Frame::new(&self.event(json!([choice])))
    }
}

impl Reply for ChatReply {
    fn whole(&mut self, answers: &[&Whole]) -> Value {
        let choices: Vec<Value> = answers
            .iter()
            .enumerate()
            .map(|(index, answer)| {
                let has_text = !answer.text.is_empty() || answer.calls.is_empty();
                let mut message = json!({
                    "role": "assistant",
                    "content": has_text.then_some(&answer.text),
                    "refusal": null,
                });
                if !answer.calls.is_empty() {
                    message["tool_calls"] = answer.calls.iter().map(call).collect();
                }
                json!({
                    "index": index,
                    "message": message,
                    "logprobs": answer.scores.as_deref().map(logprobs),
                    "finish_reason": finish_reason(answer.finish),
                })
            })
            .collect();
        let mut whole = self.object("chat.completion", choices.into());
        whole["usage"] = usage(total(answers));
        whole
    }

    fn open(&mut self, _prompts: &[usize], out: &mut Vec<Frame>) {
        for index in 0..self.count {
            let delta = json!({"role": "assistant", "content": ""});
            out.push(self.choice(index, delta, Value::Null, None));
        }
    }

    fn part(&mut self, choice: usize, part: &Part, out: &mut Vec<Frame>) {
        let (delta, scores) = match part {
            Part::Text { text, scores } => {
                let scores = self.has_scores.then(|| logprobs(scores));
                (json!({"content": text}), scores.unwrap_or_default())
            }
            Part::Call { index, id, name } => {
                let call = json!({
                    "index": index,
                    "id": id,
                    "type": "function",
                    "function": {"name": name, "arguments": ""},
                });
                (json!({"tool_calls": [call]}), Value::Null)
            }
            Part::Arguments { index, text } => {
                let call = json!({"index": index, "function": {"arguments": text}});
                (json!({"tool_calls": [call]}), Value::Null)
            }
        };
        out.push(self.choice(choice, delta, scores, None));
    }

    fn end(&mut self, choice: usize, whole: &Whole, out: &mut Vec<Frame>) {
        let finish = Some(finish_reason(whole.finish));
        out.push(self.choice(choice, Value::Object(Map::new()), Value::Null, finish));
    }

    fn close(&mut self, answers: &[&Whole], out: &mut Vec<Frame>) {
        if self.wants_usage {
            let mut last = self.event(json!([]));
            last["usage"] = usage(total(answers));
            out.push(Frame::new(&last));
        }
        out.push(Frame::done());
    }
}

fn call(call: &Call) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

fn logprobs(scores: &[Scored]) -> Value {
    let entry = |scored: &Scored| {
        let top = scored
            .top
            .iter()
            .map(|(token, logprob)| json!({"token": token.text, "logprob": logprob, "bytes": token.bytes}));
        json!({
            "token": scored.token.text,
            "logprob": scored.logprob,
            "bytes": scored.token.bytes,
            "top_logprobs": top.collect::<Vec<_>>(),
        })
    };
    json!({"content": scores.iter().map(entry).collect::<Vec<_>>(), "refusal": null})
}

#[cfg(test)]
mod tests;
