//! A file of this host, named by its contents.

use std::io;
use std::path::{Path, PathBuf};

/// A file that boards may need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Where it lies here.
    pub path: PathBuf,
    /// Its own name.
    pub name: String,
    /// BLAKE3 of its bytes, 64 hex digits: its name on boards.
    pub blake3: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// It is a program.
    pub program: bool,
}

impl Blob {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path, program: bool) -> io::Result<Blob> {
        let mut file = std::fs::File::open(path)?;
        let mut hasher = blake3::Hasher::new();
        let bytes = io::copy(&mut file, &mut hasher)?;
        Ok(Blob {
            path: path.to_owned(),
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            blake3: hasher.finalize().to_hex().to_string(),
            bytes,
            program,
        })
    }
}
