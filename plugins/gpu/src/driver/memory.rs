//! Memory of the GPU: blocks of its own, and host memory that it uses in place.
//!
//! Invariant: a block is one memory, seen by every command queue through a buffer of wgpu's.
//!
//! Not here: buffers of the contract (`crate::buffer`).

#![allow(unsafe_code, reason = "host memory is handed to the driver")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polychip_sdk::{Error, ErrorKind, HostBuffer, Memory, MemoryKind, Result};

use super::gpu::Gpu;
use super::usage::USAGE;

/// Sizes are rounded up to this, so that kernels may read whole vectors.
const ROUND: u64 = 256;

/// Who sees a block in place besides this GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody.
    Device,
    /// The host.
    Host,
    /// Whoever has a handle of it: a submission takes it over from them, and gives it back.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Foreign,
}

/// A block of memory.
pub struct MemoryBlock {
    /// One buffer per command queue.
    pub(crate) buffers: Vec<wgpu::Buffer>,
    /// Size, in bytes.
    pub(crate) bytes: u64,
    /// Who sees it besides.
    pub(crate) owner: Owner,
}

impl MemoryBlock {
    /// A block of the device's own memory; its bytes are not cleared.
    ///
    /// # Errors
    /// `OutOfMemory`, with the size and the limit.
    pub(crate) fn local(gpu: &Gpu, bytes: u64) -> Result<MemoryBlock> {
        let full = || {
            let what = format!(
                "{bytes} bytes in one buffer; the GPU's limit is {}",
                gpu.buffer_bytes
            );
            Error::new(ErrorKind::OutOfMemory, what)
        };
        let bytes = bytes.max(1).checked_next_multiple_of(ROUND).ok_or_else(full)?;
        if bytes > gpu.buffer_bytes {
            return Err(full());
        }
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = &gpu.raw {
            let buffers = raw.local(&gpu.command_queues, bytes)?;
            return Ok(MemoryBlock {
                buffers,
                bytes,
                owner: Owner::Device,
            });
        }
        let command_queue = &gpu.command_queues[0];
        let buffer = command_queue.caught(|| {
            command_queue.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes,
                usage: USAGE,
                mapped_at_creation: false,
            })
        })?;
        Ok(MemoryBlock {
            buffers: vec![buffer],
            bytes,
            owner: Owner::Device,
        })
    }

    /// A block over host memory, without a copy.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory.
    ///
    /// # Safety
    /// The pages of `data` to `data + bytes` stay mapped until no run uses the block.
    pub(crate) unsafe fn import(gpu: &Gpu, data: *mut u8, bytes: u64) -> Result<MemoryBlock> {
        let alignment = gpu
            .import_alignment()
            .ok_or_else(|| Error::unsupported("the driver imports no host memory"))?;
        if !(data as u64).is_multiple_of(alignment) {
            return Err(Error::unsupported(format!(
                "host memory to import must be aligned to {alignment} bytes"
            )));
        }
        // whole pages are mapped, whatever of them belongs to others: kernels touch what is bound only
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(alignment)
            .filter(|&bytes| bytes <= gpu.buffer_bytes)
            .ok_or_else(|| {
                let limit = gpu.buffer_bytes;
                let what = format!("{bytes} bytes of host memory in one buffer; the GPU's limit is {limit}");
                Error::unsupported(what)
            })?;
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = &gpu.raw {
            // SAFETY: as the caller promises.
            let buffers = unsafe { raw.import(&gpu.command_queues, data, bytes) }?;
            return Ok(MemoryBlock {
                buffers,
                bytes,
                owner: Owner::Host,
            });
        }
        #[cfg(target_vendor = "apple")]
        {
            // SAFETY: as the caller promises.
            let buffer = unsafe { super::metal::import(&gpu.command_queues[0], data, bytes) }?;
            Ok(MemoryBlock {
                buffers: vec![buffer],
                bytes,
                owner: Owner::Host,
            })
        }
        #[cfg(not(target_vendor = "apple"))]
        Err(Error::unsupported("the driver imports no host memory"))
    }

    /// A block over a dma-buf from byte `offset` on, without a copy.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn import_dma_buf(
        gpu: &Gpu,
        fd: std::os::fd::BorrowedFd<'_>,
        offset: u64,
        bytes: u64,
    ) -> Result<MemoryBlock> {
        let Some(raw) = &gpu.raw else {
            return Err(Error::unsupported("the driver imports no dma-bufs"));
        };
        if bytes > gpu.buffer_bytes {
            let limit = gpu.buffer_bytes;
            let what = format!("{bytes} bytes of a dma-buf in one buffer; the GPU's limit is {limit}");
            return Err(Error::unsupported(what));
        }
        let (buffers, bytes) = raw.import_dma_buf(&gpu.command_queues, fd, offset, bytes, ROUND)?;
        Ok(MemoryBlock {
            buffers,
            bytes,
            owner: Owner::Foreign,
        })
    }

    /// A block over Android's hardware buffer from byte `offset` on, without a copy: the driver takes it as a whole.
    ///
    /// # Errors
    /// `Unsupported` where the driver does not take this memory, or the block does not start where it starts.
    ///
    /// # Safety
    /// The handle is that of a live hardware buffer.
    #[cfg(target_os = "android")]
    pub(crate) unsafe fn import_hardware_buffer(
        gpu: &Gpu,
        handle: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<MemoryBlock> {
        let Some(raw) = gpu.raw.as_ref().filter(|_| offset == 0) else {
            return Err(Error::unsupported(format!(
                "the driver takes a hardware buffer as a whole, and the buffer starts at byte {offset}"
            )));
        };
        // SAFETY: as the caller promises.
        let (buffers, bytes) =
            unsafe { raw.import_hardware_buffer(&gpu.command_queues, handle, bytes.max(4)) }?;
        Ok(MemoryBlock {
            buffers,
            bytes,
            owner: Owner::Foreign,
        })
    }

    /// Writes bytes at `offset`, and waits until they are there.
    ///
    /// # Errors
    /// Where the device is lost.
    pub(crate) fn write(&self, gpu: &Gpu, offset: u64, bytes: &[u8]) -> Result<()> {
        /// Bytes written before they are waited for: the driver stages them.
        const AT_ONCE: usize = 64 << 20;
        let command_queue = &gpu.command_queues[0];
        let mut at = offset;
        for chunk in bytes.chunks(AT_ONCE) {
            let whole = chunk.len() & !3;
            let (words, rest) = chunk.split_at(whole);
            if !words.is_empty() {
                command_queue.queue.write_buffer(&self.buffers[0], at, words);
            }
            if !rest.is_empty() {
                let mut word = [0; 4];
                word[..rest.len()].copy_from_slice(rest);
                command_queue
                    .queue
                    .write_buffer(&self.buffers[0], at + whole as u64, &word);
            }
            let submission = command_queue.submit(None);
            while !command_queue.wait(&submission, std::time::Duration::from_secs(1))? {
                gpu.alive()?;
            }
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Reads the first bytes, and waits for them.
    ///
    /// # Errors
    /// Where the device is lost or has no memory for the way back.
    pub(crate) fn read(&self, gpu: &Gpu, to: &mut [u8]) -> Result<()> {
        let command_queue = &gpu.command_queues[0];
        let bytes = (to.len().max(1) as u64).next_multiple_of(4);
        let back = command_queue.caught(|| {
            command_queue.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })?;
        let mut encoder = command_queue.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&self.buffers[0], 0, &back, 0, bytes);
        let submission = command_queue.submit(Some(encoder.finish()));
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        back.slice(..)
            .map_async(wgpu::MapMode::Read, move |_| tell.store(true, Ordering::Release));
        while !command_queue.wait(&submission, std::time::Duration::from_secs(1))? {
            gpu.alive()?;
        }
        // the command queue's semaphore may be signalled a moment before wgpu's own
        while !told.load(Ordering::Acquire) {
            command_queue.settle();
            gpu.alive()?;
        }
        let mapped = back
            .slice(..)
            .get_mapped_range()
            .map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        to.copy_from_slice(&mapped[..to.len()]);
        Ok(())
    }
}

/// Host memory of our own that the GPU uses in place.
pub(crate) struct Hosted {
    /// As the GPU sees it; before the memory, which outlives it.
    pub(crate) block: Arc<MemoryBlock>,
    /// As the host sees it.
    pub(crate) memory: HostBuffer,
}

impl Hosted {
    /// At least `bytes` bytes, zeroed.
    ///
    /// # Errors
    /// `Unsupported` where the driver imports no host memory.
    pub(crate) fn new(gpu: &Gpu, bytes: u64) -> Result<Hosted> {
        let alignment = gpu
            .import_alignment()
            .ok_or_else(|| Error::unsupported("the driver imports no host memory"))?;
        let bytes = bytes.max(1).next_multiple_of(alignment);
        let memory = HostBuffer::create(&Memory::wanted(MemoryKind::Host, bytes, alignment))?;
        // SAFETY: the memory lives beside the block, in what waits for the GPU before it lets go of both.
        let block = unsafe { MemoryBlock::import(gpu, memory.as_ptr(), bytes) }?;
        Ok(Hosted {
            block: Arc::new(block),
            memory,
        })
    }
}
