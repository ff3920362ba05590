//! Settings of a governor. Every figure has its unit in its name.

use serde::{Deserialize, Serialize};

/// Settings of a governor. The defaults suit a phone; `docs/governor.md` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Interval between comparisons of candidates; a lost device or a late run triggers one
    /// immediately.
    pub look_every_ns: u64,
    /// Minimum time that a plan runs, unless it loses a device, is late or too hot.
    pub dwell_ns: u64,
    /// Maximum switches per minute that no lost device forced.
    pub switches_per_minute: u32,
    /// Minimum advantage of another plan for a switch, in thousandths.
    pub hysteresis_permille: u32,
    /// How far ahead temperatures are predicted, in nanoseconds.
    pub horizon_ns: u64,
    /// Margin below the temperature limits of package and surface.
    pub guard_mc: i64,
    /// Margin below the temperature limits of devices, which heat up within seconds.
    pub device_guard_mc: i64,
    /// Margin of a predicted time below the deadline, in thousandths, to count as in time.
    pub margin_permille: u32,
    /// First delay before a device that is slow for no visible reason is retried; the delay doubles
    /// each time it is still slow.
    pub retry_ns: u64,
    /// How long a returned device is avoided, unless nothing else is left.
    pub quarantine_ns: u64,
    /// Time that a plan's runs must be slower than predicted before the governor requests a replan,
    /// and before it requests the next.
    pub replan_after_ns: u64,
    /// Ratio of measured to predicted time, in thousandths, from which a run counts as slower than
    /// predicted.
    pub off_permille: u32,
    /// Battery charge below which, on battery, only energy counts (within the deadline).
    pub low_battery_permille: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            look_every_ns: 500_000_000,
            dwell_ns: 5_000_000_000,
            switches_per_minute: 6,
            hysteresis_permille: 50,
            horizon_ns: 60_000_000_000,
            guard_mc: 1_000,
            device_guard_mc: 4_000,
            margin_permille: 80,
            retry_ns: 10_000_000_000,
            quarantine_ns: 60_000_000_000,
            replan_after_ns: 60_000_000_000,
            off_permille: 1_500,
            low_battery_permille: 200,
        }
    }
}
