//! What lowering and costs must know of a device.

use std::sync::Arc;

use polychip_gpu_kernels::{Generate, Kernel, Limits, Scalar};
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

impl Rates {
    /// What decides how launches are cut, of the rates of one scalar: powers of two, so that a measurement that differs
    /// a little lowers a part to the same launches.
    pub(crate) fn cutting(&self, scalar: Scalar) -> u64 {
        let rate = match scalar {
            Scalar::I8 | Scalar::U8 => self.i8_macs,
            Scalar::F16 => self.f16_macs,
            _ => self.f32_macs,
        };
        1 << rate.max(1).ilog2()
    }

    /// The same for all scalars, as a device's settings name it: parts that were cut for other rates are others.
    #[must_use]
    pub fn setting(&self) -> String {
        let log = |scalar| self.cutting(scalar).ilog2().to_string();
        [Scalar::F32, Scalar::F16, Scalar::I8].map(log).join(",")
    }
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
    /// Verifies kernels, if that is enabled.
    pub guard: Option<Arc<Guard>>,
    /// Times kernels that compute the same; without it, the rule chooses.
    pub tuner: Option<Arc<Tuner>>,
}

impl Target {
    /// Whether a kernel may be used; `generator` is what made it.
    ///
    /// # Errors
    /// Why its variant is quarantined.
    pub fn permit(&self, generator: &dyn Generate, kernel: &Kernel) -> Result<(), String> {
        match &self.guard {
            Some(guard) => guard.permit(generator, kernel),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_split_rates_share_a_setting() {
        let of = |f32_macs| Rates {
            f32_macs,
            f16_macs: 2 * f32_macs,
            i8_macs: 0,
            memory_bytes: 1,
            link_bytes: 1,
            launch_ns: 1,
            submit_ns: 1,
        };
        assert_eq!(of(1 << 40).setting(), "40,41,0");
        assert_eq!(of((1 << 40) + 12_345).setting(), "40,41,0");
        assert_eq!(of((1 << 40) + 12_345).cutting(Scalar::F32), 1 << 40);
        assert_ne!(of((1 << 40) - 1).setting(), of(1 << 40).setting());
    }
}
