//! A mapping of a file between two pages without access: a write past its end or in front of it ends
//! the process at once, before it changes other shared memory.
//!
//! Invariant: the whole range is unmapped once, on drop.

#![allow(unsafe_code, reason = "memory is mapped at a fixed address here")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapping of a file, with a page in front and one behind.
pub(crate) struct FencedMapping {
    reserved: *mut c_void,
    whole: usize,
    data: *mut u8,
}

// SAFETY: an address range of the process, which any thread may use and unmap.
unsafe impl Send for FencedMapping {}
// SAFETY: shared references give the address only.
unsafe impl Sync for FencedMapping {}

impl FencedMapping {
    /// Maps `len` bytes, at least one, of a file, from `offset` on, which is a multiple of the page size.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        writable: bool,
    ) -> std::io::Result<FencedMapping> {
        let page = rustix::param::page_size();
        let too_large = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let whole = len
            .max(1)
            .checked_next_multiple_of(page)
            .and_then(|body| body.checked_add(2 * page))
            .ok_or_else(too_large)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| too_large())?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new range at an address that the system chooses.
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let made = FencedMapping {
            reserved,
            whole,
            data: reserved.cast::<u8>().wrapping_add(page),
        };
        let access = if writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: inside the range that was reserved above, which only this value uses.
        let mapped = unsafe {
            libc::mmap(
                made.data.cast(),
                len.max(1),
                access,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                offset,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(made)
    }

    /// Address of the first byte.
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.data
    }
}

impl Drop for FencedMapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new`, and is unmapped once.
        unsafe { libc::munmap(self.reserved, self.whole) };
    }
}
