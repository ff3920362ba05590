//! Host memory that several devices share without a copy, and who is using it.
//!
//! Invariants:
//! 1. The memory is mapped as long as anything holds it; a run that never ended, or that only a reset
//!    ended, holds it for ever.
//! 2. Either runs use it, or one writer of the host, or any number of readers of the host.

use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapMut, MmapRaw};

use crate::buffer::{Access, AccessGuard};
use crate::device::DeviceInfo;
use crate::error::{Error, ErrorKind, Result};

/// Whether the system has anonymous files, which devices can map.
pub(crate) const HAS_FILES: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// On what mapped memory starts.
pub(crate) fn page_bytes() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        rustix::param::page_size() as u64
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        // the least of the systems that there are
        4096
    }
}

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
    /// Copies being made of what runs may be reading.
    copies: u32,
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

    /// Whether this holds the memory itself, and not only its usage.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapping.is_some()
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
        if usage.writer || (write && usage.readers + usage.copies > 0) {
            return Err("another access to the memory is open");
        }
        if write {
            usage.writer = true;
        } else {
            usage.readers += 1;
        }
        Ok(())
    }

    /// The host begins to read what runs may be reading too.
    fn begin_copy(&self) -> std::result::Result<(), &'static str> {
        let mut usage = self.usage();
        if usage.writer {
            return Err("another access to the memory is open");
        }
        usage.copies += 1;
        Ok(())
    }

    /// The copy is made.
    pub(crate) fn end_copy(&self) {
        self.usage().copies -= 1;
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

    /// Memory that all of these devices can import that import any: an anonymous file where one of them wants
    /// that, else plain pages.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn for_devices<'a>(bytes: u64, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> Result<Memory> {
        if devices.into_iter().any(DeviceInfo::wants_memory_files) {
            Memory::file(bytes)
        } else {
            Memory::new(bytes)
        }
    }

    /// Whether every device of these that imports memory can import this.
    #[must_use]
    pub fn suits<'a>(&self, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> bool {
        let file = self.is_file();
        devices
            .into_iter()
            .all(|info| file || info.imports_host_memory || !info.imports_memory_files)
    }

    /// Whether the memory is an anonymous file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.fd().is_some()
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

    /// Whether a run that was started and not seen to end uses the memory.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.shared.is_in_flight()
    }

    /// Opens the whole to the host, with no device told: for memory that no device has imported, or whose
    /// device is lost.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while a run uses the memory or another access is open.
    pub fn access(&self, access: Access) -> Result<AccessGuard<'static>> {
        let write = access == Access::Write;
        self.shared
            .begin_access(write)
            .map_err(|words| Error::new(ErrorKind::InUse, "host memory", words))?;
        Ok(AccessGuard::of_memory(self, write))
    }

    /// Opens the whole for reading while runs may be reading it too. None may be writing it: it holds
    /// an input.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] where the host has a writing access open.
    pub fn read_beside_runs(&self) -> Result<AccessGuard<'static>> {
        self.shared
            .begin_copy()
            .map_err(|words| Error::new(ErrorKind::InUse, "host memory", words))?;
        Ok(AccessGuard::of_copy(self))
    }

    /// Other memory with the same bytes for devices; as [`Memory::read_beside_runs`].
    ///
    /// # Errors
    /// The host has a writing access open, or the system has no memory left.
    pub fn duplicate<'a>(&self, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> Result<Memory> {
        let source = self.read_beside_runs()?;
        let made = Memory::for_devices(self.bytes, devices)?;
        made.access(Access::Write)?.copy_from_slice(&source);
        Ok(made)
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
    fn memory_that_a_run_reads_can_be_duplicated() {
        let memory = Memory::new(100).unwrap();
        memory.access(Access::Write).unwrap()[99] = 7;
        memory.shared.begin_run().unwrap();
        assert!(memory.access(Access::Read).is_err());
        let copy = memory.duplicate([]).unwrap();
        assert_eq!(copy.access(Access::Read).unwrap()[98..], [0, 7]);
        memory.shared.end_run();
        let open = memory.access(Access::Write).unwrap();
        assert!(memory.duplicate([]).is_err());
        drop(open);
        memory.shared.begin_run().unwrap();
    }

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
