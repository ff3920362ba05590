//! Memory that kernels see: the device's own, or pages of the host.

use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, ClMem};
use opencl3::types::{CL_TRUE, cl_mem};
use polychip_sdk::{Error, ErrorKind, Result};

use super::gpu::Gpu;
use super::said;

/// Sizes of the device's own memory are rounded up to this, as kernels touch whole vectors.
const ROUND: u64 = 256;

/// A block of memory.
pub struct MemoryBlock {
    buffer: Buffer<u8>,
    pub(crate) bytes: u64,
}

impl MemoryBlock {
    /// A block of the device's own memory; its bytes are not cleared.
    ///
    /// # Errors
    /// `OutOfMemory`, with the size and the limit.
    #[allow(unsafe_code, reason = "memory is made by a call of the driver")]
    pub(crate) fn local(gpu: &Gpu, bytes: u64) -> Result<MemoryBlock> {
        let bytes = rounded(gpu, bytes, ROUND)?;
        // SAFETY: no memory of ours is handed over.
        let buffer = unsafe {
            Buffer::create(
                &gpu.context,
                CL_MEM_READ_WRITE,
                bytes as usize,
                std::ptr::null_mut(),
            )
        }
        .map_err(|error| said(&format!("{bytes} bytes of device memory"), error))?;
        Ok(MemoryBlock { buffer, bytes })
    }

    /// A block over host memory, without a copy where the device shares memory.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory.
    ///
    /// # Safety
    /// The pages of `data` to `data + bytes` stay mapped until no run uses the block.
    #[allow(unsafe_code, reason = "host memory is handed to the driver")]
    pub(crate) unsafe fn over(gpu: &Gpu, data: *mut u8, bytes: u64) -> Result<MemoryBlock> {
        let alignment = gpu.cl_device.alignment;
        if !(data as u64).is_multiple_of(alignment) {
            return Err(Error::unsupported(format!(
                "host memory to import must be aligned to {alignment} bytes"
            )));
        }
        let bytes = rounded(gpu, bytes, 64)?;
        // SAFETY: as the caller promises; what the rounding adds lies on the same page.
        let buffer = unsafe {
            Buffer::create(
                &gpu.context,
                CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                bytes as usize,
                data.cast(),
            )
        }
        .map_err(|error| Error::unsupported(said("host memory", error).to_string()))?;
        Ok(MemoryBlock { buffer, bytes })
    }

    /// What a kernel's argument names.
    pub(crate) fn raw(&self) -> cl_mem {
        self.buffer.get()
    }

    /// Writes bytes at `offset`, and waits until they are there.
    ///
    /// # Errors
    /// Where the device is lost.
    #[allow(unsafe_code, reason = "bytes are handed to the driver")]
    pub(crate) fn write(&self, gpu: &Gpu, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the call waits until the bytes are written.
        let code = unsafe {
            opencl3::command_queue::enqueue_write_buffer(
                gpu.queues[0].get(),
                self.raw(),
                CL_TRUE,
                offset as usize,
                bytes.len(),
                bytes.as_ptr().cast(),
                0,
                std::ptr::null(),
            )
        };
        done(gpu, code)
    }

    /// Reads bytes from `offset`, and waits for them.
    ///
    /// # Errors
    /// Where the device is lost.
    #[allow(unsafe_code, reason = "bytes are handed to the driver")]
    pub(crate) fn read(&self, gpu: &Gpu, offset: u64, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the call waits until the bytes are read.
        let code = unsafe {
            opencl3::command_queue::enqueue_read_buffer(
                gpu.queues[0].get(),
                self.raw(),
                CL_TRUE,
                offset as usize,
                to.len(),
                to.as_mut_ptr().cast(),
                0,
                std::ptr::null(),
            )
        };
        done(gpu, code)
    }

    /// Copies all of another block of this size, and waits.
    ///
    /// # Errors
    /// Where the device is lost.
    #[allow(unsafe_code, reason = "a copy is a call of the driver")]
    pub(crate) fn copy_of(&self, gpu: &Gpu, other: &MemoryBlock) -> Result<()> {
        let bytes = self.bytes.min(other.bytes) as usize;
        // SAFETY: both blocks are that large.
        let code = unsafe {
            opencl3::command_queue::enqueue_copy_buffer(
                gpu.queues[0].get(),
                other.raw(),
                self.raw(),
                0,
                0,
                bytes,
                0,
                std::ptr::null(),
            )
        };
        done(gpu, code)?;
        gpu.queues[0].finish().map_err(|error| gpu.broken(error))
    }
}

#[allow(unsafe_code, reason = "an event is given back to the driver")]
fn done(gpu: &Gpu, event: Result<opencl3::types::cl_event, i32>) -> Result<()> {
    let event = event.map_err(|code| gpu.broken(opencl3::error_codes::ClError(code)))?;
    // let go of at the end
    drop(opencl3::event::Event::new(event));
    Ok(())
}

fn rounded(gpu: &Gpu, bytes: u64, unit: u64) -> Result<u64> {
    let limit = gpu.cl_device.limits.binding_bytes;
    bytes
        .max(1)
        .checked_next_multiple_of(unit)
        .filter(|&bytes| bytes <= limit)
        .ok_or_else(|| {
            let what = format!("{bytes} bytes in one buffer; the device's limit is {limit}");
            Error::new(ErrorKind::OutOfMemory, what)
        })
}
