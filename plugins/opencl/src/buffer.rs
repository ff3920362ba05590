//! Buffers: host memory that the device uses in place, or where its driver copies that, memory of the device with a
//! copy for the host.
//!
//! Not here: the two sides of a buffer (`polychip_sdk::DeviceBuffer`).

use std::sync::{Arc, Weak};

use polychip_sdk::{DeviceBuffer, Error, HostBuffer, Memory, MemoryKind, MemoryKinds, Result, Side};

use crate::driver::gpu::Gpu;
use crate::driver::memory::MemoryBlock;
use crate::shared::Shared;

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

/// The device's side of a buffer.
pub struct OpenclSide {
    shared: Weak<Shared>,
}

/// A buffer.
pub type OpenclBuffer = DeviceBuffer<OpenclSide>;

/// Makes a buffer.
pub(crate) fn create(shared: &Arc<Shared>, wanted: &Memory) -> Result<Arc<OpenclBuffer>> {
    const PAGE: u64 = 4096;
    let gpu = shared.gpu();
    let alignment = wanted.alignment().max(gpu.cl_device.alignment).max(PAGE);
    // whole pages, so that none belongs to anyone else
    let bytes = wanted.bytes().max(1).next_multiple_of(PAGE);
    let host = HostBuffer::create(&Memory::wanted(wanted.kind(), bytes, alignment))?;
    OpenclBuffer::made(OpenclSide::of(shared), host, wanted.bytes(), !gpu.shares).map(Arc::new)
}

/// Takes over memory of the host without a copy.
pub(crate) fn import(shared: &Arc<Shared>, memory: &Memory) -> Result<Arc<OpenclBuffer>> {
    if !shared.gpu().shares {
        return Err(Error::unsupported("the device does not use host memory in place"));
    }
    OpenclBuffer::imported(OpenclSide::of(shared), memory).map(Arc::new)
}

impl OpenclSide {
    fn of(shared: &Arc<Shared>) -> OpenclSide {
        OpenclSide {
            shared: Arc::downgrade(shared),
        }
    }
}

impl Side for OpenclSide {
    type Opening = Gpu;
    type Piece = MemoryBlock;

    fn opening(&self) -> Option<Arc<Gpu>> {
        self.shared.upgrade().map(|shared| shared.gpu())
    }

    fn number(gpu: &Gpu) -> u64 {
        gpu.number
    }

    fn local(&self, gpu: &Arc<Gpu>, bytes: u64) -> Result<MemoryBlock> {
        MemoryBlock::local(gpu, bytes)
    }

    #[allow(unsafe_code, reason = "the host's pages are handed to the driver")]
    fn in_place(&self, gpu: &Arc<Gpu>, host: &HostBuffer, bytes: u64) -> Result<MemoryBlock> {
        // SAFETY: mapped as long as the buffer, which every run that uses the block holds.
        unsafe { MemoryBlock::over(gpu, host.as_ptr(), bytes) }
    }

    fn read(&self, gpu: &Arc<Gpu>, block: &MemoryBlock, to: &mut [u8]) -> Result<()> {
        block.read(gpu, 0, to)
    }

    fn write(&self, gpu: &Arc<Gpu>, block: &MemoryBlock, from: &[u8]) -> Result<()> {
        block.write(gpu, 0, from)
    }
}
