//! The outcome of an item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measured>),
    /// Its devices do not run it; that is a result, and it is not tried again.
    Refused {
        /// Reason, as text.
        reason: String,
    },
    /// It should have run and did not.
    Failed(Failure),
    /// It was not tried: the board was throttled, hot or in use, or has no such plugin.
    Skipped {
        /// Reason, as text.
        reason: String,
    },
}

impl Outcome {
    /// The item is done: neither another try nor another board would say more. A board that failed, and one that was
    /// too hot or in use, say nothing of the item.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Outcome::Measured(_) | Outcome::Refused { .. } => true,
            Outcome::Failed(failure) => !failure.board,
            Outcome::Skipped { .. } => false,
        }
    }
}

/// Why an item failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Cause, as text.
    pub reason: String,
    /// The board or its connection failed, not the item: another board may do it.
    pub board: bool,
    /// Exit code of the program, where it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Times of single runs from submit to outputs, in nanoseconds, in the order of running; empty for jobs that time
    /// nothing (conformance).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_ns: Vec<u64>,
    /// Energy of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyOutcome>,
    /// Most memory that the process had resident, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Time to import, plan, compile and load, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_ns: Option<u64>,
    /// The plan's parts in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedPart>,
    /// Predicted time of the plan, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_ns: Option<u64>,
    /// What devices refused, by device and reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedOps>,
    /// Windows of a soak, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<SoakWindow>,
    /// Cases of the conformance suite that passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u32>,
    /// Cases of the conformance suite that failed, by name, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Any device of the plan is emulated.
    #[serde(default)]
    pub emulated: bool,
}

/// Energy of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyOutcome {
    /// In nanojoules.
    pub nanojoules: u64,
    /// How it came about: `measured`, `estimated`.
    pub provenance: String,
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedPart {
    /// Identifier in the plan.
    pub id: String,
    /// Device, by the name that `polychip devices` prints.
    pub device: String,
    /// Nodes of the graph in it.
    pub nodes: u64,
    /// Time of the part, in nanoseconds: measured, else predicted.
    pub ns: u64,
    /// How the time came about.
    pub provenance: String,
}

/// Ops that a device refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedOps {
    /// Device.
    pub device: String,
    /// Op, by its ONNX name.
    pub op: String,
    /// Nodes.
    pub nodes: u64,
    /// Reason, as text.
    pub reason: String,
}

/// A stretch of a soak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoakWindow {
    /// Its end after the start of the soak, in milliseconds.
    pub end_ms: u64,
    /// Runs that ended in it.
    pub runs: u64,
    /// Their median, in nanoseconds.
    pub median_ns: u64,
    /// Highest temperature, in millidegrees Celsius; absent without a sensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest_mc: Option<i64>,
    /// Lowest clock seen, in kilohertz; absent without a sensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_khz: Option<u64>,
}
