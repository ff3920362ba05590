//! The plan: parts and their devices, crossings, predicted cost, and a certificate.
//!
//! Invariants: the JSON form is versioned, its fields are in a fixed order and equal plans print
//! equal bytes; a plan names the model by its structure fingerprint, and `parse` followed by
//! `check` refuses it for any other model; every figure has a unit in its name and a provenance.
//! Deliberately not here: finding plans; judging them (see `check`).

use crate::cost::Provenance;
use crate::crossing::Crossing;
use crate::error::Error;
use crate::index::DeviceIndex;
use crate::limit_report::LimitReport;
use crate::objective::{Goal, Objective};
use crate::part::Part;
use crate::power::{EnergyProvenance, EnergyRange};
use crate::pricing::Pricing;
use crate::record::NodeRecord;
use crate::schedule::Schedule;
use crate::unit::{Energy, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Version of the plan file that this crate writes and reads.
pub const PLAN_VERSION: u32 = 2;

/// A placement of every node of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of the format.
    pub version: u32,
    /// Structure fingerprint of the model, hexadecimal.
    pub model: String,
    /// Device names; parts refer to them by index.
    pub devices: Vec<String>,
    /// Product names of the devices, in the same order; empty if not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_names: Vec<String>,
    /// The objective and its limits.
    pub objective: Objective,
    /// Device that holds the graph inputs, by index, if the plan charges for their transfer.
    pub input_home: Option<DeviceIndex>,
    /// Device that must hold the graph outputs, by index, if the plan charges for their transfer.
    pub output_home: Option<DeviceIndex>,
    /// Parts, each after all that it depends on.
    pub parts: Vec<Part>,
    /// Tensors between parts, by tensor and destination device.
    pub crossings: Vec<Crossing>,
    /// Bytes of constants and boundary tensors, by device.
    pub memory_bytes: Vec<u64>,
    /// Optimality of the placement, before parts are merged.
    pub certificate: Certificate,
    /// Predicted totals of the plan.
    pub totals: Totals,
    /// Time of the fastest plan found, if the objective limits time relative to it; JSON holds
    /// picoseconds.
    #[serde(rename = "fastest_ps", default, skip_serializing_if = "Option::is_none")]
    pub fastest: Option<Time>,
    /// By how much a run exceeds the objective's deadline if no plan was found that meets it; JSON
    /// holds picoseconds.
    #[serde(rename = "missed_ps", default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Time>,
    /// The plan's value at each limit of its objective, and at memory limits that changed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitReport>,
    /// Value of the best placement found without limits, in the objective's own units, if there are
    /// limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<u64>,
    /// Start times of parts, in a plan for concurrent devices. The certificate of such a plan
    /// refers to the final plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Further replicas of the model, each on its own devices, in a plan for throughput: each run
    /// uses one replica, and all replicas work concurrently. The plan's own parts, schedule and
    /// totals are those of the first replica; its certificate covers all replicas together. A
    /// replica has no replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Plan>,
    /// In a lock file: the costs beside the nodes' offers that the plan was priced with. A check of
    /// the lock plans with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Pricing>,
    /// Records of nodes and offers, in canonical order, so that plans can be compared; empty if not
    /// recorded (`record`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRecord>,
}

/// Optimality of a placement. It refers to the objective of maximal runs in canonical order:
/// merging parts afterwards only lowers the cost, and cutting them (`Options::longest_part`) raises
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Value of the placement, in the objective's own units.
    pub objective: u64,
    /// Lower bound of any placement's value.
    pub bound: u64,
}

impl Certificate {
    /// Whether no better placement exists.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.objective == self.bound
    }

    /// The gap to the bound in millionths of the bound, rounded up; `None` if the bound is zero and
    /// the objective is not.
    #[must_use]
    pub fn gap_ppm(&self) -> Option<u64> {
        let gap = u128::from(self.objective.saturating_sub(self.bound)) * 1_000_000;
        match (gap, u128::from(self.bound)) {
            (0, _) => Some(0),
            (_, 0) => None,
            (gap, bound) => u64::try_from(gap.div_ceil(bound)).ok(),
        }
    }

    /// Optimality as text. It refers to the final plan if its devices work concurrently
    /// (`at_once`), else to the placement before merging.
    #[must_use]
    pub fn words(&self, at_once: bool) -> String {
        let merging = if at_once { "" } else { " before merging" };
        match (self.is_optimal(), self.gap_ppm()) {
            (true, _) => format!("optimal{merging}"),
            (false, Some(ppm)) => format!(
                "at most {}.{:04} % above the optimum{merging}",
                ppm / 10_000,
                ppm % 10_000
            ),
            (false, None) => "no bound".to_owned(),
        }
    }
}

/// Predicted totals of a plan whose parts run serially.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Time of all parts; JSON holds picoseconds.
    #[serde(rename = "compute_ps")]
    pub compute: Time,
    /// Time of all launches; JSON holds picoseconds.
    #[serde(rename = "launch_ps")]
    pub launch: Time,
    /// Time of all crossings; JSON holds picoseconds.
    #[serde(rename = "transfer_ps")]
    pub transfer: Time,
    /// Sum of the three; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
    /// Energy of parts, launches and crossings, if all are known; JSON holds nanojoules.
    #[serde(rename = "energy_nj")]
    pub energy: Option<Energy>,
    /// Interval of the energy and its weakest provenance; launches and crossings count as exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_range: Option<EnergyRange>,
    /// The weakest provenance among the parts.
    pub provenance: Provenance,
    /// Whether at least one figure comes from an emulated device.
    pub emulated: bool,
}

