//! An open GPU: its command queues, its pipelines, and whether it is lost.
//!
//! Invariant: once lost it stays lost; the first message is kept. What comes after a reset is another [`Gpu`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use polychip_sdk::{Error, ErrorKind, Result};

use super::adapter::GpuAdapter;
use super::command_queue::CommandQueue;
use super::pipeline::{Pipelines, descriptor};
use super::timestamps::Clock;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
use super::{vulkan::Raw, vulkan_queues};

/// Numbers the open GPUs of the process.
static OPENED: AtomicU64 = AtomicU64::new(1);

/// An open GPU.
pub struct Gpu {
    /// Which one of the process it is.
    pub(crate) number: u64,
    /// The batch command queue, and where there is one the urgent command queue.
    pub(crate) command_queues: Vec<CommandQueue>,
    /// Pipelines by the text of their kernels.
    pub(crate) pipelines: Pipelines,
    /// Its clock, where it tells times.
    pub(crate) clock: Option<Clock>,
    /// Largest buffer, in bytes.
    pub(crate) buffer_bytes: u64,
    /// What offsets of bindings are multiples of.
    pub(crate) offset_alignment: u64,
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    pub(crate) raw: Option<Arc<Raw>>,
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    recorder: Option<Arc<Raw>>,
    lost: Arc<OnceLock<String>>,
    /// What a GPU that was given up may still be executing.
    given_up: Mutex<Vec<Box<dyn Send>>>,
}

/// How commands come to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commands {
    /// Recorded once, where the driver is Vulkan's.
    Recorded,
    /// Encoded for each run by wgpu, as Metal and Direct3D have it.
    Encoded,
}

impl Gpu {
    /// Opens an adapter; `cache` are the bytes of an earlier [`Pipelines::bytes`] of the same driver.
    ///
    /// # Errors
    /// Where the driver refuses, with the driver's message.
    pub(crate) fn open(found: &GpuAdapter, cache: Option<&[u8]>, commands: Commands) -> Result<Arc<Gpu>> {
        let features = found.features();
        let limits = found.adapter.limits();
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        let (raw, command_queues) = if found.info.backend == wgpu::Backend::Vulkan {
            let (raw, command_queues) = vulkan_queues::open(found, features, &limits)?;
            (Some(raw), command_queues)
        } else {
            (None, vec![open_plain(found, features, &limits)?])
        };
        #[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
        let command_queues = vec![open_plain(found, features, &limits)?];
        let lost = Arc::new(OnceLock::new());
        for command_queue in &command_queues {
            let of_loss = Arc::clone(&lost);
            command_queue
                .device
                .set_device_lost_callback(move |reason, message| {
                    if reason != wgpu::DeviceLostReason::Destroyed {
                        let _ = of_loss.set(format!("the GPU was lost: {message}"));
                    }
                });
            let of_error = Arc::clone(&lost);
            command_queue
                .device
                .on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
                    let _ = of_error.set(format!("the GPU's driver failed: {error}"));
                }));
        }
        let period = command_queues[0].queue.get_timestamp_period();
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        let bits = raw.as_ref().map_or(0, |raw| raw.timestamp_bits);
        #[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
        let bits = 0;
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        let recorder = raw
            .clone()
            .filter(|_| commands == Commands::Recorded && command_queues.iter().all(CommandQueue::counts));
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        let (pipelines, recorded) = match &recorder {
            Some(raw) => (Pipelines::of_vulkan(raw, cache), true),
            None => (Pipelines::of_wgpu(&command_queues, features, cache), false),
        };
        #[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
        let (pipelines, recorded) = {
            let _ = commands;
            (Pipelines::of_wgpu(&command_queues, features, cache), false)
        };
        let timed = features.contains(wgpu::Features::TIMESTAMP_QUERY) && bits > 0 && recorded;
        Ok(Arc::new(Gpu {
            clock: timed.then(|| Clock::new(period, bits)),
            number: OPENED.fetch_add(1, Ordering::Relaxed),
            pipelines,
            command_queues,
            buffer_bytes: limits.max_buffer_size,
            offset_alignment: u64::from(limits.min_storage_buffer_offset_alignment),
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            raw,
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            recorder,
            lost,
            given_up: Mutex::default(),
        }))
    }

    /// The device whose commands are recorded, where they are.
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    pub(super) fn recorder(&self) -> Option<&Arc<Raw>> {
        self.recorder.as_ref()
    }

    /// Keeps what a GPU that was given up may still be executing, until it is let go of.
    pub(crate) fn keep(&self, launches: impl Send + 'static) {
        self.given_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(launches));
    }

    /// Whether host memory can be imported, and at which alignment.
    pub(crate) fn import_alignment(&self) -> Option<u64> {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = &self.raw {
            return raw.imports().then_some(raw.import_alignment);
        }
        #[cfg(target_vendor = "apple")]
        return Some(super::metal::ALIGNMENT);
        #[cfg(not(target_vendor = "apple"))]
        None
    }

    /// Whether Android's hardware buffers can be imported.
    pub(crate) fn imports_hardware_buffers(&self) -> bool {
        #[cfg(target_os = "android")]
        if let Some(raw) = &self.raw {
            return raw.external().imports_hardware_buffers();
        }
        false
    }

    /// Whether Linux dma-bufs can be imported.
    pub(crate) fn imports_dma_bufs(&self) -> bool {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(raw) = &self.raw {
            return raw.external().imports_dma_bufs();
        }
        false
    }

    /// Memory of the device's own, in bytes; 0 where not known.
    pub(crate) fn local_bytes(&self) -> u64 {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = &self.raw {
            return raw.local_bytes();
        }
        0
    }

    /// Multiply-adds of 32-bit floats per clock, where the driver tells.
    pub(crate) fn fma_lanes(&self) -> Option<u64> {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = &self.raw {
            return raw.fma_lanes;
        }
        None
    }

    /// The GPU's time, in ticks, where it can be asked.
    pub(crate) fn ticks(&self) -> Option<u64> {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = &self.raw {
            return raw.ticks();
        }
        None
    }

    /// Says that the device is lost.
    pub(crate) fn lose(&self, message: String) {
        // the first message names the cause
        let _ = self.lost.set(message);
    }

    /// Lets go of a GPU: at once where it has nothing left to do, and otherwise never, for it may still write to
    /// what it was given.
    pub(crate) fn retire(self: Arc<Self>, patience: Duration) {
        if self.lost.get().is_some()
            && !self
                .command_queues
                .iter()
                .all(|command_queue| command_queue.is_idle(patience))
        {
            std::mem::forget(self);
            return;
        }
        self.given_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Fails where the device is lost.
    ///
    /// # Errors
    /// `DeviceLost`, with the driver's message.
    pub(crate) fn alive(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(message) => Err(Error::new(ErrorKind::DeviceLost, message.clone())),
        }
    }
}

/// Opens an adapter by wgpu alone, with one command queue.
fn open_plain(found: &GpuAdapter, features: wgpu::Features, limits: &wgpu::Limits) -> Result<CommandQueue> {
    let (device, queue) = pollster::block_on(found.adapter.request_device(&descriptor(features, limits)))
        .map_err(|error| Error::new(ErrorKind::Persistent, format!("the GPU does not open: {error}")))?;
    Ok(CommandQueue::new(device, queue, None))
}
