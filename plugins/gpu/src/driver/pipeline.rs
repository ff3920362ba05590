//! Pipelines: kernels made ready by the driver, each text once per lane.
//!
//! Invariants:
//! 1. Checks at run time (bounds, loops) are left out: kernels are this project's own, and sizes of bindings are
//!    checked when a part is loaded.
//! 2. Bytes of a cache come from the same driver only: whoever keeps them guards them by its identity.

#![allow(
    unsafe_code,
    reason = "kernels run without checks, and a cache's bytes are trusted"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use polychip_gpu_kernels::{Access, Kernel};
use polychip_sdk::{Error, ErrorKind, Result};
use rayon::prelude::*;

use super::gpu::Gpu;
use super::lane::Lane;

/// A kernel made ready for one lane.
pub(crate) struct Pipeline {
    /// What is launched.
    pub(crate) pipeline: wgpu::ComputePipeline,
    /// What its bindings are.
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// Pipelines of a device.
pub(crate) struct Pipelines {
    made: Mutex<HashMap<(usize, String), Arc<Pipeline>>>,
    /// The driver's bytes, of the first lane.
    cache: Option<wgpu::PipelineCache>,
}

/// Leave to use what wgpu calls experimental: matrix units.
pub(crate) fn experimental() -> wgpu::ExperimentalFeatures {
    // SAFETY: only kernels of ours use them, with shapes that the adapter lists.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

impl Pipelines {
    pub(super) fn new(lanes: &[Lane], features: wgpu::Features, cache: Option<&[u8]>) -> Pipelines {
        let cached = features.contains(wgpu::Features::PIPELINE_CACHE);
        Pipelines {
            made: Mutex::default(),
            cache: cached.then(|| cache_of(&lanes[0], cache)),
        }
    }

    /// The driver's bytes of all pipelines made, for [`Gpu::open`] in another process.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        self.cache.as_ref()?.get_data()
    }

    fn known(&self, lane: usize, kernel: &Kernel) -> Option<Arc<Pipeline>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // kernels that differ in their bindings' sizes differ in their text
        made.get(&(lane, kernel.wgsl.clone())).cloned()
    }

    /// The pipelines of kernels for one lane, in their order, and how many of them are new.
    ///
    /// # Errors
    /// Where the driver refuses one: its name and the driver's words.
    pub(crate) fn get(
        &self,
        gpu: &Gpu,
        lane: usize,
        kernels: &[Kernel],
    ) -> Result<(Vec<Arc<Pipeline>>, usize)> {
        // what the first lane has made, another does not compile again
        let of_lane = match (&self.cache, lane) {
            (Some(cache), 0) => Some(cache.clone()),
            (Some(cache), _) => Some(cache_of(&gpu.lanes[lane], cache.get_data().as_deref())),
            (None, _) => None,
        };
        let results: Vec<Result<(Arc<Pipeline>, bool)>> = kernels
            .par_iter()
            .map(|kernel| {
                if let Some(known) = self.known(lane, kernel) {
                    return Ok((known, false));
                }
                let made = Arc::new(make(&gpu.lanes[lane], of_lane.as_ref(), kernel)?);
                let key = (lane, kernel.wgsl.clone());
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

fn cache_of(lane: &Lane, bytes: Option<&[u8]>) -> wgpu::PipelineCache {
    let descriptor = wgpu::PipelineCacheDescriptor {
        label: None,
        data: bytes,
        fallback: true,
    };
    // SAFETY: the bytes were made by the same driver (invariant 2 of the module).
    unsafe { lane.device.create_pipeline_cache(&descriptor) }
}

fn make(lane: &Lane, cache: Option<&wgpu::PipelineCache>, kernel: &Kernel) -> Result<Pipeline> {
    let device = &lane.device;
    let made = Gpu::caught(lane, || {
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
        Pipeline { pipeline, layout }
    });
    made.map_err(|error| {
        let kind = match error.kind() {
            ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Persistent,
        };
        Error::new(kind, format!("kernel {}: {error}", kernel.variant))
    })
}
