//! The driver's side of autotuning: runs and times single kernels.
//!
//! Not here: verdicts on kernels (`guard`), choices by time (`tune`).

use std::time::Duration;

use polychip_gpu_kernels::{Kernel, Sample};
use polychip_sdk::Result;

/// A device that runs and times single kernels, each in its own memory.
pub trait AutotuneDevice: Send + Sync {
    /// Runs a kernel over its sample. Returns the contents of each binding, or `None` if it did not end within `patience`.
    ///
    /// # Errors
    /// `Persistent` where the driver refuses the kernel; other kinds are no verdict on the kernel.
    fn run(&self, kernel: &Kernel, sample: &Sample, patience: Duration) -> Result<Option<Vec<Vec<u8>>>>;

    /// The kernel over zeroed memory, to be timed.
    ///
    /// # Errors
    /// Where the device is lost, cannot hold it, or its driver refuses it.
    fn timed<'a>(&'a self, kernel: &'a Kernel) -> Result<Box<dyn TimedKernel + 'a>>;

    /// Marks the device as lost after a kernel hung, until it is reopened.
    fn lose(&self, message: String);
}

/// A kernel that is timed.
pub trait TimedKernel {
    /// The time of so many consecutive launches.
    ///
    /// # Errors
    /// Where the device is lost or does not end.
    fn time(&self, launches: u32) -> Result<Duration>;
}
