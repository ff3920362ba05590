//! What the profiler is asked to measure, and when a part is measured enough.

use std::time::Duration;

use polychip_profile::KEPT;

/// Batches that a whole model and its segments are measured in at least, those included that the profile holds.
pub(super) const SPREAD: u32 = 3;

/// What the profiler measures, and how precisely.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileOptions {
    /// Measure the fusion groups of the models, and ungrouped nodes.
    pub ops: bool,
    /// Measure whole models on each device that can run them alone, and parts of the chosen plans.
    pub wholes: bool,
    /// Stop after this time.
    pub time: Option<Duration>,
    /// Target precision: half the width of a median's confidence interval, relative to the median.
    pub goal: f64,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self {
            ops: false,
            wholes: true,
            time: None,
            goal: 0.03,
        }
    }
}

/// Measurements that a candidate may have before more of them would only replace older ones.
pub(crate) const ENOUGH: u32 = KEPT;
