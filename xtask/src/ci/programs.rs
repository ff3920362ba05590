//! The workspace, built once as a whole, and its tests: those of the default harness, and custom suites.
//!
//! Invariants:
//! 1. After [`Programs::build`] no check builds this profile again: dependency features follow from the packages
//!    built together, which are all packages.
//! 2. A suite (`harness = false` in its manifest) runs as one process, and opens drivers and models once.
//!
//! Not here: which suites are quick (`checks`).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::checks::{self, cargo, cargo_has};
use super::log::Log;
use crate::root::{files, root};

/// Said to tests that load libraries of this repository: they are built (`device-tests/test-requirements`).
const BUILT: &str = "POLYCHIP_BUILT";

/// All that is built, named as cargo does.
const BUILD: [&str; 7] = [
    "build",
    "--workspace",
    "--lib",
    "--bins",
    "--tests",
    "--examples",
    "--message-format=json-render-diagnostics",
];

/// A suite that brings its own harness.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Suite {
    pub(super) package: String,
    pub(super) test: String,
}

/// Programs of suites, by package and name.
#[derive(Default)]
pub(super) struct Programs {
    found: BTreeMap<(String, String), Program>,
    built: Option<bool>,
}

struct Program {
    file: PathBuf,
    /// Where cargo would start it.
    folder: PathBuf,
}

impl Programs {
    /// Builds the workspace, where that was not done; false where it fails.
    pub(super) fn build(&mut self, log: &mut Log) -> Result<bool> {
        if let Some(passed) = self.built {
            return Ok(passed);
        }
        let messages = root().join("target/ci/programs.json");
        let file = File::create(&messages).with_context(|| messages.display().to_string())?;
        let mut command = cargo(&BUILD);
        command.current_dir(root());
        let passed = log.run_into(command, file)?.success();
        self.built = Some(passed);
        if passed {
            self.found = read(&std::fs::read_to_string(&messages)?)?;
        }
        Ok(passed)
    }

    /// The command that runs a suite as cargo would; none, with words in the log, where the build made none.
    pub(super) fn command(&self, package: &str, test: &str, log: &mut Log) -> Result<Option<Command>> {
        let Some(program) = self.found.get(&(package.to_owned(), test.to_owned())) else {
            log.write(format!("error: the build produced no test {test} of {package}\n").as_bytes())?;
            return Ok(None);
        };
        log.write(format!("\n     Running {package}::{test}\n").as_bytes())?;
        let mut command = Command::new(&program.file);
        command.current_dir(&program.folder).env(BUILT, "1");
        Ok(Some(command))
    }
}

/// The programs of tests that cargo's messages name.
fn read(messages: &str) -> Result<BTreeMap<(String, String), Program>> {
    let mut found = BTreeMap::new();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("a message of cargo's")?;
        let target = &message["target"];
        let (Some(file), Some(name), Some(manifest)) = (
            message["executable"].as_str(),
            target["name"].as_str(),
            message["manifest_path"].as_str(),
        ) else {
            continue;
        };
        if target["kind"] != serde_json::json!(["test"]) {
            continue;
        }
        let folder = Path::new(manifest)
            .parent()
            .context("a manifest lies in a folder")?;
        let table: Table = std::fs::read_to_string(manifest)?.parse()?;
        let program = Program {
            file: file.into(),
            folder: folder.to_owned(),
        };
        found.insert((package(&table), name.to_owned()), program);
    }
    Ok(found)
}

/// The name of a manifest's package.
fn package(manifest: &Table) -> String {
    let name = manifest.get("package").and_then(|package| package.get("name"));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Tests of integration that bring their own harness, and those that do not, of the whole workspace.
fn suites() -> Result<(Vec<Suite>, Vec<Suite>)> {
    let (mut own, mut plain) = (Vec::new(), Vec::new());
    for file in files("toml")? {
        if file.file_name().is_none_or(|name| name != "Cargo.toml") || file.parent() == Some(Path::new("")) {
            continue;
        }
        let manifest: Table = std::fs::read_to_string(root().join(&file))?
            .parse()
            .with_context(|| file.display().to_string())?;
        let folder = root().join(file.parent().unwrap_or(Path::new("")));
        for (test, is_own) in tests(&folder, &manifest)? {
            let suite = Suite {
                package: package(&manifest),
                test,
            };
            (if is_own { &mut own } else { &mut plain }).push(suite);
        }
    }
    own.sort();
    plain.sort();
    Ok((own, plain))
}

/// The tests in a package's folder `tests`, and whether each brings its own harness.
fn tests(folder: &Path, manifest: &Table) -> Result<BTreeMap<String, bool>> {
    let mut found = BTreeMap::new();
    let entries = std::fs::read_dir(folder.join("tests"));
    for entry in entries.into_iter().flatten() {
        let path = entry?.path();
        let is_test =
            path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
        if let Some(stem) = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .filter(|_| is_test)
        {
            found.insert(stem.to_owned(), false);
        }
    }
    let stated = manifest.get("test").and_then(Value::as_array);
    for test in stated.into_iter().flatten() {
        if let Some(name) = test.get("name").and_then(Value::as_str) {
            let own = test.get("harness").and_then(Value::as_bool) == Some(false);
            found.insert(name.to_owned(), own);
        }
    }
    Ok(found)
}

/// The suites that no check of their own runs.
pub(super) fn quick_suites() -> Result<Vec<Suite>> {
    let (mut own, _) = suites()?;
    own.retain(|suite| !checks::is_whole(&suite.package, &suite.test));
    Ok(own)
}

/// The command that runs all tests of the compiler's harness: by nextest, where it is installed.
pub(super) fn plain_tests() -> Result<Command> {
    let (own, plain) = suites()?;
    let mut command = if cargo_has("nextest") {
        let own: Vec<String> = own
            .iter()
            .map(|suite| format!("binary_id(={}::{})", suite.package, suite.test))
            .collect();
        let mut command = cargo(&["nextest", "run", "--workspace", "--profile", "ci"]);
        command.args(["-E", &format!("not ({})", own.join(" | "))]);
        command
    } else {
        let mut command = cargo(&[
            "test",
            "--workspace",
            "--no-fail-fast",
            "--lib",
            "--bins",
            "--examples",
        ]);
        for suite in &plain {
            command.args(["--test", &suite.test]);
        }
        command
    };
    command.env(BUILT, "1");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_and_plain_tests_are_told_apart_by_their_manifests() {
        let (own, plain) = suites().unwrap();
        let has = |list: &[Suite], package: &str, test: &str| {
            list.iter()
                .any(|suite| suite.package == package && suite.test == test)
        };
        assert!(has(&own, "polychip-device-tests", "onnx_backend"));
        assert!(has(&plain, "polychip-abi", "layout") && !has(&own, "polychip-abi", "layout"));
        // a folder with a main.rs is one test
        assert!(has(&plain, "polychip-cli", "command"));
        assert!(own.iter().all(|suite| !plain.contains(suite)));
    }

    #[test]
    fn every_suite_that_checks_name_is_there() {
        let (own, _) = suites().unwrap();
        for (package, test) in checks::WHOLE {
            assert!(
                own.iter()
                    .any(|suite| suite.package == package && suite.test == test),
                "{package} has no suite {test}"
            );
        }
    }
}
