//! Calls of tools: how tools are described to a model, and how it writes calls.
//!
//! The formats are those of models in use, recognized by the chat template:
//!
//! | format | the template has | a call |
//! |---|---|---|
//! | Hermes, Qwen | `<tool_call>` | `<tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>` |
//! | Mistral | `[TOOL_CALLS]` | `[TOOL_CALLS][{"name": "f", "arguments": {...}}]` |
//! | Llama 3 | `python_tag`, or its instructions for calls | `{"name": "f", "parameters": {...}}` |
//! | generic | none of these | as Hermes, with instructions in the system message |
//!
//! Invariants:
//! 1. A constrained call has the name of a tool and arguments that conform to its schema.
//! 2. Text that is not a call reaches the client unchanged, also if it begins like one.
//!
//! Not here: which of the calls run, which is the client's part.

mod format;
mod object;
mod parser;

use serde_json::{Map, Value, json};

use crate::grammar::bounds::{OWN_KEY, check_schema};
use crate::sandbox;
use crate::{ChatTemplate, Error, Grammar, LanguageModel, Message, Result, TokenId, Tokenizer, Trigger};

use format::Format;
pub use parser::{CallParser, CallPart};

/// Most calls of one answer that a grammar allows.
const MAX_CALLS: usize = 16;

/// A function that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Name: 1 to 64 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON schema of its arguments, an object.
    pub parameters: Value,
}

impl Tool {
    /// Whether a name is usable.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let is_usable = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(is_usable)
    }

    /// As templates expect it.
    fn described(&self) -> Value {
        let mut function = Map::new();
        function.insert("name".to_owned(), json!(self.name));
        if let Some(description) = &self.description {
            function.insert("description".to_owned(), json!(description));
        }
        function.insert("parameters".to_owned(), self.parameters.clone());
        json!({"type": "function", "function": function})
    }

    /// The schema as grammars read it: with single blanks alone.
    fn schema(&self) -> Result<Value> {
        let mut schema = match &self.parameters {
            Value::Object(fields) if fields.is_empty() => json!({"type": "object"}),
            Value::Object(_) => self.parameters.clone(),
            _ => {
                let words = format!(
                    "the parameters of tool {:?} must be a JSON schema, an object",
                    self.name
                );
                return Err(Error::grammar(words));
            }
        };
        if schema.get(OWN_KEY).is_some() {
            let words = format!(
                "the parameters of tool {:?}: the key {OWN_KEY:?} is not supported",
                self.name
            );
            return Err(Error::grammar(words));
        }
        if !sandbox::is_available() {
            let words = |words| Error::grammar(format!("the parameters of tool {:?}: {words}", self.name));
            check_schema(&schema).map_err(words)?;
        }
        if let Some(fields) = schema.as_object_mut() {
            let spacing =
                json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "});
            fields.insert(OWN_KEY.to_owned(), spacing);
        }
        Ok(schema)
    }
}

/// How a model is given tools, and writes calls of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallStyle {
    format: Format,
    /// Whether the template writes tools and calls itself.
    is_of_template: bool,
}

impl CallStyle {
    /// The style of a template.
    #[must_use]
    pub fn of(template: &ChatTemplate) -> CallStyle {
        let source = template.source();
        let has = |text: &str| source.contains(text);
        // calls in XML or behind other marks have the generic format instead
        let format = if !has("tools") || has("<function=") || has("[ARGS]") {
            None
        } else if has("<tool_call>") {
            Some(Format::Hermes)
        } else if has("[TOOL_CALLS]") {
            Some(Format::Mistral)
        } else if has("python_tag") || has("{\"name\": function name, \"parameters\":") {
            Some(Format::Llama)
        } else {
            None
        };
        CallStyle {
            format: format.unwrap_or(Format::Hermes),
            is_of_template: format.is_some(),
        }
    }

    /// The messages and variables that the template is rendered with. Calls in messages have the field `tool_calls`, a list
    /// of `{"id": ..., "type": "function", "function": {"name": ..., "arguments": {...}}}`; results have the role `tool`.
    #[must_use]
    pub fn prompt(&self, tools: &[Tool], messages: Vec<Message>) -> (Vec<Message>, Vec<(String, Value)>) {
        if self.is_of_template {
            let described: Vec<Value> = tools.iter().map(Tool::described).collect();
            let variables = if described.is_empty() {
                Vec::new()
            } else {
                vec![("tools".to_owned(), described.into())]
            };
            return (messages, variables);
        }
        (generic(tools, messages), Vec::new())
    }

