//! Memory that wgpu cannot make: buffers that every command queue sees, in the GPU's own memory or over host pages.
//!
//! Invariant: host memory that is imported stays mapped as long as its buffer is used by a run: the runs hold it.
//!
//! Not here: which memory is imported (`memory`), memory that others made (`foreign`).

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::sync::Arc;

use ash::vk;
use polychip_sdk::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use super::command_queue::CommandQueue;
use super::usage::USAGE;
use super::vulkan::{Raw, RawBuffer, failed};

impl Raw {
    /// A buffer in the device's own memory, one of wgpu's per command queue. Its bytes are not cleared.
    ///
    /// # Errors
    /// `OutOfMemory`, with the size.
    pub(crate) fn local(
        self: &Arc<Self>,
        command_queues: &[CommandQueue],
        bytes: u64,
    ) -> Result<Vec<wgpu::Buffer>> {
        let mut made = self.buffer(bytes, None)?;
        // SAFETY: a buffer of this device.
        let needs = unsafe { self.device().get_buffer_memory_requirements(made.buffer) };
        let kind = self
            .memory_type(needs.memory_type_bits, vk::MemoryPropertyFlags::DEVICE_LOCAL)
            .or_else(|| self.memory_type(needs.memory_type_bits, vk::MemoryPropertyFlags::empty()))
            .ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "the GPU has no memory for buffers"))?;
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind);
        let out = |result| failed(&format!("{bytes} bytes of the GPU's memory"), result);
        // SAFETY: a valid description.
        made.memory = unsafe { self.device().allocate_memory(&info, None) }.map_err(out)?;
        // SAFETY: fresh buffer, memory of its size and kind.
        unsafe { self.device().bind_buffer_memory(made.buffer, made.memory, 0) }.map_err(out)?;
        Ok(wrap(made, command_queues, bytes))
    }

    /// A buffer over host memory, one of wgpu's per command queue.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory.
    ///
    /// # Safety
    /// `data` is mapped for `bytes` bytes, both multiples of the alignment, until no run uses the buffers.
    pub(crate) unsafe fn import(
        self: &Arc<Self>,
        command_queues: &[CommandQueue],
        data: *mut u8,
        bytes: u64,
    ) -> Result<Vec<wgpu::Buffer>> {
        let Some(import) = self.host_import() else {
            return Err(Error::unsupported("the driver imports no host memory"));
        };
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let out = |result| failed(&format!("{bytes} bytes of host memory"), result);
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the pointer is mapped as the caller promises; the struct lives during the call.
        unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(
                self.device().handle(),
                kind,
                data.cast(),
                &mut properties,
            )
        }
        .result()
        .map_err(out)?;
        let mut made = self.buffer(bytes, Some(kind))?;
        // SAFETY: a buffer of this device.
        let needs = unsafe { self.device().get_buffer_memory_requirements(made.buffer) };
        let allowed = needs.memory_type_bits & properties.memory_type_bits;
        let cached = vk::MemoryPropertyFlags::HOST_COHERENT | vk::MemoryPropertyFlags::HOST_CACHED;
        let of_kind = self
            .memory_type(allowed, cached)
            .or_else(|| self.memory_type(allowed, vk::MemoryPropertyFlags::HOST_COHERENT))
            .ok_or_else(|| Error::unsupported("the driver takes no coherent host memory"))?;
        if needs.size > bytes {
            return Err(Error::unsupported(format!(
                "a buffer over {bytes} bytes of host memory needs {}",
                needs.size
            )));
        }
        let mut pointer = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(kind)
            .host_pointer(data.cast());
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(bytes)
            .memory_type_index(of_kind)
            .push_next(&mut pointer);
        // SAFETY: the memory is mapped as the caller promises.
        made.memory = unsafe { self.device().allocate_memory(&info, None) }.map_err(out)?;
        // SAFETY: fresh buffer, memory of its size and kind.
        unsafe { self.device().bind_buffer_memory(made.buffer, made.memory, 0) }.map_err(out)?;
        Ok(wrap(made, command_queues, bytes))
    }
}

/// The buffer as wgpu sees it, once per command queue; it goes with the last of them.
pub(super) fn wrap(made: RawBuffer, command_queues: &[CommandQueue], bytes: u64) -> Vec<wgpu::Buffer> {
    let made = Arc::new(made);
    command_queues
        .iter()
        .map(|command_queue| {
            let held = Arc::clone(&made);
            // SAFETY: the handle lives until the callback is dropped.
            let buffer = unsafe {
                wgpu::hal::vulkan::Buffer::from_raw_externally_owned(
                    made.buffer,
                    Box::new(move || drop(held)),
                )
            };
            let descriptor = wgpu::BufferDescriptor {
                label: None,
                size: bytes,
                usage: USAGE,
                mapped_at_creation: false,
            };
            // SAFETY: a buffer of this device, of this size and usage; memory of the device holds no secrets
            // of others, as drivers clear it, and kernels write before they read.
            unsafe {
                command_queue
                    .device
                    .create_buffer_from_hal::<Vulkan>(buffer, &descriptor)
            }
        })
        .collect()
}
