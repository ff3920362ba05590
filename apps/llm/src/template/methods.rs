//! Python's methods of strings and containers. In the Jinja library, two of them create text of any
//! size before counting steps; here the steps are charged first.

use std::fmt::{self, Write};

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Bytes per step, as the library counts them.
const BYTES_A_STEP: u64 = 64;
/// Deepest nesting of containers that are printed.
const MAX_DEPTH: usize = 100;

pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match (value.as_str(), method) {
        (Some(format), "format") => pay_for_format(state, format, arguments)?,
        (Some(separator), "join") => return join(state, separator, arguments),
        _ => {}
    }
    unknown_method_callback(state, value, method, arguments)
}

/// Takes a step for each item of nested containers.
pub(super) fn count(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let mut rest = vec![(value.clone(), 0)];
    while let Some((value, depth)) = rest.pop() {
        if depth > MAX_DEPTH {
            let words = format!("containers are nested more than {MAX_DEPTH} deep");
            return Err(Error::new(ErrorKind::InvalidOperation, words));
        }
        let (keys, values): (bool, bool) = match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => (true, false),
            ValueKind::Map => (true, true),
            _ => continue,
        };
        for key in value.try_iter()? {
            state.consume_fuel(1)?;
            if values {
                rest.push((value.get_item(&key)?, depth + 1));
            }
            if keys
                && !matches!(
                    key.kind(),
                    ValueKind::String | ValueKind::Number | ValueKind::Bool
                )
            {
                rest.push((key, depth + 1));
            }
        }
    }
    Ok(())
}

/// Text that is charged for before it is created.
struct Paid<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    text: Option<String>,
    bytes: u64,
    refused: Option<Error>,
}

impl<'a, 'b, 'c> Paid<'a, 'b, 'c> {
    fn new(state: &'a State<'b, 'c>, text: Option<String>) -> Paid<'a, 'b, 'c> {
        Paid {
            state,
            text,
            bytes: 0,
            refused: None,
        }
    }

    fn value(&mut self, value: &Value) -> Result<(), Error> {
        count(self.state, value)?;
        let written = write!(self, "{value}");
        match (written, self.refused.take()) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(_), None) => Err(Error::new(
                ErrorKind::InvalidOperation,
                "a value cannot be written",
            )),
        }
    }
}

impl Write for Paid<'_, '_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let before = self.bytes / BYTES_A_STEP;
        self.bytes += text.len() as u64;
        let steps = self.bytes / BYTES_A_STEP - before;
        if let Err(error) = self.state.consume_fuel(steps) {
            self.refused = Some(error);
            return Err(fmt::Error);
        }
        if let Some(whole) = &mut self.text {
            whole.push_str(text);
        }
        Ok(())
    }
}

/// Charges for the largest possible output of a format: each field may name any argument, and any
/// number in it may be a width.
fn pay_for_format(state: &State<'_, '_>, format: &str, arguments: &[Value]) -> Result<(), Error> {
    let mut longest = 0;
    for argument in arguments {
        let mut length = Paid::new(state, None);
        length.value(argument)?;
        longest = longest.max(length.bytes);
    }
    let fields = format.matches('{').count() as u64;
    let numbers = format
        .split(|one: char| !one.is_ascii_digit())
        .filter(|digits| !digits.is_empty());
    let widths = numbers
        .map(|digits| digits.parse().unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add);
    state.consume_fuel(fields.saturating_mul(longest).saturating_add(widths) / BYTES_A_STEP)
}

fn join(state: &State<'_, '_>, separator: &str, arguments: &[Value]) -> Result<Value, Error> {
    let [items] = arguments else {
        let words = format!("join takes one argument, but got {}", arguments.len());
        return Err(Error::new(ErrorKind::InvalidOperation, words));
    };
    let mut paid = Paid::new(state, Some(String::new()));
    for (index, item) in items.try_iter()?.enumerate() {
        state.consume_fuel(1)?;
        if index > 0 {
            paid.value(&Value::from(separator))?;
        }
        paid.value(&item)?;
    }
    Ok(Value::from(paid.text.unwrap_or_default()))
}
