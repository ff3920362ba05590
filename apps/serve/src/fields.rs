//! Reads the fields of a client's JSON objects.
//!
//! Invariants:
//! 1. A value of the wrong kind is a [`Problem`] that names its field.
//! 2. `null` means an omitted field.
//! 3. A field that is not known is noted, or refused by a strict server.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::problem::Problem;

/// Most ignored fields that are noted of a request, and most characters of one.
const MAX_IGNORED: usize = 32;
const MAX_NAME: usize = 64;

/// The fields of an object, taken one by one: what is left in the end was not known.
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// Path of the object in the request; empty for the request itself.
    name: String,
}

impl Fields {
    pub(crate) fn of_body(body: &[u8]) -> Result<Fields, Problem> {
        let value = serde_json::from_slice(body)
            .map_err(|error| Problem::bad(format!("the body is not JSON: {error}")))?;
        Fields::of(value, "")
    }

    pub(crate) fn of(value: Value, name: &str) -> Result<Fields, Problem> {
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
    pub(crate) fn path(&self, field: &str) -> String {
        if self.name.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.name)
        }
    }

    pub(crate) fn take(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, field: &str) -> Result<Option<String>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(field), "a text", &other)),
        }
    }

    pub(crate) fn flag(&mut self, field: &str) -> Result<Option<bool>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(&self.path(field), "true or false", &other)),
        }
    }

    pub(crate) fn number(&mut self, field: &str, range: RangeInclusive<f64>) -> Result<Option<f32>, Problem> {
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

    pub(crate) fn count(&mut self, field: &str, least: u64) -> Result<Option<usize>, Problem> {
        let value = self.take(field);
        value
            .map(|value| count_of(&self.path(field), &value, least))
            .transpose()
    }

    pub(crate) fn seed(&mut self) -> Result<Option<u64>, Problem> {
        let Some(value) = self.take("seed") else {
            return Ok(None);
        };
        let signed = || value.as_i64().map(i64::cast_unsigned);
        let seed = value.as_u64().or_else(signed);
        seed.map(Some)
            .ok_or_else(|| wrong("seed", "an integer of 64 bits", &value))
    }

    /// A field that has an effect elsewhere: only values that ask for nothing are taken.
    pub(crate) fn only(&mut self, field: &str, values: &[Value]) -> Result<(), Problem> {
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

    /// A field that stays.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field)
    }

    /// Takes a field with a value that asks for nothing; another value stays.
    pub(crate) fn neutral(&mut self, field: &str, values: &[Value]) {
        if self.map.get(field).is_some_and(|value| values.contains(value)) {
            self.map.remove(field);
        }
    }

    /// Ends reading: what is left is ignored, or refused by a strict server.
    pub(crate) fn finish(self, notes: &mut Notes) -> Result<(), Problem> {
        for (field, value) in &self.map {
            if !value.is_null() {
                notes.ignore(&self.path(field))?;
            }
        }
        Ok(())
    }
}

/// Fields of a request that were ignored.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    is_strict: bool,
    ignored: BTreeSet<String>,
}

impl Notes {
    pub(crate) fn new(is_strict: bool) -> Notes {
        Notes {
            is_strict,
            ignored: BTreeSet::new(),
        }
    }

    /// Notes a field by its path.
    ///
    /// # Errors
    /// The server is strict.
    pub(crate) fn ignore(&mut self, path: &str) -> Result<(), Problem> {
        if self.is_strict {
            return Err(Problem::unknown(path));
        }
        if self.ignored.len() < MAX_IGNORED {
            let without_digits = path.chars().filter(|one| !one.is_ascii_digit());
            self.ignored.insert(without_digits.take(MAX_NAME).collect());
        }
        Ok(())
    }

    /// The fields that were ignored, without indexes.
    pub(crate) fn into_ignored(self) -> BTreeSet<String> {
        self.ignored
    }
}

/// The problem of a value of the wrong kind.
pub(crate) fn wrong(param: &str, what: &str, found: &Value) -> Problem {
    let shown = match found {
        Value::Number(number) => number.to_string(),
        other => kind(other).to_owned(),
    };
    Problem::value(param, format!("`{param}` is {shown}: it must be {what}"))
}

/// Name of a value's JSON type.
pub(crate) fn kind(value: &Value) -> &'static str {
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

/// A value as a count of at least `least`.
pub(crate) fn count_of(path: &str, value: &Value, least: u64) -> Result<usize, Problem> {
    // some clients write whole numbers as 16.0
    let whole = value
        .as_f64()
        .filter(|number| number.fract() == 0.0 && *number < 2f64.powi(53));
    let count = value
        .as_u64()
        .or_else(|| whole.filter(|number| *number >= 0.0).map(|number| number as u64))
        .filter(|count| *count >= least)
        .and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| wrong(path, &format!("an integer of at least {least}"), value))
}
