//! A folder of safetensors, as models are published: `config.json`, `tokenizer.json`, and tensors in one file or several.
//! It is read as the GGUF file that a converter would make of it: the same keys, the same names of tensors. Weights stay
//! where they lie.
//!
//! Invariants:
//! 1. Nothing is guessed: a setting, a way of cutting texts or a tensor that is not known is refused by name.
//! 2. Rows of queries and keys stay in their order, so values are rotated in halves (`Gguf::is_checkpoint`).
//!
//! Not here: what keys mean (`config`, `tokenizer`).

mod settings;
mod tensors;
mod texts;

use std::path::Path;

use bytes::Bytes;
use polychip_host::ModelFolder;
use serde_json::{Map, Value};

use crate::gguf::{Gguf, GgufWriter};
use crate::{Error, Result};

const CONFIG: &str = "config.json";

/// The folder of a path that names a checkpoint: the folder itself, or a file of it.
pub(crate) fn folder(path: &Path) -> Option<&Path> {
    if path.is_dir() {
        return Some(path);
    }
    let is_safetensors = path.extension().is_some_and(|end| end == "safetensors");
    let is_of_checkpoint = is_safetensors || path.file_name().is_some_and(|name| name == CONFIG);
    let parent = path.parent().filter(|_| is_of_checkpoint)?;
    Some(match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    })
}

/// Reads a folder.
pub(crate) fn open(folder: &Path) -> Result<Gguf> {
    let config_path = folder.join(CONFIG);
    let files = ModelFolder::open(&config_path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::config(format!(
            "{} is no GGUF file, and no folder of a model: there is no {CONFIG} in it",
            folder.display()
        )),
        _ => Error::file(&config_path, source),
    })?;
    let config = Object::parse(CONFIG, &files.bytes())?;
    let mut header = GgufWriter::new();
    let settings = settings::write(&config, &mut header)?;
    texts::write(folder, &config, settings.vocabulary, &mut header)?;
    let (names, tensors) = tensors::read(folder, &files, settings.tied)?;
    Gguf::of_checkpoint(files, Bytes::from(header.finish()), names, tensors)
}

/// An object of a JSON file, for errors that name it.
struct Object {
    /// Where it is.
    place: String,
    fields: Map<String, Value>,
}

impl Object {
    fn parse(file: &str, text: &[u8]) -> Result<Object> {
        let value =
            serde_json::from_slice(text).map_err(|error| Error::config(format!("{file}: {error}")))?;
        Object::of(file.to_owned(), value)
    }

    fn of(place: String, value: Value) -> Result<Object> {
        match value {
            Value::Object(fields) => Ok(Object { place, fields }),
            _ => Err(Error::config(format!("{place} is no JSON object"))),
        }
    }

    /// A file of the folder, `None` where there is none.
    fn read(folder: &Path, file: &str) -> Result<Option<Object>> {
        read(folder, file)?
            .map(|text| Object::parse(file, text.as_bytes()))
            .transpose()
    }

    /// A field that is there and not null.
    fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    fn object(&self, field: &str) -> Result<Option<Object>> {
        self.get(field)
            .map(|value| Object::of(format!("{}: {field:?}", self.place), value.clone()))
            .transpose()
    }

    fn typed<'a, T>(
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

    fn text(&self, field: &str) -> Result<Option<&str>> {
        self.typed(field, "a text", Value::as_str)
    }

    fn flag(&self, field: &str) -> Result<Option<bool>> {
        self.typed(field, "true or false", Value::as_bool)
    }

    fn float(&self, field: &str) -> Result<Option<f32>> {
        self.typed(field, "a number", |value| {
            value.as_f64().map(|value| value as f32)
        })
    }

    fn size(&self, field: &str) -> Result<Option<u32>> {
        self.typed(field, "a whole number of 32 bits", |value| {
            value.as_u64().and_then(|value| u32::try_from(value).ok())
        })
    }

    fn needed<T>(&self, field: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| Error::config(format!("{}: {field:?} is missing", self.place)))
    }

    /// A field that changes answers in ways that are not known must be off, or have the one value that is.
    fn refuse_unless(&self, field: &str, known: impl Fn(&Value) -> bool) -> Result<()> {
        match self.get(field) {
            Some(value) if !known(value) => Err(Error::unsupported(format!(
                "{}: {field:?} is {value}, which is not supported",
                self.place
            ))),
            _ => Ok(()),
        }
    }
}

/// The text of a file of the folder, `None` where there is none.
fn read(folder: &Path, file: &str) -> Result<Option<String>> {
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(&path, error)),
    }
}
