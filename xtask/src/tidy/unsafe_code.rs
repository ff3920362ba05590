//! Where unsafe code may be: `xtask/unsafe.toml`, held against the tree.
//!
//! Invariant: the list is exact. A file that allows unsafe code and is not listed is a finding, and so is a listed file
//! that no longer does; likewise for crates that forbid it. Tests may hold unsafe code without being listed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, TargetKind};
use serde::Deserialize;

use super::sources::is_test;
use crate::root::{files, root};

/// Where the list stands.
const LIST: &str = "xtask/unsafe.toml";

/// The list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Folders of the crates that forbid unsafe code.
    forbidden: BTreeSet<String>,
    /// The files that allow it.
    allowed: Vec<Allowed>,
}

/// Files of some crates that allow unsafe code for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    /// Folders of the crates.
    crates: Vec<String>,
    why: String,
    files: Vec<String>,
}

/// Compares the list with the tree.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    let list: List = toml::from_str(&fs::read_to_string(root().join(LIST)).context(LIST)?).context(LIST)?;
    let mut open = BTreeSet::new();
    for file in files("rs")? {
        if !is_test(&file) && is_open(&fs::read_to_string(root().join(&file))?) {
            open.insert(file.display().to_string());
        }
    }
    findings.extend(list.files(&open));
    findings.extend(list.crates(&forbids(metadata)?));
    Ok(())
}

impl List {
    /// What the list states of files, held against those that allow unsafe code.
    fn files(&self, open: &BTreeSet<String>) -> Vec<String> {
        let mut findings = Vec::new();
        let mut listed = BTreeSet::new();
        for Allowed { crates, why, files } in &self.allowed {
            if why.is_empty() {
                findings.push(format!("{LIST}: {} has no reason", crates.join(", ")));
            }
            for file in files {
                if !crates.iter().any(|folder| Path::new(file).starts_with(folder)) {
                    findings.push(format!("{LIST}: {file} is not in {}", crates.join(", ")));
                }
                if !open.contains(file) {
                    findings.push(format!(
                        "{LIST}: {file} is missing, or allows no unsafe code: take it off the list"
                    ));
                }
                listed.insert(file.clone());
            }
        }
        for file in open.difference(&listed) {
            findings.push(format!(
                "{file}: unsafe code is allowed here, but {LIST} does not list the file"
            ));
        }
        findings
    }

    /// What the list states of crates, held against those that forbid unsafe code.
    fn crates(&self, forbids: &BTreeSet<String>) -> Vec<String> {
        let mut findings = Vec::new();
        for folder in self.forbidden.difference(forbids) {
            findings.push(format!(
                "{folder}: `#![forbid(unsafe_code)]` is missing, which {LIST} states"
            ));
        }
        for folder in forbids.difference(&self.forbidden) {
            findings.push(format!(
                "{LIST}: {folder} forbids unsafe code: add it to `forbidden`"
            ));
        }
        findings
    }
}

/// Whether a file allows unsafe code.
fn is_open(text: &str) -> bool {
    let dense: String = text.split_whitespace().collect();
    dense.contains(concat!("allow(unsafe", "_code"))
}

/// Packages whose libraries and programs all forbid unsafe code, by folder.
fn forbids(metadata: &Metadata) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for package in &metadata.packages {
        let folder = package.manifest_path.strip_prefix(root())?.parent();
        let mut roots = package.targets.iter().filter(|target| {
            let judged = |kind: &TargetKind| {
                !matches!(
                    kind,
                    TargetKind::Test | TargetKind::Example | TargetKind::Bench | TargetKind::CustomBuild
                )
            };
            target.kind.iter().all(judged)
        });
        let forbids =
            |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("#![forbid(unsafe_code)]"));
        if roots.all(|target| forbids(target.src_path.as_std_path())) {
            found.insert(folder.map_or_else(String::new, ToString::to_string));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn list() -> List {
        let text = "forbidden = [\"ops\", \"cli\"]\n\n[[allowed]]\ncrates = [\"a\"]\nwhy = \"raw calls\"\n\
            files = [\"a/src/b.rs\", \"a/src/c.rs\"]\n";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn listed_files_are_those_that_allow_unsafe_code() {
        assert!(list().files(&set(&["a/src/b.rs", "a/src/c.rs"])).is_empty());
        let found = list().files(&set(&["a/src/b.rs", "a/src/d.rs"]));
        assert!(
            found.len() == 2 && found[0].contains("a/src/c.rs") && found[1].starts_with("a/src/d.rs"),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_stands_below_its_crate_with_a_reason() {
        let mut list = list();
        list.allowed[0].crates = vec!["other".to_owned()];
        list.allowed[0].why.clear();
        assert_eq!(list.files(&set(&["a/src/b.rs", "a/src/c.rs"])).len(), 3);
    }

    #[test]
    fn listed_crates_are_those_that_forbid_unsafe_code() {
        let found = list().crates(&set(&["ops", "xtask"]));
        assert!(
            found.len() == 2 && found[0].contains("cli") && found[1].contains("xtask"),
            "{found:?}"
        );
    }

    #[test]
    fn an_attribute_over_several_lines_is_seen() {
        assert!(is_open(concat!("#![allow(\n    unsafe", "_code,\n)]\n")));
        assert!(!is_open("#![forbid(unsafe_code)]\n"));
    }
}
