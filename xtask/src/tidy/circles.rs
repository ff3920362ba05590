//! No circle of imports, of a file and one that it declares (`foo.rs` and `foo/bar.rs`) either.
//!
//! A circle is a largest set of files of one crate, each of which imports each other one, if over others.
//! Types that hold each other are in one file.
//! What counts as an import: [`super::imports`]. Start at [`check`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use cargo_metadata::{Metadata, TargetKind};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use super::imports::{self, Imports};
use crate::root::root;

/// Files in whose circles with one of their own modules a change compiles every kernel anew, for minutes. The list only
/// shrinks.
const KNOWN: [&str; 2] = [
    "cpu-kernels/src/attention.rs",
    "cpu-kernels/src/reference/tensor.rs",
];

/// Files of one crate that import each other, if over others.
struct Circle {
    files: BTreeSet<PathBuf>,
    imports: Imports,
}

/// Checks that no crate has one.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    findings.extend(judged(&all(metadata)?, &KNOWN));
    Ok(())
}

/// What is wrong with these circles: each that is not known, and each known one that is gone.
fn judged(circles: &[Circle], known: &[&str]) -> Vec<String> {
    let is_of =
        |circle: &Circle, file: &str| circle.files.len() == 2 && circle.files.contains(Path::new(file));
    let new = circles
        .iter()
        .filter(|circle| !known.iter().any(|file| is_of(circle, file)));
    let gone = known
        .iter()
        .filter(|file| !circles.iter().any(|circle| is_of(circle, file)));
    new.map(Circle::told)
        .chain(gone.map(|file| format!("{file} is in no circle of imports any more: take it out of `KNOWN`")))
        .collect()
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
        circles.extend(of(&imports::of_crate(root(), file)?));
    }
    Ok(circles)
}

/// All circles among these imports, of two files and more.
fn of(imports: &Imports) -> Vec<Circle> {
    let mut graph = DiGraph::<&PathBuf, ()>::new();
    let mut nodes = BTreeMap::new();
    for (from, to) in imports.keys() {
        let [from, to] = [from, to].map(|file| *nodes.entry(file).or_insert_with(|| graph.add_node(file)));
        graph.add_edge(from, to, ());
    }
    let of_files = |files: BTreeSet<PathBuf>| Circle {
        imports: imports
            .iter()
            .filter(|((from, to), _)| files.contains(from) && files.contains(to))
            .map(|(ends, names)| (ends.clone(), names.clone()))
            .collect(),
        files,
    };
    tarjan_scc(&graph)
        .into_iter()
        .filter(|nodes| nodes.len() > 1)
        .map(|nodes| of_files(nodes.into_iter().map(|node| graph[node].clone()).collect()))
        .collect()
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

    #[test]
    fn chain_is_not_a_cycle() {
        assert!(circle(&[("s/a.rs", "s/b.rs"), ("s/b.rs", "s/c.rs"), ("s/a.rs", "s/c.rs")]).is_empty());
    }

    #[test]
    fn module_and_one_of_its_own_are_a_cycle_too() {
        let circles = circle(&[("s/a.rs", "s/a/b.rs"), ("s/a/b.rs", "s/a.rs")]);
        assert_eq!(judged(&circles, &[]).len(), 1);
    }

    #[test]
    fn known_cycle_is_told_once_it_is_gone_or_grows() {
        let circles = circle(&[("s/a.rs", "s/a/b.rs"), ("s/a/b.rs", "s/a.rs")]);
        assert_eq!(judged(&circles, &["s/a.rs"]), [""; 0]);
        assert!(judged(&[], &["s/a.rs"])[0].starts_with("s/a.rs is in no circle"));
        let grown = circle(&[
            ("s/a.rs", "s/a/b.rs"),
            ("s/a/b.rs", "s/a/c.rs"),
            ("s/a/c.rs", "s/a.rs"),
        ]);
        assert_eq!(judged(&grown, &["s/a.rs"]).len(), 2);
    }

    #[test]
    fn cycles_with_a_file_in_common_are_one() {
        let circles = circle(&[
            ("s/a.rs", "s/b.rs"),
            ("s/b.rs", "s/a.rs"),
            ("s/b.rs", "s/c.rs"),
            ("s/c.rs", "s/b.rs"),
        ]);
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].files.len(), 3);
    }

    #[test]
    fn cycle_is_reported_with_its_imports() {
        let circles = circle(&[("s/a.rs", "s/b.rs"), ("s/b.rs", "s/a.rs")]);
        assert!(circles[0].told().contains("s/a.rs → s/b.rs: Name"));
    }
}
