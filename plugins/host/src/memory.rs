//! Host memory that several devices share without a copy, and who is using it.
//!
//! Invariants:
//! 1. The memory is mapped as long as anything holds it; a run that never ended holds it for ever.
//! 2. Either runs use it, or one writer of the host, or any number of readers of the host.

use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapMut, MmapRaw};

use crate::error::{Error, ErrorKind, Result};

/// Page-aligned, zeroed host memory. Clones share it.
#[derive(Clone)]
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
    bytes: u64,
}

/// The mapping, kept alive by every buffer over it, and its usage.
pub(crate) struct Shared {
    /// `None` for memory of a device's own. Raw, because devices write while the host holds references
    /// to the value.
    mapping: Option<MmapRaw>,
    /// The anonymous file that is mapped, where it is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    file: Option<std::os::fd::OwnedFd>,
    usage: Mutex<Usage>,
}

#[derive(Default)]
struct Usage {
    runs: u32,
    readers: u32,
    writer: bool,
}

impl Shared {
    /// The usage of memory that a device made itself.
    pub(crate) fn of_device() -> Arc<Shared> {
        Arc::new(Shared {
            mapping: None,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            file: None,
            usage: Mutex::default(),
        })
    }

    fn usage(&self) -> std::sync::MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins to use the memory.
    pub(crate) fn begin_run(&self) -> std::result::Result<(), &'static str> {
        let mut usage = self.usage();
        if usage.writer || usage.readers > 0 {
            return Err("the host is accessing the memory");
        }
        usage.runs += 1;
        Ok(())
    }

    /// A run has ended.
    pub(crate) fn end_run(&self) {
        self.usage().runs -= 1;
    }

    /// Whether a run uses the memory.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.usage().runs > 0
    }

    /// The host begins to read or write.
    pub(crate) fn begin_access(&self, write: bool) -> std::result::Result<(), &'static str> {
        let mut usage = self.usage();
        if usage.runs > 0 {
            return Err("a run in flight uses the memory");
        }
        if usage.writer || (write && usage.readers > 0) {
            return Err("another access to the memory is open");
        }
        if write {
            usage.writer = true;
        } else {
            usage.readers += 1;
        }
        Ok(())
    }

    /// The host is done.
    pub(crate) fn end_access(&self, write: bool) {
        let mut usage = self.usage();
        if write {
            usage.writer = false;
        } else {
            usage.readers -= 1;
        }
    }
}

impl Memory {
    /// Maps `bytes` bytes, at least one page.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn new(bytes: u64) -> Result<Memory> {
        let failed = |words: String| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("{bytes} bytes of shared memory"),
                words,
            )
        };
        let len = usize::try_from(bytes.max(1)).map_err(|error| failed(error.to_string()))?;
        let mapping = MmapMut::map_anon(len).map_err(|error| failed(error.to_string()))?;
        let mapping = MmapRaw::from(mapping);
        #[cfg(target_os = "linux")]
        if len >= 2 << 20 {
            // Fewer translation misses on large tensors; a kernel that refuses loses nothing.
            let _ = mapping.advise(memmap2::Advice::HugePage);
        }
        Ok(Memory {
            shared: Arc::new(Shared {
                mapping: Some(mapping),
                #[cfg(any(target_os = "linux", target_os = "android"))]
                file: None,
                usage: Mutex::default(),
            }),
            bytes,
        })
    }

    /// Maps `bytes` bytes of an anonymous file, which devices that take no host address map themselves.
    /// Where the system has no such files, the same as [`Memory::new`].
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn file(bytes: u64) -> Result<Memory> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let failed = |words: String| {
                Error::new(
                    ErrorKind::OutOfMemory,
                    format!("{bytes} bytes of shared memory"),
                    words,
                )
            };
            let file = rustix::fs::memfd_create("polychip", rustix::fs::MemfdFlags::CLOEXEC)
                .map_err(|error| failed(error.to_string()))?;
            rustix::fs::ftruncate(&file, bytes.max(1)).map_err(|error| failed(error.to_string()))?;
            let mapping = MmapRaw::map_raw(&file).map_err(|error| failed(error.to_string()))?;
            Ok(Memory {
                shared: Arc::new(Shared {
                    mapping: Some(mapping),
                    file: Some(file),
                    usage: Mutex::default(),
                }),
                bytes,
            })
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            Memory::new(bytes)
        }
    }

    /// Descriptor of the anonymous file, where the memory is one.
    pub(crate) fn fd(&self) -> Option<i64> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use std::os::fd::AsRawFd;
            self.shared.file.as_ref().map(|file| i64::from(file.as_raw_fd()))
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            None
        }
    }

    /// Bytes asked for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// First byte, for a device to import.
    pub(crate) fn data(&self) -> *mut u8 {
        let mapping = self
            .shared
            .mapping
            .as_ref()
            .expect("invariant: host memory is mapped");
        mapping.as_mut_ptr()
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_accesses_exclude_each_other() {
        let memory = Memory::new(100).unwrap();
        let shared = &memory.shared;
        shared.begin_run().unwrap();
        shared.begin_run().unwrap();
        assert!(shared.begin_access(false).is_err());
        shared.end_run();
        shared.end_run();
        shared.begin_access(false).unwrap();
        shared.begin_access(false).unwrap();
        assert!(shared.begin_access(true).is_err() && shared.begin_run().is_err());
        shared.end_access(false);
        shared.end_access(false);
        shared.begin_access(true).unwrap();
        assert!(shared.begin_access(false).is_err() && shared.begin_run().is_err());
        shared.end_access(true);
        shared.begin_run().unwrap();
    }
}
