//! Buffers: memory files and dma-bufs that the chip uses in place, and plain host memory that is
//! copied.
//!
//! Invariants:
//! 1. CPU caches are maintained in `begin_access` and `end_access` and around the plugin's copies,
//!    for every context that knows the memory, and before the first context learns of it.
//! 2. Memory that a context knows belongs to one buffer, and is not used after that buffer is gone.
//!
//! Not here: when a run copies (`exec`), the calls themselves (`driver`).

#![allow(unsafe_code, reason = "the host's descriptors are held here")]

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use polychip_sdk::{Access, Buffer, Error, ErrorKind, HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

use crate::driver::{Context, DeviceMemory, Driver};

/// Alignment of mappings, which is that of memory files.
const PAGE: u64 = 4096;

/// A buffer.
pub struct RknnBuffer {
    /// From the file's first byte on, where there is a file.
    host: HostBuffer,
    /// Where ours begins.
    start: usize,
    bytes: usize,
    file: Option<OwnedFd>,
    /// Memory of contexts over it.
    known: Mutex<Vec<Weak<DeviceMemory>>>,
    /// Whether the open access writes.
    writes: AtomicBool,
}

/// Kinds that are imported without a copy.
pub(crate) fn imports(driver: Driver) -> MemoryKinds {
    match (driver.library().imports(), driver.library().is_emulated()) {
        (false, _) => MemoryKinds::of(&[]),
        // the kernel's driver takes dma-bufs only
        (true, false) => MemoryKinds::of(&[MemoryKind::DmaBuf]),
        (true, true) => MemoryKinds::of(&[MemoryKind::Memfd, MemoryKind::DmaBuf]),
    }
}

/// Kinds that ports are bound to: the plugin's own buffers, which are plain memory where the runtime copies.
pub(crate) fn bindable(driver: Driver) -> MemoryKinds {
    if driver.library().imports() {
        imports(driver)
    } else {
        MemoryKinds::of(&[MemoryKind::Host])
    }
}

/// Kinds that can be exported.
pub(crate) fn exports(driver: Driver) -> MemoryKinds {
    if files(driver) {
        MemoryKinds::of(&[MemoryKind::Memfd])
    } else {
        MemoryKinds::of(&[])
    }
}

/// Whether a memory file is memory of the chip's.
fn files(driver: Driver) -> bool {
    driver.library().imports() && driver.library().is_emulated()
}

/// Makes a buffer.
pub(crate) fn create(driver: Driver, wanted: &Memory) -> Result<Arc<RknnBuffer>> {
    let bytes = bytes(wanted)?;
    let file = files(driver) && wanted.alignment() <= PAGE;
    match wanted.kind() {
        MemoryKind::Host if !file => Ok(RknnBuffer::new(HostBuffer::create(wanted)?, 0, bytes, None)),
        MemoryKind::Host | MemoryKind::Memfd if file => {
            let whole = Memory::wanted(MemoryKind::Memfd, wanted.bytes(), wanted.alignment());
            let host = HostBuffer::create(&whole)?;
            let fd = host.export(MemoryKind::Memfd)?.fd();
            let file = hold(fd)?;
            Ok(RknnBuffer::new(host, 0, bytes, Some(file)))
        }
        kind => Err(Error::unsupported(format!(
            "buffers of kind {kind:?} are not made here"
        ))),
    }
}

/// Imports the host's memory without a copy.
pub(crate) fn import(driver: Driver, memory: &Memory) -> Result<Arc<RknnBuffer>> {
    let kind = memory.kind();
    if !imports(driver).contains(kind) {
        return Err(Error::unsupported(format!(
            "memory of kind {kind:?} is not memory of the chip's"
        )));
    }
    let bytes = bytes(memory)?;
    let far = || Error::bad_argument("memory to import leaves the address space");
    let start = usize::try_from(memory.offset()).map_err(|_| far())?;
    let end = memory.offset().checked_add(memory.bytes()).ok_or_else(far)?;
    let fd = memory.fd();
    let whole = fd.map(|fd| Memory::file(kind, fd, 0, end));
    let whole = whole.ok_or_else(|| Error::bad_argument("memory to import has no descriptor"))?;
    let host = HostBuffer::import(&whole)?;
    Ok(RknnBuffer::new(host, start, bytes, Some(hold(fd)?)))
}

/// The size, if the runtime supports it.
fn bytes(memory: &Memory) -> Result<usize> {
    let most = u64::from(u32::MAX);
    let fits = usize::try_from(memory.bytes())
        .ok()
        .filter(|_| memory.bytes() <= most);
    fits.ok_or_else(|| {
        let what = format!("a buffer of {} bytes; the runtime takes {most}", memory.bytes());
        Error::new(ErrorKind::OutOfMemory, what)
    })
}

/// A descriptor of our own for the file of one that is open during the call.
fn hold(fd: Option<i64>) -> Result<OwnedFd> {
    let fd = fd.and_then(|fd| i32::try_from(fd).ok()).filter(|&fd| fd >= 0);
    let fd = fd.ok_or_else(|| Error::bad_argument("memory has no descriptor"))?;
    // SAFETY: the host's or the buffer's own, open during this call by the contract.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let held = borrowed.try_clone_to_owned();
    held.map_err(|error| Error::unsupported(format!("the memory's file cannot be held: {error}")))
}

impl RknnBuffer {
    fn new(host: HostBuffer, start: usize, bytes: usize, file: Option<OwnedFd>) -> Arc<RknnBuffer> {
        Arc::new(RknnBuffer {
            host,
            start,
            bytes,
            file,
            known: Mutex::new(Vec::new()),
            writes: AtomicBool::new(false),
        })
    }

    fn known(&self) -> MutexGuard<'_, Vec<Weak<DeviceMemory>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a context can know it.
    pub(crate) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// The address of a range.
    ///
    /// # Errors
    /// If the range exceeds the buffer.
    pub(crate) fn address(&self, offset: usize, bytes: usize) -> Result<*mut u8> {
        self.check(offset, bytes)?;
        Ok(self.host.as_ptr().wrapping_add(self.start + offset))
    }

    /// Copies a range out, for a run that cannot bind it.
    ///
    /// # Errors
    /// If the range exceeds the buffer.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check(offset, to.len())?;
        self.each(DeviceMemory::invalidate)?;
        self.host.copy_out(self.start + offset, to)
    }

    /// Copies a range in, for a run that cannot bind it.
    ///
    /// # Errors
    /// If the range exceeds the buffer.
    pub(crate) fn copy_in(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset, from.len())?;
        // as an access of the processor's: another port of the run may know the memory
        self.each(DeviceMemory::invalidate)?;
        self.host.copy_in(self.start + offset, from)?;
        self.each(DeviceMemory::flush)
    }

    /// A range of it as memory that a context knows; what the processor wrote before is shown to the chip.
    ///
    /// # Errors
    /// The runtime refuses it.
    pub(crate) fn made_known(
        &self,
        context: &Arc<Context>,
        offset: usize,
        bytes: usize,
    ) -> Result<Arc<DeviceMemory>> {
        self.check(offset, bytes)?;
        let file = self.file.as_ref();
        let file =
            file.ok_or_else(|| Error::unsupported("memory without a file is not memory of the chip's"))?;
        let place = self.start + offset;
        let memory = DeviceMemory::of_file(context, file.as_raw_fd(), self.host.as_ptr(), place, bytes)?;
        let memory = Arc::new(memory);
        let mut known = self.known();
        known.retain(|other| other.strong_count() > 0);
        if known.is_empty() {
            memory.flush()?;
        }
        known.push(Arc::downgrade(&memory));
        Ok(memory)
    }

    /// Does something for all memory of contexts over it.
    fn each(&self, act: impl Fn(&DeviceMemory) -> Result<()>) -> Result<()> {
        let known = self.known();
        let mut alive = known.iter().filter_map(Weak::upgrade);
        alive.try_for_each(|memory| act(&memory))
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<()> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let what = format!(
                "{bytes} bytes at offset {offset} exceed a buffer of {} bytes",
                self.bytes
            );
            return Err(Error::bad_argument(what));
        }
        Ok(())
    }
}

impl Buffer for RknnBuffer {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        self.check(offset, bytes)?;
        // also where only a part is written: what lies beside it goes back to the chip with it
        self.each(DeviceMemory::invalidate)?;
        let address = self.host.begin_access(access, self.start + offset, bytes)?;
        self.writes.store(access.write, Ordering::Release);
        Ok(address)
    }

    fn end_access(&self) -> Result<()> {
        self.host.end_access()?;
        if self.writes.swap(false, Ordering::AcqRel) {
            self.each(DeviceMemory::flush)?;
        }
        Ok(())
    }

    fn export(&self, kind: MemoryKind) -> Result<Memory> {
        if kind != MemoryKind::Memfd || self.start != 0 {
            return Err(Error::unsupported(format!(
                "this buffer cannot be exported as {kind:?}"
            )));
        }
        self.host.export_first(kind, self.bytes)
    }
}
