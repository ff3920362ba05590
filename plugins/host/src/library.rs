//! Opening plugin libraries: which files are tried, and why one is refused.
//!
//! Invariants:
//! 1. Only files named as a plugin are opened, and only from the folders that the app gave.
//! 2. An opened library is never closed.

#![allow(unsafe_code)]

use std::path::{Path, PathBuf};

use libloading::Library;
use polychip_abi as abi;

use crate::table;

/// Files of `folder` that are named as a plugin, sorted by name.
pub(crate) fn candidates(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (prefix, suffix) = (
        format!("{}polychip_plugin_", std::env::consts::DLL_PREFIX),
        std::env::consts::DLL_SUFFIX,
    );
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_plugin = name.to_str().is_some_and(|name| {
            name.strip_prefix(&prefix)
                .and_then(|rest| rest.strip_suffix(suffix))
                .is_some_and(|middle| !middle.is_empty())
        });
        if is_plugin {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Opens a library and reads its table, or says why it is refused.
pub(crate) fn open(path: &Path) -> std::result::Result<abi::polychip_plugin_table, String> {
    // SAFETY: opening a library runs its initialisers. The app named the folder that it lies in and
    // thereby trusts it, as it would a library that it links.
    let library = unsafe { Library::new(path) }.map_err(|error| words(path, &error))?;
    // A library with threads or thread-local destructors must not be unloaded.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the symbol of this name has this type, by the contract.
    let query = unsafe { library.get::<abi::polychip_plugin_query_fn>(abi::QUERY_SYMBOL) }
        .map_err(|_| format!("it has no symbol {}: it is not a plugin", abi::QUERY_SYMBOL))?;
    // SAFETY: the export is pure and takes any two numbers.
    let found = unsafe { query(abi::POLYCHIP_ABI_MAJOR, abi::POLYCHIP_ABI_MINOR) };
    // SAFETY: the export returns null or a static table, by the contract.
    unsafe { table::read(found) }
}

fn words(path: &Path, error: &libloading::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = source.to_string();
    }
    // the loader repeats the path; the refusal names it already
    text.trim_start_matches(&*path.display().to_string())
        .trim_start_matches(": ")
        .to_owned()
}
