//! The costs of a plan beside the devices' offers for its nodes, as the plan file records them:
//! launches, links, whole parts.
//!
//! Not here: replanning on these terms (`lock`).

use crate::cost::Cost;
use crate::index::DeviceIndex;
use crate::link::Link;
use crate::power::Power;
use crate::request::Request;
use crate::unit::{Energy, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The costs of a plan beside the offers for its nodes. Devices are indices into the plan's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pricing {
    /// Each device.
    pub devices: Vec<DevicePricing>,
    /// Links between devices.
    pub links: Vec<LinkPricing>,
    /// Parts with a known cost as a whole.
    pub parts: Vec<PartPricing>,
}

/// Charges of a device besides its nodes' costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DevicePricing {
    /// Time charged once per part; JSON holds picoseconds.
    #[serde(rename = "launch_ps")]
    pub launch: Time,
    /// Energy charged once per part; JSON holds nanojoules.
    #[serde(rename = "launch_energy_nj")]
    pub launch_energy: Energy,
    /// Power while computing, if known, in milliwatts.
    #[serde(rename = "power_mw", default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Milliwatts>,
    /// Interval and provenance of that power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_model: Option<Power>,
    /// Idle power, drawn at all times, in milliwatts, if known.
    #[serde(rename = "idle_mw", default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Milliwatts>,
    /// Id of the hardware that it shares with other devices, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<u32>,
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkPricing {
    /// Device that writes.
    pub from: DeviceIndex,
    /// Device that reads.
    pub to: DeviceIndex,
    /// How tensors travel, and the cost.
    pub link: Link,
}

/// A part with a known cost as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartPricing {
    /// The device.
    pub device: DeviceIndex,
    /// Its nodes, ascending.
    pub nodes: Vec<u32>,
    /// Its cost there.
    pub cost: Cost,
}

impl Pricing {
    /// Collects these costs from a request.
    #[must_use]
    pub fn of(request: Request<'_>) -> Pricing {
        let Request {
            targets,
            costs,
            links,
            ..
        } = request;
        let devices = targets.iter().map(|target| DevicePricing {
            launch: target.launch,
            launch_energy: target.launch_energy,
            power: target.power.map(|power| power.active),
            power_model: target.power,
            idle: target.idle,
            resource: target.resource,
        });
        let pairs = (0..links.devices()).flat_map(|from| (0..links.devices()).map(move |to| (from, to)));
        let links = pairs.filter_map(|(from, to)| {
            Some(LinkPricing {
                from: DeviceIndex::new(from),
                to: DeviceIndex::new(to),
                link: *links.get(from, to)?,
            })
        });
        let parts = costs.parts().map(|(device, nodes, cost)| PartPricing {
            device: DeviceIndex::new(device),
            nodes: nodes.iter().map(|&node| node as u32).collect(),
            cost: *cost,
        });
        Pricing {
            devices: devices.collect(),
            links: links.collect(),
            parts: parts.collect(),
        }
    }
}
