//! Host memory as Metal's, without a copy.
//!
//! Invariant: the memory outlives the buffer's use, as the importer promises.

#![allow(unsafe_code, reason = "calls of Metal, and wgpu's own entries to it")]

use std::ptr::NonNull;

use objc2_metal::{MTLDevice as _, MTLResourceOptions};
use polychip_sdk::{Error, Result};
use wgpu::hal::api::Metal;

use super::command_queue::CommandQueue;

/// What addresses and sizes of imported memory are multiples of, in bytes: a page of Apple's chips.
pub(crate) const ALIGNMENT: u64 = 16 << 10;

/// A buffer over host memory.
///
/// # Errors
/// `Unsupported` where Metal does not take this memory.
///
/// # Safety
/// `data` is mapped for `bytes` bytes, both multiples of [`ALIGNMENT`], until no run uses the buffer.
pub(crate) unsafe fn import(command_queue: &CommandQueue, data: *mut u8, bytes: u64) -> Result<wgpu::Buffer> {
    let refused = || Error::unsupported(format!("Metal does not take {bytes} bytes of host memory"));
    let data = NonNull::new(data.cast()).ok_or_else(refused)?;
    let length = usize::try_from(bytes).map_err(|_| refused())?;
    // SAFETY: nothing is destroyed through the guard.
    let device = unsafe { command_queue.device.as_hal::<Metal>() }.ok_or_else(refused)?;
    // SAFETY: mapped as the caller promises; nothing is to be called when the buffer goes.
    let raw = unsafe {
        device
            .raw_device()
            .newBufferWithBytesNoCopy_length_options_deallocator(
                data,
                length,
                MTLResourceOptions::StorageModeShared,
                None,
            )
    }
    .ok_or_else(refused)?;
    // SAFETY: a buffer of this size.
    let raw = unsafe { wgpu::hal::metal::Device::buffer_from_raw(raw, bytes) };
    let descriptor = wgpu::BufferDescriptor {
        label: None,
        size: bytes,
        usage: super::usage::USAGE,
        mapped_at_creation: false,
    };
    // SAFETY: a buffer of this device, of this size.
    Ok(unsafe {
        command_queue
            .device
            .create_buffer_from_hal::<Metal>(raw, &descriptor)
    })
}
