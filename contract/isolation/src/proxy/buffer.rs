//! Buffers in memory that both processes map.
//!
//! Invariants:
//! 1. The host's address lies in a mapping of this process, which stays as long as the buffer.
//! 2. A file that is mapped cannot shrink: it was made sealed, is sealed on import, or is a dma-buf.
//! 3. A buffer outlives a restart: the new process imports its memory again, or copies to memory of its own
//!    what the host last saw.
//! 4. Where the plugin has memory of its own, the shared memory is right whenever no run uses the buffer: runs copy
//!    into it what they wrote before they end, and from it what the host wrote before they begin. The host
//!    therefore reads and writes it without the process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_abi as abi;
use polychip_sdk::{Access, Buffer, Error, ErrorKind, Memory, MemoryKind, Result};

use super::opened::Opened;
use super::process::Process;
use crate::message::{Reply, Request};
use crate::shared_file::{self, SharedFile};

/// A buffer of a proxied device.
pub(crate) struct ProxyBuffer {
    device: Arc<Opened>,
    bytes: u64,
    alignment: u64,
    /// Kind of `shared`: a memory file, or a dma-buf.
    kind: MemoryKind,
    offset: u64,
    shared: SharedFile,
    /// Whether the plugin may use memory of its own: it was asked to make the buffer.
    made: bool,
    place: Mutex<Option<Place>>,
    written: Mutex<Written>,
    /// Memory that the plugin exported, while the buffer lives.
    exported: Mutex<Vec<OwnedFd>>,
}

/// The buffer in a process.
#[derive(Clone, Copy)]
struct Place {
    generation: u64,
    buffer: u64,
    /// Whether the plugin has memory of its own for it.
    is_copied: bool,
}

/// What the host writes to shared memory that the plugin's own memory lacks: offsets and numbers of bytes.
#[derive(Default)]
struct Written {
    open: Option<(u64, u64)>,
    pending: Option<(u64, u64)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The smallest range that contains both.
fn union(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let start = one.0.min(other.0);
    (start, (one.0 + one.1).max(other.0 + other.1) - start)
}

impl ProxyBuffer {
    pub(super) fn create(device: &Arc<Opened>, wanted: &Memory) -> Result<ProxyBuffer> {
        if wanted.kind() != MemoryKind::Host {
            return Err(Error::unsupported(format!(
                "memory of kind {:?} is not made for another process",
                wanted.kind()
            )));
        }
        let page = rustix::param::page_size() as u64;
        if wanted.alignment() > page {
            return Err(Error::unsupported(format!(
                "alignment {} is above the page size {page}",
                wanted.alignment()
            )));
        }
        let shared = SharedFile::new(wanted.bytes())?;
        ProxyBuffer::new(device, shared, MemoryKind::Memfd, 0, wanted, true)
    }

    #[allow(unsafe_code, reason = "the contract lends a descriptor as a number")]
    pub(super) fn import(device: &Arc<Opened>, memory: &Memory) -> Result<ProxyBuffer> {
        let kind = memory.kind();
        if !matches!(kind, MemoryKind::Memfd | MemoryKind::DmaBuf) {
            return Err(Error::unsupported(format!(
                "memory of kind {kind:?} cannot be given to another process"
            )));
        }
        let raw = memory.fd().and_then(|fd| i32::try_from(fd).ok());
        let raw = raw.ok_or_else(|| Error::bad_argument("memory of a file without a descriptor"))?;
        // SAFETY: the host keeps the descriptor open during the call.
        let lent = unsafe { BorrowedFd::borrow_raw(raw) };
        let file = rustix::io::fcntl_dupfd_cloexec(lent, 3)
            .map_err(|error| Error::bad_argument(format!("descriptor {raw}: {error}")))?;
        if kind == MemoryKind::Memfd {
            shared_file::seal(file.as_fd())?;
        }
        let shared = SharedFile::map(file, memory.offset(), memory.bytes())?;
        ProxyBuffer::new(device, shared, kind, memory.offset(), memory, false)
    }

    fn new(
        device: &Arc<Opened>,
        shared: SharedFile,
        kind: MemoryKind,
        offset: u64,
        memory: &Memory,
        made: bool,
    ) -> Result<ProxyBuffer> {
        let buffer = ProxyBuffer {
            device: Arc::clone(device),
            bytes: memory.bytes(),
            alignment: memory.alignment(),
            kind,
            offset,
            shared,
            made,
            place: Mutex::new(None),
            written: Mutex::default(),
            exported: Mutex::default(),
        };
        let (process, _) = device.place()?;
        buffer.place_in(&process)?;
        Ok(buffer)
    }

    /// The buffer's number in the process. Makes the buffer there if it does not exist yet.
    pub(super) fn place_in(&self, process: &Arc<Process>) -> Result<u64> {
        let mut place = lock(&self.place);
        let is_again = place.is_some();
        if let Some(place) = place.filter(|place| place.generation == process.generation) {
            return Ok(place.buffer);
        }
        let (current, device) = self.device.place()?;
        if !Arc::ptr_eq(&current, process) {
            return Err(process.lost());
        }
        let (buffer, is_copied) = self.make(process, device)?;
        if is_again && is_copied {
            lock(&self.written).pending = Some((0, self.bytes));
        }
        *place = Some(Place {
            generation: process.generation,
            buffer,
            is_copied,
        });
        Ok(buffer)
    }

