//! JSON files of a folder: objects whose errors state their position.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// An object of a JSON file, for errors that name it.
pub(crate) struct Object {
    /// Its position in the file.
    pub(crate) place: String,
    pub(crate) fields: Map<String, Value>,
}

impl Object {
    pub(crate) fn parse(file: &str, text: &[u8]) -> Result<Object> {
        let value =
            serde_json::from_slice(text).map_err(|error| Error::config(format!("{file}: {error}")))?;
        Object::of(file.to_owned(), value)
    }

    pub(crate) fn of(place: String, value: Value) -> Result<Object> {
        match value {
            Value::Object(fields) => Ok(Object { place, fields }),
            _ => Err(Error::config(format!("{place} is not a JSON object"))),
        }
    }

    /// Reads a file of the folder; `None` if it does not exist.
    pub(crate) fn read(folder: &Path, file: &str) -> Result<Option<Object>> {
        read(folder, file)?
            .map(|text| Object::parse(file, text.as_bytes()))
            .transpose()
    }

    /// A field that exists and is not null.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    pub(crate) fn object(&self, field: &str) -> Result<Option<Object>> {
        self.get(field)
            .map(|value| Object::of(format!("{}: {field:?}", self.place), value.clone()))
            .transpose()
    }

    pub(crate) fn typed<'a, T>(
        &'a self,
        field: &str,
        what: &str,
        take: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        take(value).map(Some).ok_or_else(|| {
            Error::config(format!(
                "{}: {field:?} must be {what}, and is {value}",
                self.place
            ))
        })
    }

    pub(crate) fn text(&self, field: &str) -> Result<Option<&str>> {
        self.typed(field, "a text", Value::as_str)
    }

    pub(crate) fn flag(&self, field: &str) -> Result<Option<bool>> {
        self.typed(field, "true or false", Value::as_bool)
    }

    pub(crate) fn float(&self, field: &str) -> Result<Option<f32>> {
        self.typed(field, "a number", |value| {
            value.as_f64().map(|value| value as f32)
        })
    }

    pub(crate) fn size(&self, field: &str) -> Result<Option<u32>> {
        self.typed(field, "a 32-bit integer", |value| {
            value.as_u64().and_then(|value| u32::try_from(value).ok())
        })
    }

    pub(crate) fn needed<T>(&self, field: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| Error::config(format!("{}: {field:?} is missing", self.place)))
    }

    /// Refuses a field that may change answers, unless its value is known.
    pub(crate) fn refuse_unless(&self, field: &str, known: impl Fn(&Value) -> bool) -> Result<()> {
        match self.get(field) {
            Some(value) if !known(value) => Err(Error::unsupported(format!(
                "{}: {field:?} is {value}, which is not supported",
                self.place
            ))),
            _ => Ok(()),
        }
    }
}

/// The text of a file of the folder; `None` if it does not exist.
pub(crate) fn read(folder: &Path, file: &str) -> Result<Option<String>> {
    let path = folder.join(file);
    let text = polychip_host::read_regular(&path).and_then(|bytes| {
        let invalid = |_| std::io::Error::new(std::io::ErrorKind::InvalidData, "not UTF-8 text");
        String::from_utf8(bytes).map_err(invalid)
    });
    match text {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(&path, error)),
    }
}
