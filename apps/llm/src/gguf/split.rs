//! Models that are split into several files, as `llama-gguf-split` writes them.
//!
//! The first file has the model's keys. Each file has its own tensors, and `split.no` (from 0), `split.count` and
//! `split.tensors.count`, which state its place. Names end in `-00001-of-00003.gguf`.
//!
//! Invariant: a file is opened only by the name that the first file's name gives it, beside it.

use std::collections::btree_map::Entry as Slot;
use std::path::Path;

use polychip_host::ModelFolder;

use super::read::{self, Contents};
use super::tensor::Piece;
use crate::{Error, ErrorKind, Result};

/// Names of missing files that a message lists.
const LISTED: usize = 4;

/// Place of a file in its model, by its own keys.
struct Place {
    /// Index of the file, from 0.
    index: u64,
    /// Number of files.
    count: u64,
    /// Number of tensors in all files.
    tensors: Option<u64>,
}

impl Place {
    fn of(contents: &Contents, bytes: &[u8]) -> Result<Place> {
        let integer = |key: &str| {
            let Some(value) = contents.metadata.get(key).map(|span| span.value(bytes)) else {
                return Ok(None);
            };
            let found = value.integer().and_then(|value| u64::try_from(value).ok());
            let words = || Error::malformed(format!("key {key:?} must be a count, and is {value}"));
            found.map(Some).ok_or_else(words)
        };
        Ok(Place {
            index: integer("split.no")?.unwrap_or(0),
            count: integer("split.count")?.unwrap_or(0),
            tensors: integer("split.tensors.count")?,
        })
    }
}

/// Adds the other files of a split model; nothing if it is whole.
pub(super) fn add(
    folder: &ModelFolder,
    path: Option<&Path>,
    contents: &mut Contents,
    pieces: &mut Vec<Piece>,
) -> Result<()> {
    let place = Place::of(contents, &pieces[0].bytes)?;
    if place.count <= 1 {
        return Ok(());
    }
    let count = place.count;
    if count > u64::from(u16::MAX) {
        return Err(Error::malformed(format!(
            "split.count is {count}; a split model has at most {} files",
            u16::MAX
        )));
    }
    let Some(name) = path.and_then(Path::file_name) else {
        return Err(Error::unsupported(format!(
            "the bytes are one of {count} files of a split model: open its first file by its path"
        )));
    };
    let name = name.to_string_lossy();
    let Some((prefix, number)) = parts(&name, count) else {
        return Err(Error::config(format!(
            "{name} is one of {count} files of a split model, and must keep its name: NAME-00001-of-{count:05}.gguf"
        )));
    };
    let named = |index: u64| format!("{prefix}-{:05}-of-{count:05}.gguf", index + 1);
    if place.index != 0 {
        return Err(Error::config(format!(
            "{name} is file {} of {count} of a split model: open the first one, {}",
            place.index.saturating_add(1),
            named(0)
        )));
    }
    if number != 1 {
        return Err(Error::config(format!(
            "{name} is the first of {count} files of a split model, and must be named {}",
            named(0)
        )));
    }
    let beside = path.and_then(Path::parent).unwrap_or(Path::new(""));
    let missing: Vec<String> = (1..count)
        .map(named)
        .filter(|name| !beside.join(name).exists())
        .collect();
    if !missing.is_empty() {
        return Err(absent(&name, count, &missing));
    }
    for index in 1..count {
        let name = named(index);
        let wrong = |error: &Error| {
            let words = format!("{name}: {error}");
            match error.kind() {
                ErrorKind::Unsupported => Error::unsupported(words),
                _ => Error::malformed(words),
            }
        };
        let bytes = folder
            .open_beside(&name)
            .map_err(|source| Error::file(&beside.join(&name), source))?;
        let other = read::read(&bytes).map_err(|error| wrong(&error))?;
        let own = Place::of(&other, &bytes).map_err(|error| wrong(&error))?;
        if (own.index, own.count) != (index, count) {
            return Err(Error::malformed(format!(
                "{name} states that it is file {} of {} of a split model, and is file {} of {count} by its name: the files are \
                 of different models, or were renamed",
                own.index.saturating_add(1),
                own.count,
                index + 1
            )));
        }
        for (tensor, mut entry) in other.tensors {
            entry.piece = pieces.len();
            match contents.tensors.entry(tensor) {
                Slot::Vacant(slot) => slot.insert(entry),
                Slot::Occupied(slot) => {
                    return Err(Error::malformed(format!(
                        "tensor {:?} appears twice, the second time in {name}",
                        slot.key()
                    )));
                }
            };
        }
        pieces.push(Piece {
            name: Some(name),
            bytes,
        });
    }
    let found = contents.tensors.len() as u64;
    match place.tensors {
        Some(stated) if stated != found => Err(Error::malformed(format!(
            "the model is split into {count} files with {stated} tensors, but they hold {found}"
        ))),
        _ => Ok(()),
    }
}

/// What is before `-00002-of-00003.gguf` in the name of one of `count` files, and the number.
fn parts(name: &str, count: u64) -> Option<(&str, u64)> {
    let rest = name.strip_suffix(&format!("-of-{count:05}.gguf"))?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let is_number = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((prefix, number.parse().ok().filter(|_| is_number)?))
}

fn absent(name: &str, count: u64, missing: &[String]) -> Error {
    let mut list = missing[..missing.len().min(LISTED)].join(", ");
    if missing.len() > LISTED {
        list += &format!(" and {} more", missing.len() - LISTED);
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Error::config(format!(
        "the model is split into {count} files, of which {list} {verb} missing beside {name}: download all {count} into one \
         folder"
    ))
}
