//! The lines of `monitor --json`, which its schema is made of.

use polychip::ChangeReport;
use schemars::JsonSchema;
use serde::Serialize;

use super::limits::LimitLine;
use super::sample::{SampleLine, SensorLine};
use super::totals::Summary;

/// A line of `monitor --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Every sensor of Linux, with `--once`.
    Sensors {
        /// The sensors.
        sensors: Vec<SensorLine>,
    },
    /// The limits that were asked for, and what they can be held by; after the first sample.
    Limits {
        /// The limits.
        limits: Vec<LimitLine>,
    },
    /// What was said at one moment.
    Sample(Box<SampleLine>),
    /// The governor changed the plan or the pace.
    Change(ChangeReport),
    /// The whole time.
    Summary(Box<Summary>),
}
