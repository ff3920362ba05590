//! Host memory that several devices share without a copy, and its current users.
//!
//! Invariants:
//! 1. The memory stays mapped as long as anything holds it. A run that never ended, or that only a
//!    reset ended, holds it for ever.
//! 2. At any time the memory is used either by runs, or by one host writer, or by any number of
//!    host readers.
//! 3. The kernel is informed of every CPU access to a dma-buf (`crate::dma_buf`): those of the
//!    host, and those of runs on a device that uses its address.

use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapMut, MmapRaw};

use crate::device_info::DeviceInfo;
use crate::dma_buf_source::DmaBufSource;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::page_size::page_bytes;
use crate::storage::Storage;

/// Whether the system has anonymous files that devices can map.
pub(crate) const HAS_FILES: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Maps `bytes` zeroed bytes, at least one page.
fn mapped(bytes: u64) -> Result<MmapRaw> {
    let failed = |words: String| {
        Error::new(
            ErrorKind::OutOfMemory,
            format!("{bytes} bytes of shared memory"),
            words,
        )
    };
    let len = usize::try_from(bytes.max(1)).map_err(|error| failed(error.to_string()))?;
    let mapping = MmapMut::map_anon(len).map_err(|error| failed(error.to_string()))?;
    Ok(MmapRaw::from(mapping))
}

/// Page-aligned, zeroed host memory. Clones share it. Thread-safe.
#[derive(Clone)]
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bytes: u64,
}

/// The mapping, kept alive by every buffer over it, and its usage.
pub(crate) struct Shared {
    /// `None` for memory that a device made. Raw, because devices write while the host holds
    /// references to the value.
    pub(crate) storage: Option<Storage>,
    /// Guard bytes in the storage.
    pub(crate) guard: Option<Guard>,
    /// The memory file that is mapped from its first byte, if any.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) file: Option<std::os::fd::OwnedFd>,
    /// The dma-buf of the same memory, if any.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) dma_buf: Option<std::os::fd::OwnedFd>,
    pub(crate) usage: Mutex<Usage>,
}

#[derive(Default)]
pub(crate) struct Usage {
    runs: u32,
    readers: u32,
    /// Copies in progress of memory that runs may be reading.
    copies: u32,
    writer: bool,
    /// Open CPU accesses to a dma-buf.
    cpu_accesses: u32,
}

impl Shared {
    /// The usage of memory that a device made.
    pub(crate) fn of_device() -> Arc<Shared> {
        Arc::new(Shared::at(None))
    }

    /// Memory in this storage, without users.
    pub(crate) fn at(storage: Option<Storage>) -> Shared {
        Shared {
            storage,
            guard: None,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            file: None,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            dma_buf: None,
            usage: Mutex::default(),
        }
    }

    /// The guard bytes that were overwritten, as text with `{}` in place of the memory's name.
    pub(crate) fn damage(&self) -> Option<String> {
        match (&self.guard, &self.storage) {
            (Some(guard), Some(Storage::Mapped(mapping))) => guard.damage(mapping),
            _ => None,
        }
    }

    /// Where the memory begins in its file or mapping, in bytes.
    pub(crate) fn start(&self) -> u64 {
        self.guard.map_or(0, |guard| guard.before)
    }

    /// Whether this holds the memory itself, not only its usage.
    pub(crate) fn is_mapped(&self) -> bool {
        self.storage.is_some()
    }

