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
//! 2. Rendering is bounded by a number of steps and by the library's limit on nested calls. A sandbox
//!    process renders ([`sandbox`](crate::sandbox)), whose memory, stack and time are bounded as well, for
//!    values may share their parts or hold themselves.
//! 3. An unknown function, filter or test is an error that names it.

mod json;
mod message;
mod methods;
pub(crate) mod renderer;

use std::borrow::Cow;
use std::sync::Mutex;
use std::time::Instant;

use jiff::civil::DateTime;

use crate::gguf::Gguf;
use crate::sandbox::{self, Failure, Idle, Process, TemplateJob, kind};
use crate::{Error, Result, Tokenizer};
use renderer::{Chat, Explained, Renderer};

pub use message::Message;

/// Longest template in bytes. The longest known template has about 30 KB.
const MAX_SOURCE: usize = 1 << 20;
/// Longest `{{ }}` or `{% %}` in bytes: operators in it are nested in each other. The longest known has about 1 KB.
const MAX_TAG: usize = 16 << 10;
/// Stack of the thread that renders in the app's own process, in bytes: for lists nested as deep as steps allow.
const STACK: usize = 512 << 20;

/// Sandboxes for all templates.
static SANDBOXES: Idle = Idle::new();

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
    source: String,
    /// Without sandboxes.
    renderer: Mutex<Option<Renderer>>,
    variables: Vec<(String, serde_json::Value)>,
    now: Option<DateTime>,
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// The template is longer than 1 MiB, one of its tags is longer than 16 KiB, it is not valid Jinja, or it exceeds a
    /// limit of the sandbox process.
    pub fn new(source: &str) -> Result<ChatTemplate> {
        if source.len() > MAX_SOURCE {
            return Err(Error::template(format!(
                "{} bytes exceed the supported maximum of {MAX_SOURCE}",
                source.len()
            )));
        }
        let tag = longest_tag(source);
        if tag > MAX_TAG {
            return Err(Error::template(format!(
                "a tag of {tag} bytes exceeds the supported maximum of {MAX_TAG}"
            )));
        }
        let template = ChatTemplate {
            source: source.to_owned(),
            renderer: Mutex::new(None),
            variables: Vec::new(),
            now: None,
        };
        template.run(None, &mut || true)?;
        Ok(template)
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
                template.set(name, token.into());
            }
        }
        Ok(Some(template))
    }

    /// Sets a variable of the template to a JSON value: `tools`, `enable_thinking`, `documents`.
    ///
    /// # Errors
    /// The text is not valid JSON.
    pub fn with_json(mut self, name: &str, json: &str) -> Result<ChatTemplate> {
        let value = serde_json::from_str(json)
            .map_err(|error| Error::template(format!("variable {name:?} is not JSON: {error}")))?;
        self.set(name, value);
        Ok(self)
    }

    /// The template's text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
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

    fn set(&mut self, name: &str, value: serde_json::Value) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value));
    }

    /// Renders the prompt of a chat; with `add_generation_prompt`, including the beginning of an
    /// answer.
    ///
    /// # Errors
    /// The template refuses the messages, uses something unknown, or exceeds a limit: of steps, or of the sandbox process.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        self.render_while(messages, add_generation_prompt, &mut || true)
    }

    /// Renders like [`ChatTemplate::render`]; calls `go_on` about 50 times a second and stops if it returns false,
    /// unless this process renders itself.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], or `go_on` returned false.
    pub fn render_while(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<String> {
        self.render_with(messages, add_generation_prompt, &[], go_on)
    }

    /// Renders like [`ChatTemplate::render_while`], with further variables such as `tools` for this chat alone.
    ///
    /// # Errors
    /// As [`ChatTemplate::render_while`].
    pub fn render_with(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        variables: &[(String, serde_json::Value)],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<String> {
        let variables = if variables.is_empty() {
            Cow::Borrowed(&self.variables[..])
        } else {
            let own = self.variables.iter();
            let own = own.filter(|(name, _)| variables.iter().all(|(given, _)| given != name));
            Cow::Owned(own.chain(variables).cloned().collect())
        };
        let chat = Chat {
            messages: Cow::Borrowed(messages),
            add_generation_prompt,
            variables,
            now: self.now.map(|now| now.to_string()),
        };
        self.run(Some(chat), go_on)
    }

    /// Renders, or compiles where there is no chat.
    fn run(&self, chat: Option<Chat<'_>>, go_on: &mut dyn FnMut() -> bool) -> Result<String> {
        let process = SANDBOXES.take().map(Ok);
        let process = process.or_else(|| sandbox::is_available().then(Process::start).flatten());
        match process {
            Some(process) => self
                .run_in(process, chat, go_on)
                .map_err(|failure| match failure {
                    Failure::Cancelled => Error::cancelled(),
                    Failure::Ended(words) => Error::template(words),
                    Failure::Unavailable(error) => Error::sandbox(error),
                }),
            None => self.run_here(chat),
        }
    }

    fn run_in(
        &self,
        process: Result<Process, Failure>,
        chat: Option<Chat<'_>>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<String, Failure> {
        let mut process = process?;
        // a slow start says nothing of what the template costs
        let started = Instant::now();
        let job = TemplateJob {
            source: Cow::Borrowed(&self.source),
            chat,
        };
        let job = serde_json::to_vec(&job).map_err(|error| Failure::Ended(error.to_string()))?;
        process.send(&[&[kind::TEMPLATE], &job], 1)?;
        let reply = process.receive(go_on)?;
        // after a long job, its memory may be large or in pieces
        if started.elapsed() < sandbox::CHEAP {
            SANDBOXES.give_back(process);
        }
        let text = String::from_utf8_lossy(reply.get(1..).unwrap_or_default()).into_owned();
        match reply.first() {
            Some(&kind::DONE) => Ok(text),
            _ => Err(Failure::Ended(text)),
        }
    }

    /// Renders in this process, on a stack of its own.
    fn run_here(&self, chat: Option<Chat<'_>>) -> Result<String> {
        let work = || {
            let mut renderer = self
                .renderer
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let renderer = match &mut *renderer {
                Some(renderer) => renderer,
                none => none.insert(Renderer::new(&self.source)?),
            };
            chat.map_or(Ok(String::new()), |chat| renderer.render(&chat))
        };
        let done = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("polychip-template".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, work)
                .map_err(Error::thread)?;
            let crashed = |_| Error::template("too large or too complex for the template engine");
            thread.join().map_err(crashed)
        })?;
        done.map_err(|error| {
            let words = error.to_string();
            let Explained(source) = error;
            Error::jinja(words, source)
        })
    }
}

/// Bytes of the longest text between `{{` and `}}`, or `{%` and `%}`.
fn longest_tag(source: &str) -> usize {
    let bytes = source.as_bytes();
    let (mut longest, mut at) = (0, 0);
    while at < bytes.len() {
        let close = match bytes.get(at..at + 2) {
            Some(b"{{") => b"}}",
            Some(b"{%") => b"%}",
            Some(b"{#") => b"#}",
            _ => {
                at += 1;
                continue;
            }
        };
        let start = at + 2;
        at = end_of_tag(bytes, start, close);
        if close != b"#}" {
            longest = longest.max(at - start);
        }
    }
    longest
}

/// Where a tag closes: not within quotes, unless it is a comment.
fn end_of_tag(bytes: &[u8], start: usize, close: &[u8; 2]) -> usize {
    let mut quote = None;
    let mut at = start;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), one) if one == open => quote = None,
            (None, one @ (b'"' | b'\'')) if close != b"#}" => quote = Some(one),
            (None, _) if bytes[at..].starts_with(close) => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
