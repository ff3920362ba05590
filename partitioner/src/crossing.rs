//! Tensors that cross between parts.

use crate::cost::Provenance;
use crate::index::{DeviceIndex, PartIndex};
use crate::link::LinkMode;
use crate::unit::{Energy, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tensor that leaves its part: one entry per tensor and destination device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// The tensor, by index.
    pub tensor: u32,
    /// The part that writes it; none for a graph input that is transferred from its home device.
    pub from_part: Option<PartIndex>,
    /// The device where it is written, by index.
    pub from_device: DeviceIndex,
    /// The device that reads it, by index; it may be the writer's own.
    pub to_device: DeviceIndex,
    /// The parts of that device that read it, ascending; empty if the device only holds graph
    /// outputs.
    pub to_parts: Vec<PartIndex>,
    /// Size in bytes; none if unknown before the run (then it stays on its device).
    pub bytes: Option<u64>,
    /// How the bytes travel.
    pub mode: LinkMode,
    /// Predicted time of the transfer; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
    /// Provenance of the time.
    #[serde(default = "estimated")]
    pub provenance: Provenance,
    /// Predicted energy of the transfer; JSON holds nanojoules.
    #[serde(rename = "energy_nj")]
    pub energy: Energy,
    /// Provenance of the energy.
    #[serde(default = "estimated")]
    pub energy_provenance: Provenance,
}

/// What a plan means that was made before crossings said where their figures come from.
fn estimated() -> Provenance {
    Provenance::Estimated
}
