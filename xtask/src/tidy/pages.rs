//! The pages of `docs`: each is in the summary, by which the site is read, and links into pages lead to a heading.
//!
//! Invariants:
//! 1. The summary lists a page once, under a title.
//! 2. No command of a page gives a package a feature in a form that cargo ignores.
//!
//! Not here: whether a link's file is there (`architecture`), how the site is made (`site`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::Metadata;

use crate::root::{files, root};

/// The summary, from which mdBook makes the site.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks the summary, and of all pages the links to headings and the features in commands.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    let mut pages = BTreeMap::new();
    for file in files("md")? {
        let text = fs::read_to_string(root().join(&file))?;
        pages.insert(file, text);
    }
    let summary = pages.get(Path::new(SUMMARY)).context(SUMMARY)?;
    findings.extend(missing(summary, pages.keys().map(PathBuf::as_path)));
    findings.extend(headless(&pages));
    let packages = self_dependent(metadata);
    for (file, text) in &pages {
        findings.extend(ignored_features(file, text, &packages));
    }
    Ok(())
}

/// Packages that depend on themselves, as one may for its tests.
fn self_dependent(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.packages.iter();
    packages
        .filter(|package| {
            package
                .dependencies
                .iter()
                .any(|other| other.name == *package.name)
        })
        .map(|package| package.name.to_string())
        .collect()
}

/// Features in the form PACKAGE/FEATURE. If the package depends on itself, cargo applies them to that dependency alone:
/// the build succeeds without the feature.
fn ignored_features(file: &Path, text: &str, packages: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let options = line.split("--features").skip(1).chain(line.split(" -F").skip(1));
        let quotes = ['"', '\'', '`'];
        for feature in options
            .filter_map(|rest| rest.trim_start_matches(['=', ' ']).split_whitespace().next())
            .flat_map(|list| list.split(','))
            .map(|feature| feature.trim_matches(quotes))
        {
            let package = feature.split_once('/').map(|(package, _)| package);
            if let Some(package) = package.filter(|package| packages.iter().any(|known| known == package)) {
                findings.push(format!(
                    "{}:{}: cargo ignores `{feature}`, because {package} depends on itself; write the feature's name \
                     alone, with --package",
                    file.display(),
                    at + 1
                ));
            }
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

/// The pages of a summary in its order, relative to the root, with their titles.
pub(crate) fn chapters(summary: &str) -> Vec<(String, PathBuf)> {
    let chapter = |line: &str| {
        let line = line.trim_start();
        let link = line.strip_prefix("- ").unwrap_or(line).strip_prefix('[')?;
        let (title, rest) = link.split_once("](")?;
        let (target, _) = rest.split_once(')')?;
        (!target.is_empty()).then(|| (title.to_owned(), place(Path::new("docs"), target)))
    };
    summary.lines().filter_map(chapter).collect()
}

/// Where a link in a page of this folder leads, relative to the root.
pub(crate) fn place(folder: &Path, target: &str) -> PathBuf {
    let mut place = folder.to_owned();
    for part in target.split('/') {
        match part {
            ".." => {
                place.pop();
            }
            "." | "" => {}
            part => place.push(part),
        }
    }
    place
}

/// Targets of a page's links, those to other sites left out.
pub(crate) fn targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| {
        !target.is_empty()
            && !target.contains("://")
            && !target.starts_with("mailto:")
            && !target.contains(char::is_whitespace)
    })
}

fn missing<'a>(summary: &str, pages: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    for (title, page) in chapters(summary) {
        if title.is_empty() {
            findings.push(format!("{SUMMARY}: {} has no title", page.display()));
        }
        if !told.insert(page.clone()) {
            findings.push(format!("{SUMMARY}: {} is listed twice", page.display()));
        }
    }
    for page in pages.filter(|page| page.starts_with("docs") && *page != Path::new(SUMMARY)) {
        if !told.contains(page) {
            findings.push(format!("{SUMMARY}: {} is not in it", page.display()));
        }
    }
    findings
}

