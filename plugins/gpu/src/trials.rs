//! Single kernels on this driver, for lowering's guard and tuner.
//!
//! Invariant: nothing of a trial stays on the device.
//!
//! Not here: verdicts and choices (`polychip_gpu_lowering`), a timed kernel's own memory (`driver::trial`).

use std::sync::Arc;
use std::time::Duration;

use polychip_gpu_kernels::{Kernel, Sample};
use polychip_gpu_lowering::{Timed, Trials};
use polychip_sdk::{Error, ErrorKind, Result};

use crate::driver::gpu::Gpu;
use crate::driver::memory::Piece;
use crate::driver::trial::Trial;

impl Trials for Gpu {
    fn run(&self, kernel: &Kernel, sample: &Sample, patience: Duration) -> Result<Option<Vec<Vec<u8>>>> {
        run(self, kernel, sample, patience)
    }

    fn timed<'a>(&'a self, kernel: &'a Kernel) -> Result<Box<dyn Timed + 'a>> {
        self.alive()?;
        Ok(Box::new(Trial::new(self, kernel)?))
    }

    fn lose(&self, words: String) {
        Gpu::lose(self, words);
    }
}

impl Timed for Trial<'_> {
    fn time(&self, launches: u32) -> Result<Duration> {
        Trial::time(self, launches)
    }
}

/// Runs a kernel over its sample in memory of its own; what each binding holds afterwards, or nothing where it did
/// not end.
fn run(gpu: &Gpu, kernel: &Kernel, sample: &Sample, patience: Duration) -> Result<Option<Vec<Vec<u8>>>> {
    gpu.alive()?;
    let size = |bytes: u64| {
        usize::try_from(bytes)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "a sample does not fit the address space"))
    };
    let mut pieces = Vec::with_capacity(kernel.bindings.len());
    for (binding, values) in kernel.bindings.iter().zip(&sample.before) {
        let piece = Piece::local(gpu, binding.bytes)?;
        let mut bytes = values.bytes();
        bytes.resize(size(binding.bytes)?, 0);
        piece.write(gpu, 0, &bytes)?;
        pieces.push(Arc::new(piece));
    }
    let trial = Trial::over(gpu, kernel, pieces.clone())?;
    if !trial.once(patience)? {
        return Ok(None);
    }
    let mut after = Vec::with_capacity(pieces.len());
    for (binding, piece) in kernel.bindings.iter().zip(&pieces) {
        let mut bytes = vec![0; size(binding.bytes)?];
        piece.read(gpu, &mut bytes)?;
        after.push(bytes);
    }
    Ok(Some(after))
}

#[cfg(test)]
mod tests;
