//! Committed numbers of passing cases per suite and device, which reveal losses that no list names.
//!
//! `expectations/passes.toml` has a table per suite and device. `POLYCHIP_BLESS=1` writes what a run found.
//!
//! Invariant: a device that the file does not name is not judged: a person who runs a suite on a device of their own has
//! nothing to hold it against.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// Cases that pass, by kind.
type Counts = BTreeMap<String, usize>;
/// By suite, then device.
type File = BTreeMap<String, BTreeMap<String, Counts>>;

const HEADER: &str = "# How many cases pass, by suite and device. A run that finds other counts fails; \
                      POLYCHIP_BLESS=1 writes its own.\n\n";

/// What a device is called in the file: one that is emulated gives the same on every machine, a real one need not.
#[must_use]
pub fn counted(name: &str, emulated: bool) -> String {
    name.to_owned() + if emulated { " (emulated)" } else { "" }
}

/// Holds the counts of a whole run against those that are committed.
///
/// # Errors
/// They differ, with what to do about it; or the file cannot be read or written.
pub fn check(suite: &str, device: &str, found: &[(&str, usize)]) -> Result<(), String> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = read().map_err(|error| format!("{error:#}"))?;
    let found: Counts = found
        .iter()
        .map(|&(kind, count)| (kind.to_owned(), count))
        .collect();
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        file.entry(suite.to_owned())
            .or_default()
            .insert(device.to_owned(), found);
        return write(&file).map_err(|error| format!("{error:#}"));
    }
    match file.get(suite).and_then(|devices| devices.get(device)) {
        Some(committed) => compare(suite, device, committed, &found),
        None => Ok(()),
    }
}

fn compare(suite: &str, device: &str, committed: &Counts, found: &Counts) -> Result<(), String> {
    let mut words = Vec::new();
    for (kind, &before) in committed {
        let now = found.get(kind).copied().unwrap_or(0);
        if now < before {
            words.push(format!(
                "{} cases of {kind} passed before and no longer do",
                before - now
            ));
        } else if now > before {
            words.push(format!("{} more cases of {kind} pass", now - before));
        }
    }
    for kind in found.keys().filter(|kind| !committed.contains_key(*kind)) {
        words.push(format!("{kind} is new"));
    }
    if words.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{suite} through {device}: {}. What was lost, find: POLYCHIP_SUITE_LIST=FILE writes what comes of each case. What was \
         gained or is meant, commit: POLYCHIP_BLESS=1 writes device-tests/expectations/passes.toml",
        words.join(", ")
    ))
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("expectations/passes.toml")
}

fn read() -> Result<File> {
    let path = path();
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

fn write(file: &File) -> Result<()> {
    Ok(std::fs::write(
        path(),
        HEADER.to_owned() + &toml::to_string(file)?,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_and_gains_are_reported() {
        let counts = |node: usize| Counts::from([("node".to_owned(), node), ("simple".to_owned(), 3)]);
        assert_eq!(compare("suite", "cpu", &counts(7), &counts(7)), Ok(()));
        let lost = compare("suite", "cpu", &counts(7), &counts(5)).unwrap_err();
        assert!(lost.contains("2 cases of node passed before") && lost.contains("POLYCHIP_BLESS"));
        assert!(
            compare("suite", "cpu", &counts(5), &counts(7))
                .unwrap_err()
                .contains("2 more")
        );
    }

    #[test]
    fn committed_file_matches_the_generated_one() {
        let text = std::fs::read_to_string(path()).unwrap();
        assert_eq!(
            HEADER.to_owned() + &toml::to_string(&read().unwrap()).unwrap(),
            text
        );
    }
}
