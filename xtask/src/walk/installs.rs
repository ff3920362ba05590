//! The folders that a page installs programs from: `cargo install --path FOLDER`.
//!
//! Invariant: each of them has a `Cargo.toml`. The walk starts programs that are built instead of installing them, so it
//! would not notice that a folder has moved.

use std::path::Path;

use anyhow::{Result, ensure};

/// Fails if a command of the page, in a block or in its text, names a folder below `root` without a `Cargo.toml`.
pub(super) fn check(page: &str, root: &Path) -> Result<()> {
    for (at, line) in page.lines().enumerate() {
        for folder in folders(line) {
            ensure!(
                root.join(folder).join("Cargo.toml").is_file(),
                "line {}: `cargo install --path {folder}`: there is no {folder}/Cargo.toml",
                at + 1
            );
        }
    }
    Ok(())
}

/// The folders that the commands of a line name.
fn folders(line: &str) -> impl Iterator<Item = &str> {
    line.split("cargo install ").skip(1).filter_map(|command| {
        let mut words = command.split_whitespace();
        words.find(|word| *word == "--path")?;
        let folder = words.next()?;
        // within a sentence the command ends with a backtick
        folder.split('`').next()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folder_without_a_manifest_is_reported_with_its_line() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("apps/cli")).unwrap();
        fs::write(root.path().join("apps/cli/Cargo.toml"), "").unwrap();
        let right = "```sh\ncargo install --path apps/cli --features full   # all commands\n```\n\n\
            Or `cargo install --features full --path apps/cli`, and `cargo install NAME`.\n";
        check(right, root.path()).unwrap();
        for (page, line) in [
            (
                "# Page\n\n```sh\ncargo install --path cli --features full\n```\n",
                4,
            ),
            (
                "# Page\n\nOr `cargo install --features full --path cli`, and so on.\n",
                3,
            ),
        ] {
            let error = check(page, root.path()).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("line {line}: `cargo install --path cli`: there is no cli/Cargo.toml")
            );
        }
    }
}