    fn usage(&self) -> std::sync::MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an access of the CPU.
    fn begin_cpu_access(&self, usage: &mut Usage) -> std::result::Result<(), &'static str> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(fd) = &self.dma_buf {
            if usage.cpu_accesses == 0 {
                crate::dma_buf::begin(fd).map_err(|_| "the kernel refused CPU access to the dma-buf")?;
            }
            usage.cpu_accesses += 1;
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = usage;
        Ok(())
    }

    /// Ends an access of the CPU.
    fn end_cpu_access(&self, usage: &mut Usage) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(fd) = &self.dma_buf {
            usage.cpu_accesses -= 1;
            if usage.cpu_accesses == 0
                && let Err(error) = crate::dma_buf::end(fd)
            {
                tracing::error!("the kernel failed to end CPU access to the dma-buf: {error}");
            }
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = usage;
    }

    /// Marks the start of a run that uses the memory, by its address or by a handle.
    pub(crate) fn begin_run(&self, by_address: bool) -> std::result::Result<(), &'static str> {
        let mut usage = self.usage();
        if usage.writer || usage.readers > 0 {
            return Err("the host is accessing the memory");
        }
        if by_address {
            self.begin_cpu_access(&mut usage)?;
        }
        usage.runs += 1;
        Ok(())
    }

    /// Marks the end of a run.
    pub(crate) fn end_run(&self, by_address: bool) {
        let mut usage = self.usage();
        usage.runs -= 1;
        if by_address {
            self.end_cpu_access(&mut usage);
        }
    }

    /// Whether a run uses the memory.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.usage().runs > 0
    }

    /// Begins a host read or write, through the address of the memory or of a device's own copy.
    pub(crate) fn begin_access(
        &self,
        write: bool,
        by_address: bool,
    ) -> std::result::Result<(), &'static str> {
        let mut usage = self.usage();
        if usage.runs > 0 {
            return Err("a run in flight uses the memory");
        }
        if usage.writer || (write && usage.readers + usage.copies > 0) {
            return Err("another access to the memory is open");
        }
        if by_address {
            self.begin_cpu_access(&mut usage)?;
        }
        if write {
            usage.writer = true;
        } else {
            usage.readers += 1;
        }
        Ok(())
    }

    /// Begins a host read of memory that runs may be reading too.
    pub(crate) fn begin_copy(&self) -> std::result::Result<(), &'static str> {
        let mut usage = self.usage();
        if usage.writer {
            return Err("another access to the memory is open");
        }
        self.begin_cpu_access(&mut usage)?;
        usage.copies += 1;
        Ok(())
    }

    /// Ends the copy.
    pub(crate) fn end_copy(&self) {
        let mut usage = self.usage();
        usage.copies -= 1;
        self.end_cpu_access(&mut usage);
    }

    /// Ends a host access.
    pub(crate) fn end_access(&self, write: bool, by_address: bool) {
        let mut usage = self.usage();
        if write {
            usage.writer = false;
        } else {
            usage.readers -= 1;
        }
        if by_address {
            self.end_cpu_access(&mut usage);
        }
    }
}

