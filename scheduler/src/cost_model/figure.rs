//! A measured figure behind a plan, with its provenance.

use schemars::JsonSchema;
use serde::Serialize;

use polychip_profile::{Cadence, Summary};

/// A measured figure on which a plan is based: measurements of a part, under the conditions nearest
/// to the current ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MeasuredFigure {
    /// Device, `plugin:index`.
    pub device: String,
    /// Number of the part in the plan. None if the figure is the time of the whole model on this
    /// device, which the nodes then share.
    pub part: Option<usize>,
    /// Median time in nanoseconds.
    pub time_ns: u64,
    /// 99th percentile in nanoseconds, rounded up to a measured time: the maximum of fewer than
    /// 100.
    pub p99_ns: u64,
    /// Number of measurements.
    pub samples: u32,
    /// Number of batches that contain these measurements.
    pub batches: u32,
    /// Number of batches of the part in the profile, under any conditions.
    pub all_batches: u32,
    /// Conditions of the measurement; empty if unknown.
    pub conditions: String,
    /// Whether clock governor and power mode were the same as now, as far as they are known.
    pub agrees: bool,
    /// The cadence of the runs.
    pub cadence: Cadence,
    /// Whether it is from another cadence than the plan's: an estimate that may be off by a factor
    /// of four.
    pub inherited: bool,
    /// When the newest was recorded, in microseconds since 1970; 0 if unknown.
    pub newest_us: u64,
}

impl MeasuredFigure {
    pub(crate) fn new(device: &str, part: Option<usize>, summary: &Summary) -> MeasuredFigure {
        MeasuredFigure {
            device: device.to_owned(),
            part,
            time_ns: summary.p50.nanoseconds(),
            p99_ns: summary.p99.nanoseconds(),
            samples: summary.samples,
            batches: summary.batches,
            all_batches: summary.all_batches,
            conditions: summary.conditions.clone(),
            agrees: summary.agrees,
            cadence: summary.cadence.unwrap_or_default(),
            inherited: summary.inherited,
            newest_us: summary.newest_us,
        }
    }
}

impl std::fmt::Display for MeasuredFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.part {
            Some(part) => write!(f, "part {part} on {}: ", self.device)?,
            None => write!(f, "the whole model on {}: ", self.device)?,
        }
        write!(
            f,
            "{} runs in {} of {} batches",
            self.samples, self.batches, self.all_batches
        )?;
        match self.conditions.as_str() {
            "" => f.write_str(", conditions not known")?,
            conditions => write!(f, " at {conditions}")?,
        }
        if self.inherited {
            write!(f, " (inherited from another cadence, {})", self.cadence)?;
        }
        if !self.agrees {
            f.write_str(" (not the governor or power mode that holds)")?;
        }
        Ok(())
    }
}
