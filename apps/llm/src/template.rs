//! Chat templates: format messages as the text that a model was trained with.
//!
//! Templates are Jinja as in the Python library `transformers`: blocks trim the line end after them
//! and the blanks before them, strings and containers have Python's methods, and there are
//! `raise_exception`, `strftime_now` and a `tojson` that writes like Python's `json`. Values are
//! printed as Python prints them, with two exceptions from the Jinja library in use: floats from
//! 1e16 on have no exponent, and a width passed to `format` counts bytes.
//!
//! Invariants:
//! 1. A template reads nothing but its variables: no file, no other template, no environment
//!    variable.
//! 2. Rendering is bounded by a number of steps, which also limits memory, and by the library's
//!    limit on nested calls.
//! 3. An unknown function, filter or test is an error that names it.

mod json;
mod methods;

use jiff::Zoned;
use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, ErrorKind as Kind, State};

use crate::gguf::Gguf;
use crate::{Error, Result, Tokenizer};

/// Steps of a rendering: an instruction, or 64 bytes of output. A long chat takes about ten
/// thousand, plus its length.
const STEPS: u64 = 1_000_000;
/// Longest template in bytes. The longest known template has about 30 KB.
const MAX_SOURCE: usize = 1 << 20;
const NAME: &str = "chat";

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Author: `system`, `user`, `assistant`, or another role that the template knows.
    pub role: String,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// Creates a message.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message {
            role: role.into(),
            content: content.into(),
        }
    }
}

/// Formats chats as prompts.
///
/// ```
/// use polychip_llm::{ChatTemplate, Message};
///
/// let template = ChatTemplate::new(
///     "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
/// )?;
/// let prompt = template.render(&[Message::new("user", "Hello")], true)?;
/// assert_eq!(prompt, "<user>Hello<assistant>");
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    variables: Vec<(String, Value)>,
    now: Option<DateTime>,
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// The template is longer than 1 MiB, or is not valid Jinja.
    pub fn new(source: &str) -> Result<ChatTemplate> {
        if source.len() > MAX_SOURCE {
            return Err(Error::template(format!(
                "{} bytes exceed the supported maximum of {MAX_SOURCE}",
                source.len()
            )));
        }
        let mut environment = Environment::new();
        for_chats(&mut environment)?;
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(explain)?;
        Ok(ChatTemplate {
            environment,
            variables: Vec::new(),
            now: None,
        })
    }

    /// Reads a file's template, with its first and last token as `bos_token` and `eos_token`;
    /// `None` if the file has no template.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn read(file: &Gguf, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let Some(source) = file.text("tokenizer.chat_template")? else {
            return Ok(None);
        };
        let mut template = ChatTemplate::new(source)?;
        for (name, id) in [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())] {
            if let Some(token) = id.and_then(|id| tokenizer.token(id)) {
                template.set(name, Value::from(token));
            }
        }
        Ok(Some(template))
    }

    /// Sets a variable of the template to a JSON value: `tools`, `enable_thinking`, `documents`.
    ///
    /// # Errors
    /// The text is not valid JSON.
    pub fn with_json(mut self, name: &str, json: &str) -> Result<ChatTemplate> {
        let value: Value = serde_json::from_str(json)
            .map_err(|error| Error::template(format!("variable {name:?} is not JSON: {error}")))?;
        self.set(name, value);
        Ok(self)
    }

    /// Sets the time that `strftime_now` returns, instead of the system's local time.
    ///
    /// # Errors
    /// The text is not an ISO 8601 time without a zone, such as `2026-11-26T12:00:00`.
    pub fn with_time(mut self, time: &str) -> Result<ChatTemplate> {
        let now = time
            .parse::<DateTime>()
            .map_err(|error| Error::template(format!("time {time:?}: {error}")))?;
        self.now = Some(now);
        Ok(self)
    }

    fn set(&mut self, name: &str, value: Value) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value));
    }

    /// Renders the prompt of a chat; with `add_generation_prompt`, including the beginning of an
    /// answer.
    ///
    /// # Errors
    /// The template refuses the messages, uses something unknown, or exceeds the step limit.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let messages = messages.iter().map(|message| {
            Value::from_pairs([
                ("role", Value::from(message.role.as_str())),
                ("content", Value::from(message.content.as_str())),
            ])
        });
        let now = self.now;
        let strftime_now = move |format: &str| {
            let now = now.unwrap_or_else(|| Zoned::now().datetime());
            jiff::fmt::strtime::format(format, now).map_err(|error| {
                minijinja::Error::new(Kind::InvalidOperation, format!("strftime_now: {error}"))
            })
        };
        let mut variables = vec![
            ("messages".to_owned(), Value::from_iter(messages)),
            (
                "add_generation_prompt".to_owned(),
                Value::from(add_generation_prompt),
            ),
            ("strftime_now".to_owned(), Value::from_function(strftime_now)),
        ];
        variables.extend(self.variables.iter().cloned());
        let context = Value::from_pairs(variables);
        let template = self.environment.get_template(NAME).map_err(explain)?;
        template.render(context).map_err(explain)
    }
}

fn for_chats(environment: &mut Environment<'static>) -> Result<()> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax.map_err(explain)?);
    environment.set_fuel(Some(STEPS));
    environment.set_unknown_method_callback(methods::call);
    // text of a chat is no HTML
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_function(
        "raise_exception",
        |words: &str| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(
                Kind::InvalidOperation,
                format!("refused: {words}"),
            ))
        },
    );
    environment.add_filter("tojson", tojson);
    Ok(())
}

/// Writes JSON like Python's `json.dumps(value, ensure_ascii=False, indent=indent)`.
fn tojson(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let mut text = String::new();
    json::write(state, &value, indent, &mut text)?;
    Ok(Value::from(text))
}

fn explain(error: minijinja::Error) -> Error {
    let line = error
        .line()
        .map_or(String::new(), |line| format!("line {line}: "));
    let words = match error.kind() {
        Kind::OutOfFuel => format!("{line}it exceeds the limit of {STEPS} steps"),
        _ => format!("{line}{error}"),
    };
    Error::jinja(words, error)
}

#[cfg(test)]
mod tests;
