//! Chat templates: messages as the text that a model was trained with.
//!
//! Templates are Jinja of the Python library `transformers`: blocks trim the line end behind them and the blanks before them,
//! strings and containers have Python's methods, and there are `raise_exception`, `strftime_now` and a `tojson` that writes as
//! Python's `json` does. Values are printed as Python prints them, but for two habits of the library: floats
//! from 1e16 on get no exponent, and a width given to `format` counts bytes.
//!
//! Invariants:
//! 1. A template reads nothing but its variables: no file, no other template, no variable of the process.
//! 2. A render is bounded: by steps, which memory counts against, and by the library's limit of nested calls.
//! 3. A function, filter or test that is not known is an error that names it.

mod json;
mod methods;

use jiff::Zoned;
use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, ErrorKind as Kind, State};

use crate::gguf::Gguf;
use crate::{Error, Result, Tokenizer};

/// Steps of a render: an instruction, or 64 bytes that are made. A long chat takes some ten thousand and its length.
const STEPS: u64 = 1_000_000;
/// Longest template, in bytes. The longest of known models has about 30 KB.
const MAX_SOURCE: usize = 1 << 20;
const NAME: &str = "chat";

/// Who says what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what the template knows beside them.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message {
            role: role.into(),
            content: content.into(),
        }
    }
}

/// Writes chats as prompts.
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
    /// The template is longer than 1 MiB, or is no Jinja.
    pub fn new(source: &str) -> Result<ChatTemplate> {
        if source.len() > MAX_SOURCE {
            return Err(Error::template(format!(
                "{} bytes, at most {MAX_SOURCE} are supported",
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

    /// The template of a file, with its first and last token as `bos_token` and `eos_token`; `None` where it has none.
    ///
    /// # Errors
    /// As for [`ChatTemplate::new`].
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

    /// Gives the template a variable as JSON: `tools`, `enable_thinking`, `documents`.
    ///
    /// # Errors
    /// The text is no JSON.
    pub fn with_json(mut self, name: &str, json: &str) -> Result<ChatTemplate> {
        let value: Value = serde_json::from_str(json)
            .map_err(|error| Error::template(format!("variable {name:?} is no JSON: {error}")))?;
        self.set(name, value);
        Ok(self)
    }

    /// The time that `strftime_now` tells, instead of the system's in its time zone.
    ///
    /// # Errors
    /// The text is no ISO 8601 time without a zone, such as `2026-11-26T12:00:00`.
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

    /// The prompt of a chat. `add_generation_prompt`: with the beginning of an answer.
    ///
    /// # Errors
    /// The template refuses the messages, uses what is not known, or takes too many steps.
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

/// JSON as Python's `json.dumps(value, ensure_ascii=False, indent=indent)` writes it.
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
        Kind::OutOfFuel => format!("{line}it takes more than {STEPS} steps"),
        _ => format!("{line}{error}"),
    };
    Error::jinja(words, error)
}

#[cfg(test)]
mod tests;