impl Memory {
    /// Maps `bytes` bytes, at least one page.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn new(bytes: u64) -> Result<Memory> {
        let guard = Guard::around(bytes);
        let mapping = mapped(guard.map_or(bytes, |guard| guard.whole()))?;
        #[cfg(target_os = "linux")]
        if mapping.len() >= 2 << 20 {
            // fewer translation misses on large tensors; a kernel may refuse at no cost
            let _ = mapping.advise(memmap2::Advice::HugePage);
        }
        Ok(Memory::of(mapping, bytes, guard))
    }

    /// As [`Memory::new`], for memory that is filled gradually and often not completely. Uses small
    /// pages only, so that untouched pages take no memory.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn sparse(bytes: u64) -> Result<Memory> {
        let mapping = mapped(bytes)?;
        #[cfg(target_os = "linux")]
        {
            // for systems with huge pages everywhere; a kernel without them refuses at no cost
            let _ = mapping.advise(memmap2::Advice::NoHugePage);
        }
        Ok(Memory::of(mapping, bytes, None))
    }

    fn of(mapping: MmapRaw, bytes: u64, guard: Option<Guard>) -> Memory {
        if let Some(guard) = &guard {
            guard.fill(&mapping);
        }
        Memory {
            shared: Arc::new(Shared {
                guard,
                ..Shared::at(Some(Storage::Mapped(mapping)))
            }),
            bytes,
        }
    }

    /// Allocates memory that every importing device among `devices` can import: a dma-buf if one of
    /// them needs that, else an anonymous file if one of them needs that, else plain pages.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn for_devices<'a>(bytes: u64, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> Result<Memory> {
        let (mut dma_buf, mut file) = (false, false);
        for info in devices {
            dma_buf |= info.wants_dma_bufs();
            file |= info.wants_memory_files();
        }
        match (dma_buf, file) {
            (true, _) => Memory::dma_buf(bytes),
            (false, true) => Memory::file(bytes),
            (false, false) => Memory::new(bytes),
        }
    }

    /// Whether every importing device among `devices` can import this memory.
    #[must_use]
    pub fn suits<'a>(&self, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> bool {
        let (file, dma_buf) = (self.is_file(), self.is_dma_buf());
        devices.into_iter().all(|info| {
            info.imports_host_memory
                || (file && info.imports_memory_files)
                || (dma_buf && info.imports_dma_bufs)
                || !info.imports_memory()
        })
    }

    /// Whether the memory is an anonymous file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.fd().is_some()
    }

    /// Whether the memory is a dma-buf.
    #[must_use]
    pub fn is_dma_buf(&self) -> bool {
        self.dma_buf_fd().is_some()
    }

    /// Allocates a dma-buf of at least `bytes` bytes from the first source that provides one.
    ///
    /// # Errors
    /// The system has no memory left, or this machine has no source of dma-bufs.
    pub fn dma_buf(bytes: u64) -> Result<Memory> {
        let mut last = None;
        for &source in DmaBufSource::available() {
            match Memory::dma_buf_from(source, bytes) {
                Ok(memory) => return Ok(memory),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("a dma-buf of {bytes} bytes"),
                "this machine has no /dev/udmabuf and no /dev/dma_heap/system that this process may open",
            )
        }))
    }

    /// Allocates a dma-buf of at least `bytes` bytes from this source.
    ///
    /// # Errors
    /// The source is missing or provides no buffer of this size (`/dev/udmabuf`: 64 MiB by default,
    /// see `/sys/module/udmabuf/parameters/size_limit_mb`), or the system has no memory left.
    pub fn dma_buf_from(source: DmaBufSource, bytes: u64) -> Result<Memory> {
        let failed = |words: String| {
            let what = format!("a dma-buf of {bytes} bytes by {source:?}");
            Error::new(ErrorKind::OutOfMemory, what, words)
        };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let system = |error: rustix::io::Errno| failed(error.to_string());
            let whole = bytes
                .max(1)
                .checked_next_multiple_of(page_bytes())
                .ok_or_else(|| failed("the size overflows when rounded up to whole pages".to_owned()))?;
            let len = usize::try_from(whole).map_err(|error| failed(error.to_string()))?;
            let (file, dma_buf) = match source {
                DmaBufSource::Udmabuf => {
                    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
                    let file = rustix::fs::memfd_create("polychip", flags).map_err(system)?;
                    rustix::fs::ftruncate(&file, whole).map_err(system)?;
                    let dma_buf = crate::dma_buf::of_file(&file, whole).map_err(system)?;
                    (Some(file), dma_buf)
                }
                DmaBufSource::Heap => (None, crate::dma_buf::of_heap(whole).map_err(system)?),
            };
            let mapping = memmap2::MmapOptions::new()
                .len(len)
                .map_raw(file.as_ref().unwrap_or(&dma_buf))
                .map_err(|error| failed(error.to_string()))?;
            Ok(Memory {
                shared: Arc::new(Shared {
                    file,
                    dma_buf: Some(dma_buf),
                    ..Shared::at(Some(Storage::Mapped(mapping)))
                }),
                bytes,
            })
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            Err(failed("this system has no dma-bufs".to_owned()))
        }
    }

    /// Maps `bytes` bytes of an anonymous file, for devices that map a file themselves rather than
    /// take a host address. On systems without such files, the same as [`Memory::new`].
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
            let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
            let file =
                rustix::fs::memfd_create("polychip", flags).map_err(|error| failed(error.to_string()))?;
            let guard = Guard::around(bytes);
            let whole = guard.map_or(bytes.max(1), |guard| guard.whole());
            rustix::fs::ftruncate(&file, whole).map_err(|error| failed(error.to_string()))?;
            // a process that gets the file must not be able to truncate it under this mapping, or to deny
            // writing by further seals
            let seals = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&file, seals).map_err(|error| failed(error.to_string()))?;
            let mapping = MmapRaw::map_raw(&file).map_err(|error| failed(error.to_string()))?;
            let mut memory = Memory::of(mapping, bytes, guard);
            if let Some(shared) = Arc::get_mut(&mut memory.shared) {
                shared.file = Some(file);
            }
            Ok(memory)
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            Memory::new(bytes)
        }
    }

    /// Whether a run that has started, and has not been seen to end, uses the memory.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.shared.is_in_flight()
    }

    /// Descriptor of the anonymous file, if the memory is one.
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

    /// Descriptor of the dma-buf, if the memory is one.
    pub(crate) fn dma_buf_fd(&self) -> Option<i64> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use std::os::fd::AsRawFd;
            self.shared.dma_buf.as_ref().map(|fd| i64::from(fd.as_raw_fd()))
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            None
        }
    }

    /// Size requested, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same memory as `bytes` bytes, or `None` if it is smaller.
    #[must_use]
    pub fn resized(&self, bytes: u64) -> Option<Memory> {
        let room = match self.shared.storage.as_ref()? {
            Storage::Mapped(mapping) => self
                .shared
                .guard
                .map_or(mapping.len() as u64, |guard| guard.bytes),
            Storage::External(external) => external.bytes(),
        };
        (bytes <= room).then(|| Memory {
            shared: Arc::clone(&self.shared),
            bytes,
        })
    }

    /// Whether the memory starts at a multiple of `bytes` bytes.
    #[must_use]
    pub fn is_aligned(&self, bytes: usize) -> bool {
        self.data().addr().is_multiple_of(bytes.max(1))
    }

    /// First byte, for a device to import.
    pub(crate) fn data(&self) -> *mut u8 {
        let storage = self.shared.storage.as_ref();
        match storage.expect("invariant: host memory has storage") {
            Storage::Mapped(mapping) => mapping.as_mut_ptr().wrapping_add(self.shared.start() as usize),
            Storage::External(external) => external.data(),
        }
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
    use crate::access::Access;

    #[test]
    fn memory_read_by_a_run_can_be_duplicated() {
        let memory = Memory::new(100).unwrap();
        memory.access(Access::Write).unwrap()[99] = 7;
        memory.shared.begin_run(false).unwrap();
        assert!(memory.access(Access::Read).is_err());
        let copy = memory.duplicate([]).unwrap();
        assert_eq!(copy.access(Access::Read).unwrap()[98..], [0, 7]);
        memory.shared.end_run(false);
        let open = memory.access(Access::Write).unwrap();
        assert!(memory.duplicate([]).is_err());
        drop(open);
        memory.shared.begin_run(false).unwrap();
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))] // Miri has no page tables
    fn sparse_memory_uses_only_touched_pages() {
        const MIB: usize = 1 << 20;
        let memory = Memory::sparse(64 * MIB as u64).unwrap();
        let mut bytes = memory.access(Access::Write).unwrap();
        assert!(bytes[5 * MIB..6 * MIB].iter().all(|&byte| byte == 0));
        (0..64).for_each(|piece| bytes[piece * MIB] = 1);
        let start = format!("{:x}-", bytes.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
        let resident = lines.find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
        let kib: usize = resident.trim().trim_end_matches(" kB").parse().unwrap();
        assert!((64 * 4..2 * 1024).contains(&kib), "{kib} KiB");
    }

    #[test]
    #[cfg(not(miri))] // Miri opens no devices
    fn error_without_dma_bufs_names_the_missing_source() {
        if DmaBufSource::available().is_empty() {
            let error = Memory::dma_buf(4096).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("/dev/udmabuf"), "{error}");
        }
        for &source in DmaBufSource::available() {
            let memory = Memory::dma_buf_from(source, 5000).unwrap();
            assert!(memory.is_dma_buf() && memory.is_file() == (source == DmaBufSource::Udmabuf));
            memory.access(Access::Write).unwrap()[4999] = 7;
            // nested CPU accesses: a copy beside a run
            memory.shared.begin_run(true).unwrap();
            assert_eq!(memory.read_beside_runs().unwrap()[4998..], [0, 7]);
            memory.shared.end_run(true);
            assert_eq!(memory.access(Access::Read).unwrap()[4999], 7);
        }
    }

    #[test]
    fn runs_and_accesses_exclude_each_other() {
        let memory = Memory::new(100).unwrap();
        let shared = &memory.shared;
        shared.begin_run(false).unwrap();
        shared.begin_run(false).unwrap();
        assert!(shared.begin_access(false, true).is_err());
        shared.end_run(false);
        shared.end_run(false);
        shared.begin_access(false, true).unwrap();
        shared.begin_access(false, true).unwrap();
        assert!(shared.begin_access(true, true).is_err() && shared.begin_run(false).is_err());
        shared.end_access(false, true);
        shared.end_access(false, true);
        shared.begin_access(true, true).unwrap();
        assert!(shared.begin_access(false, true).is_err() && shared.begin_run(false).is_err());
        shared.end_access(true, true);
        shared.begin_run(false).unwrap();
    }
}
