//! A client's request, whatever interface it came by.
//!
//! Invariants:
//! 1. All interfaces give the same type, so that limits and answers are the same.
//! 2. Every size that a client controls has a limit here, or that of the body.
//!
//! Not here: the shape of each interface's JSON (`api`), fields of an object (`fields`).

use polychip_llm::{Message, Sampling, TokenId, Tool};
use serde_json::{Value, json};

use crate::fields::{Fields, Notes, count_of, wrong};
use crate::problem::Problem;

/// Most stop strings, and most bytes of one: each is looked for behind every token.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 1024;
/// Most answers to one request: prompts times `n`. Each takes a place in the queue.
const MAX_CHOICES: usize = 32;
/// Most biased tokens: each is looked up for every token of the answer.
const MAX_BIASES: usize = 1024;
/// Most of the likeliest tokens that are reported beside each token.
const MAX_SCORES: usize = 20;
/// Most tools: each is a rule of a grammar.
const MAX_TOOLS: usize = 128;

/// A request that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) model: Option<String>,
    /// One for each prompt.
    pub(crate) inputs: Vec<Input>,
    /// The field that holds the prompt.
    pub(crate) param: &'static str,
    pub(crate) is_streamed: bool,
    /// Whether the last event of a stream reports the number of tokens.
    pub(crate) wants_usage: bool,
    pub(crate) max_tokens: Option<MaxTokens>,
    /// The interface's own default of the longest answer.
    pub(crate) default_tokens: Option<usize>,
    /// All but the seed.
    pub(crate) sampling: Sampling,
    pub(crate) seed: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) format: Format,
    pub(crate) tools: Tools,
    /// Answers to each prompt.
    pub(crate) count: usize,
    /// How many of the likeliest tokens are reported beside each token, if log-probabilities are wanted.
    pub(crate) scores: Option<usize>,
    /// Whether embeddings of the prompts are wanted instead of answers.
    pub(crate) pools: bool,
    /// Whether the answer begins with the prompt.
    pub(crate) is_echoed: bool,
    /// Whether what was read before of the prompt need not be read again, and this one may be kept.
    pub(crate) may_reuse: bool,
    /// Only requests that name the same one share what was read of their prompts.
    pub(crate) cache_key: Option<String>,
}

impl Asked {
    /// A request for one answer, with the defaults of `polychip generate`.
    pub(crate) fn new(input: Input, param: &'static str) -> Asked {
        Asked {
            model: None,
            inputs: vec![input],
            param,
            is_streamed: false,
            wants_usage: false,
            max_tokens: None,
            default_tokens: None,
            sampling: Sampling::usual(0),
            seed: None,
            stop: Vec::new(),
            format: Format::Text,
            tools: Tools::default(),
            count: 1,
            scores: None,
            pools: false,
            is_echoed: false,
            may_reuse: true,
            cache_key: None,
        }
    }

    /// Checks what concerns several fields.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let answers = self.inputs.len().saturating_mul(self.count);
        if answers > MAX_CHOICES {
            let words = format!(
                "{answers} answers exceed the supported maximum of {MAX_CHOICES} for one request; send several requests"
            );
            return Err(Problem::value(
                if self.count > 1 { "n" } else { self.param },
                words,
            ));
        }
        if self.tools.choice == ToolChoice::Auto && self.format != Format::Text {
            return Err(Problem::unsupported(
                "response_format",
                "`response_format` cannot be combined with `tools`, unless `tool_choice` is none or required",
            ));
        }
        Ok(())
    }
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

/// Functions that the model may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tools {
    pub(crate) list: Vec<Tool>,
    pub(crate) choice: ToolChoice,
    /// Whether one answer may have several calls.
    pub(crate) are_parallel: bool,
}

/// Whether functions are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    #[default]
    None,
    /// As the model decides.
    Auto,
    Required,
    /// This one.
    Named(String),
}

impl Tools {
    /// Tools that may be called.
    ///
    /// # Errors
    /// There are too many or none, a name is unusable or occurs twice, or the named one is missing.
    pub(crate) fn new(
        list: Vec<Tool>,
        choice: Option<ToolChoice>,
        are_parallel: bool,
        param: &str,
    ) -> Result<Tools, Problem> {
        if list.len() > MAX_TOOLS {
            let words = format!("{} tools exceed the supported maximum of {MAX_TOOLS}", list.len());
            return Err(Problem::value(param, words));
        }
        for (index, tool) in list.iter().enumerate() {
            if !Tool::is_name(&tool.name) {
                let words = format!(
                    "the name of `{param}[{index}]` must have 1 to 64 letters, digits, `_`, `-` or `.`"
                );
                return Err(Problem::value(param, words));
            }
            if list[..index].iter().any(|before| before.name == tool.name) {
                return Err(Problem::value(
                    param,
                    format!("two tools have the name {:?}", tool.name),
                ));
            }
        }
        let choice = match choice {
            None if list.is_empty() => ToolChoice::None,
            None => ToolChoice::Auto,
            Some(ToolChoice::Auto) if list.is_empty() => ToolChoice::None,
            Some(choice @ (ToolChoice::Required | ToolChoice::Named(_))) if list.is_empty() => {
                let what = match choice {
                    ToolChoice::Named(name) => format!("{name:?}"),
                    _ => "required".to_owned(),
                };
                let words = format!("`tool_choice` is {what}, and there are no tools");
                return Err(Problem::value("tool_choice", words));
            }
            Some(ToolChoice::Named(name)) if list.iter().all(|tool| tool.name != name) => {
                let words = format!("`tool_choice` names {name:?}, which is not one of the tools");
                return Err(Problem::value("tool_choice", words));
            }
            Some(choice) => choice,
        };
        Ok(Tools {
            list,
            choice,
            are_parallel,
        })
    }

