//! A chip shared by several devices: its heat and clocks determine the cost of their runs instead
//! of each device's own model.
//!
//! Invariant: whatever a chip states, outputs are the reference's, and everything is flagged
//! emulated.

use polychip_sdk::Telemetry;

/// Span and energy of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// When it starts.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// What it takes.
    pub energy_uj: u64,
}

/// What a run asks of its device, by the device's script.
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

/// How a unit that is gone ends what is begun on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// At once, as a device that is lost.
    Lost,
    /// Never: it hangs, and a cancel does not end it.
    Hung,
}

/// One chip with several units, each a device.
pub trait Chip: Send + Sync {
    /// Whether a unit is gone: runs that are begun on it then fail so, and it cannot be reset.
    fn gone(&self, unit: usize, now_ns: u64) -> Option<Gone> {
        let _ = (unit, now_ns);
        None
    }

    /// Puts a unit to one of its operating points.
    fn set_operating_point(&self, unit: usize, index: u32) {
        let _ = (unit, index);
    }

    /// Spends a run of a unit that is asked for now and may start at `ready_ns`.
    fn spend(&self, unit: usize, work: RunWork, now_ns: u64, ready_ns: u64) -> Spent;

    /// What the sensors of a unit say.
    fn telemetry(&self, unit: usize, now_ns: u64) -> Telemetry;
}
