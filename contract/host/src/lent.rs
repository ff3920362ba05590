//! Memory of the app that devices use where it lies: an address, a memory file, a dma-buf.
//!
//! Invariants:
//! 1. The owner is dropped when nothing uses the memory any more, no device either.
//! 2. A file is mapped as long as that; where the memory does not begin it, devices are given its address only.

#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Memory, Place, Shared};

/// An address that someone else owns.
pub(crate) struct Lent {
    data: NonNull<u8>,
    bytes: u64,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: whoever made it promised that the memory may be used from any thread; accesses are told apart by `Usage`.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    pub(crate) fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Memory {
    /// Memory of the app at this address, used where it lies; `owner` is dropped when nothing uses it any more.
    ///
    /// # Safety
    /// `bytes` bytes from `data` on can be read and written from any thread until `owner` is dropped, and nobody else
    /// touches them but while no run uses them: an app fills an input before it submits it and reads an output
    /// after the run has ended.
    pub unsafe fn lent(data: NonNull<u8>, bytes: u64, owner: impl Any + Send + Sync) -> Memory {
        let lent = Lent {
            data,
            bytes,
            _owner: Box::new(owner),
        };
        Memory {
            shared: Arc::new(Shared::at(Some(Place::Lent(lent)))),
            bytes,
        }
    }

    /// Memory of the app in a vector, used where it lies.
    #[must_use]
    pub fn of_vec<T: bytemuck::Pod + Send + Sync>(mut values: Vec<T>) -> Memory {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        let (data, len) = (NonNull::from(&mut *bytes).cast(), bytes.len() as u64);
        // SAFETY: the vector's memory does not move with the vector, which nobody reaches any more.
        unsafe { Memory::lent(data, len, values) }
    }

    /// Maps `bytes` bytes of a memory file from byte `offset` on, for devices and the host to share with whoever else
    /// has it mapped: who writes it while a run reads it gets what a race gives.
    ///
    /// # Errors
    /// The range leaves the file, or the file cannot be mapped.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_file(file: std::os::fd::OwnedFd, offset: u64, bytes: u64) -> Result<Memory> {
        let failed = |kind: ErrorKind, words: String| {
            Error::new(
                kind,
                format!("{bytes} bytes of a file from byte {offset} on"),
                words,
            )
        };
        let stat =
            rustix::fs::fstat(&file).map_err(|error| failed(ErrorKind::BadArgument, error.to_string()))?;
        let whole = u64::try_from(stat.st_size).unwrap_or(0);
        if offset.checked_add(bytes).is_none_or(|end| end > whole) {
            let words = format!("the file has {whole} bytes");
            return Err(failed(ErrorKind::BadArgument, words));
        }
        let mapping = map(&file, offset, bytes).map_err(|words| failed(ErrorKind::OutOfMemory, words))?;
        Ok(Memory {
            shared: Arc::new(Shared {
                // a device would map it from its first byte
                file: (offset == 0).then_some(file),
                ..Shared::at(Some(Place::Mapped(mapping)))
            }),
            bytes,
        })
    }

    /// The memory file, for others to map, where the memory is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[must_use]
    pub fn memory_file(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.shared.file.as_ref().map(AsFd::as_fd)
    }

    /// The dma-buf, for others to use, where the memory is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[must_use]
    pub fn dma_buf_file(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.shared.dma_buf.as_ref().map(AsFd::as_fd)
    }

    /// Maps a dma-buf of at least `bytes` bytes, a camera's frame say. The kernel is told when the processor begins and
    /// ends to use it.
    ///
    /// # Errors
    /// It is smaller, or cannot be mapped.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_dma_buf(dma_buf: std::os::fd::OwnedFd, bytes: u64) -> Result<Memory> {
        let failed =
            |kind: ErrorKind, words: String| Error::new(kind, format!("a dma-buf of {bytes} bytes"), words);
        let whole = rustix::fs::seek(&dma_buf, rustix::fs::SeekFrom::End(0)).map_err(|error| {
            failed(
                ErrorKind::BadArgument,
                format!("it does not tell its size: {error}"),
            )
        })?;
        if whole < bytes {
            return Err(failed(ErrorKind::BadArgument, format!("it has {whole} bytes")));
        }
        let mapping = map(&dma_buf, 0, bytes).map_err(|words| failed(ErrorKind::OutOfMemory, words))?;
        Ok(Memory {
            shared: Arc::new(Shared {
                dma_buf: Some(dma_buf),
                ..Shared::at(Some(Place::Mapped(mapping)))
            }),
            bytes,
        })
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn map(
    file: &std::os::fd::OwnedFd,
    offset: u64,
    bytes: u64,
) -> std::result::Result<memmap2::MmapRaw, String> {
    let len = usize::try_from(bytes.max(1)).map_err(|error| error.to_string())?;
    memmap2::MmapOptions::new()
        .offset(offset)
        .len(len)
        .map_raw(file)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    #[test]
    fn memory_of_the_app_is_used_where_it_lies_and_given_back() {
        struct Told {
            _count: Arc<()>,
        }
        let alive = Arc::new(());
        let mut frame = vec![1u8, 2, 3];
        let data = NonNull::from(&mut frame[..]).cast();
        // SAFETY: the vector outlives the memory and is not touched meanwhile.
        let memory = unsafe {
            Memory::lent(
                data,
                3,
                Told {
                    _count: Arc::clone(&alive),
                },
            )
        };
        let clone = memory.clone();
        assert_eq!(clone.access(Access::Read).unwrap()[..], [1, 2, 3]);
        clone.access(Access::Write).unwrap()[1] = 9;
        drop(memory);
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&alive), 1);
        assert_eq!(frame, [1, 9, 3]);
        let floats = Memory::of_vec(vec![1.0f32, 2.0]);
        assert_eq!(floats.bytes(), 8);
        assert_eq!(floats.access(Access::Read).unwrap()[..4], 1.0f32.to_le_bytes());
    }

    #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
    #[test]
    fn a_memory_file_is_shared_with_whoever_else_maps_it() {
        let file = rustix::fs::memfd_create("frame", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 5000).unwrap();
        rustix::io::pwrite(&file, b"frame", 4500).unwrap();
        let other = || file.try_clone().unwrap();
        let memory = Memory::of_file(other(), 4500, 5).unwrap();
        assert_eq!(memory.access(Access::Read).unwrap()[..], *b"frame");
        assert!(!memory.is_file(), "it does not begin the file");
        memory.access(Access::Write).unwrap()[0] = b'F';
        let mut seen = [0; 5];
        rustix::io::pread(&file, &mut seen, 4500).unwrap();
        assert_eq!(seen, *b"Frame");
        assert!(Memory::of_file(other(), 0, 5000).unwrap().memory_file().is_some());
        let error = Memory::of_file(other(), 4500, 501).unwrap_err();
        assert!(error.to_string().contains("5000 bytes"), "{error}");
    }
}
