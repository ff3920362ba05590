//! The plan: which part runs where, what crosses between parts, what it should cost, and a certificate.
//!
//! Invariants: the JSON form is versioned, its fields stand in a fixed order and equal plans print
//! equal bytes; a plan names the model by its structure fingerprint, and `parse` followed by `check`
//! refuses it for any other model; every figure has a unit in its name and a provenance.
//! Deliberately not here: how plans are found; that a plan is right (see `check`).

use crate::cost::Provenance;
use crate::error::Error;
use crate::index::{DeviceIndex, PartIndex};
use crate::limit_report::LimitReport;
use crate::link::LinkMode;
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
    /// What the devices call themselves, in the same order, for people; empty where nobody recorded it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_names: Vec<String>,
    /// What was minimised.
    pub objective: Objective,
    /// Device that holds the graph inputs, by index, if the plan charges for bringing them.
    pub input_home: Option<DeviceIndex>,
    /// Device that must hold the graph outputs, by index, if the plan charges for bringing them.
    pub output_home: Option<DeviceIndex>,
    /// Parts, each after all that it depends on.
    pub parts: Vec<Part>,
    /// Tensors between parts, by tensor and destination device.
    pub crossings: Vec<Crossing>,
    /// Per device: bytes of constants and boundary tensors that its parts hold.
    pub memory_bytes: Vec<u64>,
    /// How good the placement is, before parts are merged.
    pub certificate: Certificate,
    /// Predicted totals of the plan as it stands.
    pub totals: Totals,
    /// Time of the fastest plan that was found, where the objective bounds a plan by it; JSON holds picoseconds.
    #[serde(rename = "fastest_ps", default, skip_serializing_if = "Option::is_none")]
    pub fastest: Option<Time>,
    /// By how much the time of a run exceeds the objective's deadline, where no plan was found that meets it; JSON
    /// holds picoseconds.
    #[serde(rename = "missed_ps", default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Time>,
    /// Where the plan stands at each limit of its objective, and at limits of memory that changed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitReport>,
    /// Value of the best placement found without limits, in the objective's own units, where there are limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<u64>,
    /// When parts start, where the plan was made for devices that work at once; its certificate is then about the
    /// plan as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Further whole copies of the model, each on devices of its own, where the plan is for many runs: each run takes
    /// one copy, and all copies work at once. The plan's own parts, schedule and totals are those of the first copy;
    /// its certificate is about all together. A copy has no copies of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Plan>,
    /// What it was priced on beside its nodes' offers, in a lock: a check of the lock plans with these figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Pricing>,
    /// What each node is and what it was offered, in canonical order, so that plans can be compared; empty
    /// where nobody recorded it (`record`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRecord>,
}

/// One tensor that leaves its part, once per destination device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// The tensor, by index.
    pub tensor: u32,
    /// The part that writes it; none for a graph input that comes from its home.
    pub from_part: Option<PartIndex>,
    /// The device where it is written, by index.
    pub from_device: DeviceIndex,
    /// The device that reads it, by index; it may be the writer's own.
    pub to_device: DeviceIndex,
    /// The parts of that device that read it, ascending; empty where only the home of outputs does.
    pub to_parts: Vec<PartIndex>,
    /// Size of the tensor; none where it is not known before the run (then it stays on its device).
    pub bytes: Option<u64>,
    /// How the bytes get there.
    pub mode: LinkMode,
    /// Predicted time of the transfer; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
    /// Where the time comes from.
    #[serde(default = "estimated")]
    pub provenance: Provenance,
    /// Predicted energy of the transfer; JSON holds nanojoules.
    #[serde(rename = "energy_nj")]
    pub energy: Energy,
    /// Where the energy comes from.
    #[serde(default = "estimated")]
    pub energy_provenance: Provenance,
}

/// What a plan means that was made before crossings said where their figures come from.
fn estimated() -> Provenance {
    Provenance::Estimated
}

/// How good a placement is. It speaks of the objective of maximal runs in canonical order: merging
/// parts afterwards only lowers the cost, and cutting them (`Options::longest_part`) raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Value of the placement, in the objective's own units.
    pub objective: u64,
    /// No placement is below this.
    pub bound: u64,
}

impl Certificate {
    /// Whether no better placement exists.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.objective == self.bound
    }

    /// The gap to the bound in millionths of the bound, rounded up; none where the bound is zero and
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

    /// How good the placement is, in words. It is about the plan as it stands where its devices work `at_once`, else
    /// about the placement before parts were merged.
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

/// Predicted totals of a plan run part after part.
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
    /// Energy of parts, launches and crossings, where all are known; JSON holds nanojoules.
    #[serde(rename = "energy_nj")]
    pub energy: Option<Energy>,
    /// How far the energy may be from that, and the weakest that it rests on; launches and crossings are taken as they
    /// are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_range: Option<EnergyRange>,
    /// The weakest provenance among the parts.
    pub provenance: Provenance,
    /// At least one figure comes from an emulated device.
    pub emulated: bool,
}

impl Totals {
    /// The energy that is expected, whatever the plan counts.
    #[must_use]
    pub fn expected_energy(&self) -> Option<Energy> {
        self.range().map(|range| range.expected)
    }

    /// The interval of the energy; none where there is no energy.
    #[must_use]
    pub fn range(&self) -> Option<EnergyRange> {
        let exact = |energy| EnergyRange::exact(energy, EnergyProvenance::Vendor);
        self.energy
            .map(|energy| self.energy_range.unwrap_or_else(|| exact(energy)))
    }
}

/// What people call a device: what it calls itself, where that says something, with its name among all devices.
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

    /// The predicted time from a run to the next, where runs follow each other.
    #[must_use]
    pub fn interval(&self) -> Time {
        match self.replicas.is_empty() {
            true => self.own_interval(),
            false => together(self.copies().map(Self::own_interval)),
        }
    }

    /// The first copy, which is the plan itself, and the others, from the fastest to the slowest.
    pub fn copies(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.replicas)
    }

    /// The devices of the plan's own parts, each once, ascending.
    #[must_use]
    pub fn used_devices(&self) -> Vec<DeviceIndex> {
        let used: BTreeSet<DeviceIndex> = self.parts.iter().map(|part| part.device).collect();
        used.into_iter().collect()
    }

    /// The predicted time from a run of the plan's own parts, which are one copy, to the next.
    #[must_use]
    pub fn own_interval(&self) -> Time {
        match (&self.schedule, self.objective.goal) {
            (Some(schedule), Goal::Throughput) => schedule.period,
            _ => self.time(),
        }
    }

    /// What people call a device of the plan: what it calls itself with its name here, or that name alone.
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

    /// The plan file: JSON, two spaces deep, each node's record on one line, one newline at the end.
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

    /// The device of every node, by node index; none where no part has the node.
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
