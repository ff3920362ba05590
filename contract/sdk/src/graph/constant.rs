//! Elements of a constant, in the model's memory.
//!
//! Invariant: the bytes are checked to be readable when the value is made, and its maker guarantees
//! their lifetime.

#![allow(unsafe_code, reason = "bytes of the model are followed here")]

use std::ops::Range;

use polychip_abi as abi;

use crate::Result;
use crate::raw;

const CHECKED: &str = "invariant: checked when the constant was made";

/// Bytes of the model. They outlive every executable made from it, and have no particular
/// alignment.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    pub(super) data: *const u8,
    pub(super) bytes: u64,
    pub(super) fd: Option<(i64, u64)>,
}

// SAFETY: the model is read-only.
unsafe impl Send for Constant {}
// SAFETY: as above.
unsafe impl Sync for Constant {}

impl Constant {
    /// # Safety
    /// `bytes` are readable as long as the value is used.
    pub(crate) unsafe fn new(bytes: abi::polychip_bytes) -> Result<Constant> {
        // SAFETY: as the caller promises.
        unsafe { raw::slice(bytes.data, bytes.len, "blob bytes") }?;
        Ok(Constant {
            data: bytes.data,
            bytes: bytes.len,
            fd: None,
        })
    }

    /// Bytes that live as long as the program.
    #[must_use]
    pub fn of_static(bytes: &'static [u8]) -> Constant {
        Constant {
            data: bytes.as_ptr(),
            bytes: bytes.len() as u64,
            fd: None,
        }
    }

    /// Bytes that the caller keeps alive.
    ///
    /// # Safety
    /// The bytes must stay alive and unmodified as long as the value or a copy of it is used.
    #[must_use]
    pub unsafe fn kept(bytes: &[u8]) -> Constant {
        Constant {
            data: bytes.as_ptr(),
            bytes: bytes.len() as u64,
            fd: None,
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: checked; alive as the graph view's creator promised.
        unsafe { raw::slice(self.data, self.bytes, "constant") }.expect(CHECKED)
    }

    /// Passes the bytes in order to a callback, as [`pieces`](Constant::pieces) does, in blocks of
    /// [`Constant::BLOCK`] bytes.
    pub fn blocks(&self, each: impl FnMut(&[u8])) {
        self.pieces(Constant::BLOCK, each);
    }

    /// Passes the bytes in order to a callback, in pieces of this many bytes; the last piece may be shorter.
    ///
    /// If the constant has a file, its bytes are read from there. Read through the mapping, they
    /// would count towards the process's memory, in addition to their packed copy.
    ///
    /// # Panics
    /// `piece` is 0.
    pub fn pieces(&self, piece: usize, each: impl FnMut(&[u8])) {
        self.pieces_of(0..self.bytes().len(), piece, each);
    }

    /// Passes these of the bytes in order to a callback, as [`pieces`](Constant::pieces) does.
    ///
    /// # Panics
    /// `piece` is 0, or there are not as many bytes.
    pub fn pieces_of(&self, range: Range<usize>, piece: usize, mut each: impl FnMut(&[u8])) {
        assert!(piece > 0, "a piece of no bytes");
        let bytes = &self.bytes()[range.clone()];
        let mut done = 0;
        #[cfg(unix)]
        if let Some((fd, start)) = self.fd
            && bytes.len() >= Constant::SMALL
            && let Ok(fd) = i32::try_from(fd)
        {
            use std::os::{fd::FromRawFd, unix::fs::FileExt};
            // SAFETY: the host keeps the descriptor open as long as the model; it is not closed here.
            let file = unsafe { std::fs::File::from_raw_fd(fd) };
            let file = std::mem::ManuallyDrop::new(file);
            let mut block = vec![0; piece.min(bytes.len())];
            while done < bytes.len() {
                let block = &mut block[..piece.min(bytes.len() - done)];
                let at = start + (range.start + done) as u64;
                if file.read_exact_at(block, at).is_err() {
                    break;
                }
                each(block);
                done += block.len();
            }
        }
        bytes[done..].chunks(piece).for_each(each);
    }

    /// Size below which a constant is read through its mapping, in bytes. A touched page loads neighbours, sixteen on Linux.
    const SMALL: usize = 16 << 10;

    /// Bytes of a block: a quarter of a usual second-level cache.
    pub const BLOCK: usize = 256 << 10;

    /// The file that the bytes are mapped from, and where they start in it; the host keeps it open.
    #[must_use]
    pub fn file(&self) -> Option<(i64, u64)> {
        self.fd
    }
}
