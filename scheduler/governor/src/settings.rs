//! How patient, careful and frugal a governor is. Every figure has its unit in its name.

use serde::{Deserialize, Serialize};

/// Settings of a governor. The defaults are those of a phone; see `docs/governor.md` for what each does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// It looks for a better plan this often; a lost device or a late run makes it look at once.
    pub look_every_ns: u64,
    /// A plan runs at least so long, unless a device of it is lost, it is late or it is too hot.
    pub dwell_ns: u64,
    /// Most switches in any minute that no lost device forced.
    pub switches_per_minute: u32,
    /// Another plan must be so much better, in thousandths, to be worth a switch.
    pub hysteresis_permille: u32,
    /// How far ahead temperatures are predicted.
    pub horizon_ns: u64,
    /// Temperatures of package and surface are kept so far below their limits.
    pub guard_mc: i64,
    /// Temperatures of devices, which rise within seconds, are kept so far below theirs.
    pub device_guard_mc: i64,
    /// A predicted time must be so much shorter than the deadline, in thousandths, to count as in time.
    pub margin_permille: u32,
    /// A device that was found slow is taken to be slow for so long, before it is tried again; twice as long each
    /// time it is still slow.
    pub retry_ns: u64,
    /// A device that came back is used so much later, unless nothing else is left.
    pub quarantine_ns: u64,
    /// Runs may be off their prediction for so long before a replan is asked for, and as long again before the next.
    pub replan_after_ns: u64,
    /// Runs that take so much of their predicted time, in thousandths, are off.
    pub off_permille: u32,
    /// Below this charge, off the mains, only energy counts (within the deadline).
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
