//! Compiles and renders a template: in a sandbox, or in the app's own process where it has no sandbox.

use std::borrow::Cow;

use jiff::Zoned;
use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, ErrorKind as Kind, Output, State};
use serde::{Deserialize, Serialize};

use super::message::Message;
use super::{json, methods};

const NAME: &str = "chat";
/// Steps of a rendering: an instruction, or 64 bytes of output. A long chat takes about ten
/// thousand, plus its length.
const STEPS: u64 = 1_000_000;

/// What a template is rendered with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Chat<'a> {
    pub(crate) messages: Cow<'a, [Message]>,
    pub(crate) add_generation_prompt: bool,
    pub(crate) variables: Cow<'a, [(String, serde_json::Value)]>,
    /// What `strftime_now` takes for now.
    pub(crate) now: Option<String>,
}

/// A compiled template.
#[derive(Debug)]
pub(crate) struct Renderer(Environment<'static>);

impl Renderer {
    pub(crate) fn new(source: &str) -> Result<Renderer, Explained> {
        let mut environment = Environment::new();
        for_chats(&mut environment)?;
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Renderer(environment))
    }

    pub(crate) fn render(&self, chat: &Chat<'_>) -> Result<String, Explained> {
        let messages: Result<Vec<Value>, minijinja::Error> = chat
            .messages
            .iter()
            .map(|message| {
                let mut pairs = vec![
                    ("role".to_owned(), Value::from(message.role.as_str())),
                    ("content".to_owned(), Value::from(message.content.as_str())),
                ];
                for (name, field) in &message.fields {
                    pairs.push((name.clone(), json_value("message field", name, field)?));
                }
                Ok(Value::from_pairs(pairs))
            })
            .collect();
        let messages = messages?;
        let now: Option<DateTime> = chat.now.as_ref().and_then(|now| now.parse().ok());
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
                Value::from(chat.add_generation_prompt),
            ),
            ("strftime_now".to_owned(), Value::from_function(strftime_now)),
        ];
        for (name, value) in chat.variables.iter() {
            variables.push((name.clone(), json_value("variable", name, value)?));
        }
        let context = Value::from_pairs(variables);
        Ok(self.0.get_template(NAME)?.render(context)?)
    }
}

/// A JSON value as the library's.
fn json_value(what: &str, name: &str, value: &serde_json::Value) -> Result<Value, minijinja::Error> {
    serde_json::from_value(value.clone())
        .map_err(|error| minijinja::Error::new(Kind::InvalidOperation, format!("{what} {name:?}: {error}")))
}

fn for_chats(environment: &mut Environment<'static>) -> Result<(), minijinja::Error> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax?);
    environment.set_fuel(Some(STEPS));
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(print);
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

/// Prints a value as the library does, unless its containers are too deep or hold too much: the library counts steps
/// only once it is printed.
fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    methods::count(state, value)?;
    minijinja::escape_formatter(out, state, value)
}

/// Writes JSON like Python's `json.dumps(value, ensure_ascii=False, indent=indent)`.
fn tojson(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let mut text = String::new();
    json::write(state, &value, indent, &mut text)?;
    Ok(Value::from(text))
}

/// An error of the library.
#[derive(Debug)]
pub(crate) struct Explained(pub(crate) minijinja::Error);

impl From<minijinja::Error> for Explained {
    fn from(error: minijinja::Error) -> Explained {
        Explained(error)
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.0.line() {
            write!(f, "line {line}: ")?;
        }
        match self.0.kind() {
            Kind::OutOfFuel => write!(f, "it exceeds the limit of {STEPS} steps"),
            _ => write!(f, "{}", self.0),
        }
    }
}
