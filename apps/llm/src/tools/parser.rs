//! Separates calls from text, piece by piece.

use super::format::Format;
use super::object::Object;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// Text beside calls.
    Text(String),
    /// A call of this tool begins.
    Call {
        /// The tool's name.
        name: String,
    },
    /// The next of the JSON of the last call's arguments.
    Arguments(String),
}

/// Separates calls of tools from an answer's text.
#[derive(Debug)]
pub struct CallParser {
    format: Format,
    names: Vec<String>,
    state: State,
    /// Text that was not yet understood.
    held: String,
    /// What came before the object: text again if the object is not a call.
    opening: String,
    calls: usize,
}

#[derive(Debug)]
enum State {
    /// Text, in which a mark may come.
    Text,
    /// Behind a mark: an object comes.
    Open,
    Object(Object),
    /// Behind an object.
    Close,
    /// Text to the end.
    Rest,
}

/// What to do next.
enum Next {
    Again,
    Wait,
}

impl CallParser {
    pub(super) fn new(format: Format, names: Vec<String>) -> CallParser {
        CallParser {
            format,
            names,
            state: State::Text,
            held: String::new(),
            opening: String::new(),
            calls: 0,
        }
    }

    /// Number of calls so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Adds a piece of text.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> Vec<CallPart> {
        self.held.push_str(piece);
        let mut parts = Vec::new();
        while let Next::Again = self.step(&mut parts) {}
        parts
    }

    /// Ends the answer; returns what was held back.
    #[must_use]
    pub fn finish(&mut self) -> Vec<CallPart> {
        let mut parts = Vec::new();
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Rest) {
            State::Text | State::Rest => {
                if self.calls == 0 || !held.trim().is_empty() {
                    push_text(&mut parts, held);
                }
            }
            State::Open => push_text(&mut parts, format!("{}{held}", self.opening)),
            State::Object(object) => {
                if let Some(raw) = object.finish() {
                    push_text(&mut parts, format!("{}{raw}{held}", self.opening));
                }
            }
            State::Close => {}
        }
        parts
    }

    /// What is before an object; nothing for Llama.
    fn mark(&self) -> &'static str {
        match self.format {
            Format::Hermes => "<tool_call>",
            Format::Mistral => "[TOOL_CALLS]",
            Format::Llama => "",
        }
    }

    fn step(&mut self, parts: &mut Vec<CallPart>) -> Next {
        match &mut self.state {
            State::Rest => {
                push_text(parts, std::mem::take(&mut self.held));
                Next::Wait
            }
            State::Text => self.text(parts),
            State::Open => {
                let blanks = |one: char| {
                    one.is_ascii_whitespace()
                        || (self.format == Format::Mistral && (one == '[' || one == ','))
                };
                let begun = self.held.trim_start_matches(blanks);
                match begun.bytes().next() {
                    None => Next::Wait,
                    Some(b'{') => {
                        let object = begun.to_owned();
                        self.held.truncate(self.held.len() - object.len());
                        self.opening.push_str(&self.held);
                        self.held = object;
                        self.state = State::Object(Object::new());
                        Next::Again
                    }
                    // not a call after all
                    Some(_) => {
                        push_text(parts, std::mem::take(&mut self.opening));
                        self.state = State::Text;
                        Next::Again
                    }
                }
            }
            State::Object(object) => {
                let text = std::mem::take(&mut self.held);
                let names = &self.names;
                // an answer that is JSON is not held back to its end
                let may_wait = self.format != Format::Llama;
                let progress = object.push(&text, may_wait, |name| names.iter().any(|known| known == name));
                if let Some(name) = progress.name {
                    self.calls += 1;
                    parts.push(CallPart::Call { name });
                }
                if !progress.arguments.is_empty() {
                    parts.push(CallPart::Arguments(progress.arguments));
                }
                if let Some(text) = progress.text {
                    push_text(parts, std::mem::take(&mut self.opening) + &text);
                    self.held = progress.rest.unwrap_or_default();
                    self.state = if self.format == Format::Llama {
                        State::Rest
                    } else {
                        State::Text
                    };
                    return Next::Again;
                }
                match progress.rest {
                    Some(rest) => {
                        self.opening.clear();
                        self.held = rest;
                        self.state = State::Close;
                        Next::Again
                    }
                    None => Next::Wait,
                }
            }
            State::Close => self.close(),
        }
    }

    fn text(&mut self, parts: &mut Vec<CallPart>) -> Next {
        if self.format == Format::Llama {
            self.state = match self.held.trim_start().bytes().next() {
                None => return Next::Wait,
                Some(b'{') => {
                    let object = self.held.trim_start().to_owned();
                    self.held.truncate(self.held.len() - object.len());
                    self.opening = std::mem::replace(&mut self.held, object);
                    State::Object(Object::new())
                }
                Some(_) => State::Rest,
            };
            return Next::Again;
        }
        let mark = self.mark();
        if let Some(at) = self.held.find(mark) {
            let text = self.held[..at].trim_end().to_owned();
            self.opening = self.held[text.len()..at + mark.len()].to_owned();
            self.held.drain(..at + mark.len());
            push_text(parts, text);
            self.state = State::Open;
            return Next::Again;
        }
        // a mark may have begun, and blanks before it belong to it
        let starts = self.held.char_indices().map(|(at, _)| at);
        let begun = starts.filter(|at| self.held.len() - at < mark.len());
        let begun = begun
            .into_iter()
            .find(|at| mark.starts_with(&self.held[*at..]))
            .unwrap_or(self.held.len());
        let kept = self.held[..begun].trim_end().len();
        let rest = self.held.split_off(kept);
        push_text(parts, std::mem::replace(&mut self.held, rest));
        Next::Wait
    }

    /// Behind an object: what separates calls, and what ends them.
    fn close(&mut self) -> Next {
        let begun = self.held.trim_start();
        let mark = match self.format {
            Format::Hermes => "</tool_call>",
            Format::Mistral => "]",
            Format::Llama => ";",
        };
        if begun.is_empty() {
            return Next::Wait;
        }
        if self.format == Format::Mistral && begun.starts_with(',') {
            self.state = State::Open;
            return Next::Again;
        }
        if let Some(rest) = begun.strip_prefix(mark) {
            self.held = rest.to_owned();
            self.state = State::Text;
            return Next::Again;
        }
        if mark.starts_with(begun) {
            return Next::Wait;
        }
        // the mark is missing
        self.state = State::Text;
        Next::Again
    }
}

fn push_text(parts: &mut Vec<CallPart>, text: String) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(CallPart::Text(before)) => before.push_str(&text),
        _ => parts.push(CallPart::Text(text)),
    }
}