    /// The tools that the prompt describes.
    pub(crate) fn described(&self) -> &[Tool] {
        match self.choice {
            ToolChoice::None => &[],
            _ => &self.list,
        }
    }

    /// The tools that may be called.
    pub(crate) fn callable(&self) -> Vec<Tool> {
        let named = |tool: &&Tool| match &self.choice {
            ToolChoice::None => false,
            ToolChoice::Auto | ToolChoice::Required => true,
            ToolChoice::Named(name) => tool.name == *name,
        };
        self.list.iter().filter(named).cloned().collect()
    }
}

/// Reads the fields of OpenAI's interfaces for chats and texts that both have, into the request.
pub(crate) fn read_common(fields: &mut Fields, asked: &mut Asked, notes: &mut Notes) -> Result<(), Problem> {
    asked.model = fields.text("model")?;
    asked.is_streamed = fields.flag("stream")?.unwrap_or(false);
    if let Some(options) = fields.take("stream_options") {
        if !asked.is_streamed {
            return Err(Problem::value(
                "stream_options",
                "`stream_options` requires `stream` to be true",
            ));
        }
        let mut options = Fields::of(options, "stream_options")?;
        asked.wants_usage = options.flag("include_usage")?.unwrap_or(false);
        options.neutral("include_obfuscation", &[json!(false)]);
        options.finish(notes)?;
    }
    read_sampling(fields, &mut asked.sampling, 2.0)?;
    asked.seed = fields.seed()?;
    if let Some(stop) = fields.take("stop") {
        asked.stop = read_stop(stop, "stop")?;
    }
    if let Some(bias) = fields.take("logit_bias") {
        asked.sampling.bias = read_bias(bias)?;
    }
    if let Some(count) = fields.count("n", 1)? {
        asked.count = count;
    }
    asked.may_reuse = fields.flag("cache_prompt")?.unwrap_or(true);
    asked.cache_key = fields.text("prompt_cache_key")?;
    fields.neutral("store", &[json!(false)]);
    fields.neutral("service_tier", &[json!("auto"), json!("default")]);
    // who asks: no answer depends on it
    for name in ["user", "metadata", "safety_identifier"] {
        fields.take(name);
    }
    Ok(())
}

/// Reads how tokens are chosen, by the names of OpenAI and llama.cpp.
pub(crate) fn read_sampling(
    fields: &mut Fields,
    sampling: &mut Sampling,
    max_temperature: f64,
) -> Result<(), Problem> {
    if let Some(value) = fields.number("temperature", 0.0..=max_temperature)? {
        sampling.temperature = value;
    }
    if let Some(value) = fields.number("top_p", 0.0..=1.0)? {
        // 0 is asked for where the most likely token alone is wanted
        sampling.top_p = value.max(f32::MIN_POSITIVE);
    }
    match fields.take("top_k") {
        None => {}
        // some clients write all tokens so
        Some(value) if value == json!(-1) => sampling.top_k = 0,
        Some(value) => sampling.top_k = count_of("top_k", &value, 0)?,
    }
    if let Some(value) = fields.number("min_p", 0.0..=1.0)? {
        sampling.min_p = value;
    }
    for name in ["repeat_penalty", "repetition_penalty"] {
        if let Some(value) = fields.number(name, 0.01..=100.0)? {
            sampling.repetition = value;
        }
    }
    if let Some(value) = fields.number("frequency_penalty", -2.0..=2.0)? {
        sampling.frequency = value;
    }
    if let Some(value) = fields.number("presence_penalty", -2.0..=2.0)? {
        sampling.presence = value;
    }
    Ok(())
}

/// How many of the likeliest tokens are reported.
pub(crate) fn read_scores(count: usize, param: &str) -> Result<usize, Problem> {
    if count > MAX_SCORES {
        let words = format!("`{param}` is {count}; the supported maximum is {MAX_SCORES}");
        return Err(Problem::value(param, words));
    }
    Ok(count)
}

