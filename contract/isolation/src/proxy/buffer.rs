//! Buffers in memory that both processes map.
//!
//! Invariants:
//! 1. The host's address lies in a mapping of this process, which stays as long as the buffer.
//! 2. A file that is mapped cannot shrink: it was made sealed, is sealed on import, or is a dma-buf.
//! 3. A buffer outlives a restart: the new process imports its memory again, or copies to memory of its own
//!    what the host last saw.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    copied: AtomicU64,
    /// Memory that the plugin exported, while the buffer lives.
    exported: Mutex<Vec<OwnedFd>>,
}

/// The buffer in a process.
#[derive(Clone, Copy)]
struct Place {
    generation: u64,
    buffer: u64,
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
            copied: AtomicU64::new(0),
            exported: Mutex::default(),
        };
        let (process, _) = device.place()?;
        buffer.place_in(&process)?;
        Ok(buffer)
    }

    /// The buffer's number in the process. Makes the buffer there if it does not exist yet.
    pub(super) fn place_in(&self, process: &Arc<Process>) -> Result<u64> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
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
            self.restore(process, buffer)?;
        }
        *place = Some(Place {
            generation: process.generation,
            buffer,
        });
        Ok(buffer)
    }

    /// Copies the shared memory to the plugin's own: an access for writing that writes nothing.
    fn restore(&self, process: &Arc<Process>, buffer: u64) -> Result<()> {
        let begin = Request::BufferBegin {
            buffer,
            access: abi::POLYCHIP_ACCESS_WRITE,
            offset: 0,
            bytes: self.bytes,
        };
        for (name, request) in [
            ("buffer_begin_access", begin),
            ("buffer_end_access", Request::BufferEnd { buffer }),
        ] {
            let (reply, _) = process.call(name, None, &request, &[])?;
            self.count(reply, process, name)?;
        }
        Ok(())
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

    /// Returns and resets the number of copied bytes.
    pub(super) fn take_copied(&self) -> u64 {
        self.copied.swap(0, Ordering::AcqRel)
    }

    fn count(&self, reply: Reply, process: &Arc<Process>, name: &str) -> Result<()> {
        match reply {
            Reply::Copied(bytes) if bytes <= self.bytes => {
                self.copied.fetch_add(bytes, Ordering::AcqRel);
                Ok(())
            }
            other => Err(process.wrong(name, &other)),
        }
    }
}

impl Buffer for ProxyBuffer {
    fn bytes(&self) -> usize {
        self.shared.bytes()
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        let (process, _) = self.device.place()?;
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        let request = Request::BufferBegin {
            buffer: self.place_in(&process)?,
            access: bit(access.read, abi::POLYCHIP_ACCESS_READ)
                | bit(access.write, abi::POLYCHIP_ACCESS_WRITE),
            offset: offset as u64,
            bytes: bytes as u64,
        };
        let (reply, _) = process.call("buffer_begin_access", None, &request, &[])?;
        self.count(reply, &process, "buffer_begin_access")?;
        Ok(self.shared.data().wrapping_add(offset))
    }

    fn end_access(&self) -> Result<()> {
        let (process, _) = self.device.place()?;
        let request = Request::BufferEnd {
            buffer: self.place_in(&process)?,
        };
        let (reply, _) = process.call("buffer_end_access", None, &request, &[])?;
        self.count(reply, &process, "buffer_end_access")
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
        self.exported
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(file);
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
