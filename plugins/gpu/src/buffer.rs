//! Buffers: host memory or a dma-buf that the GPU uses in place, or where its driver cannot, memory of the GPU with a
//! copy for the host.
//!
//! Invariants:
//! 1. The host's bytes of an imported buffer are the GPU's: nothing is copied, here or in a run.
//! 2. The host's view of a dma-buf stands between `begin_access` and `end_access` only, the GPU's in its runs.
//! 3. What names a buffer hears when it goes.
//!
//! Not here: the two sides of a buffer (`polychip_sdk::DeviceBuffer`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use polychip_sdk::{DeviceBuffer, HostBuffer, Memory, MemoryKind, MemoryKinds, Result, Side};

use crate::driver::gpu::Gpu;
use crate::driver::memory::MemoryBlock;
use crate::shared::Shared;

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

/// The GPU's side of a buffer.
pub struct GpuSide {
    /// Which buffer of the process it is.
    number: u64,
    shared: Weak<Shared>,
}

/// A buffer.
pub type GpuBuffer = DeviceBuffer<GpuSide>;

/// Makes a buffer in memory that can be imported and exported.
pub(crate) fn create(shared: &Arc<Shared>, wanted: &Memory) -> Result<Arc<GpuBuffer>> {
    let imports = shared.gpu().import_alignment();
    let page = imports.unwrap_or(4096).max(4096);
    // whole pages, so that none belongs to anyone else
    let bytes = wanted.bytes().max(1).next_multiple_of(page);
    let memory = Memory::wanted(wanted.kind(), bytes, wanted.alignment().max(page));
    let host = HostBuffer::create(&memory)?;
    GpuBuffer::made(GpuSide::of(shared), host, wanted.bytes(), imports.is_none()).map(Arc::new)
}

/// Takes over memory of the host without a copy.
pub(crate) fn import(shared: &Arc<Shared>, memory: &Memory) -> Result<Arc<GpuBuffer>> {
    GpuBuffer::imported(GpuSide::of(shared), memory).map(Arc::new)
}

impl GpuSide {
    fn of(shared: &Arc<Shared>) -> GpuSide {
        GpuSide {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            shared: Arc::downgrade(shared),
        }
    }

    /// Which buffer of the process it is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for GpuSide {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.forget(self.number);
        }
    }
}

impl Side for GpuSide {
    type Opening = Gpu;
    type Piece = MemoryBlock;

    fn opening(&self) -> Option<Arc<Gpu>> {
        Some(self.shared.upgrade()?.gpu())
    }

    fn number(gpu: &Gpu) -> u64 {
        gpu.number
    }

    #[allow(unsafe_code, reason = "the host's pages are handed to the driver")]
    fn in_place(&self, gpu: &Arc<Gpu>, host: &HostBuffer, bytes: u64) -> Result<MemoryBlock> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some((fd, offset)) = host.dma_buf() {
            return MemoryBlock::import_dma_buf(gpu, fd, offset, bytes);
        }
        #[cfg(target_os = "android")]
        if let Some((handle, offset)) = host.hardware_buffer() {
            // SAFETY: held as long as the buffer.
            return unsafe { MemoryBlock::import_hardware_buffer(gpu, handle, offset, bytes) };
        }
        // SAFETY: mapped as long as the buffer, which every run that uses the block holds.
        unsafe { MemoryBlock::import(gpu, host.as_ptr(), bytes) }
    }

    fn local(&self, gpu: &Arc<Gpu>, bytes: u64) -> Result<MemoryBlock> {
        MemoryBlock::local(gpu, bytes)
    }

    fn write(&self, gpu: &Arc<Gpu>, block: &MemoryBlock, from: &[u8]) -> Result<()> {
        block.write(gpu, 0, from)
    }

    fn read(&self, gpu: &Arc<Gpu>, block: &MemoryBlock, to: &mut [u8]) -> Result<()> {
        block.read(gpu, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_kinds_are_comma_separated() {
        let kinds = named("memfd, dma-buf").unwrap();
        assert_eq!(kinds, MemoryKinds::of(&[MemoryKind::Memfd, MemoryKind::DmaBuf]));
        let error = named("dmabuf").unwrap_err();
        assert!(error.to_string().contains("host, memfd, dma-buf"), "{error}");
    }
}
