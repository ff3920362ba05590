//! What a governed session says of itself: its plans, which one is next, and the newest changes.

use schemars::JsonSchema;
use serde::Serialize;

/// What a governed session did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GovernedReport {
    /// The plan of the next run.
    pub plan: String,
    /// Changes of plan so far.
    pub switches: u64,
    /// So many of a thousand frames are to run.
    pub pace_permille: u32,
    /// Plans that are ready.
    pub candidates: Vec<CandidateReport>,
    /// The newest changes, oldest first.
    pub changes: Vec<ChangeReport>,
}

/// A plan that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateReport {
    /// Name.
    pub name: String,
    /// The devices that it uses.
    pub devices: Vec<String>,
    /// Predicted time of a run in nanoseconds.
    pub predicted_ns: u64,
    /// Predicted energy of a run in microjoules, where it is known.
    pub predicted_uj: Option<u64>,
    /// Memory of the tensors of its runs in flight, in bytes.
    pub bytes: u64,
    /// Whether it can run: no device of it is lost.
    pub usable: bool,
}

/// A change of plan or pace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeReport {
    /// When, on the runtime's clock.
    pub time_ns: u64,
    /// The plan from then on.
    pub plan: String,
    /// So many of a thousand frames are to run from then on.
    pub pace_permille: u32,
    /// Why.
    pub words: String,
}
