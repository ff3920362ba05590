//! The folder that mdBook reads: pages and the files that they link to, at their places in the tree.
//!
//! Invariants:
//! 1. A link to a folder leads to the folder's page, if it has one, else to a generated list of its files.
//! 2. `README.md` is laid out as `index.md`, and links to it change accordingly: mdBook renders both as `index.html`, but
//!    rewrites links only to the latter.
//! 3. All other links stay as they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::root::{root, tracked};
use crate::tidy::pages::{SUMMARY, chapters, place, targets};

/// Lays out the site's sources in a folder, and returns the number of pages.
pub(super) fn lay_out(folder: &Path) -> Result<usize> {
    let source = folder.join("src");
    fs::create_dir_all(&source)?;
    fs::copy(root().join("docs/book.toml"), folder.join("book.toml")).context("docs/book.toml")?;
    let summary = fs::read_to_string(root().join(SUMMARY)).context(SUMMARY)?;
    let chapters = chapters(&summary);
    let pages: BTreeSet<PathBuf> = chapters.iter().map(|(_, page)| page.clone()).collect();
    fs::write(source.join("SUMMARY.md"), rooted(&summary))?;
    let tracked = tracked()?;
    let mut wrong = Vec::new();
    let mut linked = BTreeSet::new();
    for page in &pages {
        let mut text = fs::read_to_string(root().join(page)).with_context(|| page.display().to_string())?;
        let above = page.parent().unwrap_or(Path::new("")).to_owned();
        let found: BTreeSet<String> = targets(&text).map(str::to_owned).collect();
        for target in found {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() {
                continue;
            }
            let to = place(&above, file);
            let mut lead = |other: &str| text = text.replace(&format!("]({target})"), &format!("]({other})"));
            if root().join(&to).is_dir() {
                let has_page = pages.contains(&to.join("README.md"));
                let index = if has_page { "index.md" } else { "index.html" };
                lead(&format!("{}/{index}", file.trim_end_matches('/')));
                if !has_page {
                    list(&source, &to, &tracked)?;
                }
            } else if to.ends_with("README.md") && pages.contains(&to) {
                lead(&target.replace("README.md", "index.md"));
            } else if to.extension().is_some_and(|extension| extension == "md") {
                if !pages.contains(&to) {
                    wrong.push(format!(
                        "{}: {} is not in {SUMMARY}",
                        page.display(),
                        to.display()
                    ));
                }
            } else {
                linked.insert(to);
            }
        }
        write(&source.join(as_index(page)), text.as_bytes())?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    for file in linked {
        copy(&source, &file)?;
    }
    Ok(pages.len())
}

/// The summary with links relative to the root, as mdBook needs them.
fn rooted(summary: &str) -> String {
    let lines = summary.lines().map(|line| match line.split_once("](") {
        Some((before, rest)) => match rest.split_once(')') {
            Some((target, behind)) if !target.is_empty() => {
                let target = as_index(&place(Path::new("docs"), target));
                format!("{before}]({}){behind}", target.display())
            }
            _ => line.to_owned(),
        },
        None => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// The path at which a page is laid out.
fn as_index(page: &Path) -> PathBuf {
    if page.ends_with("README.md") {
        page.with_file_name("index.md")
    } else {
        page.to_owned()
    }
}

/// Copies a folder's tracked files, and writes a page that lists them.
fn list(source: &Path, folder: &Path, tracked: &[PathBuf]) -> Result<()> {
    let mut items = String::new();
    for file in tracked.iter().filter(|file| file.starts_with(folder)) {
        let name = file.strip_prefix(folder)?.display().to_string();
        let target = match name.strip_suffix(".md") {
            Some(page) => format!("{page}.html"),
            None => {
                copy(source, file)?;
                name.clone()
            }
        };
        items.push_str(&format!("<li><a href=\"{target}\">{name}</a></li>\n"));
    }
    let title = folder.display();
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}</ul>\n</html>\n"
    );
    write(&source.join(folder).join("index.html"), page.as_bytes())
}

fn copy(source: &Path, file: &Path) -> Result<()> {
    let bytes = fs::read(root().join(file)).with_context(|| file.display().to_string())?;
    write(&source.join(file), &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_rooted_where_the_tree_is() {
        let rooted = rooted("# Summary\n\n[P](../README.md)\n- [A](a.md)\n  - [B]()\n");
        assert_eq!(
            rooted,
            "# Summary\n\n[P](index.md)\n- [A](docs/a.md)\n  - [B]()\n"
        );
    }
}
