//! Known failures of a plugin: each case by name, each group with a reason.
//!
//! Invariant: a case is listed once, and every reason is stated.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    known: Vec<Known>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    reason: String,
    cases: Vec<String>,
}

/// Known failures by case, with their reasons.
#[derive(Debug, Default)]
pub struct Expectations(BTreeMap<String, String>);

impl Expectations {
    /// Reads `expectations/PLUGIN.toml`; a plugin without a file has no known failures.
    ///
    /// # Errors
    /// The file is malformed, a case is listed twice, or a reason is empty.
    pub fn load(plugin: &str) -> Result<Expectations> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("expectations/{plugin}.toml"));
        if !path.exists() {
            return Ok(Expectations::default());
        }
        Expectations::read(&path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is malformed, lists a case twice, or a reason is empty.
    pub fn read(path: &Path) -> Result<Expectations> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Expectations::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Expectations> {
        let file: File = toml::from_str(text)?;
        let mut cases = BTreeMap::new();
        for known in file.known {
            ensure!(
                !known.reason.trim().is_empty(),
                "a group of {} cases has no reason",
                known.cases.len()
            );
            for case in known.cases {
                let before = cases.insert(case.clone(), known.reason.clone());
                ensure!(before.is_none(), "case {case} is listed twice");
            }
        }
        Ok(Expectations(cases))
    }

    /// Why a case is known to fail.
    #[must_use]
    pub fn reason(&self, case: &str) -> Option<&str> {
        self.0.get(case).map(String::as_str)
    }

    /// Every case that is listed.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_listed_once_with_a_reason() {
        let group =
            |reason: &str, cases: &str| format!("[[known]]\nreason = \"{reason}\"\ncases = [{cases}]\n");
        let good = Expectations::parse(&group("no strings", "\"a\", \"b\"")).unwrap();
        assert_eq!((good.reason("a"), good.reason("c")), (Some("no strings"), None));
        assert_eq!(good.cases().count(), 2);
        assert!(Expectations::parse(&group(" ", "\"a\"")).is_err());
        assert!(Expectations::parse(&(group("x", "\"a\"") + &group("y", "\"a\""))).is_err());
    }
}
