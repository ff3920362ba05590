//! Rust sources: headers, sizes and module files.
//!
//! Not here: where unsafe code may be (`unsafe_code`).

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::root::{files, root};

/// A file above this is restructured before it lands.
const MOST_LINES: usize = 800;

/// How comments began to cite notes that are not here.
const OUTSIDE: [&str; 5] = [
    concat!("facts", " section"),
    concat!("facts", " §"),
    concat!("DESIGN", " section"),
    concat!("DESIGN", " invariant"),
    concat!("DESIGN", ".md"),
];

/// How a library is opened.
const OPENS: &str = concat!("Library::", "new(");

/// File names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &[
    "mod.rs",
    "utils.rs",
    "util.rs",
    "common.rs",
    "misc.rs",
    "helpers.rs",
    "core.rs",
];

/// Checks every Rust file of the repository.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    if architecture.lines().count() > 300 {
        findings.push("ARCHITECTURE.md: more than 300 lines".into());
    }
    for file in files("rs")? {
        let text = fs::read_to_string(root().join(&file))?;
        one(&file, &text, findings);
    }
    Ok(())
}

fn one(file: &Path, text: &str, findings: &mut Vec<String>) {
    let name = file.display().to_string();
    let base = file.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if EMPTY_NAMES.contains(&base) {
        findings.push(format!(
            "{name}: name the file after what it holds (`foo.rs` beside `foo/`, no {base})"
        ));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        findings.push(format!(
            "{name}: the `//!` header is missing: what the file is, what always holds, what is not here"
        ));
    }
    let lines = text.lines().count();
    if lines > MOST_LINES && base != "bindings.rs" {
        findings.push(format!(
            "{name}: {lines} lines, more than {MOST_LINES}: split it by noun"
        ));
    }
    for words in OUTSIDE {
        if text.contains(words) {
            findings.push(format!(
                "{name}: {words:?} cites a document that is not in the repository: say what it says"
            ));
        }
    }
    if text.contains(OPENS) && !is_test(file) && !text.contains("Box::leak(") && base != "bindings.rs" {
        findings.push(format!(
            "{name}: a library that is opened is never unloaded: `Box::leak` what holds it"
        ));
    }
}

/// Whether a file is a test: a module of tests, or anything in a folder of them.
pub(super) fn is_test(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.components().any(|part| part.as_os_str() == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        one(Path::new(name), text, &mut findings);
        findings
    }

    #[test]
    fn conforming_file_has_no_findings() {
        assert!(findings("compiler/graph/src/node.rs", "//! One node.\n").is_empty());
    }

    #[test]
    fn each_rule_finds_its_violation() {
        assert!(findings("a/src/node.rs", "struct A;\n")[0].contains("header"));
        assert!(findings("a/src/utils.rs", "//! Things.\n")[0].contains("name the file"));
        let cited = concat!("//! As facts", " section 4 says.\n");
        assert!(findings("a/src/node.rs", cited)[0].contains("not in the repository"));
        let long = format!("//! Long.\n{}", "\n".repeat(MOST_LINES));
        assert!(findings("a/src/long.rs", &long)[0].contains("801 lines"));
    }
}
