//! Opening files that a user or a model names.
//!
//! Invariant: only regular files are opened. A pipe would block until someone writes to it, a device
//! may do anything when it is opened, and neither has a size to check lengths against.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// The file cannot be opened, or is no regular file: the error names what it is.
pub fn open_regular(path: &Path) -> io::Result<File> {
    opened(path).map(|(file, _)| file)
}

/// Reads a regular file to its end.
///
/// # Errors
/// As for [`open_regular`], or the file cannot be read.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, metadata) = opened(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`open_regular`], with the open file's metadata.
pub(crate) fn opened(path: &Path) -> io::Result<(File, Metadata)> {
    // before it is opened, because opening may have effects
    check(std::fs::metadata(path)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // the name may have become that of a pipe since
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check(metadata.file_type())?;
    Ok((file, metadata))
}

/// Refuses what is no regular file.
///
/// # Errors
/// It is none: the error names what it is.
pub(crate) fn check(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        let words = "is a folder, not a file";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, words));
    }
    let words = format!("is {}, not a regular file", name(kind));
    Err(io::Error::new(io::ErrorKind::InvalidInput, words))
}

#[cfg(unix)]
fn name(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "something else"
    }
}

#[cfg(not(unix))]
fn name(_: FileType) -> &'static str {
    "something else"
}

#[cfg(all(test, unix, not(miri)))] // Miri makes no pipes
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), b"bytes").unwrap();
        assert_eq!(read_regular(&at("file")).unwrap(), b"bytes");
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        for (path, words) in [
            (at("pipe"), "is a pipe, not a regular file"),
            (at("link"), "is a pipe, not a regular file"),
            (at("socket"), "is a socket, not a regular file"),
            ("/dev/zero".into(), "is a device, not a regular file"),
            (folder.path().to_owned(), "is a folder, not a file"),
        ] {
            for error in [open_regular(&path).unwrap_err(), read_regular(&path).unwrap_err()] {
                assert_eq!(error.to_string(), words, "{}", path.display());
            }
        }
        assert_eq!(
            open_regular(&at("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
