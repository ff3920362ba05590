//! Buffers of the contract: host memory that the device uses in place, or where its driver copies that, memory of
//! the device with a copy for the host.
//!
//! Invariants:
//! 1. Where the device shares memory, the host's bytes are the device's: nothing is copied, here or in a run.
//! 2. A mirrored buffer is copied in `begin_access` and `end_access` only, as memory behind a link must be.
//! 3. What the device made of a buffer is made once per opening of the device, and goes when the buffer goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_sdk::{Access, Buffer, Error, HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

use crate::driver::gpu::Gpu;
use crate::driver::memory::Piece;
use crate::plugin::Shared;

/// Memory kinds that a device imports, and that its buffers give.
pub(crate) fn kinds(shares: bool) -> MemoryKinds {
    if !shares {
        MemoryKinds::of(&[])
    } else if cfg!(any(target_os = "linux", target_os = "android")) {
        MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd])
    } else {
        MemoryKinds::of(&[MemoryKind::Host])
    }
}

struct View {
    gpu: u64,
    piece: Arc<Piece>,
}

/// A buffer.
pub struct OpenclBuffer {
    /// Bytes that the contract knows of.
    bytes: usize,
    /// Before the memory, which outlives it.
    view: Mutex<Option<View>>,
    host: HostBuffer,
    /// Bytes from the start that nobody else's data lies in.
    writable: u64,
    /// Whether the device has memory of its own for it.
    mirrored: bool,
    /// Whether the device wrote to a mirrored buffer since the host read it.
    stale: AtomicBool,
    /// Whether the host opened a mirrored buffer for writing.
    written: AtomicBool,
    shared: Weak<Shared>,
}

impl OpenclBuffer {
    /// Makes a buffer.
    pub(crate) fn create(shared: &Arc<Shared>, wanted: &Memory) -> Result<OpenclBuffer> {
        const PAGE: u64 = 4096;
        let gpu = shared.gpu();
        let alignment = wanted.alignment().max(gpu.found.alignment).max(PAGE);
        // whole pages, so that none belongs to anyone else
        let bytes = wanted.bytes().max(1).next_multiple_of(PAGE);
        let host = HostBuffer::create(&Memory::wanted(wanted.kind(), bytes, alignment))?;
        let writable = wanted.bytes().next_multiple_of(256);
        let buffer = OpenclBuffer::over(shared, host, wanted.bytes(), writable, !gpu.shares)?;
        // memory runs out here, not in a run
        buffer.piece(&gpu)?;
        Ok(buffer)
    }

    /// Takes over memory of the host without a copy.
    pub(crate) fn import(shared: &Arc<Shared>, memory: &Memory) -> Result<OpenclBuffer> {
        let gpu = shared.gpu();
        if !gpu.shares {
            return Err(Error::unsupported("the device does not use host memory in place"));
        }
        let host = HostBuffer::import(memory)?;
        let buffer = OpenclBuffer::over(shared, host, memory.bytes(), memory.bytes(), false)?;
        buffer.piece(&gpu)?;
        Ok(buffer)
    }

    fn over(
        shared: &Arc<Shared>,
        host: HostBuffer,
        bytes: u64,
        writable: u64,
        mirrored: bool,
    ) -> Result<OpenclBuffer> {
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::bad_argument("a buffer does not fit the address space"))?;
        Ok(OpenclBuffer {
            bytes,
            view: Mutex::new(None),
            host,
            writable,
            mirrored,
            stale: AtomicBool::new(false),
            written: AtomicBool::new(false),
            shared: Arc::downgrade(shared),
        })
    }

    /// Bytes from the start that kernels may write to without touching what is another's.
    pub(crate) fn writable(&self) -> u64 {
        self.writable
    }

    /// The buffer's memory for this opening of the device.
    #[allow(unsafe_code, reason = "the host's pages are handed to the driver")]
    pub(crate) fn piece(&self, gpu: &Gpu) -> Result<Arc<Piece>> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = view.as_ref().filter(|view| view.gpu == gpu.number) {
            return Ok(Arc::clone(&view.piece));
        }
        let bytes = self.bytes as u64;
        let piece = if self.mirrored {
            let piece = Piece::local(gpu, bytes)?;
            let mut all = vec![0; self.bytes];
            self.host.copy_out(0, &mut all)?;
            piece.write(gpu, 0, &all)?;
            piece
        } else {
            // SAFETY: mapped as long as this buffer, which every run that uses the piece holds.
            unsafe { Piece::over(gpu, self.host.as_ptr(), bytes) }?
        };
        let piece = Arc::new(piece);
        *view = Some(View {
            gpu: gpu.number,
            piece: Arc::clone(&piece),
        });
        Ok(piece)
    }

    /// Says that a run writes to the buffer.
    pub(crate) fn set_stale(&self) {
        if self.mirrored {
            self.stale.store(true, Ordering::Release);
        }
    }

    /// Copies a range out, for a run that cannot bind it.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.refresh()?;
        self.host.copy_out(offset, to)
    }

    /// Copies a range in, for a run that cannot bind it.
    pub(crate) fn copy_in(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.refresh()?;
        self.host.copy_in(offset, from)?;
        self.push()
    }

    /// Brings what the device wrote to the host's copy.
    fn refresh(&self) -> Result<()> {
        if !self.mirrored || !self.stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(shared) = self.shared.upgrade() else {
            return Ok(());
        };
        let gpu = shared.gpu();
        let mut all = vec![0; self.bytes];
        self.piece(&gpu)?.read(&gpu, 0, &mut all)?;
        self.host.copy_in(0, &all)
    }

    /// Brings what the host wrote to the device.
    fn push(&self) -> Result<()> {
        let Some(shared) = self.shared.upgrade().filter(|_| self.mirrored) else {
            return Ok(());
        };
        let gpu = shared.gpu();
        let mut all = vec![0; self.bytes];
        self.host.copy_out(0, &mut all)?;
        self.piece(&gpu)?.write(&gpu, 0, &all)
    }
}

impl Buffer for OpenclBuffer {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        self.refresh()?;
        if self.mirrored && access.write {
            self.written.store(true, Ordering::Release);
        }
        self.host.begin_access(access, offset, bytes)
    }

    fn end_access(&self) -> Result<()> {
        if self.written.swap(false, Ordering::AcqRel) {
            self.push()?;
        }
        self.host.end_access()
    }

    fn export(&self, kind: MemoryKind) -> Result<Memory> {
        if self.mirrored {
            // another device would see the copy only
            return Err(Error::unsupported("memory of this device cannot be exported"));
        }
        match (kind, self.host.export(kind)?) {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            (MemoryKind::Memfd, all) => {
                let fd = all
                    .fd()
                    .ok_or_else(|| Error::unsupported("the buffer has no memory file"))?;
                Ok(Memory::file(kind, fd, all.offset(), self.bytes as u64))
            }
            (_, all) => Ok(self.cut(&all)),
        }
    }
}

impl OpenclBuffer {
    /// Host memory without the rest of its last page.
    #[allow(unsafe_code, reason = "an address is passed on")]
    fn cut(&self, all: &Memory) -> Memory {
        // SAFETY: valid for more bytes than that, as long as the buffer.
        unsafe { Memory::host(all.data(), self.bytes as u64) }
    }
}
