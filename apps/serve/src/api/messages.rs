//! Anthropic's messages: `POST /v1/messages`.

use polychip_llm::{Message, Tool};
use serde_json::{Value, json};

use super::{Frame, Reply, id, total};
use crate::answer::{Call, FinishReason, Part, Whole};
use crate::fields::{Fields, Notes, wrong};
use crate::job::Usage;
use crate::problem::{Form, Problem};
use crate::request::{
    Asked, Input, MaxTokens, ToolChoice, Tools, call_field, read_content, read_sampling, read_stop,
};

/// Reads a request for a message.
pub(crate) fn read(body: &[u8], model: &str, notes: &mut Notes) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let mut messages = Vec::new();
    if let Some(system) = fields.take("system") {
        let system = read_content(system, "system", &["text"], notes)?;
        messages.push(Message::new("system", system));
    }
    let list = fields
        .take("messages")
        .ok_or_else(|| Problem::missing("messages"))?;
    read_messages(list, &mut messages, notes)?;
    let mut asked = Asked::new(Input::Chat(messages), "messages");
    asked.model = fields.text("model")?;
    let tokens = fields.count("max_tokens", 1)?;
    asked.max_tokens = Some(MaxTokens {
        tokens: tokens.ok_or_else(|| Problem::missing("max_tokens"))?,
        param: "max_tokens",
    });
    asked.is_streamed = fields.flag("stream")?.unwrap_or(false);
    read_sampling(&mut fields, &mut asked.sampling, 1.0)?;
    asked.seed = fields.seed()?;
    if let Some(stop) = fields.take("stop_sequences") {
        asked.stop = read_stop(stop, "stop_sequences")?;
    }
    asked.may_reuse = fields.flag("cache_prompt")?.unwrap_or(true);
    asked.cache_key = fields.text("prompt_cache_key")?;
    asked.tools = read_tools(&mut fields, notes)?;
    fields.neutral("thinking", &[json!({"type": "disabled"})]);
    fields.neutral("service_tier", &[json!("auto"), json!("standard_only")]);
    fields.take("metadata");
    fields.finish(notes)?;
    let reply = MessageReply {
        id: id("msg_")?,
        model: model.to_owned(),
        stop: asked.stop.clone(),
        blocks: 0,
        open: None,
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
                if let Some(other) = fields.text("type")?.filter(|kind| kind != "custom") {
                    let words = format!("tool type {other:?} is not supported, only custom");
                    return Err(Problem::unsupported(fields.path("type"), words));
                }
                let name = fields.text("name")?;
                let parameters = fields.take("input_schema").unwrap_or_else(|| json!({}));
                if !parameters.is_object() {
                    return Err(wrong(&fields.path("input_schema"), "a JSON schema", &parameters));
                }
                fields.take("cache_control");
                fields.take("strict");
                list.push(Tool {
                    name: name.ok_or_else(|| Problem::missing(&fields.path("name")))?,
                    description: fields.text("description")?,
                    parameters,
                });
                fields.finish(notes)?;
            }
        }
        Some(other) => return Err(wrong("tools", "an array of tools", &other)),
    }
    let (mut choice, mut are_parallel) = (None, true);
    if let Some(of_tools) = fields.take("tool_choice") {
        let mut of_tools = Fields::of(of_tools, "tool_choice")?;
        choice = Some(match of_tools.text("type")?.as_deref() {
            Some("auto") => ToolChoice::Auto,
            Some("any") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            Some("tool") => {
                let name = of_tools.text("name")?;
                ToolChoice::Named(name.ok_or_else(|| Problem::missing("tool_choice.name"))?)
            }
            other => {
                let words = format!("`tool_choice.type` is {other:?}; it must be auto, any, tool or none");
                return Err(Problem::value("tool_choice.type", words));
            }
        });
        are_parallel = !of_tools.flag("disable_parallel_tool_use")?.unwrap_or(false);
        of_tools.finish(notes)?;
    }
    Tools::new(list, choice, are_parallel, "tools")
}

