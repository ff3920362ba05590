//! What lowering and costs must know of a device.

use std::sync::Arc;

use polychip_gpu_kernels::{Generate, Kernel, Limits};
use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::tune::Tuner;

/// Rates of a device: stated by the driver layer from what is known or measured of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Multiply-adds per second on 32-bit floats.
    pub f32_macs: u64,
    /// Multiply-adds per second on 16-bit floats.
    pub f16_macs: u64,
    /// Multiply-adds per second on 8-bit integers.
    pub i8_macs: u64,
    /// Bytes per second of device memory, reads and writes together.
    pub memory_bytes: u64,
    /// Bytes per second between host memory and the device.
    pub link_bytes: u64,
    /// Time of one launch among others, in nanoseconds.
    pub launch_ns: u64,
    /// Time of one submission and the wait for it, in nanoseconds.
    pub submit_ns: u64,
}

/// What lowering must know of a device.
#[derive(Debug, Clone)]
pub struct Target {
    /// What it can hold.
    pub limits: Limits,
    /// Whether ports lie in memory of the host, behind a link: then each is read or written once.
    pub discrete: bool,
    /// What it achieves.
    pub rates: Rates,
    /// Who judges the kernels; nobody where that is not wished.
    pub guard: Option<Arc<Guard>>,
    /// Who times kernels that compute the same; nobody where the rule is to choose.
    pub tuner: Option<Arc<Tuner>>,
}

impl Target {
    /// Whether a kernel may be used; `generator` is what made it.
    ///
    /// # Errors
    /// Why its variant is quarantined, in words.
    pub fn permit(&self, generator: &dyn Generate, kernel: &Kernel) -> Result<(), String> {
        match &self.guard {
            Some(guard) => guard.permit(generator, kernel),
            None => Ok(()),
        }
    }
}
