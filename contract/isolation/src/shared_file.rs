//! Memory files that both processes map, sealed against shrinking and growing.
//!
//! Invariants:
//! 1. A file that is mapped for writing cannot shrink: it is sealed before it is mapped.
//! 2. Copies stay inside the mapping.

#![allow(unsafe_code, reason = "mapped memory is read and written here")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use polychip_sdk::{Error, ErrorKind, Result};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::fenced_mapping::FencedMapping;

/// Descriptors in a message; the kernel's limit is 253.
pub(crate) const MOST_DESCRIPTORS: usize = 200;

/// A mapped range of a file.
pub(crate) struct SharedFile {
    file: OwnedFd,
    mapping: FencedMapping,
    /// Where the range begins in the mapping, which begins at a page.
    start: usize,
    bytes: usize,
}

fn system(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{what}: {error}"))
}

/// Against shrinking, growing and further seals, with which another process could deny writing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes a memory file of `bytes` bytes, at least one, sealed against shrinking and growing.
pub(crate) fn sealed(bytes: u64) -> Result<OwnedFd> {
    let what = || format!("a memory file of {bytes} bytes");
    let file = rustix::fs::memfd_create("polychip", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|error| system(&what(), error))?;
    rustix::fs::ftruncate(&file, bytes.max(1)).map_err(|error| system(&what(), error))?;
    rustix::fs::fcntl_add_seals(&file, SEALS).map_err(|error| system(&what(), error))?;
    Ok(file)
}

/// Makes a memory file that holds these bytes, sealed against shrinking and growing.
pub(crate) fn filled<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<OwnedFd> {
    let file = rustix::fs::memfd_create("polychip", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|error| system("a memory file", error))?;
    for mut part in parts {
        while !part.is_empty() {
            match rustix::io::write(&file, part) {
                Ok(written) => part = &part[written..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(system("a memory file", error)),
            }
        }
    }
    rustix::fs::fcntl_add_seals(&file, SEALS).map_err(|error| system("a memory file", error))?;
    Ok(file)
}

/// Whether a memory file is sealed against shrinking; false for any other file.
pub(crate) fn is_sealed(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Seals a memory file against shrinking.
///
/// # Errors
/// `Unsupported` if its maker did not allow seals: another process could truncate it.
pub(crate) fn seal(file: BorrowedFd<'_>) -> Result<()> {
    if is_sealed(file) {
        return Ok(());
    }
    rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK).map_err(|error| {
        Error::unsupported(format!(
            "the memory file cannot be sealed against shrinking ({error}); make it with MFD_ALLOW_SEALING"
        ))
    })
}

/// Size of a file, in bytes.
pub(crate) fn size(file: BorrowedFd<'_>) -> Result<u64> {
    let stat = rustix::fs::fstat(file).map_err(|error| system("a shared file", error))?;
    // dma-bufs state their size only here
    if stat.st_size == 0 {
        return Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).unwrap_or(0));
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Reads the first `bytes` bytes of a file that the other process wrote. Reads, so that truncation
/// is an error.
///
/// # Errors
/// The file is shorter, or holds less than it claims, or memory runs out.
pub(crate) fn read(file: BorrowedFd<'_>, bytes: u64) -> Result<Vec<u8>> {
    let stat = rustix::fs::fstat(file).map_err(|error| system("a shared file", error))?;
    let held = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    if u64::try_from(stat.st_size).unwrap_or(0) < bytes || held < bytes {
        return Err(Error::new(
            ErrorKind::Persistent,
            format!("a shared file of {bytes} bytes holds {held}"),
        ));
    }
    let len = usize::try_from(bytes).map_err(|error| system("a shared file", error))?;
    let mut content = Vec::new();
    content
        .try_reserve_exact(len)
        .map_err(|error| system("a shared file", error))?;
    content.resize(len, 0);
    let mut done = 0;
    while done < len {
        match rustix::io::pread(file, &mut content[done..], done as u64) {
            Ok(0) => return Err(Error::new(ErrorKind::Persistent, "a shared file was truncated")),
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(system("a shared file", error)),
        }
    }
    Ok(content)
}

impl SharedFile {
    /// Maps a new sealed file of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Result<SharedFile> {
        SharedFile::map(sealed(bytes)?, 0, bytes)
    }

    /// Maps a range of a file for reading and writing. The file cannot shrink: it is sealed, or a
    /// dma-buf.
    pub(crate) fn map(file: OwnedFd, offset: u64, bytes: u64) -> Result<SharedFile> {
        SharedFile::of(file, offset, bytes, true)
    }

    /// Maps a range of a file for reading.
    pub(crate) fn map_read_only(file: OwnedFd, offset: u64, bytes: u64) -> Result<SharedFile> {
        SharedFile::of(file, offset, bytes, false)
    }

    fn of(file: OwnedFd, offset: u64, bytes: u64, writable: bool) -> Result<SharedFile> {
        let whole = size(file.as_fd())?;
        if offset.checked_add(bytes).is_none_or(|end| end > whole) {
            return Err(Error::bad_argument(format!(
                "{bytes} bytes at {offset} of a shared file of {whole} bytes"
            )));
        }
        let page = rustix::param::page_size() as u64;
        let start = offset % page;
        let len = usize::try_from(start + bytes.max(1)).map_err(|error| system("a mapping", error))?;
        let mapping = FencedMapping::new(file.as_fd(), offset - start, len, writable);
        Ok(SharedFile {
            mapping: mapping.map_err(|error| system(&format!("a mapping of {bytes} bytes"), error))?,
            file,
            start: start as usize,
            bytes: bytes as usize,
        })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the first byte.
    pub(crate) fn data(&self) -> *mut u8 {
        self.mapping.as_mut_ptr().wrapping_add(self.start)
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::bad_argument(format!(
                "{bytes} bytes at {offset} of {} shared bytes",
                self.bytes
            ))),
        }
    }

    /// Copies `bytes` bytes from `from` to this file.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes.
    pub(crate) unsafe fn copy_in(&self, offset: usize, from: *const u8, bytes: usize) -> Result<()> {
        self.check(offset, bytes)?;
        // SAFETY: inside the mapping, checked above; the caller vouches for the other side, which no
        // mapping of this file overlaps.
        unsafe { std::ptr::copy_nonoverlapping(from, self.data().add(offset), bytes) };
        Ok(())
    }

    /// Copies `bytes` bytes of this file to `to`.
    ///
    /// # Safety
    /// `to` is writable for `bytes` bytes.
    pub(crate) unsafe fn copy_out(&self, offset: usize, to: *mut u8, bytes: usize) -> Result<()> {
        self.check(offset, bytes)?;
        // SAFETY: as in `copy_in`.
        unsafe { std::ptr::copy_nonoverlapping(self.data().add(offset).cast_const(), to, bytes) };
        Ok(())
    }

    /// The memory as an array of `T`, which the other process may change at any time.
    ///
    /// # Panics
    /// The file is smaller than `count` values.
    pub(crate) fn atomics<T: SharedValue>(&self, count: usize) -> &[T] {
        assert!(
            count * size_of::<T>() <= self.bytes && self.start == 0,
            "{} shared bytes",
            self.bytes
        );
        // SAFETY: inside the mapping, which begins at a page; every value is made of atomics, for which
        // any bits are valid and any change by another process is a change by another thread.
        unsafe { std::slice::from_raw_parts(self.data().cast_const().cast::<T>(), count) }
    }
}

