//! Ollama's interface: `POST /api/chat`, `POST /api/generate`, `GET /api/tags`, `GET /api/version`.

use std::time::Instant;

use polychip_llm::Message;
use serde_json::{Value, json};

use super::chat::{expect_function, read_function};
use super::{Frame, Reply, seconds, total};
use crate::answer::{Call, FinishReason, Part, Whole};
use crate::fields::{Fields, Notes, wrong};
use crate::problem::{Form, Problem};
use crate::request::{Asked, Format, Input, MaxTokens, Tools, call_field, read_sampling, read_stop};

/// Reads a request for a chat.
pub(crate) fn read_chat(
    body: &[u8],
    model: &str,
    notes: &mut Notes,
) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let list = match fields.take("messages") {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("messages", "an array of messages", &other)),
    };
    let is_empty = list.is_empty();
    let mut messages = Vec::with_capacity(list.len());
    for (index, message) in list.into_iter().enumerate() {
        messages.push(read_message(message, &format!("messages[{index}]"), notes)?);
    }
    let mut asked = Asked::new(Input::Chat(messages), "messages");
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
    asked.tools = Tools::new(list, None, true, "tools")?;
    rest(fields, asked, model, true, is_empty, notes)
}

/// Reads a request for an answer to a text.
pub(crate) fn read_generate(
    body: &[u8],
    model: &str,
    notes: &mut Notes,
) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let prompt = fields.text("prompt")?.unwrap_or_default();
    let system = fields.text("system")?;
    let is_raw = fields.flag("raw")?.unwrap_or(false);
    let is_empty = prompt.is_empty();
    for name in ["suffix", "template"] {
        fields.only(name, &[json!("")])?;
    }
    fields.only("images", &[json!([])])?;
    let input = if is_raw {
        Input::Text(prompt)
    } else {
        let system = system.filter(|text| !text.is_empty());
        let system = system.map(|text| Message::new("system", text));
        Input::Chat(system.into_iter().chain([Message::new("user", prompt)]).collect())
    };
    let asked = Asked::new(input, "prompt");
    rest(fields, asked, model, false, is_empty, notes)
}

fn rest(
    mut fields: Fields,
    mut asked: Asked,
    model: &str,
    is_chat: bool,
    is_empty: bool,
    notes: &mut Notes,
) -> Result<(Asked, Box<dyn Reply>), Problem> {
    asked.model = fields.text("model")?;
    asked.is_streamed = fields.flag("stream")?.unwrap_or(true);
    match fields.take("format") {
        None => {}
        Some(Value::String(word)) if word.is_empty() => {}
        Some(Value::String(word)) if word == "json" => asked.format = Format::JsonObject,
        Some(schema @ Value::Object(_)) => asked.format = Format::JsonSchema(schema),
        Some(other) => return Err(wrong("format", "json or a JSON schema", &other)),
    }
    if let Some(options) = fields.take("options") {
        let mut options = Fields::of(options, "options")?;
        read_sampling(&mut options, &mut asked.sampling, 2.0)?;
        match options.take("seed") {
            None => {}
            Some(value) => {
                let seed = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
                asked.seed = Some(seed.ok_or_else(|| wrong("options.seed", "an integer", &value))?);
            }
        }
        // all that fits is -1 here
        options.neutral("num_predict", &[json!(-1), json!(-2)]);
        asked.max_tokens = options.count("num_predict", 1)?.map(|tokens| MaxTokens {
            tokens,
            param: "options.num_predict",
        });
        if let Some(stop) = options.take("stop") {
            asked.stop = read_stop(stop, "options.stop")?;
        }
        options.finish(notes)?;
    }
    fields.neutral("think", &[json!(false)]);
    // the one model stays
    fields.take("keep_alive");
    fields.finish(notes)?;
    if is_empty {
        asked.inputs.clear();
    }
    let reply = OllamaReply {
        model: model.to_owned(),
        is_chat,
        is_empty,
        began: Instant::now(),
        first: None,
    };
    Ok((asked, Box::new(reply)))
}

fn read_message(message: Value, name: &str, notes: &mut Notes) -> Result<Message, Problem> {
    let mut fields = Fields::of(message, name)?;
    let role = fields
        .text("role")?
        .ok_or_else(|| Problem::missing(&fields.path("role")))?;
    if !["system", "user", "assistant", "tool"].contains(&&*role) {
        let words =
            format!("role {role:?} is not supported; supported roles are system, user, assistant and tool");
        return Err(Problem::unsupported(fields.path("role"), words));
    }
    let content = fields.text("content")?.unwrap_or_default();
    fields.only("images", &[json!([])])?;
    let mut message = Message::new(role, content);
    if let Some(calls) = fields.take("tool_calls") {
        let Value::Array(calls) = calls else {
            return Err(wrong(&fields.path("tool_calls"), "an array of calls", &calls));
        };
        let mut read = Vec::with_capacity(calls.len());
        for (index, call) in calls.into_iter().enumerate() {
            let path = fields.path("tool_calls");
            let mut call = Fields::of(call, &format!("{path}[{index}]"))?;
            let path = call.path("function");
            let function = call.take("function").ok_or_else(|| Problem::missing(&path))?;
            let mut function = Fields::of(function, &path)?;
            let name = function.text("name")?;
            let name = name.ok_or_else(|| Problem::missing(&function.path("name")))?;
            let arguments = function.take("arguments").unwrap_or_else(|| json!({}));
            // the interface has no ids; some templates want nine letters and digits
            read.push(call_field(&format!("call{index:05}"), &name, arguments));
        }
        if !read.is_empty() {
            message = message.with_field("tool_calls", read.into());
        }
    }
    for field in ["tool_name", "name"] {
        if let Some(name) = fields.text(field)? {
            message = message.with_field("name", name.into());
        }
    }
    fields.take("tool_call_id");
    fields.neutral("thinking", &[json!("")]);
    fields.finish(notes)?;
    Ok(message)
}

