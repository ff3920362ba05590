//! OpenAI's responses: `POST /v1/responses`, without stored responses and the service's own tools.

use polychip_llm::Message;
use serde_json::{Map, Value, json};

use super::chat::{choice_word, expect_function, read_function};
use super::{Frame, Reply, id, seconds, total};
use crate::answer::{Call, FinishReason, Part, Whole};
use crate::fields::{Fields, Notes, wrong};
use crate::job::Usage;
use crate::problem::Problem;
use crate::request::{
    Asked, Input, MaxTokens, ToolChoice, Tools, call_field, read_content, read_format, read_sampling,
};

/// Fields of a request that the response repeats.
const REPEATED: [&str; 9] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
];

/// Reads a request for a response.
pub(crate) fn read(body: &[u8], model: &str, notes: &mut Notes) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let repeated: Map<String, Value> = REPEATED
        .iter()
        .map(|name| ((*name).to_owned(), fields.get(name).cloned().unwrap_or_default()))
        .collect();
    let input = fields.take("input").ok_or_else(|| Problem::missing("input"))?;
    let mut messages = Vec::new();
    if let Some(instructions) = fields.text("instructions")? {
        messages.push(Message::new("system", instructions));
    }
    read_input(input, &mut messages, notes)?;
    let mut asked = Asked::new(Input::Chat(messages), "input");
    asked.model = fields.text("model")?;
    asked.is_streamed = fields.flag("stream")?.unwrap_or(false);
    asked.max_tokens = fields.count("max_output_tokens", 1)?.map(|tokens| MaxTokens {
        tokens,
        param: "max_output_tokens",
    });
    read_sampling(&mut fields, &mut asked.sampling, 2.0)?;
    asked.seed = fields.seed()?;
    asked.cache_key = fields.text("prompt_cache_key")?;
    asked.may_reuse = fields.flag("cache_prompt")?.unwrap_or(true);
    asked.tools = read_tools(&mut fields, notes)?;
    if let Some(text) = fields.take("text") {
        let mut text = Fields::of(text, "text")?;
        if let Some(format) = text.take("format") {
            asked.format = read_format(format, "text.format", None, notes)?;
        }
        text.finish(notes)?;
    }
    for name in ["previous_response_id", "conversation", "prompt"] {
        fields.only(name, &[])?;
    }
    fields.only("background", &[json!(false)])?;
    fields.neutral("store", &[json!(false)]);
    fields.neutral("truncation", &[json!("disabled")]);
    fields.neutral("service_tier", &[json!("auto"), json!("default")]);
    fields.neutral("include", &[json!([])]);
    for name in ["user", "metadata", "safety_identifier"] {
        fields.take(name);
    }
    fields.finish(notes)?;
    let reply = ResponseReply {
        id: id("resp_")?,
        created: seconds(),
        model: model.to_owned(),
        repeated,
        events: 0,
        items: 0,
        open: None,
        done: Vec::new(),
        calls: Vec::new(),
        text: String::new(),
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
                list.push(read_function(&mut fields)?);
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
            let name = named.text("name")?;
            named.finish(notes)?;
            Some(ToolChoice::Named(
                name.ok_or_else(|| Problem::missing("tool_choice.name"))?,
            ))
        }
    };
    let are_parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    Tools::new(list, choice, are_parallel, "tools")
}

/// Reads a text, or messages, calls and results of them.
fn read_input(input: Value, messages: &mut Vec<Message>, notes: &mut Notes) -> Result<(), Problem> {
    let items = match input {
        Value::String(text) => {
            messages.push(Message::new("user", text));
            return Ok(());
        }
        Value::Array(items) => items,
        other => return Err(wrong("input", "a text or an array of items", &other)),
    };
    if items.is_empty() {
        return Err(Problem::value("input", "there are no items"));
    }
    // whether the last message is an assistant's whose calls the next ones belong to
    let mut may_join = false;
    for (index, item) in items.into_iter().enumerate() {
        let mut fields = Fields::of(item, &format!("input[{index}]"))?;
        let kind = fields.text("type")?;
        for name in ["id", "status"] {
            fields.take(name);
        }
        match kind.as_deref() {
            Some("message") | None => {
                let message = read_message(&mut fields, notes)?;
                may_join = message.role == "assistant";
                messages.push(message);
            }
            Some("function_call") => {
                let text = |fields: &mut Fields, name: &str| {
                    let text = fields.text(name)?;
                    text.ok_or_else(|| Problem::missing(&fields.path(name)))
                };
                let id = text(&mut fields, "call_id")?;
                let name = text(&mut fields, "name")?;
                let arguments = text(&mut fields, "arguments")?;
                let call = call_field(&id, &name, arguments.into());
                let last = messages.last_mut().filter(|_| may_join);
                match last {
                    Some(last) => match last.fields.get_mut("tool_calls").and_then(Value::as_array_mut) {
                        Some(calls) => calls.push(call),
                        None => {
                            last.fields.insert("tool_calls".to_owned(), json!([call]));
                        }
                    },
                    None => {
                        let message = Message::new("assistant", "");
                        messages.push(message.with_field("tool_calls", json!([call])));
                    }
                }
                may_join = true;
            }
            Some("function_call_output") => {
                let id = fields.text("call_id")?;
                let id = id.ok_or_else(|| Problem::missing(&fields.path("call_id")))?;
                let path = fields.path("output");
                let output = fields.take("output").ok_or_else(|| Problem::missing(&path))?;
                let text = read_content(output, &path, &["input_text", "output_text"], notes)?;
                messages.push(Message::new("tool", text).with_field("tool_call_id", id.into()));
                may_join = false;
            }
            // what a model thought is not given to it again
            Some("reasoning") => continue,
            Some(other) => {
                let words = format!(
                    "item type {other:?} is not supported; supported types are message, function_call and function_call_output"
                );
                return Err(Problem::unsupported(fields.path("type"), words));
            }
        }
        fields.finish(notes)?;
    }
    Ok(())
}

