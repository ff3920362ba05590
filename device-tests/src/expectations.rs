//! Known failures of a plugin: each case by name, each group with a reason.
//!
//! Of a plugin that is made to refuse what it does not do, what no device can run is no failure; then the file says how
//! many cases pass at least.
//!
//! Invariant: a case is listed once, and every reason is stated.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Why what is refused is not listed; all failures are where it is missing.
    refusals: Option<String>,
    /// By kind of case: how many pass at least.
    #[serde(default)]
    least: BTreeMap<String, usize>,
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
pub struct Expectations {
    known: BTreeMap<String, String>,
    refusals: Option<String>,
    least: BTreeMap<String, usize>,
}

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
        ensure!(
            file.refusals.is_none() || !file.least.is_empty(),
            "refusals are no failures, so the file must say how many cases pass at least"
        );
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
        Ok(Expectations {
            known: cases,
            refusals: file.refusals,
            least: file.least,
        })
    }

    /// Why a case is known to fail.
    #[must_use]
    pub fn reason(&self, case: &str) -> Option<&str> {
        self.known.get(case).map(String::as_str)
    }

    /// Why a case that no device can run is no failure, where that is so.
    #[must_use]
    pub fn refusals(&self) -> Option<&str> {
        self.refusals.as_deref()
    }

    /// How many cases of a kind pass at least.
    #[must_use]
    pub fn least(&self, kind: &str) -> usize {
        self.least.get(kind).copied().unwrap_or(0)
    }

    /// Every case that is listed.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
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
        assert!(Expectations::parse("refusals = \"they have reasons\"").is_err());
        let refusing = Expectations::parse("refusals = \"they have reasons\"\n[least]\nnode = 3").unwrap();
        assert!(
            refusing.refusals().is_some() && refusing.least("node") == 3 && refusing.least("simple") == 0
        );
        assert!(Expectations::parse(&group(" ", "\"a\"")).is_err());
        assert!(Expectations::parse(&(group("x", "\"a\"") + &group("y", "\"a\""))).is_err());
    }
}
