//! A device as the planner sees it: what it can run, what a launch costs, what it can hold.
//!
//! Invariants: a target has one verdict per node of the graph, in canonical order; a refused node
//! keeps the reason the device gave, code and words.
//! Deliberately not here: asking the device (the host does) and costs of nodes (see `cost`).

use crate::power::Power;
use crate::unit::{Energy, MilliCelsius, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a device cannot run a node, in the device's own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Reason code of the plugin ABI.
    pub code: u32,
    /// The reason in words.
    pub words: String,
}

/// How a device warms: in the long run it settles at `rest` plus `resistance` times the mean power of what it runs
/// (the steady state of `dT/dt = c − a T + b P`: `rest` is `c / a`, `resistance` is `b / a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heat {
    /// Where the device settles while it runs nothing of ours; JSON holds thousandths of a degree Celsius.
    #[serde(rename = "rest_mc")]
    pub rest: MilliCelsius,
    /// Thermal resistance to its surroundings in millikelvin per watt.
    pub resistance_mk_per_w: u64,
}

/// One device that parts may be given to.
///
/// ```
/// use polychip_partitioner::{Time, Refusal, Target};
/// let target = Target::new("npu:0", 3)
///     .launch(Time::from_nanoseconds(2000))
///     .refuse(1, Refusal { code: 2, words: "dtype f64".into() });
/// assert!(target.supports(0) && !target.supports(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Device name, `plugin:index`.
    pub name: String,
    /// Per node of the graph: none where the device can run it, else why not.
    pub refusals: Vec<Option<Refusal>>,
    /// Time charged once per part.
    pub launch: Time,
    /// Energy charged once per part.
    pub launch_energy: Energy,
    /// Power while computing; prices a node whose energy is unknown.
    pub power: Option<Power>,
    /// Power that it draws at all times, busy or not, which energies of nodes, launches and links do not count; none
    /// where nobody states it.
    pub idle: Option<Milliwatts>,
    /// How it warms, where that is known.
    pub heat: Option<Heat>,
    /// Most bytes of constants and boundary tensors that parts of this device may hold.
    pub memory_limit: Option<u64>,
    /// Set where the device is out of use for now, with the reason.
    pub quarantined: Option<String>,
    /// Number of the hardware it shares with other devices (two plugins on the same CPU cores), which never work at
    /// once; none where it has its hardware to itself.
    pub resource: Option<u32>,
    /// The device is emulated; its figures are labelled so.
    pub emulated: bool,
}

impl Target {
    /// A device that can run all of `nodes` nodes, with free launches and no limit.
    #[must_use]
    pub fn new(name: &str, nodes: usize) -> Self {
        Self {
            name: name.to_owned(),
            refusals: vec![None; nodes],
            launch: Time::ZERO,
            launch_energy: Energy::ZERO,
            power: None,
            idle: None,
            heat: None,
            memory_limit: None,
            quarantined: None,
            resource: None,
            emulated: false,
        }
    }

    /// The same device with a launch cost.
    #[must_use]
    pub fn launch(mut self, launch: Time) -> Self {
        self.launch = launch;
        self
    }

    /// The same device, refusing one node. A node outside the graph changes nothing.
    #[must_use]
    pub fn refuse(mut self, node: usize, refusal: Refusal) -> Self {
        if let Some(slot) = self.refusals.get_mut(node) {
            *slot = Some(refusal);
        }
        self
    }

    /// The same device, on hardware that all devices of this number share.
    #[must_use]
    pub fn on(mut self, resource: u32) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Whether the device says it can run a node.
    #[must_use]
    pub fn supports(&self, node: usize) -> bool {
        matches!(self.refusals.get(node), Some(None))
    }
}

/// Per device, the first device that shares its hardware: itself where it shares it with none before it.
pub(crate) fn resources(targets: &[Target]) -> Vec<usize> {
    let first = |(device, target): (usize, &Target)| {
        let shared = |other: &Target| other.resource.is_some() && other.resource == target.resource;
        targets.iter().position(shared).unwrap_or(device)
    };
    targets.iter().enumerate().map(first).collect()
}