/// A value made of atomics only.
///
/// # Safety
/// Every field is an atomic integer, and the alignment is at most 64.
pub(crate) unsafe trait SharedValue {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_file_cannot_shrink_under_its_mapping() {
        let shared = SharedFile::new(10_000).unwrap();
        assert!(rustix::fs::fcntl_add_seals(shared.file(), SealFlags::FUTURE_WRITE).is_err());
        assert!(rustix::fs::ftruncate(shared.file(), 0).is_err());
        assert!(rustix::fs::ftruncate(shared.file(), 20_000).is_err());
        let unsealable = rustix::fs::memfd_create("plain", MemfdFlags::CLOEXEC).unwrap();
        let error = seal(unsealable.as_fd()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("MFD_ALLOW_SEALING"));
    }

    #[test]
    fn file_that_holds_less_than_it_claims_is_refused() {
        let file = filled([&b"abc"[..], b"de"]).unwrap();
        assert_eq!(read(file.as_fd(), 5).unwrap(), b"abcde");
        let file = rustix::fs::memfd_create("plain", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, b"abcde").unwrap();
        rustix::fs::ftruncate(&file, 1 << 40).unwrap();
        assert!(read(file.as_fd(), 1 << 40).is_err());
        rustix::fs::ftruncate(&file, 2).unwrap();
        assert!(read(file.as_fd(), 5).is_err());
        assert!(SharedFile::map(file, 0, 3).is_err());
    }

    #[test]
    fn range_inside_a_page_is_mapped_and_copied() {
        let file = sealed(9000).unwrap();
        let whole = SharedFile::map(rustix::io::dup(&file).unwrap(), 0, 9000).unwrap();
        let part = SharedFile::map(file, 4500, 100).unwrap();
        let (from, mut to) = ([7u8; 4], [0u8; 4]);
        // SAFETY: four bytes each.
        unsafe {
            part.copy_in(96, from.as_ptr(), 4).unwrap();
            whole.copy_out(4596, to.as_mut_ptr(), 4).unwrap();
            assert!(part.copy_in(97, from.as_ptr(), 4).is_err());
        }
        assert_eq!(to, from);
    }
}
