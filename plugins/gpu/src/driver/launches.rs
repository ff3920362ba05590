//! Launches made ready to be run on a command queue as often as wanted: recorded where the driver is Vulkan's, encoded by
//! wgpu for each run elsewhere.
//!
//! Invariant: launches are under way at most once at a time; the submitter holds them until they have ended.

use std::sync::Arc;

use polychip_sdk::Result;

use super::command_queue::Submission;
use super::gpu::Gpu;
use super::launch::Launch;
use super::memory::{MemoryBlock, Owner};
use super::pipeline::Pipeline;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
use super::recording::Recording;

/// A launch as wgpu encodes it.
struct Encoded {
    pipeline: Arc<Pipeline>,
    group: wgpu::BindGroup,
    groups: [u32; 3],
}

enum Form {
    Encoded {
        launches: Vec<Encoded>,
        /// What is written and the host reads in place.
        shown: Vec<Arc<MemoryBlock>>,
        /// What is others' besides.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        foreign: Vec<Arc<MemoryBlock>>,
    },
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    Recorded(Recording),
}

/// Launches made ready for one command queue.
pub(crate) struct Launches {
    queue_index: usize,
    form: Form,
}

impl Launches {
    /// Makes launches ready, in this order; `timed` asks the GPU when they began and ended.
    ///
    /// # Errors
    /// Where the driver has no memory for them.
    pub(crate) fn new(
        gpu: &Gpu,
        queue_index: usize,
        launches: &[Launch<'_>],
        timed: bool,
    ) -> Result<Launches> {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = gpu.recorder() {
            let recording = Recording::new(raw, queue_index, launches, timed && gpu.clock.is_some())?;
            return Ok(Launches {
                queue_index,
                form: Form::Recorded(recording),
            });
        }
        #[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
        let _ = timed;
        Launches::encoded(gpu, queue_index, launches)
    }

    fn encoded(gpu: &Gpu, queue_index: usize, launches: &[Launch<'_>]) -> Result<Launches> {
        let command_queue = &gpu.command_queues[queue_index];
        let encoded = command_queue.caught(|| {
            let encode = |launch: &Launch<'_>| {
                let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
                    .zip(&launch.bindings)
                    .map(|(binding, bound)| wgpu::BindGroupEntry {
                        binding,
                        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                            buffer: &bound.block.buffers[queue_index],
                            offset: bound.offset,
                            size: wgpu::BufferSize::new(bound.bytes),
                        }),
                    })
                    .collect();
                let (_, layout) = launch.pipeline.of_wgpu()?;
                let group = command_queue
                    .device
                    .create_bind_group(&wgpu::BindGroupDescriptor {
                        label: None,
                        layout,
                        entries: &entries,
                    });
                Some(Encoded {
                    pipeline: Arc::clone(launch.pipeline),
                    group,
                    groups: launch.groups,
                })
            };
            launches.iter().filter_map(encode).collect::<Vec<_>>()
        })?;
        let bindings = || launches.iter().flat_map(|launch| &launch.bindings);
        let of = |owner, written: bool| {
            let mut blocks: Vec<Arc<MemoryBlock>> = Vec::new();
            for bound in bindings().filter(|bound| bound.block.owner == owner && (bound.writes || !written)) {
                if !blocks.iter().any(|block| Arc::ptr_eq(block, bound.block)) {
                    blocks.push(Arc::clone(bound.block));
                }
            }
            blocks
        };
        Ok(Launches {
            queue_index,
            form: Form::Encoded {
                shown: of(Owner::Host, true),
                #[cfg(any(target_os = "linux", target_os = "android"))]
                foreign: of(Owner::Foreign, false),
                launches: encoded,
            },
        })
    }

    /// Hands the launches to the GPU.
    ///
    /// # Errors
    /// Where the device is lost, with the driver's message.
    pub(crate) fn submit(&mut self, gpu: &Gpu) -> Result<Submission> {
        let command_queue = &gpu.command_queues[self.queue_index];
        match &mut self.form {
            Form::Encoded {
                launches,
                shown,
                #[cfg(any(target_os = "linux", target_os = "android"))]
                foreign,
            } => {
                let mut encoder = command_queue.device.create_command_encoder(&Default::default());
                {
                    let mut pass = encoder.begin_compute_pass(&Default::default());
                    for launch in launches {
                        if let Some((pipeline, _)) = launch.pipeline.of_wgpu() {
                            pass.set_pipeline(pipeline);
                        }
                        pass.set_bind_group(0, &launch.group, &[]);
                        let [x, y, z] = launch.groups;
                        pass.dispatch_workgroups(x, y, z);
                    }
                }
                // what the GPU wrote to host memory becomes visible to the host
                let queue_index = self.queue_index;
                let transitions = shown.iter().map(|block| wgpu::wgt::BufferTransition {
                    buffer: &block.buffers[queue_index],
                    state: wgpu::wgt::BufferUses::MAP_READ,
                });
                encoder.transition_resources(transitions, std::iter::empty());
                let commands = encoder.finish();
                #[cfg(any(target_os = "linux", target_os = "android"))]
                if let Some(raw) = gpu.raw.as_ref().filter(|_| !foreign.is_empty()) {
                    let buffers = || foreign.iter().map(|block| &block.buffers[queue_index]);
                    let (take, give) = (
                        raw.take(command_queue, buffers())?,
                        raw.give(command_queue, buffers())?,
                    );
                    return Ok(command_queue.submit([take, commands, give]));
                }
                Ok(command_queue.submit(Some(commands)))
            }
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            Form::Recorded(recording) => recording.submit(command_queue),
        }
    }

    /// Begin and end of the last submission, which has ended, in ticks of the GPU, where it tells.
    pub(crate) fn ticks(&self) -> Option<(u64, u64)> {
        match &self.form {
            Form::Encoded { .. } => None,
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            Form::Recorded(recording) => recording.ticks(),
        }
    }
}
