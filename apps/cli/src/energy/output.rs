//! What `polychip energy` measured, as `--json` prints it.
//!
//! Not here: the same as text (`text`).

use std::collections::BTreeMap;

use polychip::telemetry::{EnergyFigures, Interval};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::Latency;
use crate::setup::Precision;

/// Output of `energy --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnergyOutput {
    /// Model file.
    pub(super) model: String,
    /// Requested threads; null if the plugins chose.
    pub(super) threads: Option<u32>,
    /// Seconds of each candidate.
    pub(super) seconds: f64,
    /// The devices' sensors.
    pub(super) sensors: Vec<SensorLine>,
    /// Measurements in order.
    pub(super) candidates: Vec<Candidate>,
    /// Candidates that could not run, with the reason.
    pub(super) not_run: Vec<NotRun>,
    /// The best measured candidates.
    pub(super) best: Best,
    /// The planner's choices from the profile.
    pub(super) plans: Vec<Choice>,
    /// Whether the plans for minimum time and minimum energy differ; null if one of them is missing.
    pub(super) plans_differ: Option<bool>,
}

/// A device's energy readings.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SensorLine {
    /// Device, `plugin:index`.
    pub(super) device: String,
    /// Energy or power sensor, if there is one.
    pub(super) sensor: Option<String>,
    /// Reason for a missing sensor.
    pub(super) reason: Option<String>,
}

/// One way to run the model.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Candidate {
    /// Name: devices, precision, runs in flight.
    pub(super) name: String,
    /// Nodes by device.
    pub(super) nodes: BTreeMap<String, usize>,
    /// How exactly was computed.
    pub(super) precision: Precision,
    /// Runs in flight at once.
    pub(super) lanes: u32,
    /// Time of a run from submit to outputs, in nanoseconds.
    pub(super) latency_ns: Latency,
    /// Runs in a second.
    pub(super) runs_per_second: f64,
    /// Each device with a sensor, used or not.
    pub(super) devices: Vec<DeviceEnergy>,
    /// Energy of a run on its devices in microjoules, minus idle energy; null if one has no sensor.
    pub(super) net_uj: Option<Interval>,
    /// Energy of a run in microjoules, including idle energy of all devices with a sensor.
    pub(super) gross_uj: Option<Interval>,
    /// Devices that it uses and that have no sensor: the gross energy is a lower bound then.
    pub(super) unknown: Vec<String>,
}

/// Energy of a run on one device.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DeviceEnergy {
    /// Device, `plugin:index`.
    pub(super) device: String,
    /// Whether the candidate uses it.
    pub(super) used: bool,
    /// The figures; null if the sensor has none.
    pub(super) figures: Option<EnergyFigures>,
    /// Reason for missing figures.
    pub(super) reason: Option<String>,
}

/// Something that could not be run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NotRun {
    pub(super) name: String,
    pub(super) reason: String,
}

/// The best measured candidates, by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Best {
    /// Shortest median time of a run.
    pub(super) latency: Option<String>,
    /// Least net energy among those that have one.
    pub(super) net: Option<String>,
    /// Lowest gross energy among candidates without an unknown device.
    pub(super) gross: Option<String>,
    /// Whether the first two differ; null without energy.
    pub(super) differ: Option<bool>,
    /// Whether the intervals of the net energies of both have nothing in common.
    pub(super) apart: Option<bool>,
    /// Candidates with a device without a sensor, excluded from the energy comparison.
    pub(super) unknown: Vec<String>,
}

/// A plan that the planner chooses.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Choice {
    /// The objective.
    pub(super) aim: &'static str,
    /// Nodes by device; null without a plan.
    pub(super) nodes: Option<BTreeMap<String, usize>>,
    /// Predicted time of a run in nanoseconds.
    pub(super) time_ns: Option<u64>,
    /// Predicted energy of a run in microjoules, if known.
    pub(super) energy_uj: Option<u64>,
    /// The weakest source of the figures: measured, composed, estimated, roofline.
    pub(super) provenance: Option<&'static str>,
    /// Why there is no plan.
    pub(super) reason: Option<String>,
}
