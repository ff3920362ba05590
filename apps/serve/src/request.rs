//! Parses a client's JSON request.
//!
//! Invariants:
//! 1. An unknown field or an unsupported value is a [`Problem`] that names it.
//! 2. `null` means an omitted field.

use std::ops::RangeInclusive;

use polychip_llm::{Message, Sampling, TokenId};
use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// Most stop strings, and most bytes of one: each is looked for behind every token.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 1024;

/// A request that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) model: Option<String>,
    pub(crate) input: Input,
    pub(crate) is_streamed: bool,
    /// Whether the last event of a stream reports the number of tokens.
    pub(crate) wants_usage: bool,
    pub(crate) max_tokens: Option<MaxTokens>,
    /// All but the seed.
    pub(crate) sampling: Sampling,
    pub(crate) seed: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) format: Format,
    /// Whether what was read before of the prompt need not be read again, and this one may be kept.
    pub(crate) may_reuse: bool,
    /// Only requests that name the same one share what was read of their prompts.
    pub(crate) cache_key: Option<String>,
}

/// What the answer's text must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Format {
    #[default]
    Text,
    JsonObject,
    JsonSchema(Value),
}

/// The longest answer that is wanted, and what the field was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxTokens {
    pub(crate) tokens: usize,
    pub(crate) param: &'static str,
}

/// What is to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Chat(Vec<Message>),
    Text(String),
    Tokens(Vec<TokenId>),
}

impl Input {
    /// The request field that holds it.
    pub(crate) fn param(&self) -> &'static str {
        match self {
            Input::Chat(_) => "messages",
            Input::Text(_) | Input::Tokens(_) => "prompt",
        }
    }
}

