//! Memory of a board, and the copies to, from and on it.
//!
//! Invariants:
//! 1. It is released once, before its opening.
//! 2. A copy stays within the memory, and is counted.

use std::ffi::c_void;
use std::sync::Arc;

use polychip_sdk::{Error, Result};
use polychip_sys::ascend::bindings as acl;

use super::Opening;

/// Memory of a board.
pub struct Piece {
    opening: Arc<Opening>,
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: an address of the board's, which only the library's calls use.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    /// Memory of so many bytes; of one, where none are wanted.
    pub(crate) fn new(opening: &Arc<Opening>, bytes: usize) -> Result<Piece> {
        opening.enter()?;
        let mut address = std::ptr::null_mut();
        let symbols = opening.driver.library.symbols();
        let policy = acl::ACL_MALLOC_HUGE_FIRST as i32;
        // SAFETY: the address is writable.
        let code = unsafe { symbols.aclrtMalloc(&raw mut address, bytes.max(1), policy) };
        opening.driver.check("aclrtMalloc", code)?;
        if address.is_null() {
            return Err(Error::new(
                polychip_sdk::ErrorKind::OutOfMemory,
                format!("aclrtMalloc gives no memory of {bytes} bytes"),
            ));
        }
        Ok(Piece {
            opening: Arc::clone(opening),
            address,
            bytes,
        })
    }

    /// The board's address of a range.
    ///
    /// # Errors
    /// If the range leaves the memory.
    pub(crate) fn address(&self, offset: usize, bytes: usize) -> Result<*mut c_void> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let all = self.bytes;
            return Err(Error::bad_argument(format!(
                "{bytes} bytes at {offset} leave memory of {all} bytes"
            )));
        }
        Ok(self.address.cast::<u8>().wrapping_add(offset).cast())
    }

    /// Reads the first bytes, and waits for them.
    pub(crate) fn read(&self, to: &mut [u8]) -> Result<()> {
        let from = self.address(0, to.len())?;
        self.copy(
            to.as_mut_ptr().cast(),
            from,
            to.len(),
            acl::ACL_COPY_DEVICE_TO_HOST,
        )
    }

    /// Writes the first bytes, and waits until they are there.
    pub(crate) fn write(&self, from: &[u8]) -> Result<()> {
        let to = self.address(0, from.len())?;
        self.copy(to, from.as_ptr().cast(), from.len(), acl::ACL_COPY_HOST_TO_DEVICE)
    }

    fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.opening.enter()?;
        self.opening.count(kind, bytes);
        let symbols = self.opening.driver.library.symbols();
        // SAFETY: one side is this memory, in range; the other the caller's slice. The call waits.
        let code = unsafe { symbols.aclrtMemcpy(to, bytes, from, bytes, kind as i32) };
        self.opening.driver.check("aclrtMemcpy", code)
    }

    /// Enqueues a copy of a range of other memory of this board to a range of this, on an opening's stream of runs.
    pub(crate) fn copy_from(
        &self,
        opening: &Opening,
        at: usize,
        (from, offset): (&Piece, usize),
        bytes: usize,
    ) -> Result<()> {
        let (to, from) = (self.address(at, bytes)?, from.address(offset, bytes)?);
        let kind = acl::ACL_COPY_DEVICE_TO_DEVICE;
        opening.count(kind, bytes);
        let symbols = opening.driver.library.symbols();
        let stream = opening.stream();
        // SAFETY: both in range, and held by the run until the stream was waited for.
        let code = unsafe { symbols.aclrtMemcpyAsync(to, bytes, from, bytes, kind as i32, stream) };
        opening.driver.check("aclrtMemcpyAsync", code)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // a lost board has let go of it
        if self.opening.enter().is_ok() {
            // SAFETY: made by this context, which is alive, and let go of once.
            unsafe { self.opening.driver.library.symbols().aclrtFree(self.address) };
        }
    }
}
