//! Writes values like Python's `json` module: a blank after each comma and colon, no escapes beyond
//! ASCII's.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Deepest nesting of containers.
const DEPTH: usize = 100;

/// Writes a value; with `indent`, each item on its own line, indented by this many blanks per
/// level.
pub(super) fn write(
    state: &State<'_, '_>,
    value: &Value,
    indent: Option<usize>,
    out: &mut String,
) -> Result<(), Error> {
    Writer { state, indent, out }.value(value, 0)
}

struct Writer<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    indent: Option<usize>,
    out: &'a mut String,
}

impl Writer<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let wrong = |words: String| Error::new(ErrorKind::InvalidOperation, format!("tojson: {words}"));
        if depth > DEPTH {
            return Err(wrong(format!("containers are nested more than {DEPTH} deep")));
        }
        self.state.consume_fuel(1)?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool | ValueKind::Number => {
                let text = serde_json::to_string(value).map_err(|error| wrong(error.to_string()))?;
                self.out.push_str(&text);
            }
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.items(value, ['[', ']'], depth, |writer, item| {
                    writer.value(&item, depth + 1)
                })?;
            }
            ValueKind::Map => self.items(value, ['{', '}'], depth, |writer, key| {
                let item = value.get_item(&key)?;
                match key.as_str() {
                    Some(key) => writer.text(key),
                    None => return Err(wrong(format!("a key is {key}, only strings are supported"))),
                }
                writer.out.push_str(": ");
                writer.value(&item, depth + 1)
            })?,
            other => return Err(wrong(format!("a value is {other}, which JSON cannot represent"))),
        }
        Ok(())
    }

    fn items(
        &mut self,
        value: &Value,
        [open, close]: [char; 2],
        depth: usize,
        mut one: impl FnMut(&mut Self, Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        let mut count = 0_usize;
        for item in value.try_iter()? {
            if count > 0 {
                self.out.push_str(if self.indent.is_some() { "," } else { ", " });
            }
            count += 1;
            self.line(depth + 1)?;
            one(self, item)?;
        }
        if count > 0 {
            self.line(depth)?;
        }
        self.out.push(close);
        Ok(())
    }

    /// Begins a line if items are on their own lines.
    fn line(&mut self, depth: usize) -> Result<(), Error> {
        let Some(indent) = self.indent else {
            return Ok(());
        };
        let blanks = indent.saturating_mul(depth);
        self.state.consume_fuel(blanks as u64 / 64 + 1)?;
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', blanks));
        Ok(())
    }

    fn text(&mut self, text: &str) {
        // serde_json escapes what Python does: quotes, backslashes and control characters
        self.out.push_str(&serde_json::Value::from(text).to_string());
    }
}
