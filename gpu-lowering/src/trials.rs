//! What a driver does for those who judge and time single kernels.
//!
//! Not here: what is made of verdicts (`guard`) and of times (`tune`).

use std::time::Duration;

use polychip_gpu_kernels::{Kernel, Sample};
use polychip_sdk::Result;

/// A device on which single kernels are tried, in memory of their own.
pub trait Trials: Send + Sync {
    /// Runs a kernel over its sample; what each binding holds afterwards, or nothing where it did not end within
    /// `patience`.
    ///
    /// # Errors
    /// `Persistent` where the driver refuses the kernel; any other kind tells nothing of the kernel.
    fn run(&self, kernel: &Kernel, sample: &Sample, patience: Duration) -> Result<Option<Vec<Vec<u8>>>>;

    /// The kernel over zeroed memory, to be timed.
    ///
    /// # Errors
    /// Where the device is lost, cannot hold it, or its driver refuses it.
    fn timed<'a>(&'a self, kernel: &'a Kernel) -> Result<Box<dyn Timed + 'a>>;

    /// A kernel hung: nothing else may be expected of the device until it is opened anew.
    fn lose(&self, words: String);
}

/// A kernel that is timed.
pub trait Timed {
    /// Time of so many launches behind each other.
    ///
    /// # Errors
    /// Where the device is lost or does not end.
    fn time(&self, launches: u32) -> Result<Duration>;
}
