//! Input of the dashboard.

use std::collections::VecDeque;
use std::time::Duration;

use polychip::GovernedReport;

use super::sample::SampleLine;

/// Everything that is shown.
pub(super) struct Shown {
    pub(super) lines: VecDeque<SampleLine>,
    pub(super) governed: Option<GovernedReport>,
    pub(super) limit_mw: Option<u64>,
    pub(super) deadline: Option<Duration>,
    pub(super) model: Option<String>,
    /// The zero of all times, on the runtime's clock.
    pub(super) start_ns: u64,
    /// What is to be known of limits.
    pub(super) notes: Vec<String>,
}

/// Seconds from the first sample to a time on the runtime's clock; what was before it is at 0.
pub(super) fn since(start_ns: u64, time_ns: u64) -> f64 {
    time_ns.saturating_sub(start_ns) as f64 / 1e9
}
