//! Linux dma-bufs of the host: allocation, and CPU access to them.
//!
//! Invariants:
//! 1. A descriptor that is made here is closed with its value, and is not inherited across `exec`.
//! 2. The CPU reads and writes only between [`begin`] and [`end`], which maintain its caches.
//!
//! Not here: users of the memory (`memory`), sources on this machine (`dma_buf_source`).

#![allow(unsafe_code, reason = "calls of the kernel's own, by number")]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, Updater, ioctl, opcode};

use crate::dma_buf_source::DmaBufSource;

/// `struct udmabuf_create`.
#[repr(C)]
struct Udmabuf {
    memfd: u32,
    flags: u32,
    offset: u64,
    size: u64,
}

/// `UDMABUF_FLAGS_CLOEXEC`.
const CLOEXEC: u32 = 1;

/// `UDMABUF_CREATE`, which returns the descriptor as its value.
struct CreateUdmabuf(Udmabuf);

// SAFETY: the kernel reads one `struct udmabuf_create` and gives a new descriptor.
unsafe impl Ioctl for CreateUdmabuf {
    type Output = OwnedFd;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::write::<Udmabuf>(b'u', 0x42)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<OwnedFd> {
        // SAFETY: a descriptor that the kernel has just made for us.
        Ok(unsafe { OwnedFd::from_raw_fd(out as RawFd) })
    }
}

/// `struct dma_heap_allocation_data`.
#[repr(C)]
struct HeapAllocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

/// `DMA_HEAP_IOCTL_ALLOC`.
const ALLOCATE: Opcode = opcode::read_write::<HeapAllocation>(b'H', 0);

/// `DMA_BUF_IOCTL_SYNC`, of a `struct dma_buf_sync`: its flags.
const SYNC: Opcode = opcode::write::<u64>(b'b', 0);
/// `DMA_BUF_SYNC_RW`.
const BOTH: u64 = 3;
/// `DMA_BUF_SYNC_END`.
const END: u64 = 4;

/// Makes a dma-buf of the first `bytes` bytes of an anonymous file, a multiple of the page size.
///
/// The file can no longer shrink.
pub(crate) fn of_file(file: &OwnedFd, bytes: u64) -> rustix::io::Result<OwnedFd> {
    rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::SHRINK)?;
    let create = CreateUdmabuf(Udmabuf {
        memfd: file.as_raw_fd() as u32,
        flags: CLOEXEC,
        offset: 0,
        size: bytes,
    });
    // SAFETY: the device's own call, on the device, with its own record.
    unsafe { ioctl(DmaBufSource::Udmabuf.open()?, create) }
}

/// Allocates a dma-buf of `bytes` zeroed bytes, a multiple of the page size.
pub(crate) fn of_heap(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let mut wanted = HeapAllocation {
        len: bytes,
        fd: 0,
        fd_flags: (OFlags::RDWR | OFlags::CLOEXEC).bits(),
        heap_flags: 0,
    };
    // SAFETY: the opcode belongs to this record.
    let call = unsafe { Updater::<ALLOCATE, HeapAllocation>::new(&mut wanted) };
    // SAFETY: the heap's own call, on a heap, with its own record.
    unsafe { ioctl(DmaBufSource::Heap.open()?, call) }?;
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(wanted.fd as RawFd) })
}

fn sync(fd: &OwnedFd, flags: u64) -> rustix::io::Result<()> {
    loop {
        // SAFETY: the opcode belongs to a record that is one number.
        let call = unsafe { Setter::<SYNC, u64>::new(flags) };
        // SAFETY: a dma-buf's own call, on a dma-buf, with its own record.
        match unsafe { ioctl(fd.as_fd(), call) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Begins CPU reads and writes.
pub(crate) fn begin(fd: &OwnedFd) -> rustix::io::Result<()> {
    sync(fd, BOTH)
}

/// Ends CPU access and makes its writes visible to devices.
pub(crate) fn end(fd: &OwnedFd) -> rustix::io::Result<()> {
    sync(fd, BOTH | END)
}
