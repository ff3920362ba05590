//! Files on the board, named by their contents.
//!
//! Invariant: a file has its name only if its bytes match the name and are on the disk.

use std::fs::File;
use std::io::{Read as _, Write as _};
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

/// Prints a line per file.
pub(crate) fn hash(files: &[PathBuf]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for path in files {
        let (hash, length) = digest(path).with_context(|| path.display().to_string())?;
        writeln!(out, "{hash} {length} {}", path.display())?;
    }
    Ok(())
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
}