fn read_messages(list: Value, messages: &mut Vec<Message>, notes: &mut Notes) -> Result<(), Problem> {
    let Value::Array(list) = list else {
        return Err(wrong("messages", "an array of messages", &list));
    };
    if list.is_empty() {
        return Err(Problem::value("messages", "there are no messages"));
    }
    for (index, message) in list.into_iter().enumerate() {
        let mut fields = Fields::of(message, &format!("messages[{index}]"))?;
        let role = fields
            .text("role")?
            .ok_or_else(|| Problem::missing(&fields.path("role")))?;
        if !["user", "assistant", "system"].contains(&&*role) {
            let words = format!("role {role:?} is not supported; supported roles are user and assistant");
            return Err(Problem::unsupported(fields.path("role"), words));
        }
        let path = fields.path("content");
        let content = fields.take("content").ok_or_else(|| Problem::missing(&path))?;
        fields.finish(notes)?;
        match content {
            Value::Array(blocks) => read_blocks(blocks, &role, &path, messages, notes)?,
            other => messages.push(Message::new(role, read_content(other, &path, &["text"], notes)?)),
        }
    }
    Ok(())
}

/// Text and calls of a block become one message; results become one each, before the text.
fn read_blocks(
    blocks: Vec<Value>,
    role: &str,
    path: &str,
    messages: &mut Vec<Message>,
    notes: &mut Notes,
) -> Result<(), Problem> {
    let (mut texts, mut calls, mut has_results) = (Vec::new(), Vec::new(), false);
    for (index, block) in blocks.into_iter().enumerate() {
        let mut fields = Fields::of(block, &format!("{path}[{index}]"))?;
        let kind = fields
            .text("type")?
            .ok_or_else(|| Problem::missing(&fields.path("type")))?;
        for name in ["cache_control", "citations"] {
            fields.take(name);
        }
        let text = |fields: &mut Fields, name: &str| {
            let text = fields.text(name)?;
            text.ok_or_else(|| Problem::missing(&fields.path(name)))
        };
        match &*kind {
            "text" => texts.push(text(&mut fields, "text")?),
            "tool_use" if role == "assistant" => {
                let id = text(&mut fields, "id")?;
                let name = text(&mut fields, "name")?;
                let input = fields.take("input").unwrap_or_else(|| json!({}));
                calls.push(call_field(&id, &name, input));
                fields.take("caller");
            }
            "tool_result" if role == "user" => {
                let id = text(&mut fields, "tool_use_id")?;
                let path = fields.path("content");
                let content = match fields.take("content") {
                    Some(content) => read_content(content, &path, &["text"], notes)?,
                    None => String::new(),
                };
                let content = match fields.flag("is_error")? {
                    Some(true) => format!("error: {content}"),
                    _ => content,
                };
                messages.push(Message::new("tool", content).with_field("tool_call_id", id.into()));
                has_results = true;
            }
            // what a model thought is not given to it again
            "thinking" | "redacted_thinking" => continue,
            other => {
                let words = format!(
                    "content type {other:?} is not supported here; supported types are text, tool_use of assistants and tool_result of users"
                );
                return Err(Problem::unsupported(fields.path("type"), words));
            }
        }
        fields.finish(notes)?;
    }
    if texts.is_empty() && calls.is_empty() && has_results {
        return Ok(());
    }
    let mut message = Message::new(role, texts.join("\n"));
    if !calls.is_empty() {
        message = message.with_field("tool_calls", calls.into());
    }
    messages.push(message);
    Ok(())
}

/// Writes a message.
struct MessageReply {
    id: String,
    model: String,
    /// Stop strings, by which an end is reported.
    stop: Vec<String>,
    /// Blocks so far.
    blocks: usize,
    open: Option<Block>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Text,
    Call,
}

impl MessageReply {
    fn message(&self, content: Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": null,
            "stop_sequence": null,
        })
    }

    fn finish(&self, finish: FinishReason) -> (&'static str, Option<&str>) {
        match finish {
            FinishReason::End => ("end_turn", None),
            FinishReason::Stop(index) => ("stop_sequence", self.stop.get(index).map(String::as_str)),
            FinishReason::Length => ("max_tokens", None),
            FinishReason::Calls => ("tool_use", None),
        }
    }

    fn end_block(&mut self, out: &mut Vec<Frame>) {
        if self.open.take().is_some() {
            let stop = json!({"type": "content_block_stop", "index": self.blocks - 1});
            out.push(Frame::named("content_block_stop", &stop));
        }
    }

    fn begin_block(&mut self, kind: Block, block: Value, out: &mut Vec<Frame>) {
        self.end_block(out);
        let start = json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        out.push(Frame::named("content_block_start", &start));
        self.blocks += 1;
        self.open = Some(kind);
    }

    fn delta(&self, delta: Value, out: &mut Vec<Frame>) {
        let index = self.blocks.saturating_sub(1);
        let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
        out.push(Frame::named("content_block_delta", &delta));
    }
}

