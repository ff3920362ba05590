//! What ARCHITECTURE.md states about the tree, held against the tree; links of all pages.
//!
//! Invariant: a fact is read from the page itself, so that the page cannot say one thing and the check another.
//! Not here: edges between crates (`edges`), words of the glossary (`words`), where unsafe code is (`unsafe_code`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::Metadata;

use crate::root::{files, root};

/// The page.
const PAGE: &str = "ARCHITECTURE.md";

/// Checks the page's facts; `chores` are the commands that `cargo xtask` has.
pub(super) fn check(metadata: &Metadata, chores: &[String], findings: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let sources = sources()?;
    findings.extend(folders(&page, &top_folders()?, &packages(metadata)));
    findings.extend(holders(&page, &sources));
    findings.extend(names(&page, &sources));
    for file in files("md")? {
        let text = fs::read_to_string(root().join(&file))?;
        findings.extend(links(&file, &text));
        findings.extend(commands(&file, &text, chores));
    }
    Ok(())
}

/// Every tracked Rust file with its text.
type Sources = Vec<(String, String)>;

fn sources() -> Result<Sources> {
    files("rs")?
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(root().join(&file))?;
            Ok((file.display().to_string(), text))
        })
        .collect()
}

/// A section of the page: from its heading to the next.
pub(super) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("## {heading}\n")).unwrap_or(page.len());
    let rest = &page[start..];
    let end = rest.get(3..).and_then(|rest| rest.find("\n## ")).map(|at| at + 3);
    &rest[..end.unwrap_or(rest.len())]
}

/// The cells of a section's table rows, heads left out.
pub(super) fn rows(section: &str) -> Vec<Vec<&str>> {
    section
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// What stands between backticks.
pub(super) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Folders of the repository's root that hold tracked files.
fn top_folders() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for extension in ["rs", "toml", "md", "py", "onnx"] {
        for file in files(extension)? {
            let mut parts = file.components();
            if let (Some(first), Some(_)) = (parts.next(), parts.next()) {
                found.insert(first.as_os_str().to_string_lossy().into_owned());
            }
        }
    }
    found.retain(|folder| !folder.starts_with('.'));
    Ok(found)
}

/// Folders of the workspace's packages.
fn packages(metadata: &Metadata) -> BTreeSet<String> {
    let of = |manifest: &Path| {
        let folder = manifest.strip_prefix(root()).ok()?.parent()?;
        Some(folder.display().to_string())
    };
    metadata
        .packages
        .iter()
        .filter_map(|package| of(package.manifest_path.as_std_path()))
        .collect()
}

/// The table of folders: each is there, and each folder of the root and of a package is in it, or named in the row of the
/// folder above.
fn folders(page: &str, top: &BTreeSet<String>, packages: &BTreeSet<String>) -> Vec<String> {
    let mut findings = Vec::new();
    let table = rows(section(page, "Folders"));
    let mut listed: Vec<(&str, String)> = Vec::new();
    for row in &table {
        let whole = row.join(" ");
        for folder in quoted(row.first().unwrap_or(&"")) {
            let folder = folder.trim_end_matches('/');
            if !root().join(folder).is_dir() {
                findings.push(format!("{PAGE}: there is no folder {folder}"));
            }
            listed.push((folder, whole.clone()));
        }
    }
    let is_told = |folder: &str| {
        if listed.iter().any(|(name, _)| *name == folder) {
            return true;
        }
        let Some((above, name)) = folder.rsplit_once('/') else {
            // a folder of folders needs no row where each of these has one
            return listed
                .iter()
                .any(|(name, _)| name.starts_with(&format!("{folder}/")));
        };
        // either the row describes what lies below, or the folder above only gathers what is alike
        listed.iter().any(|(listed, row)| {
            *listed == above && (!packages.contains(above) || row.contains(&format!("`{name}/`")))
        }) || name == "cdylib"
    };
    for folder in top.iter().chain(packages) {
        if !is_told(folder) {
            findings.push(format!("{PAGE}: the table of folders does not hold {folder}"));
        }
    }
    findings
}

/// The invariants: each names a test that holds it, or the check of edges.
fn holders(page: &str, sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let mut invariants: Vec<String> = Vec::new();
    for line in section(page, "Invariants").lines() {
        let numbered = line
            .split_once(". ")
            .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if numbered {
            invariants.push(line.to_owned());
        } else if let Some(last) = invariants.last_mut() {
            *last += line;
        }
    }
    if invariants.is_empty() {
        findings.push(format!("{PAGE}: no invariants are numbered"));
    }
    for invariant in invariants {
        let number = invariant.split('.').next().unwrap_or_default().to_owned();
        let Some((_, held)) = invariant.rsplit_once("(held by ") else {
            findings.push(format!(
                "{PAGE}: invariant {number} does not say by which test it is held: `(held by `NAME`)`"
            ));
            continue;
        };
        for name in quoted(held.split(')').next().unwrap_or_default()) {
            let function = format!("fn {name}(");
            let trial = format!("\"{name}\"");
            let there = sources
                .iter()
                .any(|(_, text)| text.contains(&function) || text.contains(&trial));
            if !there {
                findings.push(format!("{PAGE}: invariant {number}: there is no test {name}"));
            }
        }
    }
    findings
}

