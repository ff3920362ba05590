//! Files on the board, named by their contents.
//!
//! Invariant: a file has its name only if its bytes match the name and are on the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::{DIFFERS, failure};

/// BLAKE3 of a file, in hex digits, and its length.
pub(crate) fn digest(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                hasher.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
    Ok((hasher.finalize().to_hex().to_string(), length))
}

/// Prints a line per file; `none` for what is not there, or is a link, a pipe or a folder.
pub(crate) fn hash(files: &[PathBuf]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for path in files {
        let is_file = std::fs::symlink_metadata(path).is_ok_and(|data| data.is_file());
        let (hash, length) = if is_file {
            digest(path).with_context(|| path.display().to_string())?
        } else {
            ("none".to_owned(), 0)
        };
        writeln!(out, "{hash} {length} {}", path.display())?;
    }
    Ok(())
}

/// Files that were verified by this process.
#[derive(Debug, Default)]
pub(crate) struct Verified(BTreeMap<PathBuf, Identity>);

/// What changes with a file: device, inode, length, and the times of its last changes.
type Identity = (u64, u64, u64, i64, i64, i64, i64);

impl Verified {
    /// An error if a file named by its contents has others, or is not a regular file. Files with other names are not ours.
    pub(crate) fn check(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.len() != 64 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(());
        }
        let differs = |words: String| failure(DIFFERS, format!("{}: {words}", path.display()));
        let data = std::fs::symlink_metadata(path).map_err(|error| differs(error.to_string()))?;
        if !data.is_file() {
            return Err(differs("not a file".to_owned()));
        }
        let now = (
            data.dev(),
            data.ino(),
            data.len(),
            data.mtime(),
            data.mtime_nsec(),
            data.ctime(),
            data.ctime_nsec(),
        );
        if self.0.get(path) == Some(&now) {
            return Ok(());
        }
        let (found, _) = digest(path).map_err(|error| differs(error.to_string()))?;
        if found != name {
            return Err(differs(format!("its contents have BLAKE3 {found}")));
        }
        self.0.insert(path.to_owned(), now);
        Ok(())
    }
}

/// Gives a file its name, where it holds what it should.
pub(crate) fn keep(from: &Path, to: &Path, expected: &str) -> anyhow::Result<()> {
    let (found, length) = digest(from).with_context(|| from.display().to_string())?;
    if found != expected {
        let _ = std::fs::remove_file(from);
        return Err(failure(
            DIFFERS,
            format!(
                "{}: received {length} bytes with BLAKE3 {found} instead of {expected}, and deleted them",
                from.display()
            ),
        ));
    }
    let named = || -> std::io::Result<()> {
        File::open(from)?.sync_all()?;
        std::fs::rename(from, to)?;
        if let Some(folder) = to.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    named().with_context(|| format!("{} cannot become {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_its_name_only_if_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let [part, whole] = ["a.part", "a"].map(|name| folder.path().join(name));
        let expected = blake3::hash(b"all of it").to_hex().to_string();
        std::fs::write(&part, b"all of").unwrap();
        let error = keep(&part, &whole, &expected).unwrap_err();
        assert_eq!(error.downcast_ref::<crate::Failure>().unwrap().code, DIFFERS);
        assert!(error.to_string().contains("6 bytes"), "{error}");
        assert!(!part.exists() && !whole.exists());
        std::fs::write(&part, b"all of it").unwrap();
        keep(&part, &whole, &expected).unwrap();
        assert_eq!(std::fs::read(&whole).unwrap(), b"all of it");
        assert_eq!(digest(&whole).unwrap(), (expected, 9));
    }

    #[test]
    fn named_file_is_verified_by_its_contents_again_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let name = blake3::hash(b"model").to_hex().to_string();
        let path = folder.path().join(&name);
        let mut verified = Verified::default();
        assert!(verified.check(&path).is_err(), "it is not there");
        std::fs::write(&path, b"model").unwrap();
        verified.check(&path).unwrap();
        verified.check(&path).unwrap();
        // of the same length
        std::fs::write(folder.path().join("other"), b"lemon").unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        let error = verified.check(&path).unwrap_err();
        assert_eq!(error.downcast_ref::<crate::Failure>().unwrap().code, DIFFERS);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(folder.path().join("model"), b"model").unwrap();
        std::os::unix::fs::symlink(folder.path().join("model"), &path).unwrap();
        assert!(verified.check(&path).is_err(), "a link");
        verified
            .check(&folder.path().join("no name of contents"))
            .unwrap();
    }
}
