//! A measured figure that a plan rests on, with where it comes from.

use schemars::JsonSchema;
use serde::Serialize;

use polychip_profile::{Cadence, Summary};

/// A measured figure that a plan rests on: those measurements of a part that are nearest to what holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MeasuredFigure {
    /// Device, `plugin:index`.
    pub device: String,
    /// Number of the plan's part; none: the whole model on the device, whose time its nodes share.
    pub part: Option<usize>,
    /// Median time in nanoseconds.
    pub time_ns: u64,
    /// 0.99 quantile of the time in nanoseconds, rounded up to a measured one: the longest of fewer than a hundred.
    pub p99_ns: u64,
    /// Number of measurements that it is of.
    pub samples: u32,
    /// Number of batches that they are of.
    pub batches: u32,
    /// Number of batches that the profile has of it.
    pub all_batches: u32,
    /// Conditions under which they were measured; empty where that is not known.
    pub conditions: String,
    /// Whether governor and power mode were those that hold, as far as these are known.
    pub agrees: bool,
    /// How the runs followed each other.
    pub cadence: Cadence,
    /// It is of another cadence than the plan is for: no measurement of this one, but an estimate that may be off by a factor
    /// of four.
    pub inherited: bool,
    /// When the newest was recorded, in microseconds since 1970; 0 where that is not known.
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
