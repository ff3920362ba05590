//! No circle of imports between files of different folders, and none of more than two files.
//!
//! A circle is a largest set of files of one crate, each of which imports each other one, if over others. Module
//! `foo.rs` beside `foo/` counts as a file of that folder.
//! What counts as an import: [`super::imports`]. Start at [`check`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use cargo_metadata::{Metadata, TargetKind};

use super::imports::{self, Imports};
use crate::root::root;

/// Files of one crate that import each other, if over others.
struct Circle {
    files: BTreeSet<PathBuf>,
    imports: Imports,
}

/// Checks that no crate has one.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    findings.extend(all(metadata)?.iter().map(Circle::told));
    Ok(())
}

/// The circles of all crates of the workspace: libraries, programs, benchmarks.
fn all(metadata: &Metadata) -> Result<Vec<Circle>> {
    let mut roots = BTreeSet::new();
    for package in &metadata.packages {
        for target in &package.targets {
            let judged = |kind: &TargetKind| {
                !matches!(
                    kind,
                    TargetKind::Test | TargetKind::Example | TargetKind::CustomBuild
                )
            };
            if target.kind.iter().all(judged) {
                roots.insert(target.src_path.strip_prefix(root())?.as_std_path().to_owned());
            }
        }
    }
    let mut circles = Vec::new();
    for file in &roots {
        let imports = imports::of_crate(root(), file)?;
        circles.extend(
            of(&imports)
                .into_iter()
                .filter(|circle| is_wrong(&circle.files, |folder| root().join(folder).is_dir())),
        );
    }
    Ok(circles)
}

/// All circles among these imports, of two files and more.
fn of(imports: &Imports) -> Vec<Circle> {
    let mut next: BTreeMap<&PathBuf, Vec<&PathBuf>> = BTreeMap::new();
    for (from, to) in imports.keys() {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        next.keys().map(|from| (*from, reach(&next, from))).collect();
    let mut circles: Vec<Circle> = Vec::new();
    for (from, there) in &reached {
        let back = there
            .iter()
            .filter(|to| reached.get(**to).is_some_and(|of| of.contains(from)));
        let files: BTreeSet<PathBuf> = back.map(|file| (*file).clone()).collect();
        if files.len() > 1 && !circles.iter().any(|circle| circle.files.contains(*from)) {
            let imports = imports
                .iter()
                .filter(|((from, to), _)| files.contains(from) && files.contains(to))
                .map(|(ends, names)| (ends.clone(), names.clone()))
                .collect();
            circles.push(Circle { files, imports });
        }
    }
    circles
}

/// What a file imports, and what that imports, to the end.
fn reach<'a>(next: &BTreeMap<&'a PathBuf, Vec<&'a PathBuf>>, from: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&PathBuf> = next[from].clone();
    while let Some(file) = open.pop() {
        if found.insert(file) {
            open.extend(next.get(file).into_iter().flatten());
        }
    }
    found
}

/// Whether a circle breaks the rule; two files of one folder may know each other.
fn is_wrong(files: &BTreeSet<PathBuf>, is_folder: impl Fn(&Path) -> bool) -> bool {
    let folder = |file: &PathBuf| {
        let own = file.with_extension("");
        if is_folder(&own) {
            own
        } else {
            file.parent().unwrap_or(Path::new("")).to_owned()
        }
    };
    files.len() > 2 || files.iter().map(folder).collect::<BTreeSet<_>>().len() > 1
}

impl Circle {
    /// The circle with what each file imports.
    fn told(&self) -> String {
        let mut lines = vec![format!(
            "a circle of imports of {} files: move what both need to a file of its own, or to the one below",
            self.files.len()
        )];
        for ((from, to), names) in &self.imports {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            lines.push(format!(
                "    {} → {}: {}",
                from.display(),
                to.display(),
                names.join(", ")
            ));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(edges: &[(&str, &str)]) -> Vec<Circle> {
        let imports: Imports = edges
            .iter()
            .map(|(from, to)| ((from.into(), to.into()), BTreeSet::from(["Name".to_owned()])))
            .collect();
        of(&imports)
    }

    fn wrong(edges: &[(&str, &str)]) -> bool {
        let circles = circle(edges);
        assert_eq!(circles.len(), 1);
        is_wrong(&circles[0].files, |folder| folder.ends_with("a"))
    }

    #[test]
    fn chain_is_not_a_cycle() {
        assert!(circle(&[("s/a.rs", "s/b.rs"), ("s/b.rs", "s/c.rs"), ("s/a.rs", "s/c.rs")]).is_empty());
        assert!(!wrong(&[("s/b.rs", "s/c.rs"), ("s/c.rs", "s/b.rs")]));
        // `a.rs` counts as a file of `a/`
        assert!(!wrong(&[("s/a.rs", "s/a/b.rs"), ("s/a/b.rs", "s/a.rs")]));
        assert!(wrong(&[("s/a.rs", "s/b.rs"), ("s/b.rs", "s/a.rs")]));
        assert!(wrong(&[
            ("s/b.rs", "s/c.rs"),
            ("s/c.rs", "s/d.rs"),
            ("s/d.rs", "s/b.rs")
        ]));
    }

    #[test]
    fn cycle_is_reported_with_its_imports() {
        let circles = circle(&[("s/a.rs", "s/b.rs"), ("s/b.rs", "s/a.rs")]);
        assert!(circles[0].told().contains("s/a.rs → s/b.rs: Name"));
    }
}
