//! Launches made ready to be run on a lane as often as wanted: recorded where the driver is Vulkan's, encoded by
//! wgpu for each run elsewhere.
//!
//! Invariant: launches are under way at most once at a time; whoever submits them holds them until they have ended.

use std::sync::Arc;

use polychip_sdk::Result;

use super::gpu::Gpu;
use super::lane::Ticket;
use super::launch::Launch;
use super::memory::{Owner, Piece};
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
        shown: Vec<Arc<Piece>>,
        /// What is others' besides.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        foreign: Vec<Arc<Piece>>,
    },
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    Recorded(Recording),
}

/// Launches made ready for one lane.
pub(crate) struct Launches {
    lane: usize,
    form: Form,
}

impl Launches {
    /// Makes launches ready, in this order; `timed` asks the GPU when they began and ended.
    ///
    /// # Errors
    /// Where the driver has no memory for them.
    pub(crate) fn new(gpu: &Gpu, lane: usize, launches: &[Launch<'_>], timed: bool) -> Result<Launches> {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(raw) = gpu.recorder() {
            let recording = Recording::new(raw, lane, launches, timed && gpu.clock.is_some())?;
            return Ok(Launches {
                lane,
                form: Form::Recorded(recording),
            });
        }
        #[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
        let _ = timed;
        Launches::encoded(gpu, lane, launches)
    }

    fn encoded(gpu: &Gpu, lane: usize, launches: &[Launch<'_>]) -> Result<Launches> {
        let of_lane = &gpu.lanes[lane];
        let encoded = of_lane.caught(|| {
            let encode = |launch: &Launch<'_>| {
                let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
                    .zip(&launch.places)
                    .map(|(binding, place)| wgpu::BindGroupEntry {
                        binding,
                        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                            buffer: &place.piece.lanes[lane],
                            offset: place.offset,
                            size: wgpu::BufferSize::new(place.bytes),
                        }),
                    })
                    .collect();
                let (_, layout) = launch.pipeline.of_wgpu()?;
                let group = of_lane.device.create_bind_group(&wgpu::BindGroupDescriptor {
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
        let places = || launches.iter().flat_map(|launch| &launch.places);
        let of = |owner, written: bool| {
            let mut pieces: Vec<Arc<Piece>> = Vec::new();
            for place in places().filter(|place| place.piece.owner == owner && (place.writes || !written)) {
                if !pieces.iter().any(|piece| Arc::ptr_eq(piece, place.piece)) {
                    pieces.push(Arc::clone(place.piece));
                }
            }
            pieces
        };
        Ok(Launches {
            lane,
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
    /// Where the device is lost, in the driver's words.
    pub(crate) fn submit(&mut self, gpu: &Gpu) -> Result<Ticket> {
        let of_lane = &gpu.lanes[self.lane];
        match &mut self.form {
            Form::Encoded {
                launches,
                shown,
                #[cfg(any(target_os = "linux", target_os = "android"))]
                foreign,
            } => {
                let mut encoder = of_lane.device.create_command_encoder(&Default::default());
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
                let lane = self.lane;
                let transitions = shown.iter().map(|piece| wgpu::wgt::BufferTransition {
                    buffer: &piece.lanes[lane],
                    state: wgpu::wgt::BufferUses::MAP_READ,
                });
                encoder.transition_resources(transitions, std::iter::empty());
                let commands = encoder.finish();
                #[cfg(any(target_os = "linux", target_os = "android"))]
                if let Some(raw) = gpu.raw.as_ref().filter(|_| !foreign.is_empty()) {
                    let buffers = || foreign.iter().map(|piece| &piece.lanes[lane]);
                    let (take, give) = (raw.take(of_lane, buffers())?, raw.give(of_lane, buffers())?);
                    return Ok(of_lane.submit([take, commands, give]));
                }
                Ok(of_lane.submit(Some(commands)))
            }
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            Form::Recorded(recording) => recording.submit(of_lane),
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
