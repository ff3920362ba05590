//! Links between devices, and their costs.
//!
//! Invariants: a link is directed; a tensor on its own device costs nothing; a pair without a link
//! cannot exchange tensors at all, and no detour silently replaces the link. Deliberately not here:
//! memory kinds and handles (the scheduler and the plugins know those).

use crate::cost::Provenance;
use crate::unit::{Energy, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a tensor reaches the reading device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkMode {
    /// Both devices address the memory that the writer allocated.
    Native,
    /// The reader imports the writer's memory by a handle; nothing is copied.
    Imported,
    /// The bytes are copied, and the copy is charged.
    Copy,
}

impl LinkMode {
    /// The word that reports use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Imported => "imported",
            Self::Copy => "copy",
        }
    }
}

/// The link from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// How tensors travel.
    pub mode: LinkMode,
    /// Fixed time of one transfer (synchronisation, cache maintenance); JSON holds picoseconds.
    #[serde(rename = "latency_ps")]
    pub latency: Time,
    /// Bytes per second; none if the time does not depend on the size.
    pub bytes_per_second: Option<u64>,
    /// Fixed energy of one transfer; JSON holds nanojoules.
    #[serde(rename = "latency_energy_nj", default = "nothing")]
    pub latency_energy: Energy,
    /// Energy of moving a thousand bytes; JSON holds nanojoules.
    #[serde(rename = "energy_per_kilobyte_nj")]
    pub energy_per_kilobyte: Energy,
    /// Provenance of the energies.
    #[serde(default = "estimated")]
    pub energy_provenance: Provenance,
    /// Provenance of the times.
    pub provenance: Provenance,
}

/// What a link means that was written before links had a fixed energy.
fn nothing() -> Energy {
    Energy::ZERO
}

/// What a link means that was written before links said where their energies come from.
fn estimated() -> Provenance {
    Provenance::Estimated
}

impl Link {
    /// Memory that both devices address: a fixed cost, and no bytes moved. Its times are an
    /// estimate until [`Link::measured`] replaces them.
    #[must_use]
    pub fn native(latency: Time) -> Self {
        Self {
            mode: LinkMode::Native,
            latency,
            bytes_per_second: None,
            latency_energy: Energy::ZERO,
            energy_per_kilobyte: Energy::ZERO,
            energy_provenance: Provenance::Estimated,
            provenance: Provenance::Estimated,
        }
    }

    /// Memory imported by a handle: a fixed cost, and no bytes copied. If the device reads it
    /// across a bus, the link has bytes per second.
    #[must_use]
    pub fn imported(latency: Time) -> Self {
        Self {
            mode: LinkMode::Imported,
            ..Self::native(latency)
        }
    }

    /// A copy at a given speed.
    #[must_use]
    pub fn copy(latency: Time, bytes_per_second: u64) -> Self {
        Self {
            mode: LinkMode::Copy,
            bytes_per_second: Some(bytes_per_second),
            ..Self::native(latency)
        }
    }

    /// A link of the same mode with measured times.
    #[must_use]
    pub fn measured(self, latency: Time, bytes_per_second: Option<u64>) -> Self {
        Self {
            latency,
            bytes_per_second,
            provenance: Provenance::Measured,
            ..self
        }
    }

    /// Sets the energies.
    #[must_use]
    pub fn with_energy(self, latency: Energy, per_kilobyte: Energy, provenance: Provenance) -> Self {
        Self {
            latency_energy: latency,
            energy_per_kilobyte: per_kilobyte,
            energy_provenance: provenance,
            ..self
        }
    }

    /// Time of a transfer, rounded up to a picosecond; `None` on overflow or at zero speed.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Option<Time> {
        let moving = match self.bytes_per_second {
            None => 0,
            Some(0) => return None,
            Some(speed) => (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(speed)),
        };
        let moving = Time::from_picoseconds(u64::try_from(moving).ok()?);
        self.latency.checked_add(moving)
    }

    /// Energy of a transfer, rounded up to a nanojoule; `None` on overflow.
    #[must_use]
    pub fn energy(&self, bytes: u64) -> Option<Energy> {
        let total = (u128::from(bytes) * u128::from(self.energy_per_kilobyte.nanojoules())).div_ceil(1000);
        let moving = Energy::from_nanojoules(u64::try_from(total).ok()?);
        self.latency_energy.checked_add(moving)
    }
}

/// The links between devices, by ordered pair (from, to).
///
/// ```
/// use polychip_partitioner::{Link, LinkTable, Time};
/// let mut links = LinkTable::new(2);
/// links.set(0, 1, Link::copy(Time::from_nanoseconds(500), 1_000_000_000));
/// assert_eq!(links.get(0, 1).unwrap().time(1000).unwrap().nanoseconds(), 1500);
/// assert!(links.get(1, 0).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkTable {
    devices: usize,
    links: Vec<Option<Link>>,
}

impl LinkTable {
    /// An empty table for this number of devices: no pair has a link.
    #[must_use]
    pub fn new(devices: usize) -> Self {
        Self {
            devices,
            links: vec![None; devices.saturating_mul(devices)],
        }
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Sets the link from one device to another. Returns false, and changes nothing, if an index is
    /// outside the table.
    pub fn set(&mut self, from: usize, to: usize, link: Link) -> bool {
        if from >= self.devices || to >= self.devices {
            return false;
        }
        self.links[from * self.devices + to] = Some(link);
        true
    }

    /// The link from one device to another, if any.
    #[must_use]
    pub fn get(&self, from: usize, to: usize) -> Option<&Link> {
        if from >= self.devices || to >= self.devices {
            return None;
        }
        self.links[from * self.devices + to].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_link_format_is_read() {
        let link = Link::copy(Time::from_nanoseconds(1), 3);
        let mut json = serde_json::to_value(link).unwrap();
        let fields = json.as_object_mut().unwrap();
        assert!(fields.remove("latency_energy_nj").is_some() && fields.remove("energy_provenance").is_some());
        assert_eq!(serde_json::from_value::<Link>(json).unwrap(), link);
    }

    #[test]
    fn moving_rounds_up_and_never_overflows() {
        let link = Link::copy(Time::from_nanoseconds(1), 3);
        assert_eq!(link.time(1).unwrap().picoseconds(), 1000 + 333_333_333_334);
        assert!(link.time(u64::MAX).is_none());
        assert!(Link::copy(Time::ZERO, 0).time(1).is_none());
        assert_eq!(
            Link::native(Time::from_nanoseconds(2))
                .time(u64::MAX)
                .unwrap()
                .nanoseconds(),
            2
        );
        let nanojoules = Energy::from_nanojoules;
        let hungry = link.with_energy(nanojoules(5), nanojoules(7), Provenance::Estimated);
        assert_eq!(hungry.energy(0).unwrap().nanojoules(), 5);
        assert_eq!(hungry.energy(1001).unwrap().nanojoules(), 5 + 8);
        let hungrier = link.with_energy(Energy::ZERO, nanojoules(7000), Provenance::Estimated);
        assert!(hungrier.energy(u64::MAX).is_none());
    }
}
