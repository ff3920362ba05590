//! Memory of the app that devices use in place: an address, a memory file or a dma-buf.
//!
//! Invariants:
//! 1. The owner is dropped once nothing, including every device, uses the memory.
//! 2. A file stays mapped until then. If the memory does not start at the file's first byte,
//!    devices receive its address only.

#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Memory, Shared};
use crate::storage::{ExternalMemory, Storage};

impl Memory {
    /// Wraps the app's memory at this address, in place. Drops `owner` once nothing uses the
    /// memory.
    ///
    /// # Safety
    /// `bytes` bytes starting at `data` can be read and written from any thread until `owner` is
    /// dropped. Nothing else touches them while a run uses them: an app fills an input before it
    /// submits the run, and reads an output after the run has ended.
    pub unsafe fn external(data: NonNull<u8>, bytes: u64, owner: impl Any + Send + Sync) -> Memory {
        // SAFETY: the caller's promise.
        let external = unsafe { ExternalMemory::new(data, bytes, Box::new(owner)) };
        Memory {
            shared: Arc::new(Shared::at(Some(Storage::External(external)))),
            bytes,
        }
    }

    /// Wraps a vector of the app, in place.
    #[must_use]
    pub fn of_vec<T: bytemuck::Pod + Send + Sync>(mut values: Vec<T>) -> Memory {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        let (data, len) = (NonNull::from(&mut *bytes).cast(), bytes.len() as u64);
        // SAFETY: the vector's memory does not move with the vector, which is unreachable from here on.
        unsafe { Memory::external(data, len, values) }
    }

    /// Maps `bytes` bytes of a memory file, starting at byte `offset`. Devices and host share them
    /// with every other mapping of the file. Writing them while a run reads them is a data race.
    ///
    /// # Errors
    /// The range exceeds the file, or the file cannot be mapped.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_file(file: std::os::fd::OwnedFd, offset: u64, bytes: u64) -> Result<Memory> {
        let failed = |kind: ErrorKind, words: String| {
            Error::new(kind, format!("{bytes} bytes of a file at offset {offset}"), words)
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
                // a device would map the file from its first byte
                file: (offset == 0).then_some(file),
                ..Shared::at(Some(Storage::Mapped(mapping)))
            }),
            bytes,
        })
    }

    /// The memory file, for other processes to map, if the memory is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[must_use]
    pub fn memory_file(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        let file = self.shared.file.as_ref().map(AsFd::as_fd);
        // the file of guarded memory does not begin with it
        file.filter(|_| self.shared.guard.is_none())
    }

    /// The dma-buf, for other libraries or processes, if the memory is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[must_use]
    pub fn dma_buf_file(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.shared.dma_buf.as_ref().map(AsFd::as_fd)
    }

    /// Maps a dma-buf of at least `bytes` bytes, such as a camera frame. The host announces its CPU
    /// accesses to the kernel.
    ///
    /// # Errors
    /// The dma-buf is smaller, or cannot be mapped.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_dma_buf(dma_buf: std::os::fd::OwnedFd, bytes: u64) -> Result<Memory> {
        let failed =
            |kind: ErrorKind, words: String| Error::new(kind, format!("a dma-buf of {bytes} bytes"), words);
        let whole = rustix::fs::seek(&dma_buf, rustix::fs::SeekFrom::End(0)).map_err(|error| {
            failed(
                ErrorKind::BadArgument,
                format!("its size cannot be read: {error}"),
            )
        })?;
        if whole < bytes {
            return Err(failed(ErrorKind::BadArgument, format!("it has {whole} bytes")));
        }
        let mapping = map(&dma_buf, 0, bytes).map_err(|words| failed(ErrorKind::OutOfMemory, words))?;
        Ok(Memory {
            shared: Arc::new(Shared {
                dma_buf: Some(dma_buf),
                ..Shared::at(Some(Storage::Mapped(mapping)))
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
    fn app_memory_is_used_in_place_and_its_owner_dropped() {
        struct Owner {
            _count: Arc<()>,
        }
        let alive = Arc::new(());
        let mut frame = vec![1u8, 2, 3];
        let data = NonNull::from(&mut frame[..]).cast();
        // SAFETY: the vector outlives the memory and is not touched meanwhile.
        let memory = unsafe {
            Memory::external(
                data,
                3,
                Owner {
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
    fn memory_file_is_shared_with_other_mappings() {
        let file = rustix::fs::memfd_create("frame", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 5000).unwrap();
        rustix::io::pwrite(&file, b"frame", 4500).unwrap();
        let other = || file.try_clone().unwrap();
        let memory = Memory::of_file(other(), 4500, 5).unwrap();
        assert_eq!(memory.access(Access::Read).unwrap()[..], *b"frame");
        assert!(
            !memory.is_file(),
            "it does not start at the first byte of the file"
        );
        memory.access(Access::Write).unwrap()[0] = b'F';
        let mut seen = [0; 5];
        rustix::io::pread(&file, &mut seen, 4500).unwrap();
        assert_eq!(seen, *b"Frame");
        assert!(Memory::of_file(other(), 0, 5000).unwrap().memory_file().is_some());
        let error = Memory::of_file(other(), 4500, 501).unwrap_err();
        assert!(error.to_string().contains("5000 bytes"), "{error}");
    }
}
