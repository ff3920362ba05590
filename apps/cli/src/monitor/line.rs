//! The lines of `monitor --json`, the source of its schema.

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
    /// Requested limits and their sensors; after the first sample.
    Limits {
        /// The limits.
        limits: Vec<LimitLine>,
    },
    /// Readings at one moment.
    Sample(Box<SampleLine>),
    /// The governor changed the plan or the pace.
    Change(ChangeReport),
    /// The whole time.
    Summary(Box<Summary>),
}