/// Reads a request for a chat.
pub(crate) fn chat(body: &[u8]) -> Result<Asked, Problem> {
    let mut fields = Fields::of_body(body)?;
    let messages = fields
        .take("messages")
        .ok_or_else(|| Problem::missing("messages"))?;
    let input = Input::Chat(read_messages(messages)?);
    let newer = fields.count("max_completion_tokens", 1)?;
    let older = fields.count("max_tokens", 1)?;
    let max_tokens = match (newer, older) {
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
    fields.only("logprobs", &[json!(false)])?;
    fields.only("top_logprobs", &[json!(0)])?;
    fields.only("tools", &[json!([])])?;
    fields.only("tool_choice", &[json!("none"), json!("auto")])?;
    fields.only("parallel_tool_calls", &[json!(true), json!(false)])?;
    fields.only("functions", &[json!([])])?;
    fields.only("function_call", &[json!("none"), json!("auto")])?;
    let format = match fields.take("response_format") {
        Some(format) => read_format(format)?,
        None => Format::Text,
    };
    fields.only("modalities", &[json!(["text"])])?;
    for name in [
        "audio",
        "prediction",
        "reasoning_effort",
        "verbosity",
        "web_search_options",
    ] {
        fields.only(name, &[])?;
    }
    let asked = rest(fields, input, max_tokens)?;
    Ok(Asked { format, ..asked })
}

/// Reads a request for the continuation of a text.
pub(crate) fn completion(body: &[u8]) -> Result<Asked, Problem> {
    let mut fields = Fields::of_body(body)?;
    let prompt = fields.take("prompt").ok_or_else(|| Problem::missing("prompt"))?;
    let input = read_prompt(prompt)?;
    let max_tokens = fields.count("max_tokens", 1)?.map(|tokens| MaxTokens {
        tokens,
        param: "max_tokens",
    });
    fields.only("best_of", &[json!(1)])?;
    fields.only("echo", &[json!(false)])?;
    fields.only("logprobs", &[])?;
    fields.only("suffix", &[json!("")])?;
    rest(fields, input, max_tokens)
}

/// Reads the fields that both have.
fn rest(mut fields: Fields, input: Input, max_tokens: Option<MaxTokens>) -> Result<Asked, Problem> {
    let model = fields.text("model")?;
    let is_streamed = fields.flag("stream")?.unwrap_or(false);
    let mut wants_usage = false;
    if let Some(options) = fields.take("stream_options") {
        if !is_streamed {
            return Err(Problem::value(
                "stream_options",
                "`stream_options` requires `stream` to be true",
            ));
        }
        let mut options = Fields::of(options, "stream_options")?;
        wants_usage = options.flag("include_usage")?.unwrap_or(false);
        options.only("include_obfuscation", &[json!(false)])?;
        options.finish()?;
    }
    // as `polychip generate` draws
    let mut sampling = Sampling::usual(0);
    if let Some(value) = fields.number("temperature", 0.0..=2.0)? {
        sampling.temperature = value;
    }
    if let Some(value) = fields.number("top_p", 0.0..=1.0)? {
        // 0 is asked for where the most likely token alone is wanted
        sampling.top_p = value.max(f32::MIN_POSITIVE);
    }
    if let Some(value) = fields.count("top_k", 0)? {
        sampling.top_k = value;
    }
    if let Some(value) = fields.number("min_p", 0.0..=1.0)? {
        sampling.min_p = value;
    }
    if let Some(value) = fields.number("repetition_penalty", 0.01..=100.0)? {
        sampling.repetition = value;
    }
    if let Some(value) = fields.number("frequency_penalty", -2.0..=2.0)? {
        sampling.frequency = value;
    }
    if let Some(value) = fields.number("presence_penalty", -2.0..=2.0)? {
        sampling.presence = value;
    }
    let seed = fields.seed()?;
    let stop = match fields.take("stop") {
        Some(stop) => read_stop(stop)?,
        None => Vec::new(),
    };
    let may_reuse = fields.flag("cache_prompt")?.unwrap_or(true);
    let cache_key = fields.text("prompt_cache_key")?;
    fields.only("n", &[json!(1)])?;
    fields.only("logit_bias", &[json!({})])?;
    fields.only("store", &[json!(false)])?;
    fields.only("service_tier", &[json!("auto"), json!("default")])?;
    // who asks: no answer depends on it
    for name in ["user", "metadata", "safety_identifier"] {
        fields.take(name);
    }
    fields.finish()?;
    Ok(Asked {
        model,
        input,
        is_streamed,
        wants_usage,
        max_tokens,
        sampling,
        seed,
        stop,
        format: Format::Text,
        may_reuse,
        cache_key,
    })
}

fn read_format(format: Value) -> Result<Format, Problem> {
    let mut fields = Fields::of(format, "response_format")?;
    let kind = fields
        .text("type")?
        .ok_or_else(|| Problem::missing(&fields.path("type")))?;
    let format = match &*kind {
        "text" => Format::Text,
        "json_object" => Format::JsonObject,
        "json_schema" => {
            let path = fields.path("json_schema");
            let schema = fields
                .take("json_schema")
                .ok_or_else(|| Problem::missing(&path))?;
            let mut fields = Fields::of(schema, &path)?;
            // what it is called changes no answer; one that is not strict is held to as well
            fields.text("name")?;
            fields.text("description")?;
            fields.flag("strict")?;
            let schema = fields.take("schema");
            let schema = schema.ok_or_else(|| Problem::missing(&fields.path("schema")))?;
            fields.finish()?;
            Format::JsonSchema(schema)
        }
        other => {
            let words = format!(
                "format type {other:?} is not supported; supported types are text, json_object and json_schema"
            );
            return Err(Problem::unsupported(fields.path("type"), words));
        }
    };
    fields.finish()?;
    Ok(format)
}

fn read_messages(messages: Value) -> Result<Vec<Message>, Problem> {
    let Value::Array(messages) = messages else {
        return Err(wrong("messages", "an array of messages", &messages));
    };
    if messages.is_empty() {
        return Err(Problem::value("messages", "there are no messages"));
    }
    let read = |(index, message)| read_message(message, &format!("messages[{index}]"));
    messages.into_iter().enumerate().map(read).collect()
}

fn read_message(message: Value, name: &str) -> Result<Message, Problem> {
    let mut fields = Fields::of(message, name)?;
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
    let content = match fields.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            let path = fields.path("content");
            let read = |(index, part)| read_part(part, &format!("{path}[{index}]"));
            let texts: Result<Vec<String>, Problem> = parts.into_iter().enumerate().map(read).collect();
            texts?.join("\n")
        }
        Some(other) => {
            return Err(wrong(
                &fields.path("content"),
                "a text or an array of parts",
                &other,
            ));
        }
        // an assistant may have called a tool instead, which is refused below
        None if role == "assistant" => String::new(),
        None => return Err(Problem::missing(&fields.path("content"))),
    };
    for name in ["tool_calls", "annotations"] {
        fields.only(name, &[json!([])])?;
    }
    for name in ["name", "refusal", "audio", "function_call", "tool_call_id"] {
        fields.only(name, &[])?;
    }
    fields.finish()?;
    Ok(Message::new(role, content))
}