    /// A grammar of one or more calls of these tools; of exactly one without `are_parallel`.
    ///
    /// # Errors
    /// As [`Grammar::json_schema`], of a tool's parameters.
    pub fn calls(
        &self,
        model: &LanguageModel,
        tools: &[Tool],
        are_parallel: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Grammar> {
        Grammar::lark_while(
            model,
            &self.lark(model.tokenizer(), tools, are_parallel, false)?,
            go_on,
        )
    }

    /// A trigger after whose text a call must follow, in an answer that may be text instead.
    ///
    /// # Errors
    /// As [`CallStyle::calls`].
    pub fn trigger(
        &self,
        model: &LanguageModel,
        tools: &[Tool],
        are_parallel: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Trigger> {
        let grammar = self.lark(model.tokenizer(), tools, are_parallel, true)?;
        Ok(Trigger {
            text: self.mark().to_owned(),
            at_start: self.format == Format::Llama,
            grammar: Grammar::lark_while(model, &grammar, go_on)?,
        })
    }

    /// Control tokens that belong to the text of calls.
    #[must_use]
    pub fn shown(&self, tokenizer: &Tokenizer) -> Vec<TokenId> {
        let marks = match self.format {
            Format::Hermes => &["<tool_call>", "</tool_call>"][..],
            Format::Mistral => &["[TOOL_CALLS]"],
            Format::Llama => &[],
        };
        let ids = marks.iter().filter_map(|mark| tokenizer.id(mark));
        ids.filter(|id| tokenizer.is_control(*id)).collect()
    }

    /// Separates calls of these tools from text.
    #[must_use]
    pub fn parser(&self, tools: &[Tool]) -> CallParser {
        CallParser::new(self.format, tools.iter().map(|tool| tool.name.clone()).collect())
    }

    /// Whether the ids of calls must have nine letters and digits.
    #[must_use]
    pub fn has_short_ids(&self) -> bool {
        self.format == Format::Mistral
    }

    /// The text that begins a call, or a list of them.
    fn mark(&self) -> &'static str {
        match self.format {
            Format::Hermes => "<tool_call>",
            Format::Mistral => "[TOOL_CALLS]",
            Format::Llama => "{\"name\":",
        }
    }

    /// A grammar in Lark notation: of calls, or of what follows the first mark.
    fn lark(
        &self,
        tokenizer: &Tokenizer,
        tools: &[Tool],
        are_parallel: bool,
        is_behind_mark: bool,
    ) -> Result<String> {
        // a text, or the token that it is
        let mark = |text: &str| match tokenizer.id(text).filter(|id| tokenizer.is_control(*id)) {
            Some(id) => format!("<[{id}]>"),
            None => literal(text),
        };
        let more = |rule: &str| {
            if are_parallel {
                format!("{rule}{{0,{}}}", MAX_CALLS - 1)
            } else {
                String::new()
            }
        };
        let blanks = "(/[ \\n]{1,2}/)?";
        let mut lark = match (self.format, is_behind_mark) {
            (Format::Hermes, _) => {
                let (open, close) = (mark("<tool_call>"), mark("</tool_call>"));
                let first = if is_behind_mark {
                    format!("{blanks} call {} {close}", literal("\n"))
                } else {
                    format!("{open} {} call {} {close}", literal("\n"), literal("\n"))
                };
                format!(
                    "start: {first} {}\nnext: {} {open} {} call {} {close}\n",
                    more("next"),
                    literal("\n"),
                    literal("\n"),
                    literal("\n"),
                )
            }
            (Format::Mistral, _) => {
                let first = if is_behind_mark {
                    blanks.to_owned()
                } else {
                    mark("[TOOL_CALLS]")
                };
                let (open, close) = (literal("["), literal("]"));
                format!(
                    "start: {first} {open} call {} {close}\nnext: {} call\n",
                    more("next"),
                    literal(", ")
                )
            }
            (Format::Llama, true) => format!("start: {blanks} begun\n"),
            (Format::Llama, false) => format!("start: call {}\nnext: {} call\n", more("next"), literal("; ")),
        };
        let key = match self.format {
            Format::Hermes | Format::Mistral => "arguments",
            Format::Llama => "parameters",
        };
        let is_begun = self.format == Format::Llama && is_behind_mark;
        let alternatives: Vec<String> = (0..tools.len()).map(|index| format!("call{index}")).collect();
        let rule = if is_begun { "begun" } else { "call" };
        lark.push_str(&format!("{rule}: {}\n", alternatives.join(" | ")));
        for (index, tool) in tools.iter().enumerate() {
            let name = json!(tool.name);
            let head = if is_begun {
                format!("{name}, \"{key}\": ")
            } else {
                format!("{{\"name\": {name}, \"{key}\": ")
            };
            lark.push_str(&format!(
                "call{index}: {} arguments{index} {}\narguments{index}: %json {}\n",
                literal(&head),
                literal("}"),
                tool.schema()?
            ));
        }
        Ok(lark)
    }
}

/// A text as Lark writes it.
fn literal(text: &str) -> String {
    json!(text).to_string()
}

/// Describes tools, calls and results as plain text, for templates without tools.
fn generic(tools: &[Tool], messages: Vec<Message>) -> Vec<Message> {
    let mut plain: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut is_result = false;
    for mut message in messages {
        let fields = std::mem::take(&mut message.fields);
        if message.role == "tool" {
            let text = format!("<tool_response>\n{}\n</tool_response>", message.content);
            // results of one answer's calls are one message: many templates want users and assistants to alternate
            match plain.last_mut().filter(|_| is_result) {
                Some(last) => {
                    last.content.push('\n');
                    last.content.push_str(&text);
                }
                None => plain.push(Message::new("user", text)),
            }
            is_result = true;
            continue;
        }
        is_result = false;
        for call in fields
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let function = &call["function"];
            let object = json!({"name": function["name"], "arguments": function["arguments"]});
            let between = if message.content.is_empty() { "" } else { "\n" };
            message.content.push_str(&format!(
                "{between}<tool_call>\n{}\n</tool_call>",
                spaced(&object)
            ));
        }
        plain.push(message);
    }
    if tools.is_empty() {
        return plain;
    }
    let lines: Vec<String> = tools.iter().map(|tool| spaced(&tool.described())).collect();
    let words = format!(
        "You can call functions. Each line describes one as JSON:\n{}\nTo call a function, answer with its name and \
         arguments in this form, once for each call:\n<tool_call>\n{{\"name\": \"NAME\", \"arguments\": {{...}}}}\n\
         </tool_call>\nIf no function is needed, answer as usual.",
        lines.join("\n")
    );
    match plain.first_mut().filter(|first| first.role == "system") {
        Some(first) => first.content = format!("{}\n\n{words}", first.content),
        None => plain.insert(0, Message::new("system", words)),
    }
    plain
}

/// JSON with a blank behind each comma and colon, as models were trained with it.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", json!(name), spaced(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
