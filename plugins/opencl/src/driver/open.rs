//! Opening a device, and finding out what its driver does not say.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKind, Result};

use super::discovery::ClDevice;
use super::gpu::Gpu;
use super::memory::MemoryBlock;

/// Opens a device.
///
/// # Errors
/// The driver's message.
pub(crate) fn open(cl_device: &ClDevice) -> Result<Arc<Gpu>> {
    let mut gpu = Gpu::new(cl_device)?;
    gpu.shares = cl_device.unified && sees_host_memory(&gpu).unwrap_or(false);
    Ok(Arc::new(gpu))
}

/// Whether the device reads and writes host memory in place: drivers may copy it, and say nothing of it.
#[allow(unsafe_code, reason = "host memory is handed to the driver")]
fn sees_host_memory(gpu: &Gpu) -> Result<bool> {
    const BYTES: usize = 4096;
    let memory = Memory::wanted(MemoryKind::Host, BYTES as u64, 4096.max(gpu.cl_device.alignment));
    let host = HostBuffer::create(&memory)?;
    host.copy_in(0, &[1; BYTES])?;
    // SAFETY: the memory is let go of after the block.
    let block = unsafe { MemoryBlock::over(gpu, host.as_ptr(), BYTES as u64) }?;
    let other = MemoryBlock::local(gpu, BYTES as u64)?;
    // written by the host behind the driver's back
    host.copy_in(0, &[2; BYTES])?;
    other.copy_of(gpu, &block)?;
    let mut seen = [0; BYTES];
    other.read(gpu, 0, &mut seen)?;
    other.write(gpu, 0, &[3; BYTES])?;
    block.copy_of(gpu, &other)?;
    let mut back = [0; BYTES];
    host.copy_out(0, &mut back)?;
    drop(block);
    Ok(seen == [2; BYTES] && back == [3; BYTES])
}
