//! Memory that others made, as buffers of this GPU: taken by a handle, and handed over between us and them.
//!
//! Invariant: other users of such memory are a foreign queue family: a submission that touches it takes
//! it over from there first and gives it back last ([`Raw::take`], [`Raw::give`]).
//!
//! Not here: what the driver imports (`external`), the processor's view of the memory (`polychip_sdk::HostBuffer`).

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::Arc;

use ash::vk;
use polychip_sdk::{Error, Result};
use wgpu::hal::api::Vulkan;

use super::command_queue::CommandQueue;
use super::external::DMA_BUF;
#[cfg(target_os = "android")]
use super::external::HARDWARE_BUFFER;
use super::vulkan::{Raw, failed};
use super::vulkan_memory::wrap;

/// What kernels and copies of ours do with such memory, and where.
const STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);
const READS: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw(),
);
const WRITES: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);

/// Which way memory changes hands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From others.
    Take,
    /// Back to others.
    Give,
}

impl Raw {
    /// A buffer over the bytes of a dma-buf from `offset` on, one of wgpu's per command queue, and its size: `bytes`, or up to
    /// the next multiple of `round` if the dma-buf is that long.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory.
    pub(super) fn import_dma_buf(
        self: &Arc<Self>,
        command_queues: &[CommandQueue],
        fd: BorrowedFd<'_>,
        offset: u64,
        bytes: u64,
        round: u64,
    ) -> Result<(Vec<wgpu::Buffer>, u64)> {
        let external = self.external();
        let Some(import) = &external.dma_buf else {
            return Err(Error::unsupported("the driver imports no dma-bufs"));
        };
        let no_size =
            |error: rustix::io::Errno| Error::unsupported(format!("a dma-buf without a size: {error}"));
        let whole = rustix::fs::seek(fd, rustix::fs::SeekFrom::End(0)).map_err(no_size)?;
        let left = whole
            .checked_sub(offset)
            .filter(|left| *left >= bytes)
            .ok_or_else(|| {
                let what = format!("{bytes} bytes from byte {offset} on leave a dma-buf of {whole}");
                Error::bad_argument(what)
            })?;
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(round)
            .map_or(bytes, |up| up.min(left));
        let out = |result| failed(&format!("{bytes} bytes of a dma-buf"), result);
        let mut properties = vk::MemoryFdPropertiesKHR::default();
        // SAFETY: an open descriptor, and a record that lives during the call.
        unsafe { import.get_memory_fd_properties(DMA_BUF, fd.as_raw_fd(), &mut properties) }.map_err(out)?;
        let mut made = self.buffer(bytes, Some(DMA_BUF))?;
        // SAFETY: a buffer of this device.
        let needs = unsafe { self.device().get_buffer_memory_requirements(made.buffer) };
        let kind = self
            .memory_type(
                needs.memory_type_bits & properties.memory_type_bits,
                vk::MemoryPropertyFlags::empty(),
            )
            .ok_or_else(|| Error::unsupported("the driver has no kind of memory for this dma-buf"))?;
        if !offset.is_multiple_of(needs.alignment) || needs.size > left {
            let what = format!(
                "a buffer over {bytes} bytes from byte {offset} on of a dma-buf of {whole} bytes needs {} bytes at a \
                 multiple of {}",
                needs.size, needs.alignment
            );
            return Err(Error::unsupported(what));
        }
        if external.dedicated && offset != 0 {
            return Err(Error::unsupported(format!(
                "the driver takes a dma-buf as a whole, and the buffer starts at byte {offset}"
            )));
        }
        let own = fd
            .try_clone_to_owned()
            .map_err(|error| Error::unsupported(format!("a dma-buf cannot be held: {error}")))?
            .into_raw_fd();
        let mut handle = vk::ImportMemoryFdInfoKHR::default().handle_type(DMA_BUF).fd(own);
        let mut alone = vk::MemoryDedicatedAllocateInfo::default().buffer(made.buffer);
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(if external.dedicated { needs.size } else { whole })
            .memory_type_index(kind)
            .push_next(&mut handle);
        if external.dedicated {
            info = info.push_next(&mut alone);
        }
        // SAFETY: a valid description; the driver owns the descriptor from here on.
        match unsafe { self.device().allocate_memory(&info, None) } {
            Ok(memory) => made.memory = memory,
            Err(result) => {
                // SAFETY: ours, and a call that failed leaves it to us.
                drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(own) });
                return Err(out(result));
            }
        }
        // SAFETY: fresh buffer, memory of a size and kind that hold it from this byte on.
        unsafe { self.device().bind_buffer_memory(made.buffer, made.memory, offset) }.map_err(out)?;
        Ok((wrap(made, command_queues, bytes), bytes))
    }

    /// A buffer over the whole of a hardware buffer, an `AHardwareBuffer *`, one of wgpu's per command queue, and its size.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory.
    ///
    /// # Safety
    /// The handle is that of a live hardware buffer.
    #[cfg(target_os = "android")]
    pub(super) unsafe fn import_hardware_buffer(
        self: &Arc<Self>,
        command_queues: &[CommandQueue],
        handle: u64,
        bytes: u64,
    ) -> Result<(Vec<wgpu::Buffer>, u64)> {
        let Some(import) = &self.external().hardware_buffer else {
            return Err(Error::unsupported("the driver imports no hardware buffers"));
        };
        let out = |result| failed(&format!("{bytes} bytes of a hardware buffer"), result);
        let handle = handle as usize as *mut vk::AHardwareBuffer;
        let mut properties = vk::AndroidHardwareBufferPropertiesANDROID::default();
        // SAFETY: a live buffer, as the caller promises, and a record that lives during the call.
        unsafe { import.get_android_hardware_buffer_properties(handle, &mut properties) }.map_err(out)?;
        let mut made = self.buffer(bytes, Some(HARDWARE_BUFFER))?;
        // SAFETY: a buffer of this device.
        let needs = unsafe { self.device().get_buffer_memory_requirements(made.buffer) };
        let kind = self
            .memory_type(
                needs.memory_type_bits & properties.memory_type_bits,
                vk::MemoryPropertyFlags::empty(),
            )
            .ok_or_else(|| Error::unsupported("the driver has no kind of memory for this hardware buffer"))?;
        if needs.size > properties.allocation_size {
            return Err(Error::unsupported(format!(
                "a buffer over {bytes} bytes of a hardware buffer needs {}, and it has {}",
                needs.size, properties.allocation_size
            )));
        }
        let mut given = vk::ImportAndroidHardwareBufferInfoANDROID::default().buffer(handle);
        let mut alone = vk::MemoryDedicatedAllocateInfo::default().buffer(made.buffer);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(properties.allocation_size)
            .memory_type_index(kind)
            .push_next(&mut given)
            .push_next(&mut alone);
        // SAFETY: a valid description; the driver holds the buffer on its own from here on.
        made.memory = unsafe { self.device().allocate_memory(&info, None) }.map_err(out)?;
        // SAFETY: fresh buffer, memory of its size and kind.
        unsafe { self.device().bind_buffer_memory(made.buffer, made.memory, 0) }.map_err(out)?;
        Ok((wrap(made, command_queues, bytes), bytes))
    }

    /// Commands that take buffers over from others, to be submitted before what uses them.
    ///
    /// # Errors
    /// Where the driver records nothing.
    pub(super) fn take<'a>(
        &self,
        command_queue: &CommandQueue,
        buffers: impl Iterator<Item = &'a wgpu::Buffer>,
    ) -> Result<wgpu::CommandBuffer> {
        self.hand_over(command_queue, buffers, Way::Take)
    }

    /// Commands that give buffers back to others, to be submitted behind what uses them.
    ///
    /// # Errors
    /// Where the driver records nothing.
    pub(super) fn give<'a>(
        &self,
        command_queue: &CommandQueue,
        buffers: impl Iterator<Item = &'a wgpu::Buffer>,
    ) -> Result<wgpu::CommandBuffer> {
        self.hand_over(command_queue, buffers, Way::Give)
    }

    fn hand_over<'a>(
        &self,
        command_queue: &CommandQueue,
        buffers: impl Iterator<Item = &'a wgpu::Buffer>,
        way: Way,
    ) -> Result<wgpu::CommandBuffer> {
        let mut raw = Vec::new();
        for buffer in buffers {
            // SAFETY: the guard is dropped at once; nothing is destroyed through it.
            let Some(buffer) = (unsafe { buffer.as_hal::<Vulkan>() }) else {
                return Err(Error::unsupported("a buffer that is not Vulkan's"));
            };
            // SAFETY: alive as long as its guard, and held by the run beyond.
            let handle = unsafe { buffer.raw_handle() };
            // several ports may lie in one buffer
            if !raw.contains(&handle) {
                raw.push(handle);
            }
        }
        let mut encoder = command_queue.device.create_command_encoder(&Default::default());
        let record = |commands: Option<&mut wgpu::hal::vulkan::CommandEncoder>| match commands {
            None => Err(Error::unsupported("commands that are not Vulkan's")),
            Some(commands) => {
                // SAFETY: recorded to between begin and end; wgpu ends it.
                let commands = unsafe { commands.raw_handle() };
                self.record_hand_over(commands, &raw, way);
                Ok(())
            }
        };
        // SAFETY: the commands are neither ended nor destroyed.
        unsafe { encoder.as_hal_mut::<Vulkan, _, _>(record) }?;
        Ok(encoder.finish())
    }

    /// Records the barriers with which a command queue takes buffers over from others, or gives them back.
    pub(super) fn record_hand_over(&self, commands: vk::CommandBuffer, buffers: &[vk::Buffer], way: Way) {
        let foreign = self.external().foreign;
        // of memory that several families share each is the owner
        let own = match self.families() {
            [one] => *one,
            _ => vk::QUEUE_FAMILY_IGNORED,
        };
        let barriers: Vec<_> = buffers
            .iter()
            .map(|&buffer| {
                let barrier = vk::BufferMemoryBarrier::default()
                    .buffer(buffer)
                    .size(vk::WHOLE_SIZE);
                match way {
                    Way::Take => barrier
                        .src_queue_family_index(foreign)
                        .dst_queue_family_index(own)
                        .dst_access_mask(READS | WRITES),
                    Way::Give => barrier
                        .src_queue_family_index(own)
                        .dst_queue_family_index(foreign)
                        .src_access_mask(WRITES),
                }
            })
            .collect();
        // what of ours came before stays before
        let (from, to) = match way {
            Way::Take => (vk::PipelineStageFlags::ALL_COMMANDS, STAGES),
            Way::Give => (STAGES, vk::PipelineStageFlags::ALL_COMMANDS),
        };
        // SAFETY: commands being recorded, buffers of the same device.
        unsafe {
            self.device().cmd_pipeline_barrier(
                commands,
                from,
                to,
                vk::DependencyFlags::empty(),
                &[],
                &barriers,
                &[],
            );
        }
    }
}
