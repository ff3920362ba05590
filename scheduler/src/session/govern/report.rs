//! The report of a governed session: its plans, the next one, and recent changes.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::planned::Planned;

/// The decisions of a governed session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GovernedReport {
    /// The plan of the next run.
    pub plan: String,
    /// Number of plan changes so far.
    pub switches: u64,
    /// Share of frames that run, in thousandths.
    pub pace_permille: u32,
    /// The ready plans.
    pub candidates: Vec<CandidateReport>,
    /// Recent changes, oldest first.
    pub changes: Vec<ChangeReport>,
}

/// A plan that a governed session keeps ready.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadyPlan {
    /// Name.
    pub name: String,
    /// The plan, in the form that [`Runtime::session_of`](crate::Runtime::session_of) accepts.
    pub planned: Arc<Planned>,
    /// Predicted time of a run in nanoseconds, at the plan's operating points.
    pub predicted_ns: u64,
    /// Predicted energy of a run in microjoules at these operating points, if known.
    pub predicted_uj: Option<u64>,
    /// Maximum clocks in kilohertz, by device, if the plan uses lower operating points.
    pub khz: Vec<(String, u64)>,
}

/// A limit of the policy that sensors saw exceeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MissedLimit {
    /// A temperature limit.
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
    /// A limit on the total power of the devices.
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
                "limit missed: {place} above {:.1} °C in {samples} of {of_samples} samples, highest {:.1} °C",
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
                "limit missed: above {:.1} W in {samples} of {of_samples} samples, highest {:.1} W",
                thousandths(limit_mw),
                thousandths(worst_mw)
            ),
        }
    }
}

/// A ready plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateReport {
    /// Name.
    pub name: String,
    /// Its devices.
    pub devices: Vec<String>,
    /// Predicted time of a run in nanoseconds.
    pub predicted_ns: u64,
    /// Predicted energy of a run in microjoules, if known.
    pub predicted_uj: Option<u64>,
    /// Memory of the tensors of its runs in flight, in bytes.
    pub bytes: u64,
    /// Whether it can run: none of its devices is lost.
    pub usable: bool,
}

/// A change of plan or pace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeReport {
    /// Time on the runtime's clock, in nanoseconds.
    pub time_ns: u64,
    /// The new plan.
    pub plan: String,
    /// The new share of frames that run, in thousandths.
    pub pace_permille: u32,
    /// The reason.
    pub words: String,
}