/// Names with `::` are those of the code.
fn names(page: &str, sources: &Sources) -> Vec<String> {
    let is_part = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':';
    let mut findings = Vec::new();
    let paths: BTreeSet<&str> = page
        .split(|sign| !is_part(sign))
        .map(|word| word.trim_matches(':'))
        .filter(|word| word.contains("::"))
        .collect();
    for path in paths {
        let (_, name) = path.rsplit_once("::").unwrap_or(("", path));
        let defined = ["fn ", "mod ", "struct ", "enum ", "trait ", "type ", "const "].iter();
        let there = defined.map(|word| format!("{word}{name}")).any(|text| {
            sources.iter().any(|(_, source)| {
                source.match_indices(&text).any(|(at, _)| {
                    let behind = source[at + text.len()..].chars().next();
                    !behind.is_some_and(|sign| sign.is_alphanumeric() || sign == '_')
                })
            })
        });
        if !there {
            findings.push(format!("{PAGE}: nothing is named {path}"));
        }
    }
    findings
}

/// Links of a page that lead nowhere in the repository.
fn links(file: &Path, text: &str) -> Vec<String> {
    let folder = root().join(file).parent().map(Path::to_owned).unwrap_or_default();
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"));
    targets
        .filter(|target| !target.contains(char::is_whitespace) && !folder.join(target).exists())
        .map(|target| format!("{}: the link to {target} leads nowhere", file.display()))
        .collect()
}

/// Commands of `cargo xtask` that a page names and the program does not have.
fn commands(file: &Path, text: &str, chores: &[String]) -> Vec<String> {
    let named = text.split("cargo xtask ").skip(1).filter_map(|rest| {
        let end = rest.find(|sign: char| !sign.is_ascii_lowercase() && sign != '-');
        rest.get(..end.unwrap_or(rest.len()))
            .filter(|name| !name.is_empty())
    });
    let unknown: BTreeSet<&str> = named
        .filter(|name| !chores.iter().any(|chore| chore == name))
        .collect();
    unknown
        .into_iter()
        .map(|name| format!("{}: there is no `cargo xtask {name}`", file.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_table_of_folders_is_that_of_the_tree() {
        let page = "## Folders\n\n| folder | holds |\n|---|---|\n| `docs/`, `sys/` | a |\n| `plugins/cpu` | \
            with `cdylib/` |\n| `nowhere` | |\n\n## Edges\n";
        let found = folders(
            page,
            &set(&["docs", "sys", "plugins", "apps"]),
            &set(&["sys", "plugins/cpu", "plugins/cpu/cdylib", "plugins/gpu"]),
        );
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md: there is no folder nowhere",
                "ARCHITECTURE.md: the table of folders does not hold apps",
                "ARCHITECTURE.md: the table of folders does not hold plugins/gpu",
            ]
        );
    }

    #[test]
    fn an_invariant_names_tests_that_are_there() {
        let sources = vec![("a.rs".to_owned(), "fn it_holds() {}".to_owned())];
        let page =
            |held: &str| format!("## Invariants\n\n1. So it is{held}.\n   Still the first.\n\n## Next\n");
        assert!(holders(&page(" (held by `it_holds`)"), &sources).is_empty());
        assert!(holders(&page(" (held by `it_was`)"), &sources)[0].contains("it_was"));
        assert!(holders(&page(""), &sources)[0].contains("invariant 1"));
    }

    #[test]
    fn names_links_and_commands_lead_somewhere() {
        let sources = vec![(
            "a.rs".to_owned(),
            "pub fn import() {} struct Sessions;".to_owned(),
        )];
        assert!(names("`graph::import` and text", &sources).is_empty());
        assert_eq!(names("`Session::Session`", &sources).len(), 1);
        let page = Path::new("docs/x.md");
        assert!(links(page, "[a](../README.md#try-it) [b](https://x.org)").is_empty());
        assert_eq!(links(page, "[a](nowhere.md)").len(), 1);
        assert_eq!(
            commands(page, "`cargo xtask ci` cargo xtask cii", &["ci".into()]).len(),
            1
        );
    }
}
