//! Known failures of a plugin: each case by name, each group with a reason and the expected outcome.
//!
//! A device that reports missing support ([`Outcome::Refused`]) is honest; one whose answer differs ([`Outcome::Wrong`]) is
//! not. They are listed apart, and a case that moves from one to the other fails. A case that passes on some machines only
//! is listed as one that varies: it may pass or be wrong, and does not count as passing.
//!
//! Of a plugin that is made to refuse what it does not do, refusals need no list; then what passes is counted
//! (`passes`).
//!
//! Invariant: a case is listed once, and every reason is stated.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is right.
    Passed,
    /// No device takes it, which was said before anything was compiled.
    Refused(String),
    /// It ends with another error.
    Failed(String),
    /// The answer differs.
    Wrong(String),
}

impl Outcome {
    /// What a result is: an error is a wrong answer where it is [`Differs`], and a refusal where `is_refusal` holds.
    pub fn of(result: Result<()>, is_refusal: impl Fn(&anyhow::Error) -> bool) -> Outcome {
        let Err(error) = result else {
            return Outcome::Passed;
        };
        let words = format!("{error:#}").replace('\n', " ");
        if error.is::<Differs>() {
            Outcome::Wrong(words)
        } else if is_refusal(&error) {
            Outcome::Refused(words)
        } else {
            Outcome::Failed(words)
        }
    }

    /// Its name among the groups of a file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Refused(_) => "refused",
            Outcome::Failed(_) => "failed",
            Outcome::Wrong(_) => "wrong",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("passed"),
            Outcome::Refused(words) | Outcome::Failed(words) | Outcome::Wrong(words) => {
                write!(f, "{}: {words}", self.name())
            }
        }
    }
}

/// An answer that differs from the right one, and how.
#[derive(Debug)]
pub struct Differs(pub String);

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Differs {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Why what is refused is not listed; it is where this is missing.
    refusals: Option<String>,
    #[serde(default)]
    refused: Vec<Group>,
    #[serde(default)]
    failed: Vec<Group>,
    #[serde(default)]
    wrong: Vec<Group>,
    #[serde(default)]
    varies: Vec<Group>,
}

/// Listed so: right or wrong, by the machine.
const VARIES: &str = "varies";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    cases: Vec<String>,
}

/// A case that is listed.
#[derive(Debug)]
struct Known {
    outcome: &'static str,
    reason: String,
}

/// Cases that are known not to pass.
#[derive(Debug, Default)]
pub struct Expectations {
    /// The file's name, for messages.
    file: String,
    known: BTreeMap<String, Known>,
    refusals: Option<String>,
}

impl Expectations {
    /// Reads `expectations/PLUGIN.toml`; of a plugin without a file every case passes.
    ///
    /// # Errors
    /// The file is malformed, a case is listed twice, or a reason is empty.
    pub fn load(plugin: &str) -> Result<Expectations> {
        let file = format!("expectations/{plugin}.toml");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        // without the folder, every list would count as empty
        ensure!(
            folder.join("expectations").is_dir(),
            "there is no folder {}",
            folder.join("expectations").display()
        );
        let path = folder.join(&file);
        let read = if path.exists() {
            Expectations::read(&path)?
        } else {
            Expectations::default()
        };
        Ok(Expectations { file, ..read })
    }

