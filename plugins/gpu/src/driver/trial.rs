//! One kernel by itself, timed: for figures, not for runs.
//!
//! Invariant: nothing of a trial stays on the device.

use std::time::{Duration, Instant};

use polychip_gpu_kernels::Kernel;
use polychip_sdk::{Error, ErrorKind, Result};

use super::gpu::Gpu;
use super::memory::Piece;
use super::timestamps::Stamps;

/// Longest wait for one submission.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kernel with memory of its own.
pub(crate) struct Trial<'a> {
    gpu: &'a Gpu,
    kernel: &'a Kernel,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    pieces: Vec<Piece>,
    stamps: Option<Stamps>,
}

impl<'a> Trial<'a> {
    /// The kernel over zeroed memory.
    ///
    /// # Errors
    /// Where the device cannot hold it or the driver refuses it.
    pub(crate) fn new(gpu: &'a Gpu, kernel: &'a Kernel) -> Result<Trial<'a>> {
        let pieces = kernel
            .bindings
            .iter()
            .map(|binding| Piece::local(gpu, binding.bytes))
            .collect::<Result<Vec<Piece>>>()?;
        let trial = Trial::over(gpu, kernel, pieces)?;
        let mut encoder = gpu.lanes[0].device.create_command_encoder(&Default::default());
        for piece in &trial.pieces {
            encoder.clear_buffer(&piece.lanes[0], 0, None);
        }
        trial.submit(encoder)?;
        Ok(trial)
    }

    /// The kernel over these pieces, one per binding and large enough.
    ///
    /// # Errors
    /// Where the driver refuses the kernel.
    pub(crate) fn over(gpu: &'a Gpu, kernel: &'a Kernel, pieces: Vec<Piece>) -> Result<Trial<'a>> {
        let lane = &gpu.lanes[0];
        let (made, _) = gpu.pipelines.get(gpu, 0, std::slice::from_ref(kernel))?;
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
            .zip(pieces.iter().zip(&kernel.bindings))
            .map(|(binding, (piece, of))| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &piece.lanes[0],
                    offset: 0,
                    size: wgpu::BufferSize::new(of.bytes),
                }),
            })
            .collect();
        let group = Gpu::caught(lane, || {
            lane.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &made[0].layout,
                entries: &entries,
            })
        })?;
        Ok(Trial {
            gpu,
            kernel,
            pipeline: made[0].pipeline.clone(),
            group,
            stamps: Stamps::new(gpu).ok(),
            pieces,
        })
    }

    fn submit(&self, encoder: wgpu::CommandEncoder) -> Result<Duration> {
        let lane = &self.gpu.lanes[0];
        let commands = encoder.finish();
        let begin = Instant::now();
        let submission = lane.submit(Some(commands));
        while !lane.wait(&submission, Duration::from_millis(1))? {
            self.gpu.alive()?;
            if begin.elapsed() > PATIENCE {
                let what = format!("kernel {} has not ended in {PATIENCE:?}", self.kernel.variant);
                self.gpu.lose(what.clone());
                return Err(Error::new(ErrorKind::DeviceLost, what));
            }
        }
        self.gpu.alive()?;
        Ok(begin.elapsed())
    }

    /// Launches it so many times in one submission, and tells how long the GPU took for all of them; where it does
    /// not tell times, how long the host waited.
    ///
    /// # Errors
    /// Where the device is lost.
    pub(crate) fn time(&self, launches: u32) -> Result<Duration> {
        let lane = &self.gpu.lanes[0];
        let mut encoder = lane.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: self.stamps.as_ref().map(|stamps| stamps.writes(0)),
            });
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.group, &[]);
            let [x, y, z] = self.kernel.groups;
            for _ in 0..launches {
                pass.dispatch_workgroups(x, y, z);
            }
        }
        if let Some(stamps) = &self.stamps {
            stamps.resolve(&mut encoder, 0);
        }
        let waited = self.submit(encoder)?;
        let ticks = self.stamps.as_ref().and_then(Stamps::ticks);
        Ok(match self.gpu.clock.as_ref().zip(ticks) {
            Some((clock, ticks)) => clock.length(ticks),
            None => waited,
        })
    }

    /// Launches it so many times, one submission and one wait each: the time that the host sees of one, the
    /// shortest.
    ///
    /// # Errors
    /// Where the device is lost.
    pub(crate) fn round_trip(&self, times: u32) -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..times.max(1) {
            let begin = Instant::now();
            self.time(1)?;
            best = best.min(begin.elapsed());
        }
        Ok(best)
    }
}
