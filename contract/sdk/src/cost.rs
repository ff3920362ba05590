//! Cost estimates.

use polychip_abi as abi;

use crate::{Error, ErrorKind, Result};

/// Estimated cost of one run of a part. A figure is `None` if there is no estimate for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time of one run, without launch, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Time to start one run independent of its size, in nanoseconds.
    pub launch_ns: Option<u64>,
    /// Energy of one run, in microjoules.
    pub energy_uj: Option<u64>,
    /// Mean power during the run, in milliwatts.
    pub power_mw: Option<u64>,
    /// Device memory of the loaded part, in bytes.
    pub memory_bytes: Option<u64>,
    /// Expected relative error of `time_ns`, in thousandths.
    pub error_permille: Option<u32>,
    /// The figures come from an emulated device.
    pub emulated: bool,
}

impl Cost {
    /// Turns an `Unsupported` error into a cost without figures, and returns any other error.
    ///
    /// # Errors
    /// The error, if it is of another kind.
    pub fn unknown(error: Error) -> Result<Cost> {
        match error.kind() {
            ErrorKind::Unsupported => Ok(Cost::default()),
            _ => Err(error),
        }
    }

    pub(crate) fn record(&self) -> abi::polychip_cost {
        let mut record = <abi::polychip_cost as abi::Sized>::sized();
        let mut take = |value: Option<u64>, bit: u32| {
            record.valid |= if value.is_some() { bit } else { 0 };
            value.unwrap_or(0)
        };
        let (time_ns, launch_ns, energy_uj, power_mw, memory_bytes) = (
            take(self.time_ns, abi::POLYCHIP_COST_TIME),
            take(self.launch_ns, abi::POLYCHIP_COST_LAUNCH),
            take(self.energy_uj, abi::POLYCHIP_COST_ENERGY),
            take(self.power_mw, abi::POLYCHIP_COST_POWER),
            take(self.memory_bytes, abi::POLYCHIP_COST_MEMORY),
        );
        let error = take(self.error_permille.map(u64::from), abi::POLYCHIP_COST_ERROR);
        abi::polychip_cost {
            flags: if self.emulated {
                abi::POLYCHIP_COST_EMULATED
            } else {
                0
            },
            error_permille: error as u32,
            time_ns,
            launch_ns,
            energy_uj,
            power_mw,
            memory_bytes,
            ..record
        }
    }
}
