//! One kernel by itself, timed: for figures, not for runs.
//!
//! Invariant: nothing of a trial stays on the device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polychip_gpu_kernels::{Access, Kernel};
use polychip_sdk::{Error, ErrorKind, Result};

use super::gpu::Gpu;
use super::lane::Ticket;
use super::launch::{Launch, Place};
use super::launches::Launches;
use super::memory::Piece;
use super::pipeline::Pipeline;

/// Longest wait for one submission.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kernel with memory of its own.
pub(crate) struct Trial<'a> {
    gpu: &'a Gpu,
    kernel: &'a Kernel,
    pipeline: Arc<Pipeline>,
    pieces: Vec<Arc<Piece>>,
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
            .map(|binding| Piece::local(gpu, binding.bytes).map(Arc::new))
            .collect::<Result<Vec<Arc<Piece>>>>()?;
        let trial = Trial::over(gpu, kernel, pieces)?;
        let lane = &gpu.lanes[0];
        let mut encoder = lane.device.create_command_encoder(&Default::default());
        for piece in &trial.pieces {
            encoder.clear_buffer(&piece.lanes[0], 0, None);
        }
        let cleared = lane.submit(Some(encoder.finish()));
        trial.wait(&cleared, PATIENCE)?;
        Ok(trial)
    }

    /// The kernel over these pieces, one per binding and large enough.
    ///
    /// # Errors
    /// Where the driver refuses the kernel.
    pub(crate) fn over(gpu: &'a Gpu, kernel: &'a Kernel, pieces: Vec<Arc<Piece>>) -> Result<Trial<'a>> {
        let (mut made, _) = gpu.pipelines.get(&gpu.lanes, 0, std::slice::from_ref(kernel))?;
        Ok(Trial {
            gpu,
            kernel,
            pipeline: made.swap_remove(0),
            pieces,
        })
    }

    /// So many launches behind each other.
    fn launches(&self, count: u32) -> Result<Launches> {
        let launch = Launch {
            pipeline: &self.pipeline,
            places: self
                .pieces
                .iter()
                .zip(&self.kernel.bindings)
                .map(|(piece, binding)| Place {
                    piece,
                    offset: 0,
                    bytes: binding.bytes,
                    writes: binding.access == Access::Write,
                })
                .collect(),
            groups: self.kernel.groups,
        };
        Launches::new(self.gpu, 0, &vec![launch; count as usize], true)
    }

    fn wait(&self, submission: &Ticket, patience: Duration) -> Result<bool> {
        let begin = Instant::now();
        while !self.gpu.lanes[0].wait(submission, Duration::from_millis(1))? {
            self.gpu.alive()?;
            if begin.elapsed() > patience {
                return Ok(false);
            }
        }
        self.gpu.alive()?;
        Ok(true)
    }

    /// Runs launches to their end, and tells how long the host waited.
    fn run(&self, launches: &mut Launches) -> Result<Duration> {
        let begin = Instant::now();
        let submission = launches.submit(self.gpu)?;
        if !self.wait(&submission, PATIENCE)? {
            let what = format!("kernel {} has not ended in {PATIENCE:?}", self.kernel.variant);
            self.gpu.lose(what.clone());
            return Err(Error::new(ErrorKind::DeviceLost, what));
        }
        Ok(begin.elapsed())
    }

    /// Launches it once; whether it ended within `patience`.
    ///
    /// # Errors
    /// Where the device is lost.
    pub(crate) fn once(&self, patience: Duration) -> Result<bool> {
        let mut launches = self.launches(1)?;
        let submission = launches.submit(self.gpu)?;
        let ended = self.wait(&submission, patience)?;
        if !ended {
            self.gpu.keep(launches);
        }
        Ok(ended)
    }

    /// Launches it so many times in one submission, and tells how long the GPU took for all of them; where it does
    /// not tell times, how long the host waited.
    ///
    /// # Errors
    /// Where the device is lost.
    pub(crate) fn time(&self, launches: u32) -> Result<Duration> {
        let mut launches = self.launches(launches)?;
        let waited = match self.run(&mut launches) {
            Ok(waited) => waited,
            Err(error) => {
                self.gpu.keep(launches);
                return Err(error);
            }
        };
        Ok(match self.gpu.clock.as_ref().zip(launches.ticks()) {
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
        let mut launches = self.launches(1)?;
        let mut best = Duration::MAX;
        for _ in 0..times.max(1) {
            match self.run(&mut launches) {
                Ok(waited) => best = best.min(waited),
                Err(error) => {
                    self.gpu.keep(launches);
                    return Err(error);
                }
            }
        }
        Ok(best)
    }
}
