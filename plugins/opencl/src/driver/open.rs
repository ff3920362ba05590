//! Opening a device, and finding out what its driver does not say.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKind, Result};

use super::found::Found;
use super::gpu::Gpu;
use super::memory::Piece;

/// Opens a device.
///
/// # Errors
/// The driver's words.
pub(crate) fn open(found: &Found) -> Result<Arc<Gpu>> {
    let mut gpu = Gpu::new(found)?;
    gpu.shares = found.unified && sees_host_memory(&gpu).unwrap_or(false);
    Ok(Arc::new(gpu))
}

/// Whether the device reads and writes host memory in place: drivers may copy it, and say nothing of it.
#[allow(unsafe_code, reason = "host memory is handed to the driver")]
fn sees_host_memory(gpu: &Gpu) -> Result<bool> {
    const BYTES: usize = 4096;
    let memory = Memory::wanted(MemoryKind::Host, BYTES as u64, 4096.max(gpu.found.alignment));
    let host = HostBuffer::create(&memory)?;
    host.copy_in(0, &[1; BYTES])?;
    // SAFETY: the memory is let go of after the piece.
    let piece = unsafe { Piece::over(gpu, host.as_ptr(), BYTES as u64) }?;
    let other = Piece::local(gpu, BYTES as u64)?;
    // written by the host behind the driver's back
    host.copy_in(0, &[2; BYTES])?;
    other.copy_of(gpu, &piece)?;
    let mut seen = [0; BYTES];
    other.read(gpu, 0, &mut seen)?;
    other.write(gpu, 0, &[3; BYTES])?;
    piece.copy_of(gpu, &other)?;
    let mut back = [0; BYTES];
    host.copy_out(0, &mut back)?;
    drop(piece);
    Ok(seen == [2; BYTES] && back == [3; BYTES])
}
