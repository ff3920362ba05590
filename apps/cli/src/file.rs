//! Atomic file writes.
//!
//! Invariant: a file is written under a temporary name in the same folder, then renamed.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::exit::{Code, bad_input, failure, usage};

/// The content of a file, or of standard input for `-`.
pub(crate) fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file that the command line names.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    content(path).map_err(|error| bad_input(format!("{}: {error}", path.display())))
}

/// Reads a text file that the command line names.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| bad_input(format!("{}: not UTF-8 text", path.display())))
}

/// Writes one file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let name = path
        .file_name()
        .with_context(|| format!("{}: not a file name", path.display()))?;
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let written = || {
        let temporary = tempfile::Builder::new().prefix(".polychip-").tempdir_in(folder)?;
        let place = temporary.path().join(name);
        std::fs::write(&place, bytes)?;
        std::fs::rename(&place, path)
    };
    written().map_err(|error| unwritable(path, &error))
}

/// Checks, before any work, that an output path lies in an existing folder and is not itself a
/// folder.
pub(crate) fn check_place(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let metadata = std::fs::metadata(folder.unwrap_or(Path::new(".")));
    match metadata {
        Ok(metadata) if metadata.is_dir() && !path.is_dir() => Ok(()),
        Ok(metadata) if metadata.is_dir() => Err(usage(format!("{}: a folder", path.display()))),
        Ok(_) => Err(usage(format!(
            "{}: its parent is a file, not a folder",
            path.display()
        ))),
        Err(error) => Err(unwritable(path, &error)),
    }
}

/// An error for a folder that cannot hold the outputs, before anything is run for it.
pub(crate) fn check_folder(folder: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(folder) {
        Ok(metadata) if !metadata.is_dir() => Err(usage(format!("{}: not a folder", folder.display()))),
        _ => Ok(()),
    }
}

/// Writes all files into a folder, which is created if missing. If one cannot be written, none is.
pub(crate) fn write_all(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
    let is_new = !folder.exists();
    let written = || -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let temporary = tempfile::Builder::new().prefix(".polychip-").tempdir_in(folder)?;
        for (name, bytes) in files {
            std::fs::write(temporary.path().join(name), bytes)?;
        }
        for name in files.keys() {
            std::fs::rename(temporary.path().join(name), folder.join(name))?;
        }
        Ok(())
    };
    written().map_err(|error| {
        if is_new {
            // only an empty folder can be removed like this
            let _ = std::fs::remove_dir(folder);
        }
        unwritable(folder, &error)
    })
}

fn unwritable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    failure(
        Code::Usage,
        format!("{}: cannot be written: {error}", path.display()),
    )
}

/// The file name of a tensor: characters that a file cannot hold on some system become `_`.
pub(crate) fn name_of(tensor: &str) -> String {
    let is_kept = |c: char| !c.is_control() && !"/\\:*?\"<>|".contains(c);
    let name: String = tensor.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
    let stem = if name.is_empty() { "_" } else { &name };
    format!("{stem}.npy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names_become_valid_file_names() {
        assert_eq!(name_of("probabilities"), "probabilities.npy");
        assert_eq!(name_of("/model/a:0"), "_model_a_0.npy");
        assert_eq!(name_of("a\0\n\\b"), "a___b.npy");
        assert_eq!(name_of(".."), "...npy");
        assert_eq!(name_of(""), "_.npy");
        assert_eq!(name_of("größe"), "größe.npy");
    }

    #[test]
    fn files_are_written_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        let good = BTreeMap::from([("a.npy".to_owned(), vec![1]), ("b.npy".to_owned(), vec![2])]);
        write_all(&place, &good).unwrap();
        let names = |path: &Path| -> Vec<_> {
            let mut names: Vec<_> = std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&place), ["a.npy", "b.npy"]);
        // a name in a folder that is not there: nothing may be left
        let bad = BTreeMap::from([("a.npy".to_owned(), vec![1]), ("x/b.npy".to_owned(), vec![2])]);
        let other = folder.path().join("other");
        assert!(write_all(&other, &bad).is_err());
        assert!(!other.exists());
    }

    #[test]
    fn file_is_replaced_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("none/plan.json"), b"x").is_err());
    }
}
