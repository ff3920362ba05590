//! Buffers of the contract: host memory or a dma-buf that the GPU uses in place, or where its driver cannot, memory of the
//! GPU with a copy for the host.
//!
//! Invariants:
//! 1. The host's bytes of an imported buffer are the GPU's: nothing is copied, here or in a run.
//! 2. A mirrored buffer is copied in `begin_access` and `end_access` only, as memory behind a link must be.
//! 3. The host's view of a dma-buf stands between `begin_access` and `end_access` only, the GPU's in its runs.
//! 4. What the GPU made of a buffer is made once per opening of the device, and goes when the buffer goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use polychip_sdk::{Access, Buffer, HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

use crate::driver::gpu::Gpu;
use crate::driver::memory::Piece;
use crate::plugin::Shared;

/// Memory kinds that a device imports, of those that the setting `imports` names where it is set.
pub(crate) fn kinds(gpu: &Gpu, wanted: Option<MemoryKinds>) -> MemoryKinds {
    let files = cfg!(any(target_os = "linux", target_os = "android"));
    let host = gpu.import_alignment().is_some();
    let offers = [
        (MemoryKind::Host, host),
        (MemoryKind::Memfd, host && files),
        (MemoryKind::DmaBuf, gpu.imports_dma_bufs()),
        (MemoryKind::HardwareBuffer, gpu.imports_hardware_buffers()),
    ];
    let kinds = offers
        .into_iter()
        .filter_map(|(kind, there)| there.then_some(kind));
    let wanted = kinds.filter(|kind| wanted.is_none_or(|wanted| wanted.contains(*kind)));
    MemoryKinds::of(&wanted.collect::<Vec<_>>())
}

/// What the setting `imports` says: kinds of memory with commas between them.
pub(crate) fn named(text: &str) -> Result<MemoryKinds> {
    let kind = |name: &str| match name.trim() {
        "host" => Ok(MemoryKind::Host),
        "memfd" => Ok(MemoryKind::Memfd),
        "dma-buf" => Ok(MemoryKind::DmaBuf),
        "hardware-buffer" => Ok(MemoryKind::HardwareBuffer),
        other => Err(polychip_sdk::Error::bad_argument(format!(
            "configuration imports names '{other}', not host, memfd, dma-buf or hardware-buffer"
        ))),
    };
    let kinds: Vec<_> = text.split(',').map(kind).collect::<Result<_>>()?;
    Ok(MemoryKinds::of(&kinds))
}

/// Memory kinds that a buffer gives.
pub(crate) const EXPORTS: MemoryKinds = if cfg!(any(target_os = "linux", target_os = "android")) {
    MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd])
} else {
    MemoryKinds::of(&[MemoryKind::Host])
};

/// Numbers the buffers of the process.
static MADE: AtomicU64 = AtomicU64::new(1);

struct View {
    gpu: u64,
    piece: Arc<Piece>,
}