impl Reply for MessageReply {
    fn whole(&mut self, answers: &[&Whole]) -> Value {
        let Some(answer) = answers.first() else {
            return Value::Null;
        };
        let mut content = Vec::new();
        if !answer.text.is_empty() || answer.calls.is_empty() {
            content.push(json!({"type": "text", "text": answer.text}));
        }
        content.extend(answer.calls.iter().map(block));
        let mut message = self.message(content.into());
        let (reason, stop) = self.finish(answer.finish);
        message["stop_reason"] = json!(reason);
        message["stop_sequence"] = json!(stop);
        message["usage"] = usage(answer.usage);
        message
    }

    fn open(&mut self, prompts: &[usize], out: &mut Vec<Frame>) {
        let mut message = self.message(json!([]));
        message["usage"] = usage(Usage {
            prompt: prompts.iter().sum(),
            reused: 0,
            answer: 0,
        });
        let start = json!({"type": "message_start", "message": message});
        out.push(Frame::named("message_start", &start));
    }

    fn part(&mut self, _choice: usize, part: &Part, out: &mut Vec<Frame>) {
        match part {
            Part::Text { text, .. } => {
                if self.open != Some(Block::Text) {
                    self.begin_block(Block::Text, json!({"type": "text", "text": ""}), out);
                }
                self.delta(json!({"type": "text_delta", "text": text}), out);
            }
            Part::Call { id, name, .. } => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.begin_block(Block::Call, block, out);
            }
            Part::Arguments { text, .. } => {
                self.delta(json!({"type": "input_json_delta", "partial_json": text}), out);
            }
        }
    }

    fn end(&mut self, _choice: usize, _whole: &Whole, out: &mut Vec<Frame>) {
        self.end_block(out);
    }

    fn close(&mut self, answers: &[&Whole], out: &mut Vec<Frame>) {
        let finish = answers.first().map_or(FinishReason::End, |answer| answer.finish);
        let (reason, stop) = self.finish(finish);
        let delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": stop},
            "usage": usage(total(answers)),
        });
        out.push(Frame::named("message_delta", &delta));
        out.push(Frame::named("message_stop", &json!({"type": "message_stop"})));
    }

    fn fail(&mut self, problem: &Problem, out: &mut Vec<Frame>) {
        out.push(Frame::named("error", &problem.formed(Form::Anthropic)));
    }

    fn call_prefix(&self) -> &'static str {
        "toolu_"
    }
}

fn block(call: &Call) -> Value {
    // arguments that were cut are no JSON
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// The interface counts what was read before apart.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt - usage.reused,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.reused,
        "output_tokens": usage.answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: Value) -> Result<Asked, Value> {
        let read = read(body.to_string().as_bytes(), "m", &mut Notes::default());
        read.map(|(asked, _)| asked)
            .map_err(|problem| problem.json()["error"]["param"].clone())
    }

    #[test]
    fn blocks_become_messages() {
        let read = asked(json!({
            "max_tokens": 5, "system": [{"type": "text", "text": "be short", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "b"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "7"}]},
                    {"type": "text", "text": "and?"},
                ]},
            ],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        }))
        .unwrap();
        let [Input::Chat(messages)] = &read.inputs[..] else {
            panic!("it is a chat");
        };
        let roles: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| (&*message.role, &*message.content))
            .collect();
        let expected = [
            ("system", "be short"),
            ("user", "a"),
            ("assistant", "b"),
            ("tool", "7"),
            ("user", "and?"),
        ];
        assert_eq!(roles, expected);
        assert_eq!(
            (read.tools.choice, read.tools.are_parallel),
            (ToolChoice::Required, false)
        );
    }

    #[test]
    fn errors_name_the_field() {
        for (more, name) in [
            (json!({"max_tokens": null}), "max_tokens"),
            (json!({"temperature": 1.5}), "temperature"),
            (json!({"tool_choice": {"type": "some"}}), "tool_choice.type"),
            (
                json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
                "tools[0].type",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
                "messages[0].content[0].type",
            ),
            (
                json!({"messages": [{"role": "tool", "content": "x"}]}),
                "messages[0].role",
            ),
        ] {
            let mut body = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]});
            for (field, value) in more.as_object().expect("it is an object") {
                body[field] = value.clone();
            }
            assert_eq!(asked(body).err(), Some(json!(name)), "{more}");
        }
    }
}