fn read_part(part: Value, name: &str) -> Result<String, Problem> {
    let mut fields = Fields::of(part, name)?;
    match fields.text("type")?.as_deref() {
        Some("text") => {}
        Some(other) => {
            let words = format!("content type {other:?} is not supported, only text");
            return Err(Problem::unsupported(fields.path("type"), words));
        }
        None => return Err(Problem::missing(&fields.path("type"))),
    }
    let text = fields
        .text("text")?
        .ok_or_else(|| Problem::missing(&fields.path("text")))?;
    fields.finish()?;
    Ok(text)
}

fn read_prompt(prompt: Value) -> Result<Input, Problem> {
    match prompt {
        Value::String(text) => Ok(Input::Text(text)),
        Value::Array(mut list) => match list.first() {
            Some(Value::String(_) | Value::Array(_)) if list.len() > 1 => Err(Problem::unsupported(
                "prompt",
                "several prompts in one request are not supported; send one request for each",
            )),
            Some(Value::String(_) | Value::Array(_)) => read_prompt(list.remove(0)),
            _ => {
                let token = |value: &Value| value.as_u64().and_then(|id| TokenId::try_from(id).ok());
                let tokens: Option<Vec<TokenId>> = list.iter().map(token).collect();
                let words = "a prompt array must hold tokens: non-negative integers";
                tokens
                    .map(Input::Tokens)
                    .ok_or_else(|| Problem::value("prompt", words))
            }
        },
        other => Err(wrong("prompt", "a text or an array of tokens", &other)),
    }
}

fn read_stop(stop: Value) -> Result<Vec<String>, Problem> {
    let list = match stop {
        Value::Array(list) => list,
        one => vec![one],
    };
    if list.len() > MAX_STOPS {
        let words = format!(
            "{} stop strings exceed the supported maximum of {MAX_STOPS}",
            list.len()
        );
        return Err(Problem::value("stop", words));
    }
    let text = |value| match value {
        Value::String(text) if text.is_empty() => Err(Problem::value("stop", "a stop string is empty")),
        Value::String(text) if text.len() > MAX_STOP_BYTES => {
            let words = format!(
                "a stop string has {} bytes; the supported maximum is {MAX_STOP_BYTES}",
                text.len()
            );
            Err(Problem::value("stop", words))
        }
        Value::String(text) => Ok(text),
        other => Err(wrong("stop", "a text or an array of texts", &other)),
    };
    list.into_iter().map(text).collect()
}

/// The fields of an object, taken one by one: what is left in the end was not known.
struct Fields {
    map: Map<String, Value>,
    /// Path of the object in the request; empty for the request itself.
    name: String,
}

impl Fields {
    fn of_body(body: &[u8]) -> Result<Fields, Problem> {
        let value = serde_json::from_slice(body)
            .map_err(|error| Problem::bad(format!("the body is not JSON: {error}")))?;
        Fields::of(value, "")
    }

    fn of(value: Value, name: &str) -> Result<Fields, Problem> {
        match value {
            Value::Object(map) => Ok(Fields {
                map,
                name: name.to_owned(),
            }),
            other if name.is_empty() => Err(Problem::bad(format!(
                "the body is {}: it must be an object",
                kind(&other)
            ))),
            other => Err(wrong(name, "an object", &other)),
        }
    }

