//! Safetensors folders, as models are published: `config.json`, `tokenizer.json`, and tensors in
//! one file or several. A folder is read as the GGUF file that a converter would make: the same
//! keys, the same tensor names. Weights stay in place.
//!
//! Invariants:
//! 1. Nothing is guessed: an unknown setting, pre-tokenizer or tensor is refused by name.
//! 2. Rows of queries and keys keep their order, so values are rotated in halves
//!    (`Gguf::is_checkpoint`).
//!
//! Not here: the meaning of keys (`config`, `tokenizer`).

pub(crate) mod object;
mod settings;
mod tensors;
pub(crate) mod texts;

use std::path::Path;

use bytes::Bytes;
use polychip_host::ModelFolder;

use crate::gguf::{Gguf, GgufWriter};
use crate::{Error, Result};
use object::Object;

const CONFIG: &str = "config.json";

/// The folder of a path that names a checkpoint: the folder itself, or a file of it.
pub(crate) fn folder(path: &Path) -> Option<&Path> {
    if path.is_dir() {
        return Some(path);
    }
    let is_safetensors = path.extension().is_some_and(|end| end == "safetensors");
    let is_of_checkpoint = is_safetensors || path.file_name().is_some_and(|name| name == CONFIG);
    let parent = path.parent().filter(|_| is_of_checkpoint)?;
    Some(if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    })
}

/// Reads a folder.
pub(crate) fn open(folder: &Path) -> Result<Gguf> {
    let config_path = folder.join(CONFIG);
    let files = ModelFolder::open(&config_path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::config(format!(
            "{} is neither a GGUF file nor a model folder: it contains no {CONFIG}",
            folder.display()
        )),
        _ => Error::file(&config_path, source),
    })?;
    let config = Object::parse(CONFIG, &files.bytes())?;
    let mut header = GgufWriter::new();
    let settings = settings::write(&config, &mut header)?;
    let ends = texts::stated_ends(folder, &config)?;
    // the embedding table bounds the vocabulary, before anything is made for each of its tokens
    let (names, tensors) = tensors::read(folder, &files, settings.tied)?;
    tensors::check_rows(&tensors, settings.vocabulary)?;
    texts::write(folder, &config, settings.vocabulary, ends, &mut header)?;
    Gguf::of_checkpoint(files, Bytes::from(header.finish()), names, tensors)
}
