//! A device as the planner sees it: supported nodes, launch costs, memory.
//!
//! Invariants: a target has one verdict per node of the graph, in canonical order; a refused node
//! keeps the device's reason, code and message. Deliberately not here: asking the device (the host
//! does) and costs of nodes (see `cost`).

use crate::power::Power;
use crate::unit::{Energy, MilliCelsius, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a device cannot run a node, in the device's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Reason code of the plugin ABI.
    pub code: u32,
    /// The device's message.
    pub words: String,
}

/// The thermal model of a device: it settles at `rest` plus `resistance` times the mean power of
/// its runs (the steady state of `dT/dt = c − a T + b P`: `rest` is `c / a`, `resistance` is `b /
/// a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heat {
    /// Steady-state temperature without our runs; JSON holds thousandths of a degree Celsius.
    #[serde(rename = "rest_mc")]
    pub rest: MilliCelsius,
    /// Thermal resistance to its surroundings in millikelvin per watt.
    pub resistance_mk_per_w: u64,
}

/// A device that can be given parts.
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
    /// Per node of the graph: `None` if the device can run it, else the reason.
    pub refusals: Vec<Option<Refusal>>,
    /// Time charged once per part.
    pub launch: Time,
    /// Energy charged once per part.
    pub launch_energy: Energy,
    /// Power while computing, from which the energy of nodes without a stated energy is derived.
    pub power: Option<Power>,
    /// Idle power, drawn at all times; energies of nodes, launches and links exclude it. None if
    /// unknown.
    pub idle: Option<Milliwatts>,
    /// Its thermal model, if known.
    pub heat: Option<Heat>,
    /// Limit on the bytes of constants and boundary tensors that its parts hold.
    pub memory_limit: Option<u64>,
    /// The reason, if the device is currently out of use.
    pub quarantined: Option<String>,
    /// Id of the hardware that it shares with other devices, such as two plugins on the same CPU
    /// cores; these devices never work concurrently. None if it shares none.
    pub resource: Option<u32>,
    /// Whether the device is emulated; its figures are labelled so.
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

    /// Sets the launch cost.
    #[must_use]
    pub fn launch(mut self, launch: Time) -> Self {
        self.launch = launch;
        self
    }

    /// Refuses one node. A node outside the graph changes nothing.
    #[must_use]
    pub fn refuse(mut self, node: usize, refusal: Refusal) -> Self {
        if let Some(slot) = self.refusals.get_mut(node) {
            *slot = Some(refusal);
        }
        self
    }

    /// Sets the id of its shared hardware.
    #[must_use]
    pub fn on(mut self, resource: u32) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Whether the device can run a node.
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