    /// A field's name as an error gives it.
    fn path(&self, field: &str) -> String {
        if self.name.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.name)
        }
    }

    fn take(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &str) -> Result<Option<String>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(field), "a text", &other)),
        }
    }

    fn flag(&mut self, field: &str) -> Result<Option<bool>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(&self.path(field), "true or false", &other)),
        }
    }

    fn number(&mut self, field: &str, range: RangeInclusive<f64>) -> Result<Option<f32>, Problem> {
        let Some(value) = self.take(field) else {
            return Ok(None);
        };
        let Some(number) = value.as_f64() else {
            return Err(wrong(&self.path(field), "a number", &value));
        };
        if !range.contains(&number) {
            let words = format!(
                "`{}` is {number}; it must be from {} to {}",
                self.path(field),
                range.start(),
                range.end()
            );
            return Err(Problem::value(self.path(field), words));
        }
        Ok(Some(number as f32))
    }

    fn count(&mut self, field: &str, least: u64) -> Result<Option<usize>, Problem> {
        let Some(value) = self.take(field) else {
            return Ok(None);
        };
        // some clients write whole numbers as 16.0
        let whole = value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && *number < 2f64.powi(53));
        let count = value
            .as_u64()
            .or_else(|| whole.filter(|number| *number >= 0.0).map(|number| number as u64))
            .filter(|count| *count >= least)
            .and_then(|count| usize::try_from(count).ok());
        let what = format!("an integer of at least {least}");
        count
            .map(Some)
            .ok_or_else(|| wrong(&self.path(field), &what, &value))
    }

    fn seed(&mut self) -> Result<Option<u64>, Problem> {
        let Some(value) = self.take("seed") else {
            return Ok(None);
        };
        let signed = || value.as_i64().map(i64::cast_unsigned);
        let seed = value.as_u64().or_else(signed);
        seed.map(Some)
            .ok_or_else(|| wrong("seed", "an integer of 64 bits", &value))
    }

    /// A field that has an effect elsewhere: only values that ask for nothing are taken.
    fn only(&mut self, field: &str, values: &[Value]) -> Result<(), Problem> {
        let Some(value) = self.take(field) else {
            return Ok(());
        };
        if values.contains(&value) {
            return Ok(());
        }
        let path = self.path(field);
        let words = match values {
            [] => format!("`{path}` is not supported"),
            _ => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                format!("`{path}` is not supported, only {} is", values.join(" or "))
            }
        };
        Err(Problem::unsupported(path, words))
    }

    fn finish(self) -> Result<(), Problem> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            Some((field, _)) => Err(Problem::unknown(&self.path(field))),
            None => Ok(()),
        }
    }
}

fn wrong(param: &str, what: &str, found: &Value) -> Problem {
    let shown = match found {
        Value::Number(number) => number.to_string(),
        other => kind(other).to_owned(),
    };
    Problem::value(param, format!("`{param}` is {shown}: it must be {what}"))
}

