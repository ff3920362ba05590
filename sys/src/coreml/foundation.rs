//! Foundation: strings, numbers, arrays, dictionaries, file URLs and errors.
//!
//! Invariant: the caller has a pool open, and every returned [`Id`] lives as long as that pool.

#![allow(unsafe_code, reason = "messages are sent here")]

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};

use super::library::{Id, Library, send};
use super::object::Object;

/// Core ML's report on a call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Domain of the code, such as `com.apple.CoreML`.
    pub domain: String,
    /// Code in its domain; 0 if the system reported none.
    pub code: i64,
    /// The system's message.
    pub words: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} {})", self.words, self.domain, self.code)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Makes a failure without a report of the system, or for invalid arguments of ours.
    pub(super) fn unexplained(words: impl Into<String>) -> Failure {
        Failure {
            domain: "polychip".to_owned(),
            code: 0,
            words: words.into(),
        }
    }

    /// Reads an `NSError`.
    pub(super) fn of(library: &'static Library, error: Id, what: &str) -> Failure {
        if error.is_null() {
            return Failure::unexplained(format!("{what} failed, and the system reports no reason"));
        }
        let domain = send!(library, error, domain() -> Id);
        let words = send!(library, error, description() -> Id);
        Failure {
            domain: read(library, domain).unwrap_or_default(),
            code: send!(library, error, code() -> isize) as i64,
            words: read(library, words).unwrap_or_else(|| what.to_owned()),
        }
    }
}

/// A text.
pub(super) fn text(library: &'static Library, value: &str) -> Result<Id, Failure> {
    let value = CString::new(value).map_err(|_| Failure::unexplained("a text holds a zero byte"))?;
    let class = library.classes.string.0;
    Ok(send!(library, class, string(value.as_ptr() => *const c_char) -> Id))
}

/// The value of a text; `None` for null.
pub(super) fn read(library: &'static Library, text: Id) -> Option<String> {
    if text.is_null() {
        return None;
    }
    let bytes = send!(library, text, utf8() -> *const c_char);
    if bytes.is_null() {
        return None;
    }
    // SAFETY: a C string that lives as long as the text, which the caller's pool keeps.
    Some(unsafe { CStr::from_ptr(bytes) }.to_string_lossy().into_owned())
}

/// A list of integers.
pub(super) fn numbers(library: &'static Library, values: &[usize]) -> Id {
    let class = library.classes.number.0;
    let ids: Vec<Id> = values
        .iter()
        .map(|&value| send!(library, class, number(value as i64 => i64) -> Id))
        .collect();
    let class = library.classes.array.0;
    send!(library, class, array(ids.as_ptr() => *const Id, ids.len() => usize) -> Id)
}

/// The objects of a list; empty for null.
pub(super) fn items(library: &'static Library, list: Id) -> Vec<Id> {
    if list.is_null() {
        return Vec::new();
    }
    let count = send!(library, list, count() -> usize);
    let item = |index| send!(library, list, at(index => usize) -> Id);
    (0..count).map(item).collect()
}

/// A dictionary from texts to objects.
pub(super) fn dictionary(library: &'static Library, pairs: &[(&str, Id)]) -> Result<Id, Failure> {
    let keys = pairs.iter().map(|(key, _)| text(library, key));
    let keys: Vec<Id> = keys.collect::<Result<_, _>>()?;
    let values: Vec<Id> = pairs.iter().map(|&(_, value)| value).collect();
    let class = library.classes.dictionary.0;
    Ok(send!(
        library,
        class,
        dictionary(values.as_ptr() => *const Id, keys.as_ptr() => *const Id, keys.len() => usize) -> Id
    ))
}

/// Makes the file URL of a path.
pub(super) fn address(library: &'static Library, path: &Path) -> Result<Id, Failure> {
    let words = || Failure::unexplained(format!("{} is no path in UTF-8", path.display()));
    let path = text(library, path.to_str().ok_or_else(words)?)?;
    let class = library.classes.url.0;
    Ok(send!(library, class, file_url(path => Id) -> Id))
}

/// The path of a file URL.
pub(super) fn path(library: &'static Library, address: Id) -> Option<PathBuf> {
    if address.is_null() {
        return None;
    }
    let path = send!(library, address, path() -> Id);
    read(library, path).map(PathBuf::from)
}

/// A new object of a class that takes no arguments.
pub(super) fn new(library: &'static Library, class: Id) -> Result<Object, Failure> {
    let made = send!(library, class, new() -> Id);
    Object::owned(library, made).ok_or_else(|| Failure::unexplained("an object could not be made"))
}

impl Library {
    /// Version of the system, in its own format.
    #[must_use]
    pub fn system(&'static self) -> String {
        self.pool(|| {
            let class = self.classes.process_info.0;
            let process = send!(self, class, process_info() -> Id);
            let version = send!(self, process, os_version() -> Id);
            read(self, version).unwrap_or_else(|| "of unknown version".to_owned())
        })
    }
}
