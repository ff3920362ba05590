//! Runs and times single kernels on this driver, for lowering's guard and tuner.
//!
//! Invariant: a timer leaves nothing on the device.
//!
//! Not here: verdicts and choices (`polychip_gpu_lowering`).

use std::time::{Duration, Instant};

use opencl3::kernel::Kernel as Entry;
use polychip_gpu_kernels::{Kernel, Sample};
use polychip_gpu_lowering::{AutotuneDevice, TimedKernel};
use polychip_sdk::Result;

use crate::driver::gpu::Gpu;
use crate::driver::memory::MemoryBlock;
use crate::driver::program::Program;

impl AutotuneDevice for Gpu {
    fn run(&self, kernel: &Kernel, sample: &Sample, _: Duration) -> Result<Option<Vec<Vec<u8>>>> {
        self.alive()?;
        let timer = KernelTimer::new(self, kernel)?;
        for (block, values) in timer.blocks.iter().zip(&sample.before) {
            let mut bytes = values.bytes();
            bytes.truncate(usize::try_from(block.bytes).unwrap_or(usize::MAX));
            block.write(self, 0, &bytes)?;
        }
        timer.launch(1)?;
        let mut after = Vec::with_capacity(kernel.bindings.len());
        for (block, binding) in timer.blocks.iter().zip(&kernel.bindings) {
            let mut bytes = vec![0; usize::try_from(binding.bytes).unwrap_or(usize::MAX)];
            block.read(self, 0, &mut bytes)?;
            after.push(bytes);
        }
        Ok(Some(after))
    }

    fn timed<'a>(&'a self, kernel: &'a Kernel) -> Result<Box<dyn TimedKernel + 'a>> {
        self.alive()?;
        let timer = KernelTimer::new(self, kernel)?;
        for block in &timer.blocks {
            let zeros = vec![0; usize::try_from(block.bytes).unwrap_or(usize::MAX)];
            block.write(self, 0, &zeros)?;
        }
        Ok(Box::new(timer))
    }

    fn lose(&self, message: String) {
        Gpu::lose(self, message);
    }
}

/// A kernel with its own memory.
struct KernelTimer<'a> {
    gpu: &'a Gpu,
    kernel: &'a Kernel,
    blocks: Vec<MemoryBlock>,
    entry: Entry,
    /// Holds what the kernel is a part of.
    _program: Program,
}

impl<'a> KernelTimer<'a> {
    #[allow(unsafe_code, reason = "arguments are set by calls of the driver")]
    fn new(gpu: &'a Gpu, kernel: &'a Kernel) -> Result<KernelTimer<'a>> {
        let program = Program::get(gpu, kernel, None)?;
        let entry = program.entry()?;
        let mut blocks = Vec::with_capacity(kernel.bindings.len());
        for (index, binding) in (0u32..).zip(&kernel.bindings) {
            let block = MemoryBlock::local(gpu, binding.bytes)?;
            // SAFETY: argument `2 i` of a kernel is a buffer, which the timer holds.
            unsafe { entry.set_arg(2 * index, &block.raw()) }.map_err(|error| gpu.broken(error))?;
            // SAFETY: argument `2 i + 1` is a number of 64 bits.
            unsafe { entry.set_arg(2 * index + 1, &0u64) }.map_err(|error| gpu.broken(error))?;
            blocks.push(block);
        }
        Ok(KernelTimer {
            gpu,
            kernel,
            blocks,
            entry,
            _program: program,
        })
    }

    #[allow(unsafe_code, reason = "a kernel is launched by a call of the driver")]
    fn launch(&self, launches: u32) -> Result<()> {
        let queue = &self.gpu.queues[0];
        let local = self.kernel.workgroup.map(|threads| threads as usize);
        let global = [0, 1, 2].map(|axis| local[axis] * self.kernel.groups[axis] as usize);
        for _ in 0..launches {
            // SAFETY: all arguments are set, and the memory is as large as the kernel's bindings.
            unsafe {
                queue.enqueue_nd_range_kernel(
                    self.entry.get(),
                    3,
                    std::ptr::null(),
                    global.as_ptr(),
                    local.as_ptr(),
                    &[],
                )
            }
            .map_err(|error| self.gpu.broken(error))?;
        }
        queue.finish().map_err(|error| self.gpu.broken(error))
    }
}

impl TimedKernel for KernelTimer<'_> {
    fn time(&self, launches: u32) -> Result<Duration> {
        let begin = Instant::now();
        self.launch(launches)?;
        Ok(begin.elapsed())
    }
}