impl Totals {
    /// The expected energy, even if the plan holds an upper bound.
    #[must_use]
    pub fn expected_energy(&self) -> Option<Energy> {
        self.range().map(|range| range.expected)
    }

    /// The interval of the energy; `None` without an energy.
    #[must_use]
    pub fn range(&self) -> Option<EnergyRange> {
        let exact = |energy| EnergyRange::exact(energy, EnergyProvenance::Vendor);
        self.energy
            .map(|energy| self.energy_range.unwrap_or_else(|| exact(energy)))
    }
}

/// A device's label for display: its product name, if informative, and its device name.
#[must_use]
pub fn label(name: &str, calls_itself: Option<&str>) -> String {
    match calls_itself {
        Some(called) if !called.is_empty() && called != name => format!("{called} ({name})"),
        _ => name.to_owned(),
    }
}

/// The time between runs of copies that work at once: the least whole number of picoseconds that is no less than one
/// over the sum of their rates, each in units of 2⁻¹⁰⁰ per picosecond, rounded up.
pub(crate) fn together(periods: impl Iterator<Item = Time>) -> Time {
    const UNIT: u128 = 1 << 100;
    let mut rate = 0u128;
    for period in periods {
        match u128::from(period.picoseconds()) {
            0 => return Time::ZERO,
            period => rate = rate.saturating_add(UNIT.div_ceil(period)),
        }
    }
    let time = UNIT.div_ceil(rate.max(1));
    Time::from_picoseconds(u64::try_from(time).unwrap_or(u64::MAX))
}

impl Plan {
    /// The predicted time of one run.
    #[must_use]
    pub fn time(&self) -> Time {
        self.schedule
            .as_ref()
            .map_or(self.totals.time, |schedule| schedule.makespan)
    }

    /// The predicted time between runs back to back.
    #[must_use]
    pub fn interval(&self) -> Time {
        if self.replicas.is_empty() {
            self.own_interval()
        } else {
            together(self.copies().map(Self::own_interval))
        }
    }

    /// The replicas from the fastest to the slowest; the first is the plan itself.
    pub fn copies(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.replicas)
    }

    /// The devices of the plan's own parts, each once, ascending.
    #[must_use]
    pub fn used_devices(&self) -> Vec<DeviceIndex> {
        let used: BTreeSet<DeviceIndex> = self.parts.iter().map(|part| part.device).collect();
        used.into_iter().collect()
    }

    /// The predicted time between runs of the plan's own parts, which are one replica.
    #[must_use]
    pub fn own_interval(&self) -> Time {
        match (&self.schedule, self.objective.goal) {
            (Some(schedule), Goal::Throughput) => schedule.period,
            _ => self.time(),
        }
    }

    /// A device's label for display: its product name and device name, or the latter alone.
    #[must_use]
    pub fn device_label(&self, device: DeviceIndex) -> String {
        let name = self.devices.get(device.index()).map_or("", String::as_str);
        label(name, self.device_names.get(device.index()).map(String::as_str))
    }

    /// By how much the time of a run exceeds the deadline.
    pub(crate) fn lateness(&self) -> Option<Time> {
        let deadline = self.objective.deadline?;
        (self.time() > deadline).then(|| self.time().saturating_sub(deadline))
    }

    /// The plan file: JSON with two spaces per level, each node's record on one line, and a final
    /// newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let written = "invariant: a plan has only JSON types";
        let bare = Self {
            nodes: Vec::new(),
            ..self.clone()
        };
        let mut text = serde_json::to_string_pretty(&bare).expect(written);
        if !self.nodes.is_empty() {
            let lines: Vec<String> = self
                .nodes
                .iter()
                .map(|node| "    ".to_owned() + &serde_json::to_string(node).expect(written))
                .collect();
            // the records are the last field
            text.truncate(text.len() - "\n}".len());
            text += &format!(",\n  \"nodes\": [\n{}\n  ]\n}}", lines.join(",\n"));
        }
        text.push('\n');
        text
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// Text that is not a plan (with line and column), or a plan of another version.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // the version first: the fields of another version would only give a confusing message
        let Versioned { version } = serde_json::from_str(text).map_err(Error::parse)?;
        if version != PLAN_VERSION {
            return Err(Error::version(version, PLAN_VERSION));
        }
        serde_json::from_str(text).map_err(Error::parse)
    }

    /// The device of every node, by node index; `None` if no part has the node.
    #[must_use]
    pub fn devices_of_nodes(&self, nodes: usize) -> Vec<Option<DeviceIndex>> {
        let mut devices = vec![None; nodes];
        for part in &self.parts {
            for &node in &part.nodes {
                if let Some(slot) = devices.get_mut(node as usize) {
                    *slot = Some(part.device);
                }
            }
        }
        devices
    }
}
