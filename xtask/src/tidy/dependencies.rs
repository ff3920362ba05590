//! Dependencies that nothing uses: of the workspace's table, and of each package.
//!
//! Invariant: what is used in tests only is a development dependency.
//! Not here: features (what a feature needs the compiler says). The words are looked for in the text, comments left
//! out: a name that only a macro makes would be missed, and stands in [`UNSEEN`] with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata};
use toml::{Table, Value};

use crate::root::{files, root};

/// Dependencies whose names do not stand in the sources: the package, the dependency, and why it is needed.
const UNSEEN: [(&str, &str, &str); 0] = [];

/// Checks the workspace's table and every package.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    let manifest: Table = fs::read_to_string(root().join("Cargo.toml"))?
        .parse()
        .context("Cargo.toml")?;
    let table = manifest.get("workspace").and_then(|w| w.get("dependencies"));
    let used: BTreeSet<&str> = metadata
        .packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .collect();
    for name in table.and_then(Value::as_table).into_iter().flat_map(Table::keys) {
        if !used.contains(name.as_str()) {
            findings.push(format!(
                "Cargo.toml: no package uses the workspace's dependency {name}: remove it"
            ));
        }
    }
    let sources = sources()?;
    for package in &metadata.packages {
        let folder = package.manifest_path.strip_prefix(root())?.parent();
        let folder = folder.map(|folder| folder.as_std_path()).unwrap_or(Path::new(""));
        let own = |in_product: bool| {
            sources.iter().filter(move |(file, _)| {
                let Ok(inner) = file.strip_prefix(folder) else {
                    return false;
                };
                let first = inner.components().next().map(|part| part.as_os_str());
                let is_product = first.is_some_and(|part| part == "src" || part == "build.rs");
                let is_test =
                    first.is_some_and(|part| part == "tests" || part == "benches" || part == "examples");
                is_product || is_test && !in_product
            })
        };
        for dependency in &package.dependencies {
            let of_tests = dependency.kind == DependencyKind::Development;
            let name = dependency.rename.as_ref().unwrap_or(&dependency.name);
            let word = library(metadata, &dependency.name).unwrap_or_else(|| name.replace('-', "_"));
            let unseen = UNSEEN
                .iter()
                .any(|(of, name, _)| *of == package.name.as_str() && *name == dependency.name);
            let seen = own(!of_tests).any(|(_, text)| names(text, &word));
            if seen == unseen {
                let what = if seen {
                    "it is named now: take it off the list in xtask/src/tidy/dependencies.rs"
                } else {
                    "nothing names it: remove the dependency"
                };
                findings.push(format!("{}: {}: {what}", package.name, dependency.name));
            }
        }
    }
    Ok(())
}

/// The name of the library of a package of ours.
fn library(metadata: &Metadata, package: &str) -> Option<String> {
    let package = metadata
        .packages
        .iter()
        .find(|ours| ours.name.as_str() == package)?;
    let mut libraries = package
        .targets
        .iter()
        .filter(|target| !target.is_bin() && !target.is_test());
    libraries
        .find(|target| target.src_path.ends_with("src/lib.rs"))
        .map(|target| target.name.replace('-', "_"))
}

/// Every Rust file, comments left out.
fn sources() -> Result<BTreeMap<std::path::PathBuf, String>> {
    files("rs")?
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(root().join(&file))?;
            let code: Vec<&str> = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect();
            Ok((file, code.join("\n")))
        })
        .collect()
}

/// Whether a text holds a word, not as a piece of another.
fn names(text: &str, word: &str) -> bool {
    let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_only_as_whole_parts() {
        assert!(names("use half::f16;", "half"));
        assert!(!names("let half_way = 1;", "half"));
        assert!(!names("behalf", "half"));
    }
}