    /// These, and those of another file, which lists other cases.
    ///
    /// # Errors
    /// The other file is malformed, or a case is in both.
    pub fn and(mut self, other: &str) -> Result<Expectations> {
        for (case, known) in Expectations::load(other)?.known {
            ensure!(
                self.known.insert(case.clone(), known).is_none(),
                "case {case} is listed in {} and in expectations/{other}.toml",
                self.file
            );
        }
        Ok(self)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is malformed, lists a case twice, or a reason is empty.
    pub fn read(path: &Path) -> Result<Expectations> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| file.clone())?;
        let read = Expectations::parse(&text).with_context(|| file.clone())?;
        Ok(Expectations { file, ..read })
    }

    fn parse(text: &str) -> Result<Expectations> {
        let file: File = toml::from_str(text)?;
        let mut cases = BTreeMap::new();
        let groups = [
            ("refused", file.refused),
            ("failed", file.failed),
            ("wrong", file.wrong),
            (VARIES, file.varies),
        ];
        for (outcome, group) in groups
            .into_iter()
            .flat_map(|(outcome, groups)| groups.into_iter().map(move |group| (outcome, group)))
        {
            ensure!(
                !group.reason.trim().is_empty(),
                "a group of {} cases has no reason",
                group.cases.len()
            );
            for case in group.cases {
                let reason = group.reason.clone();
                let before = cases.insert(case.clone(), Known { outcome, reason });
                ensure!(before.is_none(), "case {case} is listed twice");
            }
        }
        Ok(Expectations {
            file: String::new(),
            known: cases,
            refusals: file.refusals,
        })
    }

    /// Holds what came of a case against the list.
    ///
    /// # Errors
    /// It is another thing; the words say what to do.
    pub fn judge(&self, case: &str, outcome: &Outcome) -> Result<(), String> {
        let file = &self.file;
        match (self.known.get(case), outcome) {
            (None, Outcome::Passed) => Ok(()),
            (Some(_), Outcome::Passed | Outcome::Wrong(_)) if self.varies(case) => Ok(()),
            (None, Outcome::Refused(_)) if self.refusals.is_some() => Ok(()),
            (None, outcome) => Err(outcome.to_string()),
            (Some(known), found) if known.outcome == found.name() => Ok(()),
            (Some(Known { outcome, reason }), Outcome::Passed) => Err(format!(
                "passes, but is listed as {outcome} because of: {reason}; take it off the list in {file}"
            )),
            (Some(Known { outcome, reason }), found) => Err(format!(
                "is listed as {outcome} in {file} because of: {reason}; but it is {found}"
            )),
        }
    }

    /// Whether it depends on the machine that a case passes.
    #[must_use]
    pub fn varies(&self, case: &str) -> bool {
        self.known.get(case).is_some_and(|known| known.outcome == VARIES)
    }

    /// Why a case is known not to pass.
    #[must_use]
    pub fn reason(&self, case: &str) -> Option<&str> {
        self.known.get(case).map(|known| known.reason.as_str())
    }

    /// Every case that is listed.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(outcome: &str, reason: &str, cases: &str) -> String {
        format!("[[{outcome}]]\nreason = \"{reason}\"\ncases = [{cases}]\n")
    }

    #[test]
    fn a_case_is_listed_once_with_a_reason() {
        let good = Expectations::parse(&group("refused", "no strings", "\"a\", \"b\"")).unwrap();
        assert_eq!((good.reason("a"), good.reason("c")), (Some("no strings"), None));
        assert_eq!(good.cases().count(), 2);
        assert!(Expectations::parse(&group("wrong", " ", "\"a\"")).is_err());
        let twice = group("refused", "x", "\"a\"") + &group("wrong", "y", "\"a\"");
        assert!(Expectations::parse(&twice).is_err());
    }

    #[test]
    fn refusal_is_not_a_wrong_answer() {
        let list = Expectations::parse(&group("refused", "no strings", "\"a\"")).unwrap();
        let (refused, wrong) = (Outcome::Refused("no".into()), Outcome::Wrong("1, not 2".into()));
        assert!(list.judge("a", &refused).is_ok() && list.judge("b", &Outcome::Passed).is_ok());
        assert!(list.judge("a", &wrong).unwrap_err().contains("wrong: 1, not 2"));
        assert!(
            list.judge("a", &Outcome::Passed)
                .unwrap_err()
                .contains("take it off")
        );
        assert!(list.judge("b", &refused).is_err() && list.judge("b", &wrong).is_err());
        let varying = Expectations::parse(&group("varies", "bf16 by the processor", "\"a\"")).unwrap();
        assert!(varying.judge("a", &wrong).is_ok() && varying.judge("a", &Outcome::Passed).is_ok());
        assert!(varying.judge("a", &refused).is_err());
        let refusing = Expectations::parse("refusals = \"they have reasons\"").unwrap();
        assert!(refusing.judge("b", &refused).is_ok() && refusing.judge("b", &wrong).is_err());
    }

    #[test]
    fn differing_result_is_wrong() {
        assert_eq!(Outcome::of(Ok(()), |_| false), Outcome::Passed);
        let differs = anyhow::Error::from(Differs("1, not 2".into())).context("output y");
        assert_eq!(Outcome::of(Err(differs), |_| false).name(), "wrong");
        assert_eq!(
            Outcome::of(Err(anyhow::anyhow!("torn")), |_| false).name(),
            "failed"
        );
        let refused = Outcome::of(Err(anyhow::anyhow!("none")), |_| true);
        assert_eq!(refused.name(), "refused");
    }
}
