//! A chip shared by several devices: its heat and clocks determine the cost of their runs instead
//! of each device's own model.
//!
//! Invariant: whatever a chip states, outputs are the reference's, and everything is flagged
//! emulated.

use polychip_sdk::Telemetry;

/// Span and energy of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Start time.
    pub start_ns: u64,
    /// End time.
    pub end_ns: u64,
    /// What it takes.
    pub energy_uj: u64,
}

/// Work of a run, from the device's script.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunWork {
    /// Which of the unit's loaded parts it is, for what is warm.
    pub executable: u64,
    /// To start it.
    pub launch_ns: f64,
    /// What scales with the device's clock.
    pub compute_ns: f64,
    /// What scales with memory.
    pub memory_ns: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// How runs on a lost unit end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// At once, like a lost device.
    Lost,
    /// Never: the run hangs, and cancelling does not end it.
    Hung,
}

/// One chip with several units, each a device.
pub trait Chip: Send + Sync {
    /// Whether a unit is gone: runs started on it fail this way, and it cannot be reset.
    fn gone(&self, unit: usize, now_ns: u64) -> Option<Gone> {
        let _ = (unit, now_ns);
        None
    }

    /// Sets a unit to one of its operating points.
    fn set_operating_point(&self, unit: usize, index: u32) {
        let _ = (unit, index);
    }

    /// Spends a run of a unit that is asked for now and may start at `ready_ns`.
    fn spend(&self, unit: usize, work: RunWork, now_ns: u64, ready_ns: u64) -> Spent;

    /// Sensor readings of a unit.
    fn telemetry(&self, unit: usize, now_ns: u64) -> Telemetry;
}
