//! What handing a tensor from one device to another takes, or starting a device.

use polychip_partitioner::{Energy, Time};

/// What a transfer or a launch takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCost {
    /// Median time.
    pub time: Time,
    /// Energy beyond what the devices take at rest; none where that was not measured.
    pub energy: Option<Energy>,
}

impl LinkCost {
    /// Of which only the time is known.
    #[must_use]
    pub fn of_time(time: Time) -> LinkCost {
        LinkCost { time, energy: None }
    }
}
