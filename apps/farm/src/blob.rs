//! A file of this host, named by its contents.

use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use sha2::Digest as _;

/// A file that boards may need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Where it lies here.
    pub path: PathBuf,
    /// Its own name.
    pub name: String,
    /// BLAKE3 of its bytes, 64 hex digits: its name on boards.
    pub blake3: String,
    /// SHA-256 of a program's bytes, 64 hex digits: boards compute it without a program of ours. Absent of other
    /// files, whose BLAKE3 a verified runner computes.
    pub sha256: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
    /// It is a program.
    pub program: bool,
    /// Processor that it is built for, as `uname -m` says it; none where it is no program of Linux.
    pub machine: Option<&'static str>,
}

impl Blob {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path, program: bool) -> io::Result<Blob> {
        let mut file = std::fs::File::open(path)?;
        let mut header = [0; 20];
        // a file may be shorter
        let machine = file.read_exact(&mut header).ok().and_then(|()| machine(&header));
        file.rewind()?;
        let mut hasher = blake3::Hasher::new();
        let bytes = io::copy(&mut file, &mut hasher)?;
        let sha256 = if program {
            file.rewind()?;
            let mut buffer = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
            file.read_to_end(&mut buffer)?;
            let digest = sha2::Sha256::digest(&buffer);
            Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
        } else {
            None
        };
        Ok(Blob {
            path: path.to_owned(),
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            blake3: hasher.finalize().to_hex().to_string(),
            sha256,
            bytes,
            program,
            machine,
        })
    }

    /// Why it does not run on a board whose `uname -sm` this is; none where it may.
    #[must_use]
    pub fn is_foreign_to(&self, system: &str) -> Option<String> {
        let machine = self.machine?;
        let board = system.split_whitespace().last()?;
        // a processor's older mode: programs of 32 bits
        let is_same = machine == board || (machine == "arm" && board.starts_with("arm"));
        (!is_same).then(|| {
            format!(
                "{} is built for {machine}, but the board is {board}; name a matching one with `runner` in the inventory",
                self.path.display()
            )
        })
    }
}

/// The processor in the header of an ELF file.
fn machine(header: &[u8; 20]) -> Option<&'static str> {
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    match u16::from_le_bytes([header[18], header[19]]) {
        40 => Some("arm"),
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        243 => Some("riscv64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_for_another_processor_is_detected() {
        let own = Blob::of(&std::env::current_exe().unwrap(), true).unwrap();
        assert_eq!(own.machine, Some(std::env::consts::ARCH));
        assert_eq!(
            own.is_foreign_to(&format!("Linux {}", std::env::consts::ARCH)),
            None
        );
        let words = own.is_foreign_to("Linux sparc64").unwrap();
        assert!(words.contains("the board is sparc64"), "{words}");
    }
}
