//! Plugins of one shape: a reader of one plugin finds everything in the next.
//!
//! Invariant: each `plugins/NAME/src` has the files of [`FILES`], which `docs/adding-a-plugin.md` names too. What else
//! a vendor needs (its driver's calls, its formats) lies beside them, below all of them but `plugin`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::root::root;

/// What a plugin has, with what is in it.
const FILES: &[(&str, &str)] = &[
    ("lib.rs", "docs, `mod` lines, the query"),
    (
        "plugin.rs",
        "the plugin and its devices: which optional calls they offer, and whom each call goes to",
    ),
    ("caps.rs", "what a device supports, each refusal with its reason"),
    ("lower.rs", "from a part to a blob, and from a blob to what runs"),
    ("exec.rs", "loaded parts, and how they compute a run"),
    ("buffer.rs", "memory that ports are bound to"),
    (
        "telemetry.rs",
        "what is measured of a device: rates, sensors, settings",
    ),
];

/// Checks every plugin of the repository, and that the guide names the files.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let plugins = root().join("plugins");
    let mut folders: Vec<_> = fs::read_dir(&plugins)
        .with_context(|| format!("reading {}", plugins.display()))?
        .collect::<std::io::Result<Vec<_>>>()?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    for folder in folders {
        one(&folder, findings);
    }
    let guide = "docs/adding-a-plugin.md";
    let text = fs::read_to_string(root().join(guide)).with_context(|| format!("reading {guide}"))?;
    for (file, _) in FILES {
        if !text.contains(&format!("`src/{file}`")) {
            findings.push(format!(
                "{guide}: `src/{file}`, which every plugin has, is not named"
            ));
        }
    }
    Ok(())
}

fn one(folder: &Path, findings: &mut Vec<String>) {
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    for (file, holds) in FILES {
        if !folder.join("src").join(file).is_file() {
            findings.push(format!("plugins/{name}/src/{file} is missing: {holds}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_without_one_of_the_files_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let sources = folder.path().join("src");
        fs::create_dir(&sources).unwrap();
        for (file, _) in FILES {
            fs::write(sources.join(file), "//! Something.\n").unwrap();
        }
        let mut findings = Vec::new();
        one(folder.path(), &mut findings);
        assert!(findings.is_empty(), "{findings:?}");
        fs::remove_file(sources.join("caps.rs")).unwrap();
        one(folder.path(), &mut findings);
        assert!(findings[0].contains("caps.rs is missing"), "{findings:?}");
    }
}
