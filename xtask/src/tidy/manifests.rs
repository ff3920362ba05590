//! Manifests: registry versions are in the root manifest only; lints, edition and MSRV come from it. Its release profile
//! inlines kernels.
//!
//! Two kinds of paths may be elsewhere: that from a plugin's library to the plugin in the folder above, so that a new
//! plugin changes no other file; and, in a published package, those of development dependencies, because with a
//! version cargo could not publish packages that test each other (`packages`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::root::{files, root};

/// Crates whose inner loops are made of small generic functions.
const INLINED: [&str; 3] = ["polychip-cpu-kernels", "polychip-cpu", "polychip-partitioner"];

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Checks every manifest of the workspace.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let workspace: Table = fs::read_to_string(root().join("Cargo.toml"))?
        .parse()
        .context("Cargo.toml")?;
    inlines(&workspace, findings);
    let excluded: Vec<&str> = workspace
        .get("workspace")
        .and_then(|w| w.get("exclude"))
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for file in files("toml")? {
        let in_workspace = file.file_name().is_some_and(|name| name == "Cargo.toml")
            && file != Path::new("Cargo.toml")
            && !excluded.iter().any(|folder| file.starts_with(folder));
        if in_workspace {
            let text = fs::read_to_string(root().join(&file))?;
            let manifest: Table = text.parse().with_context(|| file.display().to_string())?;
            one(&file, &manifest, findings);
        }
    }
    Ok(())
}

/// That nothing keeps the parts of a kernel apart: without optimisation across the units of a crate, a function that landed in
/// another unit is called, not inlined, and networks run ten times slower.
fn inlines(workspace: &Table, findings: &mut Vec<String>) {
    let release = workspace
        .get("profile")
        .and_then(|profile| profile.get("release"));
    let off = release
        .and_then(|release| release.get("lto"))
        .and_then(Value::as_str)
        == Some("off");
    let units = |name: &str| {
        let release = release?;
        let own = || release.get("package")?.get(name)?.get("codegen-units");
        own().or_else(|| release.get("codegen-units"))?.as_integer()
    };
    for name in INLINED.into_iter().filter(|name| off && units(name) != Some(1)) {
        findings.push(format!(
            "Cargo.toml: with `lto = \"off\"` in profile.release, {name} must be one unit \
             (`codegen-units = 1`, there or in profile.release.package.{name}), or its kernels are not inlined"
        ));
    }
}

fn one(file: &Path, manifest: &Table, findings: &mut Vec<String>) {
    let file = file.display();
    let mut tables: Vec<&Table> = SECTIONS
        .iter()
        .filter_map(|name| manifest.get(*name))
        .filter_map(Value::as_table)
        .collect();
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        for target in targets.values() {
            tables.extend(
                SECTIONS
                    .iter()
                    .filter_map(|name| target.get(*name))
                    .filter_map(Value::as_table),
            );
        }
    }
    let publishes = manifest
        .get("package")
        .and_then(|package| package.get("publish"))
        .and_then(Value::as_bool)
        == Some(true);
    let for_tests = manifest.get("dev-dependencies").and_then(Value::as_table);
    for (name, dependency) in tables.into_iter().flatten() {
        let from_workspace = dependency.get("workspace").and_then(Value::as_bool) == Some(true);
        let above = dependency
            .as_table()
            .is_some_and(|table| table.len() == 1 && table.get("path").and_then(Value::as_str) == Some(".."));
        // which a manifest cannot say of what it has from the workspace
        let bare = dependency.as_table().is_some_and(|table| {
            table.contains_key("path")
                && !table.contains_key("version")
                && table.get("default-features").and_then(Value::as_bool) == Some(false)
        });
        let in_tests = publishes
            && for_tests.is_some_and(|table| table.get(name) == Some(dependency))
            && dependency.get("path").is_some()
            && dependency.get("version").is_none();
        if !from_workspace && !above && !bare && !in_tests {
            findings.push(format!(
                "{file}: dependency {name} must be `workspace = true`, with its version in the root Cargo.toml"
            ));
        }
    }
    let inherits =
        |table: Option<&Value>| table.and_then(|t| t.get("workspace")).and_then(Value::as_bool) == Some(true);
    if !inherits(manifest.get("lints")) {
        findings.push(format!("{file}: `[lints] workspace = true` is missing"));
    }
    for key in ["edition", "rust-version", "license", "version"] {
        if !inherits(manifest.get("package").and_then(|package| package.get(key))) {
            findings.push(format!("{file}: `{key}.workspace = true` is missing"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_in_several_units_are_found() {
        let profile = |release: &str| {
            let manifest: Table = format!("[profile.release]\n{release}").parse().unwrap();
            let mut findings = Vec::new();
            inlines(&manifest, &mut findings);
            findings.len()
        };
        assert_eq!(profile(""), 0);
        assert_eq!(profile("lto = \"thin\""), 0);
        assert_eq!(profile("lto = \"off\""), INLINED.len());
        let whole = "lto = \"off\"\npackage.polychip-cpu-kernels.codegen-units = 1";
        assert_eq!(profile(whole), INLINED.len() - 1);
        assert_eq!(profile("lto = \"off\"\ncodegen-units = 1"), 0);
    }

    #[test]
    fn a_version_outside_the_root_manifest_is_found() {
        let manifest: Table = r#"
            [package]
            name = "x"
            edition.workspace = true
            rust-version.workspace = true
            license.workspace = true
            version.workspace = true
            [lints]
            workspace = true
            [dependencies]
            good.workspace = true
            bad = "1"
            [target.'cfg(unix)'.dev-dependencies]
            worse = { version = "2" }
            plugin = { path = ".." }
            small = { path = "../small", default-features = false, features = ["least"] }
            large = { path = "../large" }
            worst = { path = "..", version = "3" }
        "#
        .parse()
        .unwrap();
        let mut findings = Vec::new();
        one(Path::new("x/Cargo.toml"), &manifest, &mut findings);
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert!(
            findings[0].contains("bad") && findings[1].contains("large") && findings[2].contains("worse"),
            "{findings:?}"
        );
    }
}