    /// Whether the plugin has memory of its own for the buffer.
    fn is_copied(&self) -> bool {
        lock(&self.place).is_some_and(|place| place.is_copied)
    }

    /// What the next run has to copy to the plugin's own memory.
    pub(super) fn pending(&self) -> Option<(u64, u64)> {
        lock(&self.written).pending
    }

    /// A run has copied it.
    pub(super) fn no_longer_pending(&self) {
        lock(&self.written).pending = None;
    }

    /// Makes the buffer. Returns its number, and whether the plugin has memory of its own for it.
    fn make(&self, process: &Arc<Process>, device: u64) -> Result<(u64, bool)> {
        let imports = self.device.plugin_imports
            & ((1 << abi::POLYCHIP_MEMORY_HOST) | (1 << abi::POLYCHIP_MEMORY_MEMFD));
        let file = [self.shared.file()];
        let number = |reply: Result<(Reply, Vec<OwnedFd>)>, name: &str| match reply?.0 {
            Reply::Buffer { buffer, copied } => Ok((buffer, copied)),
            other => Err(process.wrong(name, &other)),
        };
        if imports != 0 || self.kind == MemoryKind::DmaBuf {
            let request = Request::BufferImport {
                device,
                kind: self.kind as u32,
                offset: self.offset,
                bytes: self.bytes,
            };
            match number(
                process.call("buffer_import", None, &request, &file),
                "buffer_import",
            ) {
                // memory of the plugin's own, then, which is copied
                Err(error) if self.made && error.kind() == ErrorKind::Unsupported => {}
                done => return done,
            }
        }
        if !self.made {
            return Err(Error::unsupported("the device imports no memory files"));
        }
        let request = Request::BufferCreate {
            device,
            bytes: self.bytes,
            alignment: self.alignment,
        };
        number(
            process.call("buffer_create", None, &request, &file),
            "buffer_create",
        )
    }
}

impl Buffer for ProxyBuffer {
    fn bytes(&self) -> usize {
        self.shared.bytes()
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        let data = self.shared.data().wrapping_add(offset);
        let (offset, bytes) = (offset as u64, bytes as u64);
        if self.is_copied() {
            if access.write {
                lock(&self.written).open = Some((offset, bytes));
            }
            return Ok(data);
        }
        let (process, _) = self.device.place()?;
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        let request = Request::BufferBegin {
            buffer: self.place_in(&process)?,
            access: bit(access.read, abi::POLYCHIP_ACCESS_READ)
                | bit(access.write, abi::POLYCHIP_ACCESS_WRITE),
            offset,
            bytes,
        };
        match process.call("buffer_begin_access", None, &request, &[])?.0 {
            Reply::Done => Ok(data),
            other => Err(process.wrong("buffer_begin_access", &other)),
        }
    }

    fn end_access(&self) -> Result<()> {
        if self.is_copied() {
            let mut written = lock(&self.written);
            if let Some(open) = written.open.take() {
                written.pending = Some(written.pending.map_or(open, |pending| union(pending, open)));
            }
            return Ok(());
        }
        let (process, _) = self.device.place()?;
        let request = Request::BufferEnd {
            buffer: self.place_in(&process)?,
        };
        match process.call("buffer_end_access", None, &request, &[])?.0 {
            Reply::Done => Ok(()),
            other => Err(process.wrong("buffer_end_access", &other)),
        }
    }

    fn export(&self, kind: MemoryKind) -> Result<Memory> {
        use std::os::fd::AsRawFd;
        if !matches!(kind, MemoryKind::Memfd | MemoryKind::DmaBuf)
            || !self.device.info.export_kinds.contains(kind)
        {
            return Err(Error::unsupported(format!(
                "memory of kind {kind:?} is not exported"
            )));
        }
        let (process, _) = self.device.place()?;
        let request = Request::BufferExport {
            buffer: self.place_in(&process)?,
            kind: kind as u32,
        };
        let (reply, descriptors) = process.call("buffer_export", None, &request, &[])?;
        let (Reply::Memory { offset, bytes }, Some(file)) = (&reply, descriptors.into_iter().next()) else {
            return Err(process.wrong("buffer_export", &reply));
        };
        if kind == MemoryKind::Memfd {
            // another device would map it; sealed first, or its size could change after the look at it
            shared_file::seal(file.as_fd())?;
        }
        let whole = shared_file::size(file.as_fd())?;
        if *bytes < self.bytes || offset.checked_add(*bytes).is_none_or(|end| end > whole) {
            return Err(process.lied(format!(
                "buffer_export: {bytes} bytes at {offset} of a file of {whole}"
            )));
        }
        let memory = Memory::file(kind, i64::from(file.as_raw_fd()), *offset, *bytes);
        lock(&self.exported).push(file);
        Ok(memory)
    }
}

impl Drop for ProxyBuffer {
    fn drop(&mut self) {
        let place = *self.place.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = place
            && let Ok(process) = self.device.place_of(place.generation)
        {
            let buffer = place.buffer;
            let _ = process.call("buffer_destroy", None, &Request::BufferDestroy { buffer }, &[]);
        }
    }
}
