//! Times a single kernel: for measurements, not for runs.
//!
//! Invariant: a timer leaves nothing on the device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polychip_gpu_kernels::{Access, Kernel};
use polychip_sdk::{Error, ErrorKind, Result};

use super::command_queue::Submission;
use super::gpu::Gpu;
use super::launch::{BufferBinding, Launch};
use super::launches::Launches;
use super::memory::MemoryBlock;
use super::pipeline::Pipeline;

/// Longest wait for one submission.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kernel with its own memory.
pub(crate) struct KernelTimer<'a> {
    gpu: &'a Gpu,
    kernel: &'a Kernel,
    pipeline: Arc<Pipeline>,
    blocks: Vec<Arc<MemoryBlock>>,
}

impl<'a> KernelTimer<'a> {
    /// The kernel over zeroed memory.
    ///
    /// # Errors
    /// Where the device cannot hold it or the driver refuses it.
    pub(crate) fn new(gpu: &'a Gpu, kernel: &'a Kernel) -> Result<KernelTimer<'a>> {
        let blocks = kernel
            .bindings
            .iter()
            .map(|binding| MemoryBlock::local(gpu, binding.bytes).map(Arc::new))
            .collect::<Result<Vec<Arc<MemoryBlock>>>>()?;
        let timer = KernelTimer::over(gpu, kernel, blocks)?;
        let command_queue = &gpu.command_queues[0];
        let mut encoder = command_queue.device.create_command_encoder(&Default::default());
        for block in &timer.blocks {
            encoder.clear_buffer(&block.buffers[0], 0, None);
        }
        let cleared = command_queue.submit(Some(encoder.finish()));
        timer.wait(&cleared, PATIENCE)?;
        Ok(timer)
    }

    /// The kernel over these blocks, one per binding and large enough.
    ///
    /// # Errors
    /// Where the driver refuses the kernel.
    pub(crate) fn over(
        gpu: &'a Gpu,
        kernel: &'a Kernel,
        blocks: Vec<Arc<MemoryBlock>>,
    ) -> Result<KernelTimer<'a>> {
        let (mut made, _) = gpu
            .pipelines
            .get(&gpu.command_queues, 0, std::slice::from_ref(kernel))?;
        Ok(KernelTimer {
            gpu,
            kernel,
            pipeline: made.swap_remove(0),
            blocks,
        })
    }

    /// So many launches behind each other.
    fn launches(&self, count: u32) -> Result<Launches> {
        let launch = Launch {
            pipeline: &self.pipeline,
            bindings: self
                .blocks
                .iter()
                .zip(&self.kernel.bindings)
                .map(|(block, binding)| BufferBinding {
                    block,
                    offset: 0,
                    bytes: binding.bytes,
                    writes: binding.access == Access::Write,
                })
                .collect(),
            groups: self.kernel.groups,
        };
        Launches::new(self.gpu, 0, &vec![launch; count as usize], true)
    }

    fn wait(&self, submission: &Submission, patience: Duration) -> Result<bool> {
        let begin = Instant::now();
        while !self.gpu.command_queues[0].wait(submission, Duration::from_millis(1))? {
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
