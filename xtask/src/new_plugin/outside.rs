//! A plugin in its own folder: a workspace that uses this tree's Polychip crates.
//!
//! Invariants:
//! 1. Versions, lints and settings are read from this tree's manifest and lock file, and none is written here.
//! 2. Existing files stay: the folder is new or empty, and outside this tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use super::files::{self, Template, format, packages};
use crate::root::root;

/// Writes the workspace and prints what to do next.
pub(super) fn write(out: &Path, name: &str, template: Template, published: bool) -> Result<()> {
    let existed = out.exists();
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let folder = out.canonicalize().with_context(|| out.display().to_string())?;
    let written = check(&folder).and_then(|()| fill(&folder, name, template, published));
    if let Err(error) = written {
        if !existed {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        return Err(error);
    }
    format(&folder, name);
    let [plugin, wrapper] = packages(name);
    eprintln!(
        "{}: a workspace with {}; Polychip is the tree {}\n\
         there, test it:  cargo test --package {plugin}\n\
         there, build it: cargo build --package {wrapper}   # target/debug/libpolychip_plugin_{name}.so\n\
         load it:         polychip devices --plugins {}\n\
         then:            docs/adding-a-plugin.md",
        folder.display(),
        template.summary(),
        root().display(),
        folder.join("target/debug").display()
    );
    Ok(())
}

fn check(folder: &Path) -> Result<()> {
    let tree = root().canonicalize()?;
    ensure!(
        !folder.starts_with(&tree) || folder.starts_with(tree.join("target")),
        "--out {}: the folder is inside the tree {}; omit --out for a plugin in the tree",
        folder.display(),
        tree.display()
    );
    let is_empty = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .next()
        .is_none();
    ensure!(is_empty, "--out {}: the folder must be empty", folder.display());
    Ok(())
}

fn fill(folder: &Path, name: &str, template: Template, published: bool) -> Result<()> {
    let manifest = root().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let root_manifest = text
        .parse::<Table>()
        .with_context(|| manifest.display().to_string())?;
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("Cargo.toml", &workspace(&root_manifest, template, published)?)?;
    write(".gitignore", "/target\n")?;
    // what is not needed cargo takes out; what stays has the versions that this tree is tested with
    let kept: &[&str] = if published {
        &["rustfmt.toml"]
    } else {
        &["Cargo.lock", "rustfmt.toml"]
    };
    for &file in kept {
        fs::copy(root().join(file), folder.join(file)).with_context(|| file.to_owned())?;
    }
    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).with_context(|| format!("making {}", plugins.display()))?;
    files::write(&plugins, name, template)?;
    Ok(())
}

/// The workspace's manifest.
fn workspace(of_tree: &Table, template: Template, published: bool) -> Result<String> {
    let of_tree = table(of_tree, "workspace")?;
    let dependencies = table(of_tree, "dependencies")?;
    let mut taken = Table::new();
    for name in inherited(template) {
        let dependency = dependencies
            .get(&name)
            .with_context(|| format!("the workspace has no dependency {name}"))?;
        let taken_over = if published {
            versioned(&name, dependency)?
        } else {
            rooted(dependency, root())
        };
        taken.insert(name, taken_over);
    }
    let mut workspace = Table::new();
    let members = ["plugins/*", "plugins/*/cdylib"].map(Value::from);
    workspace.insert(
        "resolver".to_owned(),
        of_tree.get("resolver").cloned().unwrap_or("3".into()),
    );
    workspace.insert("members".to_owned(), Value::Array(members.into()));
    for key in ["package", "lints"] {
        workspace.insert(key.to_owned(), Value::Table(table(of_tree, key)?.clone()));
    }
    workspace.insert("dependencies".to_owned(), Value::Table(taken));
    let mut manifest = Table::new();
    manifest.insert("workspace".to_owned(), Value::Table(workspace));
    let comment = if published {
        "# A Polychip plugin outside the tree, on published packages of Polychip."
    } else {
        "# A Polychip plugin outside the tree. Paths point to the tree that created this file: change them if yours is elsewhere."
    };
    Ok(format!("{comment}\n\n{}", toml::to_string(&manifest)?))
}

fn table<'a>(of: &'a Table, key: &str) -> Result<&'a Table> {
    of.get(key)
        .and_then(Value::as_table)
        .with_context(|| format!("the workspace's manifest has no table {key}"))
}

/// Dependencies that manifests of a plugin take from their workspace.
fn inherited(template: Template) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, manifest) in template.files("xyz") {
        let (_, dependencies) = manifest.split_once("[dependencies]").unwrap_or_default();
        let of_workspace = |line: &str| line.strip_suffix(".workspace = true").map(str::to_owned);
        if path.ends_with("Cargo.toml") {
            names.extend(dependencies.lines().filter_map(of_workspace));
        }
    }
    names
}

/// A dependency by its version alone.
fn versioned(name: &str, dependency: &Value) -> Result<Value> {
    let mut dependency = dependency.clone();
    if let Some(table) = dependency.as_table_mut()
        && table.remove("path").is_some()
    {
        ensure!(
            table.contains_key("version"),
            "{name} has no version in the root Cargo.toml: it is not published"
        );
    }
    Ok(dependency)
}

/// A dependency whose path leads to the tree from anywhere.
fn rooted(dependency: &Value, tree: &Path) -> Value {
    let mut dependency = dependency.clone();
    if let Some(path) = dependency.get_mut("path") {
        let place: PathBuf = tree.join(path.as_str().unwrap_or_default());
        *path = Value::String(place.display().to_string());
    }
    dependency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_workspace_uses_the_trees_versions_and_paths() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine");
        write(&out, "my_npu", Template::Driver, false).unwrap();
        let manifest = fs::read_to_string(out.join("Cargo.toml"))
            .unwrap()
            .parse::<Table>()
            .unwrap();
        let dependencies = &manifest["workspace"]["dependencies"];
        let sdk = dependencies["polychip-sdk"]["path"].as_str().unwrap();
        assert_eq!(Path::new(sdk), root().join("contract/sdk"));
        let metadata = cargo_metadata::MetadataCommand::new()
            .manifest_path(out.join("Cargo.toml"))
            // what is not of this platform may not have been downloaded
            .other_options(["--offline", "--filter-platform", "host-tuple"].map(str::to_owned))
            .exec()
            .unwrap();
        let members: Vec<&str> = metadata
            .workspace_packages()
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        assert_eq!(members, ["polychip-my_npu", "polychip-plugin-my_npu"]);
        let error = write(&out, "other", Template::Basic, false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("must be empty"), "{error}");
    }

    #[test]
    fn published_packages_are_named_by_version_alone() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine");
        write(&out, "my_npu", Template::Driver, true).unwrap();
        let text = fs::read_to_string(out.join("Cargo.toml")).unwrap();
        let manifest = text.parse::<Table>().unwrap();
        let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
        assert!(
            dependencies.values().all(|one| one.get("path").is_none()),
            "{text}"
        );
        assert_eq!(
            dependencies["polychip-sdk"]["version"].as_str(),
            Some(env!("CARGO_PKG_VERSION"))
        );
    }

    #[test]
    fn folder_inside_the_tree_is_refused() {
        let out = root().join("docs/xtask-outside");
        let error = write(&out, "my_npu", Template::Basic, false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("inside the tree") && !out.exists(), "{error}");
    }
}
