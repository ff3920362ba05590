//! Which calls of the plugin contract the host makes, as `docs/adding-a-plugin.md` says, so that a vendor writes none for
//! nothing.
//!
//! Invariant: each call of the table has one row, and a row says `never` exactly where the host does not make the call:
//! it does not read its field, or only in public functions without a caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::root::root;

const GUIDE: &str = "docs/adding-a-plugin.md";
/// The section with the rows.
const SECTION: &str = "## When the host makes them";
const TABLE: &str = "contract/abi/src/table.rs";
const HOST: &str = "contract/host/src";
/// Who runs models on the host.
const CALLERS: [&str; 4] = [
    "scheduler/src",
    "scheduler/governor/src",
    "scheduler/profile/src",
    "apps/cli/src",
];

/// Checks the rows against the sources.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let told = rows(&read(&root().join(GUIDE))?);
    let calls = calls(&read(&root().join(TABLE))?);
    let mut host = Vec::new();
    for file in sources(&root().join(HOST))? {
        if !file.ends_with("table.rs") && !file.components().any(|part| part.as_os_str() == "tests") {
            host.push(read(&file)?);
        }
    }
    let mut callers = Vec::new();
    for folder in CALLERS {
        for file in sources(&root().join(folder))? {
            callers.push(read(&file)?);
        }
    }
    findings.extend(differences(&calls, &told, &host, &callers));
    Ok(())
}

fn differences(
    calls: &[String],
    told: &BTreeMap<String, bool>,
    host: &[String],
    callers: &[String],
) -> Vec<String> {
    let mut findings = Vec::new();
    for call in calls {
        let made = is_made(call, host, callers);
        match told.get(call) {
            None => findings.push(format!("{GUIDE}: \"{SECTION}\" has no row of `{call}`")),
            Some(true) if !made => {
                findings.push(format!(
                    "{GUIDE}: the host never makes the call `{call}`: say `never`"
                ));
            }
            Some(false) if made => {
                findings.push(format!(
                    "{GUIDE}: the row of `{call}` says `never`, and the host makes the call"
                ));
            }
            Some(_) => {}
        }
    }
    let known: BTreeSet<&String> = calls.iter().collect();
    for call in told.keys().filter(|call| !known.contains(call)) {
        findings.push(format!("{GUIDE}: `{call}` is no call of {TABLE}"));
    }
    findings
}

/// The calls of the table, which are its optional functions.
fn calls(text: &str) -> Vec<String> {
    let fields = text.lines().filter_map(|line| line.trim().strip_prefix("pub "));
    let named = fields.filter_map(|field| field.split_once(':'));
    let calls = named.filter(|(_, ty)| ty.trim().is_empty() || ty.trim().starts_with("Option<"));
    calls.map(|(name, _)| name.to_owned()).collect()
}

/// By call, whether the section lists it as made.
fn rows(guide: &str) -> BTreeMap<String, bool> {
    let section = guide.split(SECTION).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut rows = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|');
        let (names, when) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let made = !when.trim().starts_with("never");
        for name in names.split('`').skip(1).step_by(2) {
            rows.insert(name.to_owned(), made);
        }
    }
    rows
}

/// Whether somebody makes a call.
fn is_made(call: &str, host: &[String], callers: &[String]) -> bool {
    let mut functions = host.iter().flat_map(|text| readers(call, text));
    functions.any(|function| match function {
        Reader::Inside => true,
        Reader::Offered(name) => {
            let written = format!(".{name}(");
            callers
                .iter()
                .chain(host)
                .any(|text| code(text).contains(&written))
        }
    })
}

/// A function of the host that reads the call's field.
#[derive(Debug, PartialEq, Eq)]
enum Reader {
    /// Of the host's own.
    Inside,
    /// That others may call.
    Offered(String),
}

fn readers(call: &str, text: &str) -> Vec<Reader> {
    let mut inside = Reader::Inside;
    let mut found = Vec::new();
    for line in code(text).lines() {
        let line = line.trim_start();
        let (offered, rest) = match line.strip_prefix("pub ") {
            Some(rest) => (true, rest),
            None => (false, line.trim_start_matches("pub(crate) ")),
        };
        if let Some(rest) = rest.strip_prefix("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            inside = if offered {
                Reader::Offered(name.to_owned())
            } else {
                Reader::Inside
            };
        }
        if !line.starts_with("//") && reads(line, call) {
            found.push(std::mem::replace(&mut inside, Reader::Inside));
        }
    }
    found
}

/// A source without its tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// Whether a line reads the field: `.call` with neither a letter nor an argument behind.
fn reads(line: &str, call: &str) -> bool {
    let field = format!(".{call}");
    line.match_indices(&field).any(|(at, _)| {
        let next = line[at + field.len()..].chars().next();
        next.is_none_or(|next| next != '(' && next != '_' && !next.is_alphanumeric())
    })
}

/// All sources below a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABI: &str = "pub struct_size: u32,\n    pub run: Option<\n        fn(),\n    >,\n    pub sleep:\n        Option<fn()>,";
    const HOST: &str = "impl Device {\n    pub fn go(&self) {\n        let call = self.table().run;\n    }\n    pub fn sleep(&self) {\n        let Some(call) = self.table().sleep else {};\n    }\n}";

    fn found(guide: &str, caller: &str) -> Vec<String> {
        let guide = format!("{SECTION}\n\n| call | when |\n|---|---|\n{guide}\n## Next\n| `other` | now |");
        differences(
            &calls(ABI),
            &rows(&guide),
            &[HOST.to_owned()],
            &[caller.to_owned()],
        )
    }

    #[test]
    fn rows_and_callers_agree() {
        let caller = "device.go();";
        assert_eq!(
            found("| `run` | each run |\n| `sleep`? | never |", caller),
            Vec::<String>::new()
        );
        assert!(found("| `run` | each run |", caller)[0].contains("no row of `sleep`"));
        assert!(found("| `run`, `sleep` | each run |", caller)[0].contains("never makes the call `sleep`"));
        assert!(found("| `run`, `sleep` | never |", caller)[0].contains("`run` says `never`"));
        let unknown = found("| `run` | x |\n| `sleep` | never |\n| `gone` | x |", caller);
        assert!(unknown[0].contains("`gone` is no call"));
        // a call of the same name on another thing is another call
        assert!(found("| `run` | x |\n| `sleep` | x |", "device.go(); device.asleep();").len() == 1);
    }
}
