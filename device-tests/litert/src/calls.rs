//! Compares LiteRT's operations for one op with ours.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow, ensure};
use polychip_device_tests::expectations::{Expectations, Outcome};
use polychip_device_tests::paths;

use crate::client::Client;
use crate::{Vendor, ours};

/// Begins a case in the file.
const CASE: &str = "== ";
/// Begins our calls, where they differ.
const OURS: &str = "-- ours\n";

/// What a case came to: LiteRT's calls, and ours where they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Both {
    theirs: String,
    ours: Option<String>,
}

/// Our calls by case, or why a case has none.
type Traces = BTreeMap<String, Result<String, String>>;

/// What is committed, and what was found.
pub struct Calls {
    committed: BTreeMap<String, Both>,
    expectations: Expectations,
    ours: OnceLock<Result<Traces, String>>,
    found: Mutex<BTreeMap<String, Both>>,
    cases: usize,
}

fn file(vendor: &Vendor) -> PathBuf {
    let suite = vendor.suite;
    paths::root().join(format!("device-tests/litert/tests/{suite}/golden.txt"))
}

impl Calls {
    /// What is committed for these cases, and for these models.
    ///
    /// # Errors
    /// It names others, or cannot be read.
    pub fn new(vendor: &Vendor, cases: &[String], models: &[String]) -> Result<Calls> {
        let expectations = Expectations::load(&format!("litert-{}", vendor.suite))?;
        let strangers: Vec<&str> = expectations
            .cases()
            .filter(|known| !cases.iter().chain(models).any(|case| case == known))
            .collect();
        ensure!(
            strangers.is_empty(),
            "cases that do not exist are listed: {strangers:?}"
        );
        Ok(Calls {
            committed: parse(&std::fs::read_to_string(file(vendor)).unwrap_or_default()),
            expectations,
            ours: OnceLock::new(),
            found: Mutex::default(),
            cases: cases.len(),
        })
    }

    /// Compares the calls of one case.
    ///
    /// # Errors
    /// They are others than what is committed, or LiteRT fails.
    pub fn judge(&self, client: &Client, case: &str) -> Result<()> {
        let model = client.ops().join(format!("{case}.tflite"));
        // LiteRT fails where its plugin takes nothing of a model
        let compiled = match client.compile(case, &model, client.vendor.soc) {
            Ok(compiled) => compiled,
            Err(error) => {
                let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                found.insert(case.to_owned(), Both::default());
                drop(found);
                return self.expected(case, &Outcome::Failed(format!("{error:#}")));
            }
        };
        let trace =
            std::fs::read_to_string(&compiled.trace).with_context(|| compiled.trace.display().to_string())?;
        let theirs = (client.vendor.operations)(&trace)?;
        let all = self
            .ours
            .get_or_init(|| ours::calls(client).map_err(|error| format!("{error:#}")));
        let all = all.as_ref().map_err(|words| anyhow!(words.clone()))?;
        let ours = all.get(case).context("our plugin was not asked")?;
        let outcome = match ours {
            Err(words) => Outcome::Failed(words.clone()),
            Ok(ours) if *ours == theirs => Outcome::Passed,
            Ok(ours) => Outcome::Wrong(format!("LiteRT\n{theirs}ours\n{ours}")),
        };
        let both = Both {
            ours: ours.as_ref().ok().filter(|ours| **ours != theirs).cloned(),
            theirs,
        };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(case.to_owned(), both.clone());
        drop(found);
        let judged = self.expected(case, &outcome);
        if std::env::var_os("POLYCHIP_BLESS").is_none() {
            let committed = self.committed.get(case).cloned().unwrap_or_default();
            ensure!(
                committed == both,
                "other calls than in {}; POLYCHIP_BLESS=1 writes them:\n{}instead of\n{}",
                file(client.vendor).display(),
                show(&both),
                show(&committed)
            );
        }
        judged
    }

    /// Whether a case or a model may come to this.
    ///
    /// # Errors
    /// It may not, with what to do about it.
    pub fn expected(&self, case: &str, outcome: &Outcome) -> Result<()> {
        let judged = self.expectations.judge(case, outcome);
        judged.map_err(|words| anyhow!(words))
    }

    /// Writes what was found, where that is asked for and all cases ran.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, vendor: &Vendor) -> Result<()> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if std::env::var_os("POLYCHIP_BLESS").is_none() || found.len() != self.cases {
            return Ok(());
        }
        write(&file(vendor), &found)
    }
}

fn show(both: &Both) -> String {
    match &both.ours {
        Some(ours) => format!("{}{OURS}{ours}", both.theirs),
        None => both.theirs.clone(),
    }
}

fn write(path: &Path, found: &BTreeMap<String, Both>) -> Result<()> {
    let mut text = String::new();
    for (case, both) in found {
        let _ = write!(text, "{CASE}{case}\n{}", show(both));
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> BTreeMap<String, Both> {
    let mut cases = BTreeMap::new();
    for case in text.split(CASE).skip(1) {
        let (name, calls) = case.split_once('\n').unwrap_or((case, ""));
        let both = match calls.split_once(OURS) {
            Some((theirs, ours)) => Both {
                theirs: theirs.to_owned(),
                ours: Some(ours.to_owned()),
            },
            None => Both {
                theirs: calls.to_owned(),
                ours: None,
            },
        };
        cases.insert(name.to_owned(), both);
    }
    cases
}
