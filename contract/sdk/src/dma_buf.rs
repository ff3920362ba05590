//! CPU access to a Linux dma-buf, which keeps the CPU's caches coherent with devices.
//!
//! Not here: the mapping (`memory`).

#![allow(unsafe_code, reason = "a call of the kernel's own, by number")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

use crate::{Access, Error, ErrorKind, Result};

/// `DMA_BUF_IOCTL_SYNC`, of a `struct dma_buf_sync`: its flags.
const SYNC: Opcode = opcode::write::<u64>(b'b', 0);
const READ: u64 = 1;
const WRITE: u64 = 2;
const END: u64 = 4;

fn sync(fd: &OwnedFd, flags: u64) -> Result<()> {
    loop {
        // SAFETY: the opcode belongs to a record that is one number.
        let call = unsafe { Setter::<SYNC, u64>::new(flags) };
        // SAFETY: a dma-buf's own call with its own record; another file refuses it.
        match unsafe { ioctl(fd.as_fd(), call) } {
            Ok(()) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => {
                let what = format!("the kernel refused to begin or end CPU access to the dma-buf: {error}");
                return Err(Error::new(ErrorKind::Persistent, what));
            }
        }
    }
}

/// Flags of an access, for [`begin`] and [`end`].
pub(crate) fn flags(access: Access) -> u64 {
    let mut flags = if access.read { READ } else { 0 };
    if access.write {
        flags |= WRITE;
    }
    flags
}

/// Begins a CPU access.
pub(crate) fn begin(fd: &OwnedFd, flags: u64) -> Result<()> {
    sync(fd, flags)
}

/// Ends a CPU access.
pub(crate) fn end(fd: &OwnedFd, flags: u64) -> Result<()> {
    sync(fd, flags | END)
}
