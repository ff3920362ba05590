//! Pipelines: kernels made ready by the driver, each text once, or where wgpu encodes, once per command queue.
//!
//! Invariants:
//! 1. Checks at run time (bounds, loops) are left out: kernels are this project's own, and sizes of bindings are
//!    checked when a part is loaded.
//! 2. Bytes of a cache come from the same driver only: the store keys them by its identity.

#![allow(
    unsafe_code,
    reason = "kernels run without checks, and a cache's bytes are trusted"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use polychip_gpu_kernels::{Access, Kernel};
use polychip_sdk::{Error, ErrorKind, Result};
use rayon::prelude::*;

use super::command_queue::CommandQueue;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
use super::{
    vulkan::Raw,
    vulkan_pipeline::{VulkanCache, VulkanPipeline},
};

/// A kernel made ready.
pub(crate) enum Pipeline {
    /// For one command queue, to be encoded.
    Wgpu {
        /// What is launched.
        pipeline: wgpu::ComputePipeline,
        /// What its bindings are.
        layout: wgpu::BindGroupLayout,
    },
    /// For all command queues, to be recorded.
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    Vulkan(VulkanPipeline),
}

impl Pipeline {
    /// What wgpu launches and binds, where it does.
    pub(super) fn of_wgpu(&self) -> Option<(&wgpu::ComputePipeline, &wgpu::BindGroupLayout)> {
        match self {
            Pipeline::Wgpu { pipeline, layout } => Some((pipeline, layout)),
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            Pipeline::Vulkan(_) => None,
        }
    }
}

/// What the driver keeps of the pipelines that it made.
enum Cache {
    /// wgpu's, of the first command queue, where it has one.
    Wgpu(Option<wgpu::PipelineCache>),
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    Vulkan(Arc<Raw>, VulkanCache),
}

/// Pipelines of a device.
pub(crate) struct Pipelines {
    made: Mutex<HashMap<(usize, String), Arc<Pipeline>>>,
    cache: Cache,
}

/// What is asked of wgpu for each command queue.
pub(crate) fn descriptor(features: wgpu::Features, limits: &wgpu::Limits) -> wgpu::DeviceDescriptor<'static> {
    wgpu::DeviceDescriptor {
        label: None,
        required_features: features,
        required_limits: limits.clone(),
        experimental_features: experimental(),
        memory_hints: wgpu::MemoryHints::Performance,
        trace: wgpu::Trace::Off,
    }
}