/// A buffer.
pub struct GpuBuffer {
    number: u64,
    /// Bytes that the contract knows of.
    bytes: usize,
    host: HostBuffer,
    /// Whether all pages of the memory are the buffer's own.
    owned: bool,
    /// Whether the GPU has memory of its own for it.
    mirrored: bool,
    /// Whether the GPU wrote to a mirrored buffer since the host read it.
    stale: AtomicBool,
    /// Whether the host opened a mirrored buffer for writing.
    written: AtomicBool,
    view: Mutex<Option<View>>,
    shared: Weak<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuBuffer {
    /// Makes a buffer in memory that can be imported and exported.
    pub(crate) fn create(shared: &Arc<Shared>, wanted: &Memory) -> Result<GpuBuffer> {
        let gpu = shared.gpu();
        let page = gpu.import_alignment().unwrap_or(4096).max(4096);
        // whole pages, so that none belongs to anyone else
        let bytes = wanted.bytes().max(1).next_multiple_of(page);
        let memory = Memory::wanted(wanted.kind(), bytes, wanted.alignment().max(page));
        let host = HostBuffer::create(&memory)?;
        let buffer = GpuBuffer::over(
            shared,
            host,
            wanted.bytes(),
            true,
            gpu.import_alignment().is_none(),
        )?;
        // memory runs out here, not in a run
        buffer.piece(&gpu)?;
        Ok(buffer)
    }

    /// Takes over memory of the host without a copy.
    pub(crate) fn import(shared: &Arc<Shared>, memory: &Memory) -> Result<GpuBuffer> {
        let host = HostBuffer::import(memory)?;
        let buffer = GpuBuffer::over(shared, host, memory.bytes(), false, false)?;
        buffer.piece(&shared.gpu())?;
        Ok(buffer)
    }

    fn over(
        shared: &Arc<Shared>,
        host: HostBuffer,
        bytes: u64,
        owned: bool,
        mirrored: bool,
    ) -> Result<GpuBuffer> {
        let bytes = usize::try_from(bytes)
            .map_err(|_| polychip_sdk::Error::bad_argument("a buffer does not fit the address space"))?;
        Ok(GpuBuffer {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            bytes,
            host,
            owned,
            mirrored,
            stale: AtomicBool::new(false),
            written: AtomicBool::new(false),
            view: Mutex::new(None),
            shared: Arc::downgrade(shared),
        })
    }

    /// Which buffer of the process it is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes from the start that kernels may write to without touching what is another's.
    pub(crate) fn writable(&self) -> u64 {
        if self.owned {
            (self.bytes as u64).next_multiple_of(256)
        } else {
            self.bytes as u64
        }
    }

    /// The buffer's memory for this opening of the device.
    pub(crate) fn piece(&self, gpu: &Arc<Gpu>) -> Result<Arc<Piece>> {
        let mut view = lock(&self.view);
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
            self.in_place(gpu)?
        };
        let piece = Arc::new(piece);
        *view = Some(View {
            gpu: gpu.number,
            piece: Arc::clone(&piece),
        });
        Ok(piece)
    }

    /// The host's memory as the GPU uses it.
    #[allow(unsafe_code, reason = "the host's pages are handed to the driver")]
    fn in_place(&self, gpu: &Gpu) -> Result<Piece> {
        let bytes = self.bytes as u64;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some((fd, offset)) = self.host.dma_buf() {
            return Piece::import_dma_buf(gpu, fd, offset, bytes);
        }
        #[cfg(target_os = "android")]
        if let Some((handle, offset)) = self.host.hardware_buffer() {
            // SAFETY: held as long as this buffer.
            return unsafe { Piece::import_hardware_buffer(gpu, handle, offset, bytes) };
        }
        // SAFETY: mapped as long as this buffer, which every run that uses the piece holds.
        unsafe { Piece::import(gpu, self.host.as_ptr(), bytes) }
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

    /// Brings what the GPU wrote to the host's copy.
    fn refresh(&self) -> Result<()> {
        if !self.mirrored || !self.stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(shared) = self.shared.upgrade() else {
            return Ok(());
        };
        let gpu = shared.gpu();
        let piece = self.piece(&gpu)?;
        let mut all = vec![0; self.bytes];
        piece.read(&gpu, &mut all)?;
        self.host.copy_in(0, &all)
    }

    /// Brings what the host wrote to the GPU.
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

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.forget(self.number);
        }
    }
}

impl Buffer for GpuBuffer {
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
            return Err(polychip_sdk::Error::unsupported(
                "memory of this GPU cannot be exported",
            ));
        }
        match (kind, self.host.export(kind)?) {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            (MemoryKind::Memfd, all) => {
                let fd = all
                    .fd()
                    .ok_or_else(|| polychip_sdk::Error::unsupported("the buffer has no memory file"))?;
                Ok(Memory::file(kind, fd, all.offset(), self.bytes as u64))
            }
            (_, all) => Ok(self.cut(&all)),
        }
    }
}

impl GpuBuffer {
    /// Host memory without the rest of its last page.
    #[allow(unsafe_code, reason = "an address is passed on")]
    fn cut(&self, all: &Memory) -> Memory {
        // SAFETY: valid for more bytes than that, as long as the buffer.
        unsafe { Memory::host(all.data(), self.bytes as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_with_commas_between_them() {
        let kinds = named("memfd, dma-buf").unwrap();
        assert_eq!(kinds, MemoryKinds::of(&[MemoryKind::Memfd, MemoryKind::DmaBuf]));
        let error = named("dmabuf").unwrap_err();
        assert!(error.to_string().contains("host, memfd, dma-buf"), "{error}");
    }
}
