//! Packages that vendors get from a registry: those that a plugin and its tests depend on, and the conformance suite.
//!
//! Invariants:
//! 1. A published package has a description, a licence, a page and keywords, and no large file.
//! 2. Its dependencies of this repository are published, too, and have versions: `cargo package` refuses a path alone.
//!
//! Not here: `publish.workspace`, which keeps all other packages from being published by accident.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::root::{root, tracked};

/// What a vendor needs.
const WANTED: [&str; 5] = [
    "polychip-abi",
    "polychip-build-id",
    "polychip-lowering",
    "polychip-parts",
    "polychip-conformance",
];
/// Largest file, in bytes: the largest source and header are about 100 kB.
const MOST_BYTES: u64 = 512 << 10;
/// crates.io's limit.
const MOST_KEYWORDS: usize = 5;

/// Checks the published packages.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    let ours: BTreeSet<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let published: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| publishes(package))
        .collect();
    let names: BTreeSet<&str> = published.iter().map(|package| package.name.as_str()).collect();
    for name in WANTED {
        if !names.contains(name) {
            findings.push(format!("{name}: vendors need this package: set `publish = true`"));
        }
    }
    for package in published {
        findings.extend(lacks(package));
        findings.extend(paths(package, &ours, &names));
        let folder = package
            .manifest_path
            .parent()
            .context("the folder of a manifest")?;
        findings.extend(large(folder.strip_prefix(root())?.as_std_path())?);
    }
    Ok(())
}

/// An empty list of registries is `publish = false`.
fn publishes(package: &Package) -> bool {
    package
        .publish
        .as_ref()
        .is_none_or(|registries| !registries.is_empty())
}

/// What a registry asks for and the package does not state.
fn lacks(package: &Package) -> Vec<String> {
    let page = package.readme();
    let stated = [
        (
            "description",
            package
                .description
                .as_ref()
                .is_some_and(|text| !text.trim().is_empty()),
        ),
        ("license", package.license.is_some()),
        (
            "readme (of a file that exists)",
            page.is_some_and(|page| page.is_file()),
        ),
        (
            "keywords (1 to 5)",
            (1..=MOST_KEYWORDS).contains(&package.keywords.len()),
        ),
    ];
    let missing = stated.iter().filter(|(_, is_there)| !is_there);
    missing
        .map(|(what, _)| format!("{}: a published package states {what}", package.name))
        .collect()
}

/// Dependencies that a registry would not find.
fn paths(package: &Package, ours: &BTreeSet<&str>, published: &BTreeSet<&str>) -> Vec<String> {
    let mut findings = Vec::new();
    let dependencies = package.dependencies.iter();
    // cargo leaves out those of tests that have no version
    for dependency in dependencies.filter(|dependency| dependency.kind != DependencyKind::Development) {
        let name = dependency.name.as_str();
        if !ours.contains(name) {
            continue;
        }
        if !published.contains(name) {
            findings.push(format!(
                "{}: depends on {name}, which is not published",
                package.name
            ));
        } else if dependency.req.comparators.is_empty() {
            findings.push(format!(
                "{}: {name} needs a version in the root Cargo.toml",
                package.name
            ));
        }
    }
    findings
}

/// Files of a package that are too large for a registry.
fn large(folder: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tracked()?.into_iter().filter(|file| file.starts_with(folder)) {
        let bytes = fs::metadata(root().join(&file))?.len();
        if bytes > MOST_BYTES {
            let file = file.display();
            findings.push(format!(
                "{file}: {bytes} bytes in a published package; the limit is {MOST_BYTES}"
            ));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::*;

    /// The package `a` of this manifest, beside packages `b` to `e`.
    fn package(manifest: &str) -> Package {
        let folder = tempfile::tempdir().unwrap();
        let add = |place: &Path, manifest: &str| {
            fs::create_dir_all(place.join("src")).unwrap();
            fs::write(place.join("src/lib.rs"), "").unwrap();
            fs::write(place.join("Cargo.toml"), manifest).unwrap();
        };
        add(folder.path(), &format!("{manifest}\n[workspace]\n"));
        for name in ["b", "c", "d", "e"] {
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\n");
            add(&folder.path().join(name), &manifest);
        }
        let metadata = MetadataCommand::new()
            .manifest_path(folder.path().join("Cargo.toml"))
            .no_deps()
            .exec()
            .unwrap();
        let mut packages = metadata.packages.into_iter();
        packages.find(|package| *package.name == "a").unwrap()
    }

    #[test]
    fn published_package_must_say_what_it_is() {
        let bare = package("[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2024\"");
        assert!(publishes(&bare));
        assert_eq!(lacks(&bare).len(), 4, "{:?}", lacks(&bare));
        let kept =
            package("[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2024\"\npublish = false");
        assert!(!publishes(&kept));
    }

    #[test]
    fn dependency_by_path_alone_and_unpublished_one_are_found() {
        let package = package(
            "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[dependencies]\n\
             b = { path = \"b\" }\nc = { path = \"c\", version = \"1\" }\nd = { path = \"d\", version = \"1\" }\n\
             [dev-dependencies]\ne = { path = \"e\" }",
        );
        let ours = BTreeSet::from(["b", "c", "d", "e"]);
        let found = paths(&package, &ours, &BTreeSet::from(["b", "c"]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("b needs a version") && found[1].contains("d, which is not published"));
    }
}