fn read_message(fields: &mut Fields, notes: &mut Notes) -> Result<Message, Problem> {
    let role = fields
        .text("role")?
        .ok_or_else(|| Problem::missing(&fields.path("role")))?;
    let role = match &*role {
        "developer" | "system" => "system",
        "user" => "user",
        "assistant" => "assistant",
        other => {
            let words = format!(
                "role {other:?} is not supported; supported roles are system, developer, user and assistant"
            );
            return Err(Problem::unsupported(fields.path("role"), words));
        }
    };
    let path = fields.path("content");
    let content = fields.take("content").ok_or_else(|| Problem::missing(&path))?;
    let content = read_content(content, &path, &["input_text", "output_text", "text"], notes)?;
    Ok(Message::new(role, content))
}

/// Writes a response.
struct ResponseReply {
    id: String,
    created: u64,
    model: String,
    repeated: Map<String, Value>,
    /// Events so far.
    events: u64,
    /// Items that were begun.
    items: usize,
    /// The item that is being written.
    open: Option<Item>,
    /// Items that were written.
    done: Vec<Value>,
    calls: Vec<Call>,
    /// Text of the open message so far.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Message(usize),
    /// Index among the items, and among the calls.
    Call(usize, usize),
}

impl ResponseReply {
    fn response(&self, status: &str, output: Value) -> Value {
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": output,
            "error": null,
            "incomplete_details": null,
            "previous_response_id": null,
            "usage": null,
        });
        for (name, value) in &self.repeated {
            response[name] = match (&**name, value) {
                ("parallel_tool_calls", Value::Null) => json!(true),
                ("tool_choice", Value::Null) => json!("auto"),
                ("tools", Value::Null) => json!([]),
                ("metadata", Value::Null) => json!({}),
                ("text", Value::Null) => json!({"format": {"type": "text"}}),
                _ => value.clone(),
            };
        }
        response
    }

    fn ended(&self, answers: &[&Whole], output: Value) -> Value {
        let is_cut = answers.iter().any(|answer| answer.finish == FinishReason::Length);
        let status = if is_cut { "incomplete" } else { "completed" };
        let mut response = self.response(status, output);
        if is_cut {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        response["usage"] = usage(total(answers));
        response
    }

    fn event(&mut self, name: &'static str, mut event: Value, out: &mut Vec<Frame>) {
        event["type"] = json!(name);
        event["sequence_number"] = json!(self.events);
        self.events += 1;
        out.push(Frame::named(name, &event));
    }

    /// The item at this index, a message.
    fn message(&self, index: usize, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.into_iter().map(content).collect();
        json!({
            "id": format!("msg_{}{index:02}", self.id.trim_start_matches("resp_")),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }

    /// Ends the item that is being written.
    fn end_item(&mut self, status: &str, out: &mut Vec<Frame>) {
        match self.open.take() {
            None => {}
            Some(Item::Message(index)) => {
                let text = std::mem::take(&mut self.text);
                let message = self.message(index, status, Some(&text));
                self.done.push(message.clone());
                let at = json!({"item_id": message["id"], "output_index": index, "content_index": 0});
                let with = |name: &str, value: Value| {
                    let mut event = at.clone();
                    event[name] = value;
                    event
                };
                let mut done = with("text", json!(text));
                done["logprobs"] = json!([]);
                self.event("response.output_text.done", done, out);
                self.event("response.content_part.done", with("part", content(&text)), out);
                let done = json!({"output_index": index, "item": message});
                self.event("response.output_item.done", done, out);
            }
            Some(Item::Call(index, call)) => {
                let item = item(&self.calls[call], status);
                self.done.push(item.clone());
                let done = json!({
                    "item_id": item["id"],
                    "output_index": index,
                    "name": item["name"],
                    "arguments": item["arguments"],
                });
                self.event("response.function_call_arguments.done", done, out);
                let done = json!({"output_index": index, "item": item});
                self.event("response.output_item.done", done, out);
            }
        }
    }

    fn next_item(&mut self) -> usize {
        self.items += 1;
        self.items - 1
    }
}

/// The word for whether an item is whole.
fn status(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Length => "incomplete",
        FinishReason::End | FinishReason::Stop(_) | FinishReason::Calls => "completed",
    }
}

impl Reply for ResponseReply {
    fn whole(&mut self, answers: &[&Whole]) -> Value {
        let mut items = Vec::new();
        for answer in answers {
            let status = status(answer.finish);
            if !answer.text.is_empty() || answer.calls.is_empty() {
                items.push(self.message(0, status, Some(&answer.text)));
            }
            items.extend(answer.calls.iter().map(|call| item(call, status)));
        }
        self.ended(answers, items.into())
    }

    fn open(&mut self, _prompts: &[usize], out: &mut Vec<Frame>) {
        let response = self.response("in_progress", json!([]));
        self.event("response.created", json!({"response": response.clone()}), out);
        self.event("response.in_progress", json!({"response": response}), out);
    }

    fn part(&mut self, _choice: usize, part: &Part, out: &mut Vec<Frame>) {
        match part {
            Part::Text { text, .. } => {
                if !matches!(self.open, Some(Item::Message(_))) {
                    self.end_item("completed", out);
                    let index = self.next_item();
                    self.open = Some(Item::Message(index));
                    let message = self.message(index, "in_progress", None);
                    let added = json!({"output_index": index, "item": message});
                    self.event("response.output_item.added", added, out);
                    let added = json!({
                        "item_id": message["id"],
                        "output_index": index,
                        "content_index": 0,
                        "part": content(""),
                    });
                    self.event("response.content_part.added", added, out);
                }
                let Some(Item::Message(index)) = self.open else {
                    return;
                };
                self.text.push_str(text);
                let delta = json!({
                    "item_id": self.message(index, "in_progress", None)["id"],
                    "output_index": index,
                    "content_index": 0,
                    "delta": text,
                    "logprobs": [],
                });
                self.event("response.output_text.delta", delta, out);
            }
            Part::Call { index, id, name } => {
                self.end_item("completed", out);
                let at = self.next_item();
                self.open = Some(Item::Call(at, *index));
                self.calls.push(Call {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                });
                let item = item(&self.calls[*index], "in_progress");
                let added = json!({"output_index": at, "item": item});
                self.event("response.output_item.added", added, out);
            }
            Part::Arguments { index, text } => {
                let Some(Item::Call(at, _)) = self.open else {
                    return;
                };
                let call = &mut self.calls[*index];
                call.arguments.push_str(text);
                let delta = json!({"item_id": item_id(call), "output_index": at, "delta": text});
                self.event("response.function_call_arguments.delta", delta, out);
            }
        }
    }

    fn end(&mut self, _choice: usize, whole: &Whole, out: &mut Vec<Frame>) {
        self.end_item(status(whole.finish), out);
    }

    fn close(&mut self, answers: &[&Whole], out: &mut Vec<Frame>) {
        let items = std::mem::take(&mut self.done);
        let response = self.ended(answers, items.into());
        let name = if response["status"] == "incomplete" {
            "response.incomplete"
        } else {
            "response.completed"
        };
        self.event(name, json!({"response": response}), out);
    }

    fn fail(&mut self, problem: &Problem, out: &mut Vec<Frame>) {
        let error = problem.json();
        let (code, message) = (&error["error"]["code"], &error["error"]["message"]);
        let mut response = self.response("failed", json!([]));
        response["error"] = json!({"code": code, "message": message});
        self.event("response.failed", json!({"response": response}), out);
    }
}

fn content(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn item_id(call: &Call) -> String {
    format!("fc_{}", call.id.trim_start_matches("call_"))
}

fn item(call: &Call, status: &str) -> Value {
    json!({
        "id": item_id(call),
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.reused},
        "output_tokens": usage.answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.answer,
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
    fn items_become_messages() {
        let read = asked(json!({
            "instructions": "be short",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                 "content": [{"type": "output_text", "text": "b", "annotations": []}]},
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "7"},
            ],
            "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": true}],
            "max_output_tokens": 5, "store": true, "text": {"format": {"type": "text"}},
        }))
        .unwrap();
        let [Input::Chat(messages)] = &read.inputs[..] else {
            panic!("it is a chat");
        };
        let roles: Vec<&str> = messages.iter().map(|message| &*message.role).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(messages[2].fields["tool_calls"].as_array().map(Vec::len), Some(2));
        assert_eq!((read.tools.list.len(), read.max_tokens.unwrap().tokens), (1, 5));
    }

    #[test]
    fn what_needs_stored_responses_is_refused() {
        for (more, name) in [
            (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
            (json!({"background": true}), "background"),
            (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
            (json!({"input": []}), "input"),
            (
                json!({"input": [{"type": "item_reference", "id": "x"}]}),
                "input[0].type",
            ),
            (
                json!({"input": [{"type": "function_call", "name": "f"}]}),
                "input[0].call_id",
            ),
            (json!({"text": {"format": {"type": "xml"}}}), "text.format.type"),
        ] {
            let mut body = json!({"input": "x"});
            for (field, value) in more.as_object().expect("it is an object") {
                body[field] = value.clone();
            }
            assert_eq!(asked(body).err(), Some(json!(name)), "{more}");
        }
    }
}
