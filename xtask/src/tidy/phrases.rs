//! Retired phrases in pages, comments and texts: `xtask/retired.toml` lists them with the plain wording to use.
//!
//! Invariant: the list has no exceptions; a phrase with a legitimate use gets a narrower expression.
//! Not here: words in identifiers (`words`).

use std::fs;

use anyhow::{Context, Result};
use regex::bytes::Regex;
use serde::Deserialize;

use crate::root::{root, tracked};

const LIST: &str = "xtask/retired.toml";
/// Files with prose: pages, comments, texts.
const KINDS: [&str; 9] = ["rs", "md", "py", "pyi", "h", "c", "cpp", "toml", "sh"];

#[derive(Deserialize)]
struct List {
    phrase: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    retired: String,
    #[serde(rename = "use")]
    plain: String,
}

/// The retired phrases, compiled.
struct Phrases {
    /// Any of them: most files hold none.
    any: Regex,
    each: Vec<(Regex, String)>,
}

/// Checks every tracked file with prose, except generated declarations.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let phrases = phrases(&fs::read_to_string(root().join(LIST)).context(LIST)?)?;
    for file in tracked()? {
        let is_prose = file
            .extension()
            .is_some_and(|end| KINDS.iter().any(|kind| end == *kind));
        let is_generated = file.file_name().is_some_and(|name| name == "bindings.rs");
        if !is_prose || is_generated || file.as_os_str() == LIST {
            continue;
        }
        let text =
            fs::read_to_string(root().join(&file)).with_context(|| format!("reading {}", file.display()))?;
        findings.extend(found(&file.display().to_string(), &text, &phrases));
    }
    Ok(())
}

fn phrases(list: &str) -> Result<Phrases> {
    let list: List = toml::from_str(list).context(LIST)?;
    let compiled =
        |pattern: &str| Regex::new(&format!("(?i-u){pattern}")).with_context(|| format!("{LIST}: {pattern}"));
    let patterns: Vec<&str> = list.phrase.iter().map(|row| row.retired.as_str()).collect();
    let any = compiled(&patterns.join("|"))?;
    let each = list
        .phrase
        .iter()
        .map(|row| Ok((compiled(&row.retired)?, row.plain.clone())))
        .collect::<Result<_>>()?;
    Ok(Phrases { any, each })
}

/// The first retired phrase of each line.
fn found(file: &str, text: &str, phrases: &Phrases) -> Vec<String> {
    let mut findings = Vec::new();
    if !phrases.any.is_match(text.as_bytes()) {
        return findings;
    }
    for (index, line) in text.lines().enumerate() {
        let first = phrases
            .each
            .iter()
            .find_map(|(retired, plain)| Some((plain, retired.find(line.as_bytes())?)));
        if let Some((plain, at)) = first {
            findings.push(format!(
                "{file}:{}: \"{}\" is retired ({LIST}): use {plain}",
                index + 1,
                String::from_utf8_lossy(at.as_bytes()),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_phrase_is_reported_with_its_line_and_replacement() {
        let list = r#"phrase = [{ retired = '\butilise\b', use = "a verb" }]"#;
        let phrases = phrases(list).unwrap();
        let text = "One line.\nUtilise one, or utilise two.\n";
        assert_eq!(
            found("a.rs", text, &phrases),
            [format!("a.rs:2: \"Utilise\" is retired ({LIST}): use a verb")]
        );
        assert!(found("a.rs", "two utilisers\n", &phrases).is_empty());
    }

    #[test]
    fn committed_list_compiles() {
        let list = fs::read_to_string(root().join(LIST)).unwrap();
        assert!(phrases(&list).unwrap().each.len() > 10);
    }
}