/// Links to headings that are not there.
fn headless(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let headings: BTreeMap<&Path, BTreeSet<String>> = pages
        .iter()
        .map(|(file, text)| (file.as_path(), headings(text)))
        .collect();
    let mut findings = Vec::new();
    for (file, text) in pages {
        let folder = file.parent().unwrap_or(Path::new(""));
        for target in targets(text) {
            let Some((page, heading)) = target.split_once('#') else {
                continue;
            };
            let page = if page.is_empty() {
                file.clone()
            } else {
                place(folder, page)
            };
            let known = headings.get(page.as_path());
            if known.is_some_and(|known| !known.contains(heading)) {
                findings.push(format!(
                    "{}: {} has no heading #{heading}",
                    file.display(),
                    page.display()
                ));
            }
        }
    }
    findings
}

/// The names that links may use for a page's headings, as GitHub and mdBook make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        if is_code || hashes == 0 || hashes > 6 || !line[hashes..].starts_with(' ') {
            continue;
        }
        let name = name(&words(line[hashes..].trim()));
        let mut unique = name.clone();
        let mut count = 0;
        while !names.insert(unique.clone()) {
            count += 1;
            unique = format!("{name}-{count}");
        }
    }
    names
}

/// A heading without the targets of its links.
fn words(heading: &str) -> String {
    let mut words = String::new();
    let mut rest = heading;
    while let Some((before, behind)) = rest.split_once("](") {
        words.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, rest)| rest);
    }
    words.push_str(rest);
    words
}

fn name(heading: &str) -> String {
    let letters = heading.chars().flat_map(char::to_lowercase);
    letters
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter => letter.is_alphanumeric().then_some(letter),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str =
        "# Summary\n\n[Polychip](../README.md)\n\n# Part\n\n- [A](a.md)\n  - [B](b/c.md)\n- [Draft]()\n";

    #[test]
    fn a_page_that_is_not_in_the_summary_or_twice_is_named() {
        let chapters = chapters(SUMMARY);
        let places: Vec<String> = chapters
            .iter()
            .map(|(_, page)| page.display().to_string())
            .collect();
        assert_eq!(places, ["README.md", "docs/a.md", "docs/b/c.md"]);
        let pages = ["README.md", "docs/SUMMARY.md", "docs/a.md", "docs/b/c.md"];
        assert!(missing(SUMMARY, pages.iter().map(Path::new)).is_empty());
        let found = missing(
            &format!("{SUMMARY}- [](a.md)\n"),
            ["docs/d.md"].iter().map(Path::new),
        );
        assert!(found.len() == 3, "{found:?}");
    }

    #[test]
    fn links_to_headings_lead_to_one() {
        let page = "# Of `--deadline`, and [more](x.md)\n\n## Twice\n## Twice\n```sh\n# no heading\n```\n";
        let names: Vec<String> = headings(page).into_iter().collect();
        assert_eq!(names, ["of---deadline-and-more", "twice", "twice-1"]);
        let mut pages = BTreeMap::from([(PathBuf::from("docs/a.md"), page.to_owned())]);
        let of = |link: &str| format!("[a]({link})\n# Here\n");
        for (link, wrong) in [
            ("../docs/a.md#twice-1", 0),
            ("a.md#thrice", 1),
            ("#here", 0),
            ("#there", 1),
            ("https://x.org#y", 0),
            ("other.rs#x", 0),
        ] {
            pages.insert(PathBuf::from("docs/b.md"), of(link));
            assert_eq!(headless(&pages).len(), wrong, "{link}");
        }
    }

    #[test]
    fn feature_that_cargo_ignores_is_reported() {
        let packages = ["polychip-cli".to_owned()];
        let of = |text: &str| ignored_features(Path::new("page.md"), text, &packages);
        for right in [
            "cargo build -p polychip-cli --features full",
            "cargo build -p polychip-cli -F full,monitor   # polychip-cli/full",
            "cargo build -p polychip --features polychip/probe",
        ] {
            assert!(of(right).is_empty(), "{right}");
        }
        for wrong in [
            "cargo build -p polychip-cli --features polychip-cli/full",
            "cargo build --features=monitor,polychip-cli/full -p polychip-cli",
            "cargo build -p polychip-cli -F 'polychip-cli/full'",
        ] {
            let found = of(&format!("# Page\n\n{wrong}\n"));
            assert!(
                found.len() == 1 && found[0].starts_with("page.md:3: cargo ignores"),
                "{wrong}: {found:?}"
            );
        }
    }
}