/// Name of a value's JSON type.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(asked: Result<Asked, Problem>) -> (u16, Value) {
        let problem = asked.expect_err("it is wrong");
        (
            problem.status().as_u16(),
            problem.json()["error"]["param"].clone(),
        )
    }

    fn of_chat(more: Value) -> Result<Asked, Problem> {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) else {
            unreachable!("both are objects");
        };
        body.extend(more);
        chat(json!(body).to_string().as_bytes())
    }

    #[test]
    fn chat_request_parses_all_fields() {
        let asked = of_chat(json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 7,
            "max_tokens": null, "temperature": 0, "top_p": 0.5, "top_k": 3.0, "min_p": 0.1, "repetition_penalty": 1.1,
            "frequency_penalty": -1, "presence_penalty": 2, "seed": -1, "stop": "x", "n": 1, "user": "me", "tools": [],
            "response_format": {"type": "text"}, "logprobs": false, "cache_prompt": false,
            "prompt_cache_key": "k",
        }))
        .unwrap();
        let expected = Asked {
            model: Some("m".to_owned()),
            input: Input::Chat(vec![Message::new("user", "Hi")]),
            is_streamed: true,
            wants_usage: true,
            max_tokens: Some(MaxTokens {
                tokens: 7,
                param: "max_completion_tokens",
            }),
            sampling: Sampling {
                temperature: 0.0,
                top_k: 3,
                top_p: 0.5,
                min_p: 0.1,
                repetition: 1.1,
                frequency: -1.0,
                presence: 2.0,
                ..Sampling::usual(0)
            },
            seed: Some(u64::MAX),
            stop: vec!["x".to_owned()],
            format: Format::Text,
            may_reuse: false,
            cache_key: Some("k".to_owned()),
        };
        assert_eq!(asked, expected);
    }

    #[test]
    fn content_may_be_text_or_parts() {
        let body = json!({"messages": [
            {"role": "developer", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
            {"role": "assistant", "content": null, "refusal": null, "tool_calls": []},
        ]});
        let Input::Chat(messages) = chat(body.to_string().as_bytes()).unwrap().input else {
            panic!("it is a chat");
        };
        let expected = [("system", "a"), ("user", "b\nc"), ("assistant", "")];
        assert_eq!(
            messages,
            expected.map(|(role, content)| Message::new(role, content))
        );
    }

    #[test]
    fn prompt_may_be_text_or_tokens() {
        let prompt = |prompt: Value| {
            let asked = completion(json!({"prompt": prompt}).to_string().as_bytes());
            asked.map(|asked| asked.input)
        };
        assert_eq!(prompt(json!("a")), Ok(Input::Text("a".to_owned())));
        assert_eq!(prompt(json!(["a"])), Ok(Input::Text("a".to_owned())));
        assert_eq!(prompt(json!([1, 2])), Ok(Input::Tokens(vec![1, 2])));
        assert_eq!(prompt(json!([[1, 2]])), Ok(Input::Tokens(vec![1, 2])));
        assert_eq!(prompt(json!([])), Ok(Input::Tokens(vec![])));
        for wrong in [
            json!(["a", "b"]),
            json!([[1], [2]]),
            json!([-1]),
            json!(1),
            json!({}),
        ] {
            assert!(prompt(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn request_errors_name_the_field() {
        for (more, name) in [
            (json!({"temperature": 2.1}), "temperature"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"top_p": -0.1}), "top_p"),
            (json!({"top_k": -1}), "top_k"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_tokens": 1.5}), "max_tokens"),
            (json!({"max_tokens": 1e300}), "max_tokens"),
            (json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens"),
            (json!({"seed": 1.5}), "seed"),
            (json!({"stop": ""}), "stop"),
            (json!({"stop": [1]}), "stop"),
            (json!({"stop": vec!["a"; 17]}), "stop"),
            (json!({"n": 2}), "n"),
            (json!({"stream": "yes"}), "stream"),
            (
                json!({"stream_options": {"include_usage": true}}),
                "stream_options",
            ),
            (
                json!({"stream": true, "stream_options": {"x": 1}}),
                "stream_options.x",
            ),
            (json!({"tools": [{"type": "function"}]}), "tools"),
            (json!({"response_format": "json"}), "response_format"),
            (
                json!({"response_format": {"type": "xml"}}),
                "response_format.type",
            ),
            (
                json!({"response_format": {"type": "json_object", "schema": {}}}),
                "response_format.schema",
            ),
            (
                json!({"response_format": {"type": "json_schema"}}),
                "response_format.json_schema",
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
                "response_format.json_schema.schema",
            ),
            (json!({"logit_bias": {"50": 1}}), "logit_bias"),
            (json!({"model": 1}), "model"),
            (json!({"temprature": 1}), "temprature"),
            (json!({"messages": []}), "messages"),
            (json!({"messages": "Hi"}), "messages"),
            (json!({"messages": null}), "messages"),
            (json!({"messages": ["Hi"]}), "messages[0]"),
            (json!({"messages": [{"content": "Hi"}]}), "messages[0].role"),
            (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
            (
                json!({"messages": [{"role": "tool", "content": "Hi"}]}),
                "messages[0].role",
            ),
            (
                json!({"messages": [{"role": "user", "content": "Hi", "name": "x"}]}),
                "messages[0].name",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
                "messages[0].content[0].type",
            ),
        ] {
            assert_eq!(param(of_chat(more.clone())), (400, json!(name)), "{more}");
        }
        for body in [
            &b"{"[..],
            b"[]",
            b"\xff",
            b"{\"messages\": [1e999]}",
            b"",
            &[b'['; 100_000],
        ] {
            assert_eq!(param(chat(body)), (400, Value::Null));
        }
    }
}
