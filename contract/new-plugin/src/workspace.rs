//! A plugin in its own folder: a workspace that uses Polychip's crates.
//!
//! Invariants:
//! 1. Versions, lints and settings are those of Polychip's own manifest; none is written here.
//! 2. Existing files stay: the folder is new or empty, and outside the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use crate::archive;
use crate::plugin::{check_name, write};
use crate::template::Template;

/// Where the new workspace takes Polychip's crates from.
#[derive(Clone, Copy, Debug)]
pub enum Polychip<'a> {
    /// Published packages of the version that this program is built of.
    Published,
    /// A clone of the repository, by paths.
    Repository(&'a Path),
}

/// Writes a workspace with the plugin into the folder `out`, and returns its path.
///
/// # Errors
/// The name is invalid, the folder has files or is inside the repository, `polychip` names no clone, or a file cannot be
/// written. Nothing is left behind then.
pub fn workspace(out: &Path, name: &str, template: Template, polychip: Polychip<'_>) -> Result<PathBuf> {
    check_name(name)?;
    let existed = out.exists();
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let folder = out.canonicalize().with_context(|| out.display().to_string())?;
    let written = check(&folder, polychip).and_then(|()| fill(&folder, name, template, polychip));
    if let Err(error) = written {
        if !existed {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        return Err(error);
    }
    Ok(folder)
}

fn check(folder: &Path, polychip: Polychip<'_>) -> Result<()> {
    if let Polychip::Repository(tree) = polychip {
        let tree = tree.canonicalize().with_context(|| tree.display().to_string())?;
        ensure!(
            !folder.starts_with(&tree) || folder.starts_with(tree.join("target")),
            "the folder {} is inside the repository {}; choose one outside, or write the plugin into the \
             repository with `cargo xtask new-plugin NAME`",
            folder.display(),
            tree.display()
        );
    }
    let is_empty = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .next()
        .is_none();
    ensure!(is_empty, "the folder {} must be empty", folder.display());
    Ok(())
}

fn fill(folder: &Path, name: &str, template: Template, polychip: Polychip<'_>) -> Result<()> {
    let manifest = match polychip {
        Polychip::Published => archive::text("workspace/Cargo.toml").to_owned(),
        Polychip::Repository(tree) => {
            let path = tree.join("Cargo.toml");
            fs::read_to_string(&path)
                .with_context(|| format!("{} is no clone of Polychip's repository", tree.display()))?
        }
    };
    let manifest = manifest
        .parse::<Table>()
        .context("reading the manifest of Polychip's workspace")?;
    let write_file = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write_file("Cargo.toml", &of_plugin(&manifest, template, polychip)?)?;
    write_file(".gitignore", "/target\n")?;
    write_file("rustfmt.toml", archive::text("workspace/rustfmt.toml"))?;
    if let Polychip::Repository(tree) = polychip {
        // what is not needed cargo takes out; what stays has the versions that the repository is tested with
        fs::copy(tree.join("Cargo.lock"), folder.join("Cargo.lock")).context("Cargo.lock")?;
    }
    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).with_context(|| format!("making {}", plugins.display()))?;
    write(&plugins, name, template)?;
    Ok(())
}

