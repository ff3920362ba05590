//! A plugin's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::template::Template;

/// Longest name.
const MOST_LETTERS: usize = 32;

/// Refuses names that cannot name a plugin, its crates and its library.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_name(name: &str) -> Result<()> {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    ensure!(
        name.bytes().all(letters) && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()),
        "plugin name {name:?}: lower-case letters, digits and _ only, a letter first"
    );
    ensure!(
        !name.starts_with("plugin_"),
        "plugin name {name}: polychip_plugin_… is reserved for plugin libraries"
    );
    ensure!(
        name.len() <= MOST_LETTERS,
        "plugin name {name}: {} letters; the limit is {MOST_LETTERS}",
        name.len()
    );
    Ok(())
}

/// The packages of a plugin: itself, and its library.
#[must_use]
pub fn packages(name: &str) -> [String; 2] {
    [format!("polychip-{name}"), format!("polychip-plugin-{name}")]
}

/// Writes the files of a plugin into a new folder of `plugins`, and returns the folder.
///
/// # Errors
/// The name is invalid, the folder exists, or a file cannot be written.
pub fn write(plugins: &Path, name: &str, template: Template) -> Result<PathBuf> {
    check_name(name)?;
    let folder = plugins.join(name);
    fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    let written = template.files(name).iter().try_for_each(|(file, text)| {
        let path = folder.join(file);
        let parent = path.parent().expect("invariant: a file lies in a folder");
        fs::create_dir_all(parent)?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    });
    if written.is_err() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    written.map(|()| folder)
}

/// Formats a plugin in the workspace `tree`, because the length of lines depends on the name. Returns whether
/// `cargo fmt` ran; without it the code is only less tidy.
pub fn format(tree: &Path, name: &str) -> bool {
    let [plugin, wrapper] = packages(name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let formatted = Command::new(cargo)
        .args(["fmt", "--package", &plugin, "--package", &wrapper])
        .current_dir(tree)
        .output();
    formatted.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_crate_names_are_refused() {
        for name in ["npu", "my_npu2", "x"] {
            check_name(name).unwrap();
        }
        for name in [
            "",
            "2x",
            "plugin_cpu",
            "_x",
            "NPU",
            "a-b",
            "a/b",
            "..",
            "ü",
            &"x".repeat(33),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn existing_folder_is_not_changed() {
        let plugins = tempfile::tempdir().unwrap();
        let folder = write(plugins.path(), "npu", Template::Basic).unwrap();
        fs::write(folder.join("src/caps.rs"), "mine").unwrap();
        assert!(write(plugins.path(), "npu", Template::Driver).is_err());
        assert_eq!(fs::read_to_string(folder.join("src/caps.rs")).unwrap(), "mine");
    }
}
