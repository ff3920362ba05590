//! Whether an ELF file is complete: the loader maps what the headers name, and a read behind the end
//! of a truncated file ends the program.
//!
//! Invariant: every offset and size of the file is checked before it is used. A file that is not
//! understood is left to the loader.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of a 64-bit file header.
const HEADER: usize = 64;
/// Bytes of a 64-bit program header.
const PROGRAM_HEADER: u16 = 56;
/// Type of a program header whose bytes the loader maps.
const LOAD: u32 = 1;
/// Type of the program header that names the libraries and tables.
const DYNAMIC: u32 = 2;
/// More program headers than any library has.
const MOST_HEADERS: u16 = 4096;

/// Some bytes of a header; zeros behind its end.
fn bytes_at<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut found = [0; BYTES];
    if let Some(part) = at.checked_add(BYTES).and_then(|end| bytes.get(at..end)) {
        found.copy_from_slice(part);
    }
    found
}

/// Checks that a 64-bit little-endian file has all bytes that its program headers name.
///
/// # Errors
/// The file is truncated or its header is damaged, as text.
pub(crate) fn check_complete(path: &Path) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut header = [0u8; HEADER];
    let truncated = |needed: u64| {
        format!(
            "it is truncated: its headers name {needed} bytes, the file has {size}; copy or build it again"
        )
    };
    if file.read_exact(&mut header).is_err() {
        return Err(truncated(HEADER as u64));
    }
    let is_known = header[..4] == *b"\x7fELF" && header[4] == 2 && header[5] == 1;
    if !is_known {
        return Ok(());
    }
    let start = u64::from_le_bytes(bytes_at(&header, 32));
    let (bytes, count) = (
        u16::from_le_bytes(bytes_at(&header, 54)),
        u16::from_le_bytes(bytes_at(&header, 56)),
    );
    if bytes != PROGRAM_HEADER || count == 0 || count > MOST_HEADERS {
        return Err(format!(
            "its file header is damaged: {count} program headers of {bytes} bytes"
        ));
    }
    let len = usize::from(bytes) * usize::from(count);
    let Some(end) = start.checked_add(len as u64).filter(|end| *end <= size) else {
        return Err(truncated(start.saturating_add(len as u64)));
    };
    let mut headers = vec![0; len];
    file.seek(SeekFrom::Start(start))
        .and_then(|_| file.read_exact(&mut headers))
        .map_err(|_| truncated(end))?;
    for program in headers.chunks_exact(usize::from(bytes)) {
        let kind = u32::from_le_bytes(bytes_at(program, 0));
        let offset = u64::from_le_bytes(bytes_at(program, 8));
        let in_file = u64::from_le_bytes(bytes_at(program, 32));
        if !matches!(kind, LOAD | DYNAMIC) {
            continue;
        }
        let needed = offset.saturating_add(in_file);
        if needed > size {
            return Err(truncated(needed));
        }
    }
    Ok(())
}

#[cfg(all(
    test,
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
))]
mod tests {
    use super::*;

    #[test]
    fn truncated_file_is_refused_at_every_length() {
        let folder = tempfile::tempdir().unwrap();
        let whole = polychip_test_requirements::libraries::plugin("null").unwrap();
        check_complete(&whole).unwrap();
        let bytes = std::fs::read(&whole).unwrap();
        let path = folder.path().join("truncated.so");
        for len in [20, 63, 64, 200, 4096, bytes.len() / 2] {
            std::fs::write(&path, &bytes[..len]).unwrap();
            let words = check_complete(&path).unwrap_err();
            assert!(words.contains("truncated"), "{len}: {words}");
        }
        let mut damaged = bytes;
        damaged[54] = 1;
        std::fs::write(&path, &damaged).unwrap();
        assert!(check_complete(&path).unwrap_err().contains("damaged"));
    }
}