/// The models, as `GET /api/tags` lists them.
pub(crate) fn tags(names: &[String], bytes: u64, architecture: &str, created: u64) -> Value {
    let models = names.iter().map(|name| {
        json!({
            "name": name,
            "model": name,
            "modified_at": date(created),
            "size": bytes,
            "digest": "",
            "details": {
                "parent_model": "",
                "format": "gguf",
                "family": architecture,
                "families": [architecture],
                "parameter_size": "",
                "quantization_level": "",
            },
        })
    });
    json!({"models": models.collect::<Vec<_>>()})
}

/// Writes answers as Ollama does.
struct OllamaReply {
    model: String,
    is_chat: bool,
    /// Whether there is nothing to answer: such a request loads the model.
    is_empty: bool,
    began: Instant,
    /// When the first part came.
    first: Option<Instant>,
}

impl OllamaReply {
    fn object(&self, text: &str, calls: &[Call]) -> Value {
        let mut object = json!({"model": self.model, "created_at": date(seconds())});
        if self.is_chat {
            object["message"] = json!({"role": "assistant", "content": text});
            let calls: Vec<Value> = calls.iter().filter_map(call).collect();
            if !calls.is_empty() {
                object["message"]["tool_calls"] = calls.into();
            }
        } else {
            object["response"] = json!(text);
        }
        object["done"] = json!(false);
        object
    }

    fn last(&self, mut object: Value, answers: &[&Whole]) -> Value {
        object["done"] = json!(true);
        if self.is_empty {
            object["done_reason"] = json!("load");
            return object;
        }
        let finish = answers.first().map_or(FinishReason::End, |answer| answer.finish);
        let usage = total(answers);
        let first = self.first.unwrap_or_else(Instant::now);
        let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        object["done_reason"] = json!(if finish == FinishReason::Length {
            "length"
        } else {
            "stop"
        });
        object["total_duration"] = json!(nanoseconds(self.began.elapsed()));
        object["load_duration"] = json!(0);
        object["prompt_eval_count"] = json!(usage.prompt);
        object["prompt_eval_duration"] = json!(nanoseconds(first.saturating_duration_since(self.began)));
        object["eval_count"] = json!(usage.answer);
        object["eval_duration"] = json!(nanoseconds(first.elapsed()));
        object
    }
}

impl Reply for OllamaReply {
    fn whole(&mut self, answers: &[&Whole]) -> Value {
        let (text, calls) = answers
            .first()
            .map_or(("", &[][..]), |answer| (&*answer.text, &answer.calls[..]));
        self.last(self.object(text, calls), answers)
    }

    fn open(&mut self, _prompts: &[usize], _out: &mut Vec<Frame>) {}

    fn part(&mut self, _choice: usize, part: &Part, out: &mut Vec<Frame>) {
        self.first.get_or_insert_with(Instant::now);
        // calls come whole, in the end
        if let Part::Text { text, .. } = part {
            out.push(Frame::new(&self.object(text, &[])));
        }
    }

    fn end(&mut self, _choice: usize, whole: &Whole, out: &mut Vec<Frame>) {
        if !whole.calls.is_empty() {
            out.push(Frame::new(&self.object("", &whole.calls)));
        }
    }

    fn close(&mut self, answers: &[&Whole], out: &mut Vec<Frame>) {
        let last = self.last(self.object("", &[]), answers);
        out.push(Frame::new(&last));
    }

    fn fail(&mut self, problem: &Problem, out: &mut Vec<Frame>) {
        out.push(Frame::new(&problem.formed(Form::Ollama)));
    }

    fn is_lines(&self) -> bool {
        true
    }
}

/// A call, unless its arguments were cut.
fn call(call: &Call) -> Option<Value> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    Some(json!({"function": {"name": call.name, "arguments": arguments}}))
}

/// Seconds since 1970 as an ISO date in UTC (days to a date: Hinnant, "chrono-compatible low-level date algorithms").
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
        day - (153 * shifted + 2) / 5 + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_iso() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn options_are_read() {
        let body = json!({
            "model": "m:latest", "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
                {"role": "tool", "content": "7", "tool_name": "f"},
            ],
            "options": {"temperature": 0, "num_predict": 5, "num_ctx": 2048, "top_k": 3, "stop": ["x"], "seed": 9,
                        "repeat_penalty": 1.2},
            "format": "json", "keep_alive": "5m",
        });
        let mut notes = Notes::new(false);
        let (asked, _) = read_chat(body.to_string().as_bytes(), "m", &mut notes).unwrap();
        assert!(asked.is_streamed && asked.format == Format::JsonObject);
        assert_eq!(asked.max_tokens.map(|most| most.tokens), Some(5));
        assert_eq!((asked.sampling.top_k, asked.sampling.repetition), (3, 1.2));
        assert_eq!((asked.seed, &asked.stop[..]), (Some(9), &["x".to_owned()][..]));
        let ignored: Vec<String> = notes.into_ignored().into_iter().collect();
        assert_eq!(ignored, ["options.num_ctx"]);
        let [Input::Chat(messages)] = &asked.inputs[..] else {
            panic!("it is a chat");
        };
        assert_eq!(messages[1].fields["tool_calls"][0]["function"]["name"], "f");
        let empty = read_generate(b"{\"model\": \"m\"}", "m", &mut Notes::default());
        assert!(empty.unwrap().0.inputs.is_empty());
    }
}