fn read_bias(bias: Value) -> Result<Vec<(TokenId, f32)>, Problem> {
    let Value::Object(bias) = bias else {
        return Err(wrong("logit_bias", "an object of tokens and biases", &bias));
    };
    if bias.len() > MAX_BIASES {
        let words = format!(
            "{} biased tokens exceed the supported maximum of {MAX_BIASES}",
            bias.len()
        );
        return Err(Problem::value("logit_bias", words));
    }
    let read = |(token, value): (&String, &Value)| {
        let id = token.parse::<TokenId>().ok();
        let bias = value.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
        let words = || {
            format!(
                "`logit_bias` has {token:?}: {value}; tokens are integers, and biases are from -100 to 100"
            )
        };
        id.zip(bias)
            .map(|(id, bias)| (id, bias as f32))
            .ok_or_else(|| Problem::value("logit_bias", words()))
    };
    bias.iter().map(read).collect()
}

/// Reads stop strings.
pub(crate) fn read_stop(stop: Value, param: &'static str) -> Result<Vec<String>, Problem> {
    let list = match stop {
        Value::Array(list) => list,
        one => vec![one],
    };
    if list.len() > MAX_STOPS {
        let words = format!(
            "{} stop strings exceed the supported maximum of {MAX_STOPS}",
            list.len()
        );
        return Err(Problem::value(param, words));
    }
    let text = |value| match value {
        Value::String(text) if text.is_empty() => Err(Problem::value(param, "a stop string is empty")),
        Value::String(text) if text.len() > MAX_STOP_BYTES => {
            let words = format!(
                "a stop string has {} bytes; the supported maximum is {MAX_STOP_BYTES}",
                text.len()
            );
            Err(Problem::value(param, words))
        }
        Value::String(text) => Ok(text),
        other => Err(wrong(param, "a text or an array of texts", &other)),
    };
    list.into_iter().map(text).collect()
}

/// Reads a text that may be in parts, each of one of these types.
pub(crate) fn read_content(
    content: Value,
    path: &str,
    types: &[&str],
    notes: &mut Notes,
) -> Result<String, Problem> {
    match content {
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (index, part) in parts.into_iter().enumerate() {
                let mut fields = Fields::of(part, &format!("{path}[{index}]"))?;
                match fields.text("type")? {
                    Some(kind) if types.contains(&&*kind) => {}
                    Some(other) => {
                        let words = format!(
                            "content type {other:?} is not supported, only {}",
                            types.join(", ")
                        );
                        return Err(Problem::unsupported(fields.path("type"), words));
                    }
                    None => return Err(Problem::missing(&fields.path("type"))),
                }
                let text = fields.text("text")?;
                texts.push(text.ok_or_else(|| Problem::missing(&fields.path("text")))?);
                for name in ["annotations", "logprobs", "cache_control", "citations"] {
                    fields.take(name);
                }
                fields.finish(notes)?;
            }
            Ok(texts.join("\n"))
        }
        other => Err(wrong(path, "a text or an array of parts", &other)),
    }
}

/// The field `tool_calls` of a message, as templates expect it: arguments that are JSON become values.
pub(crate) fn call_field(id: &str, name: &str, arguments: Value) -> Value {
    let arguments = match arguments {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::String(text),
        },
        other => other,
    };
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// Reads the schema or kind of an answer as OpenAI's chats and responses describe it; `inner` names the object that holds
/// the schema, if it is not this one.
pub(crate) fn read_format(
    format: Value,
    name: &str,
    inner: Option<&str>,
    notes: &mut Notes,
) -> Result<Format, Problem> {
    let mut fields = Fields::of(format, name)?;
    let kind = fields
        .text("type")?
        .ok_or_else(|| Problem::missing(&fields.path("type")))?;
    let format = match (&*kind, inner) {
        ("text", _) => Format::Text,
        ("json_object", _) => Format::JsonObject,
        ("json_schema", Some(inner)) => {
            let path = fields.path(inner);
            let schema = fields.take(inner).ok_or_else(|| Problem::missing(&path))?;
            let mut schema = Fields::of(schema, &path)?;
            let format = read_schema(&mut schema)?;
            schema.finish(notes)?;
            format
        }
        ("json_schema", None) => read_schema(&mut fields)?,
        (other, _) => {
            let words = format!(
                "format type {other:?} is not supported; supported types are text, json_object and json_schema"
            );
            return Err(Problem::unsupported(fields.path("type"), words));
        }
    };
    if format == Format::JsonObject && fields.take("schema").is_some() {
        let path = fields.path("schema");
        let words = format!("`{path}` has no effect with the type json_object; use json_schema");
        return Err(Problem::unsupported(path, words));
    }
    fields.finish(notes)?;
    Ok(format)
}

fn read_schema(fields: &mut Fields) -> Result<Format, Problem> {
    // what it is called changes no answer; one that is not strict is held to as well
    fields.text("name")?;
    fields.text("description")?;
    fields.flag("strict")?;
    let schema = fields.take("schema");
    let schema = schema.ok_or_else(|| Problem::missing(&fields.path("schema")))?;
    Ok(Format::JsonSchema(schema))
}
