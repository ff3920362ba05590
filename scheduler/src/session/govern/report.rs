//! What a governed session says of itself: its plans, which one is next, and the newest changes.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::planned::Planned;

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

/// A plan that a governed session keeps ready.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadyPlan {
    /// Name.
    pub name: String,
    /// The plan, as [`Runtime::session_of`](crate::Runtime::session_of) takes it.
    pub planned: Arc<Planned>,
    /// Predicted time of a run in nanoseconds, at the operating points that it is to run at.
    pub predicted_ns: u64,
    /// Predicted energy of a run in microjoules, likewise, where it is known.
    pub predicted_uj: Option<u64>,
    /// Highest clocks in kilohertz, by device, where it is to run at lower operating points.
    pub khz: Vec<(String, u64)>,
}

/// A limit of the policy that sensors saw exceeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MissedLimit {
    /// Of a temperature.
    Temperature {
        /// Device, `plugin:index`; or `package` or `surface`.
        place: String,
        /// The limit in thousandths of a degree Celsius.
        limit_mc: i64,
        /// The highest that was read.
        worst_mc: i64,
        /// Samples above it.
        samples: u64,
        /// Of so many.
        of_samples: u64,
    },
    /// Of the power of the devices together.
    Power {
        /// The limit in milliwatts.
        limit_mw: i64,
        /// The highest that was read.
        worst_mw: i64,
        /// Samples above it.
        samples: u64,
        /// Of so many.
        of_samples: u64,
    },
}

impl fmt::Display for MissedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = |value: &i64| *value as f64 / 1e3;
        match self {
            MissedLimit::Temperature {
                place,
                limit_mc,
                worst_mc,
                samples,
                of_samples,
            } => write!(
                f,
                "limit missed: {place} above {:.1} °C in {samples} of {of_samples} samples, at most {:.1} °C",
                thousandths(limit_mc),
                thousandths(worst_mc)
            ),
            MissedLimit::Power {
                limit_mw,
                worst_mw,
                samples,
                of_samples,
            } => write!(
                f,
                "limit missed: above {:.1} W in {samples} of {of_samples} samples, at most {:.1} W",
                thousandths(limit_mw),
                thousandths(worst_mw)
            ),
        }
    }
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
