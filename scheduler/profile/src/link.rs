//! Costs of transfers between devices and of launches.

use polychip_partitioner::{Energy, Time};

/// The cost of a transfer or a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCost {
    /// Median time.
    pub time: Time,
    /// Energy above the devices' idle power; none if not measured.
    pub energy: Option<Energy>,
}

impl LinkCost {
    /// A cost with only a time.
    #[must_use]
    pub fn of_time(time: Time) -> LinkCost {
        LinkCost { time, energy: None }
    }
}