/// The workspace's manifest.
fn of_plugin(of_polychip: &Table, template: Template, polychip: Polychip<'_>) -> Result<String> {
    let of_polychip = table(of_polychip, "workspace")?;
    let dependencies = table(of_polychip, "dependencies")?;
    let mut taken = Table::new();
    for name in inherited(template) {
        let dependency = dependencies
            .get(&name)
            .with_context(|| format!("Polychip's workspace has no dependency {name}"))?;
        let taken_over = match polychip {
            Polychip::Published => versioned(&name, dependency)?,
            Polychip::Repository(tree) => rooted(dependency, &tree.canonicalize()?),
        };
        taken.insert(name, taken_over);
    }
    let mut workspace = Table::new();
    let members = ["plugins/*", "plugins/*/cdylib"].map(Value::from);
    workspace.insert(
        "resolver".to_owned(),
        of_polychip.get("resolver").cloned().unwrap_or("3".into()),
    );
    workspace.insert("members".to_owned(), Value::Array(members.into()));
    for key in ["package", "lints"] {
        workspace.insert(key.to_owned(), Value::Table(table(of_polychip, key)?.clone()));
    }
    workspace.insert("dependencies".to_owned(), Value::Table(taken));
    let mut manifest = Table::new();
    manifest.insert("workspace".to_owned(), Value::Table(workspace));
    let comment = match polychip {
        Polychip::Published => {
            "# A Polychip plugin outside the repository, on published packages of Polychip."
        }
        Polychip::Repository(_) => {
            "# A Polychip plugin outside the repository. Paths point to the clone that it was created with: change them \
             if yours is elsewhere."
        }
    };
    Ok(format!("{comment}\n\n{}", toml::to_string(&manifest)?))
}

fn table<'a>(of: &'a Table, key: &str) -> Result<&'a Table> {
    of.get(key)
        .and_then(Value::as_table)
        .with_context(|| format!("the manifest of Polychip's workspace has no table {key}"))
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
            "{name} has no version in Polychip's manifest: it is not published"
        );
    }
    Ok(dependency)
}

/// A dependency whose path leads to the repository from anywhere.
fn rooted(dependency: &Value, tree: &Path) -> Value {
    let mut dependency = dependency.clone();
    if let Some(path) = dependency.get_mut("path") {
        let rooted = tree.join(path.as_str().unwrap_or_default());
        *path = Value::String(rooted.display().to_string());
    }
    dependency
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .unwrap()
    }

    fn manifest(folder: &Path) -> Table {
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        text.parse::<Table>().unwrap()
    }

    #[test]
    fn workspace_uses_the_repositorys_versions_and_paths() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine");
        let root = root();
        let from = Polychip::Repository(&root);
        let made = workspace(&out, "my_npu", Template::Driver, from).unwrap();
        let manifest = manifest(&made);
        let dependencies = &manifest["workspace"]["dependencies"];
        let sdk = dependencies["polychip-sdk"]["path"].as_str().unwrap();
        assert_eq!(Path::new(sdk), root.join("contract/sdk"));
        let metadata = cargo_metadata::MetadataCommand::new()
            .manifest_path(made.join("Cargo.toml"))
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
        let error = workspace(&out, "other", Template::Basic, from)
            .unwrap_err()
            .to_string();
        assert!(error.contains("must be empty"), "{error}");
    }

    #[test]
    fn published_packages_are_named_by_version_alone() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine");
        let made = workspace(&out, "my_npu", Template::Driver, Polychip::Published).unwrap();
        let manifest = manifest(&made);
        let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
        assert!(
            dependencies.values().all(|one| one.get("path").is_none()),
            "{manifest}"
        );
        assert_eq!(
            dependencies["polychip-sdk"]["version"].as_str(),
            Some(env!("CARGO_PKG_VERSION"))
        );
        assert!(!made.join("Cargo.lock").exists());
    }

    #[test]
    fn bad_folders_and_names_are_refused_and_leave_nothing() {
        let root = root();
        let from = Polychip::Repository(&root);
        let inside = root.join("docs/new-plugin-test");
        let error = workspace(&inside, "my_npu", Template::Basic, from)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("inside the repository") && !inside.exists(),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine");
        let empty = tempfile::tempdir().unwrap();
        let none = Polychip::Repository(empty.path());
        let error = workspace(&out, "my_npu", Template::Basic, none).unwrap_err();
        assert!(
            format!("{error:#}").contains("is no clone of") && !out.exists(),
            "{error:#}"
        );
        assert!(workspace(&out, "My-NPU", Template::Basic, Polychip::Published).is_err());
        assert!(!out.exists());
    }
}