/// Leave to use what wgpu calls experimental: matrix units.
fn experimental() -> wgpu::ExperimentalFeatures {
    // SAFETY: only kernels of ours use them, with shapes that the adapter lists.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

impl Pipelines {
    /// Pipelines that wgpu makes.
    pub(super) fn of_wgpu(
        command_queues: &[CommandQueue],
        features: wgpu::Features,
        cache: Option<&[u8]>,
    ) -> Pipelines {
        let cached = features.contains(wgpu::Features::PIPELINE_CACHE);
        Pipelines {
            made: Mutex::default(),
            cache: Cache::Wgpu(cached.then(|| cache_of(&command_queues[0], cache))),
        }
    }

    /// Pipelines of Vulkan's own.
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    pub(super) fn of_vulkan(raw: &Arc<Raw>, cache: Option<&[u8]>) -> Pipelines {
        Pipelines {
            made: Mutex::default(),
            cache: Cache::Vulkan(Arc::clone(raw), VulkanCache::new(raw, cache)),
        }
    }

    /// The driver's bytes of all pipelines made, for another process.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        match &self.cache {
            Cache::Wgpu(cache) => cache.as_ref()?.get_data(),
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            Cache::Vulkan(_, cache) => cache.bytes(),
        }
    }

    fn known(&self, queue_index: usize, kernel: &Kernel) -> Option<Arc<Pipeline>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // kernels that differ in their bindings' sizes differ in their text
        made.get(&(queue_index, kernel.wgsl.clone())).cloned()
    }

    /// The pipelines of kernels for one command queue, in their order, and how many of them are new.
    ///
    /// # Errors
    /// Where the driver refuses one: its name and the driver's message.
    pub(crate) fn get(
        &self,
        command_queues: &[CommandQueue],
        queue_index: usize,
        kernels: &[Kernel],
    ) -> Result<(Vec<Arc<Pipeline>>, usize)> {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Cache::Vulkan(raw, cache) = &self.cache {
            return self.make_all(0, kernels, |kernel| {
                VulkanPipeline::new(raw, cache, kernel).map(Pipeline::Vulkan)
            });
        }
        // what the first command queue has made, another does not compile again
        let queue_cache = match (&self.cache, queue_index) {
            (Cache::Wgpu(Some(cache)), 0) => Some(cache.clone()),
            (Cache::Wgpu(Some(cache)), _) => Some(cache_of(
                &command_queues[queue_index],
                cache.get_data().as_deref(),
            )),
            _ => None,
        };
        self.make_all(queue_index, kernels, |kernel| {
            make(&command_queues[queue_index], queue_cache.as_ref(), kernel)
        })
    }

    fn make_all(
        &self,
        queue_index: usize,
        kernels: &[Kernel],
        make: impl Fn(&Kernel) -> Result<Pipeline> + Sync,
    ) -> Result<(Vec<Arc<Pipeline>>, usize)> {
        let results: Vec<Result<(Arc<Pipeline>, bool)>> = kernels
            .par_iter()
            .map(|kernel| {
                if let Some(known) = self.known(queue_index, kernel) {
                    return Ok((known, false));
                }
                let made = make(kernel).map_err(|error| named(kernel, &error))?;
                let made = Arc::new(made);
                let key = (queue_index, kernel.wgsl.clone());
                let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
                Ok((Arc::clone(all.entry(key).or_insert(made)), true))
            })
            .collect();
        let mut pipelines = Vec::with_capacity(kernels.len());
        let mut new = 0;
        for result in results {
            let (pipeline, is_new) = result?;
            pipelines.push(pipeline);
            new += usize::from(is_new);
        }
        Ok((pipelines, new))
    }
}

fn cache_of(command_queue: &CommandQueue, bytes: Option<&[u8]>) -> wgpu::PipelineCache {
    let descriptor = wgpu::PipelineCacheDescriptor {
        label: None,
        data: bytes,
        fallback: true,
    };
    // SAFETY: the bytes were made by the same driver (invariant 2 of the module).
    unsafe { command_queue.device.create_pipeline_cache(&descriptor) }
}

fn make(
    command_queue: &CommandQueue,
    cache: Option<&wgpu::PipelineCache>,
    kernel: &Kernel,
) -> Result<Pipeline> {
    let device = &command_queue.device;
    command_queue.caught(|| {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(&kernel.variant),
            source: wgpu::ShaderSource::Wgsl(kernel.wgsl.as_str().into()),
        };
        let checks = wgpu::ShaderRuntimeChecks {
            // an element may be divided by another that is 0
            int_div_checks: true,
            // SAFETY: as below.
            ..unsafe { wgpu::ShaderRuntimeChecks::all(false) }
        };
        // SAFETY: the text is a generator's of ours, which stays within its bindings and ends.
        let module = unsafe { device.create_shader_module_trusted(descriptor, checks) };
        let entries: Vec<wgpu::BindGroupLayoutEntry> = (0u32..)
            .zip(&kernel.bindings)
            .map(|(binding, of)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage {
                        read_only: of.access == Access::Constant,
                    },
                    has_dynamic_offset: false,
                    // pipelines are known by their text, which several sizes may share
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        });
        let of_pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&kernel.variant),
            layout: Some(&of_pipeline),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache,
        });
        Pipeline::Wgpu { pipeline, layout }
    })
}

/// Why a kernel was refused, with its name.
fn named(kernel: &Kernel, error: &Error) -> Error {
    let kind = match error.kind() {
        ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::Persistent,
    };
    Error::new(kind, format!("kernel {}: {error}", kernel.variant))
}
