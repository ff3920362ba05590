//! Manifests, as far as they state which packages another one depends on: names, path dependencies,
//! the workspace's table.
//!
//! Invariant: development dependencies do not count, because no build of a plugin contains them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The workspace of a package, where it is in one.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: Option<PathBuf>,
    /// Paths of its own packages, from the root.
    paths: BTreeMap<String, String>,
}

impl Workspace {
    /// The folder of a dependency that the workspace's table gives a path.
    pub(crate) fn path_of(&self, dependency: &str) -> Option<PathBuf> {
        Some(self.root.as_ref()?.join(self.paths.get(dependency)?))
    }
}

/// The nearest manifest above a package, or its own, that has a workspace.
pub(crate) fn workspace_of(package: &Path) -> io::Result<Workspace> {
    for folder in package.ancestors() {
        let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        if text.lines().any(|line| section(line) == Some("workspace")) {
            let table = lines_of(&text, |section| section == "workspace.dependencies");
            let paths = table.filter_map(|(name, value)| Some((name.to_owned(), path(value)?.to_owned())));
            return Ok(Workspace {
                root: Some(folder.to_owned()),
                paths: paths.collect(),
            });
        }
    }
    Ok(Workspace::default())
}

/// The name of a package.
pub(crate) fn name(text: &str) -> Option<&str> {
    let mut lines = lines_of(text, |section| section == "package");
    let (_, value) = lines.find(|(key, _)| *key == "name")?;
    Some(value.trim().trim_matches('"'))
}

/// Names of dependencies that are in a build, with their paths where they state one.
pub(crate) fn dependencies(text: &str) -> Vec<(&str, Option<&str>)> {
    let counts = |section: &str| {
        let kind = section.rsplit('.').next().unwrap_or(section);
        section != "workspace.dependencies" && matches!(kind, "dependencies" | "build-dependencies")
    };
    let in_table =
        lines_of(text, counts).map(|(key, value)| (key.trim_end_matches(".workspace"), path(value)));
    // `[dependencies.name]`, a table of its own
    let own = text.lines().filter_map(section).filter_map(|section| {
        let (kind, name) = section.rsplit_once('.')?;
        let table = lines_of(text, move |other| other == section);
        let path = table
            .filter(|(key, _)| *key == "path")
            .map(|(_, value)| value.trim().trim_matches('"'));
        counts(kind).then_some((name, path.last()))
    });
    in_table.chain(own).collect()
}

/// The name of the section that a line opens.
fn section(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix('[')?.strip_suffix(']')?;
    (!inner.starts_with('[')).then_some(inner)
}

/// Keys and values of the sections that are meant.
fn lines_of(text: &str, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        if let Some(section) = section(line) {
            inside = is_meant(section);
            return None;
        }
        let (key, value) = line.split_once('=')?;
        (inside && !line.trim_start().starts_with('#')).then_some((key.trim(), value))
    })
}

/// The path in `{ path = "..." }`.
fn path(value: &str) -> Option<&str> {
    let rest = value.split_once("path")?.1.trim_start().strip_prefix('=')?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}
