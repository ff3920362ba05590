//! Words that names in code do not hold: ARCHITECTURE.md, "Ruled-out words", says which, and what to say instead.
//!
//! Invariant: `words.txt` beside this file holds every exception, a word and a folder each, and none that is no more: it
//! only shrinks.
//! Not here: prose, where the words mean what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

use super::architecture::{quoted, rows, section};
use crate::root::{files, root};

/// Words that still stand in code, one a line with the folder: `ending gpu-lowering`.
const KNOWN: &str = "xtask/src/tidy/words.txt";

/// A word and the folder in which names hold it, with one such name and its file.
type Found = BTreeMap<(String, String), (String, String)>;

/// Checks every name of the code.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let known = fs::read_to_string(root().join(KNOWN)).unwrap_or_default();
    compare(&found()?, &known, findings);
    Ok(())
}

/// Prints the exceptions that there are, as `words.txt` holds them.
pub(super) fn print() -> Result<()> {
    for ((word, folder), (name, file)) in found()? {
        eprintln!("{word} {folder} # {name} in {file}");
    }
    Ok(())
}

fn compare(found: &Found, known: &str, findings: &mut Vec<String>) {
    let lines = known
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut known: BTreeSet<&str> = lines.filter(|line| !line.is_empty()).collect();
    for ((word, folder), (name, file)) in found {
        if !known.remove(format!("{word} {folder}").as_str()) {
            findings.push(format!(
                "{file}: {name} holds the word {word:?}, for which ARCHITECTURE.md (\"Ruled-out words\") has another"
            ));
        }
    }
    for line in known {
        findings.push(format!("{KNOWN}: {line:?} is no more: remove the line"));
    }
}

/// Every ruled-out word in names of the code.
fn found() -> Result<Found> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let ruled_out = ruled_out(&page);
    let mut found = Found::new();
    for file in files("rs")? {
        // headers of others, and declarations made of them, have others' words
        if file.file_name().is_some_and(|name| name == "bindings.rs") {
            continue;
        }
        let text = fs::read_to_string(root().join(&file))?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow!("{}: {error}", file.display()))?;
        let mut names = BTreeSet::new();
        collect(tokens, &mut names);
        for name in names {
            for word in words(&name).into_iter().filter(|word| ruled_out.contains(word)) {
                let at = (name.clone(), file.display().to_string());
                found.entry((word, package(&file))).or_insert(at);
            }
        }
    }
    Ok(found)
}

/// The last column of the table.
fn ruled_out(page: &str) -> BTreeSet<String> {
    let table = rows(section(page, "Ruled-out words"));
    let cells = table.iter().filter_map(|row| row.get(2));
    cells.flat_map(|cell| quoted(cell)).map(str::to_owned).collect()
}

/// The folder of a file's package, as far as the path tells.
fn package(file: &Path) -> String {
    let mut parts: Vec<String> = file
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.pop();
    let end = parts
        .iter()
        .position(|part| ["src", "tests", "benches", "examples", "fuzz_targets"].contains(&part.as_str()));
    parts.truncate(end.unwrap_or(parts.len()));
    parts.join("/")
}

/// Names of types, functions, variables, fields and modules.
fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The words of a name: `GpuDevice` and `gpu_device` are two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last_is_lower = false;
    for sign in name.chars() {
        let starts = sign == '_' || sign.is_uppercase() && last_is_lower || words.is_empty();
        if starts {
            words.push(String::new());
        }
        if sign != '_' {
            words
                .last_mut()
                .expect("invariant: one was pushed")
                .extend(sign.to_lowercase());
        }
        last_is_lower = sign.is_lowercase() || sign.is_numeric();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_and_checked_against_the_glossary() {
        assert_eq!(words("takesEnding_NOW"), ["takes", "ending", "now"]);
        let page = "## Ruled-out words\n\n| word | means | not |\n|---|---|---|\n| epilogue | a | `ending`, `endings` |\n\n## Next\n";
        assert!(ruled_out(page).contains("endings") && ruled_out(page).len() == 2);
        assert_eq!(package(Path::new("plugins/cpu/src/a/b.rs")), "plugins/cpu");
    }

    #[test]
    fn the_list_of_exceptions_only_shrinks() {
        let at = ("Ending".to_owned(), "a/src/b.rs".to_owned());
        let found = Found::from([(("ending".to_owned(), "a".to_owned()), at)]);
        let findings = |known: &str| {
            let mut findings = Vec::new();
            compare(&found, known, &mut findings);
            findings
        };
        assert!(findings("ending a # Ending\n").is_empty());
        assert!(findings("")[0].contains("a/src/b.rs: Ending"));
        assert!(findings("ending a\nlaw a\n")[0].contains("law a"));
    }
}
