//! Runs and times single kernels on this driver, for lowering's guard and tuner.
//!
//! Invariant: a timer leaves nothing on the device.
//!
//! Not here: verdicts and choices (`polychip_gpu_lowering`), a timed kernel's own memory (`driver::kernel_timer`).

use std::sync::Arc;
use std::time::Duration;

use polychip_gpu_kernels::{Kernel, Sample};
use polychip_gpu_lowering::{AutotuneDevice, TimedKernel};
use polychip_sdk::{Error, ErrorKind, Result};

use crate::driver::gpu::Gpu;
use crate::driver::kernel_timer::KernelTimer;
use crate::driver::memory::MemoryBlock;

impl AutotuneDevice for Gpu {
    fn run(&self, kernel: &Kernel, sample: &Sample, patience: Duration) -> Result<Option<Vec<Vec<u8>>>> {
        run(self, kernel, sample, patience)
    }

    fn timed<'a>(&'a self, kernel: &'a Kernel) -> Result<Box<dyn TimedKernel + 'a>> {
        self.alive()?;
        Ok(Box::new(KernelTimer::new(self, kernel)?))
    }

    fn lose(&self, message: String) {
        Gpu::lose(self, message);
    }
}

impl TimedKernel for KernelTimer<'_> {
    fn time(&self, launches: u32) -> Result<Duration> {
        KernelTimer::time(self, launches)
    }
}

/// Runs a kernel over its sample in its own memory. Returns the contents of each binding, or `None` if it did not end.
fn run(gpu: &Gpu, kernel: &Kernel, sample: &Sample, patience: Duration) -> Result<Option<Vec<Vec<u8>>>> {
    gpu.alive()?;
    let size = |bytes: u64| {
        usize::try_from(bytes)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "a sample does not fit the address space"))
    };
    let mut blocks = Vec::with_capacity(kernel.bindings.len());
    for (binding, values) in kernel.bindings.iter().zip(&sample.before) {
        let block = MemoryBlock::local(gpu, binding.bytes)?;
        let mut bytes = values.bytes();
        bytes.resize(size(binding.bytes)?, 0);
        block.write(gpu, 0, &bytes)?;
        blocks.push(Arc::new(block));
    }
    let timer = KernelTimer::over(gpu, kernel, blocks.clone())?;
    if !timer.once(patience)? {
        return Ok(None);
    }
    let mut after = Vec::with_capacity(blocks.len());
    for (binding, block) in kernel.bindings.iter().zip(&blocks) {
        let mut bytes = vec![0; size(binding.bytes)?];
        block.read(gpu, &mut bytes)?;
        after.push(bytes);
    }
    Ok(Some(after))
}

#[cfg(test)]
mod tests;
