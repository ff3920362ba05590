//! Broken links of the built site.
//!
//! Invariant: mdBook's output is checked, not its input, so a link to a page that mdBook left out is found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tidy::pages::place;

/// Links and pictures in the site whose target is missing, each with its page.
pub(super) fn broken(site: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    for file in all(site)? {
        let name = file.strip_prefix(site)?.to_owned();
        if name.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            pages.insert(name.clone(), text);
        }
        files.insert(name);
    }
    Ok(among(&pages, &files))
}

fn among(pages: &BTreeMap<PathBuf, String>, files: &BTreeSet<PathBuf>) -> Vec<String> {
    let ids: BTreeMap<&Path, BTreeSet<&str>> = pages
        .iter()
        .map(|(name, text)| (name.as_path(), values(text, "id").collect()))
        .collect();
    let mut wrong = Vec::new();
    // the error page is shown at any address, so its relative links cannot be checked
    for (name, text) in pages
        .iter()
        .filter(|(name, _)| name.as_path() != Path::new("404.html"))
    {
        let folder = name.parent().unwrap_or(Path::new(""));
        for target in values(text, "href").chain(values(text, "src")) {
            let scheme = target.split(['/', '?', '#']).next().unwrap_or_default();
            if target.is_empty() || scheme.contains(':') || target.starts_with("//") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = file.split('?').next().unwrap_or_default();
            let mut to = if file.is_empty() {
                name.clone()
            } else {
                place(folder, file)
            };
            if file.ends_with('/') {
                to.push("index.html");
            }
            if !files.contains(&to) {
                wrong.push(format!("{}: {target} is a broken link", name.display()));
            } else if !heading.is_empty() && ids.get(to.as_path()).is_some_and(|ids| !ids.contains(heading)) {
                wrong.push(format!("{}: {target} names no heading", name.display()));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

/// Values of an attribute in a page.
fn values<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let mark = format!(" {name}=\"");
    let starts: Vec<usize> = text.match_indices(&mark).map(|(at, _)| at + mark.len()).collect();
    starts
        .into_iter()
        .filter_map(|at| text[at..].split_once('"').map(|(value, _)| value))
}

fn all(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(all(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_and_to_its_heading() {
        let a = r##"<a href="b/c.html#x"> <a href="b/c.html#y"> <img src="d.svg"> <a href="https://x.org/e.html">
            <a href="#here"> <h1 id="here"> <a href="b/"> <a href="e.rs?raw#L3">"##;
        let pages = BTreeMap::from([
            (PathBuf::from("a.html"), a.to_owned()),
            (
                PathBuf::from("b/c.html"),
                r#"<h2 id="x"> <a href="../a.html">"#.to_owned(),
            ),
        ]);
        let files = ["a.html", "b/c.html", "e.rs"].map(PathBuf::from).into();
        let wrong = among(&pages, &files);
        let word = ["b/ is", "b/c.html#y names", "d.svg is"];
        assert_eq!(wrong.len(), word.len(), "{wrong:?}");
        for (wrong, word) in wrong.iter().zip(word) {
            assert!(wrong.starts_with("a.html: ") && wrong.contains(word), "{wrong}");
        }
    }
}
