//! Outcome of a run of some minutes: frames in time and late, switches, limits, energy.
//!
//! A frame starts in each period. If the previous one is still running, the frame is dropped. It is
//! in time if its outputs are ready within one period.
//!
//! Invariant: counts cover frames from [`SUSTAINED_FROM_NS`] on, unless their comment states
//! otherwise.

use crate::emulated::{PERIOD_NS, Seen};

/// Start of the sustained phase.
pub const SUSTAINED_FROM_NS: u64 = 10 * 60 * 1_000_000_000;
/// A late frame within this time of a switch is the switch's: 30 frames.
pub(crate) const AFTER_SWITCH_NS: u64 = 30 * PERIOD_NS;
/// The possible outcome is computed for one in this number of frames.
pub(crate) const SAMPLED: u64 = 30;

/// Outcome of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// In time.
    pub in_time: u64,
    /// Completed, in time or not.
    pub completed: u64,
    /// Frames that came.
    pub frames: u64,
    /// Late ones of the whole run: completed after the deadline.
    pub late: u64,
    /// Switches of the whole run.
    pub switches: u64,
    /// Most switches in any minute.
    pub switches_in_a_minute: u64,
    /// Late frames within a second after a switch that some other plan would have had in time, of the whole run.
    pub late_after_switch: u64,
    /// Highest temperature above its limit, in kelvin, over surface and units and the whole run; negative where all held.
    pub above_limit: f64,
    /// Energy of our runs, in joules, of the whole run.
    pub joules: f64,
    /// Frames completed, of the whole run.
    pub all_completed: u64,
    /// In time, of the whole run.
    pub all_in_time: u64,
    /// Degrees of the surface at the end of each minute.
    pub surface: Vec<f64>,
    /// The switches.
    pub changes: Vec<Change>,
    /// Frames of the whole run that some candidate would have had in time just then, as hot as the chip was, from one
    /// frame of each second.
    pub possible: u64,
    /// Those of them from [`SUSTAINED_FROM_NS`] on.
    pub possible_sustained: u64,
    /// Energy that the most frugal of those candidates would have used for these frames, in joules.
    pub least_joules: f64,
    /// Energy used for frames in time, in joules.
    pub joules_in_time: f64,
    /// Losses of a unit that the session saw.
    pub losses: u64,
    /// Runs that were begun again, or that failed, beyond one for each loss.
    pub on_lost: u64,
}

/// A switch, and its consequences.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// When, from the start of the run on.
    pub time_ns: u64,
    /// The plan from then on.
    pub to: String,
    /// The reason, as the session reports it.
    pub words: String,
    /// The late frames that count as its own (see [`Outcome::late_after_switch`]).
    pub late: u64,
    /// The latest of them, in nanoseconds.
    pub latest_ns: u64,
}

impl Outcome {
    /// The outcome of a run of this length, before its first frame.
    #[must_use]
    pub fn of(until_ns: u64) -> Self {
        let all = until_ns / PERIOD_NS;
        let first = SUSTAINED_FROM_NS.div_ceil(PERIOD_NS);
        Self {
            frames: all.saturating_sub(first),
            above_limit: f64::NEG_INFINITY,
            ..Self::default()
        }
    }

    /// Counts a frame that came at a time of the run and took so long and so many joules.
    pub(crate) fn count(&mut self, since_ns: u64, latency_ns: u64, joules: f64) {
        let is_sustained = u64::from(since_ns >= SUSTAINED_FROM_NS);
        let is_late = latency_ns > PERIOD_NS;
        self.all_completed += 1;
        self.completed += is_sustained;
        if is_late {
            self.late += 1;
        } else {
            self.all_in_time += 1;
            self.in_time += is_sustained;
            self.joules_in_time += joules;
        }
    }

    /// Counts a frame in which some candidate would have been in time, at least for so many joules.
    pub(crate) fn count_possible(&mut self, since_ns: u64, least_joules: f64) {
        self.possible += SAMPLED;
        self.possible_sustained += SAMPLED * u64::from(since_ns >= SUSTAINED_FROM_NS);
        self.least_joules += least_joules * SAMPLED as f64;
    }

    /// Takes over what the phone has seen.
    pub(crate) fn finish(&mut self, seen: &Seen) {
        self.joules = seen.joules;
        self.above_limit = seen.above_limit;
        self.surface.clone_from(&seen.surface);
        let times: Vec<u64> = self.changes.iter().map(|change| change.time_ns).collect();
        let before = |last: u64| {
            let recent = times
                .iter()
                .filter(|&&at| at <= last && last - at < 60_000_000_000);
            recent.count() as u64
        };
        self.switches_in_a_minute = times.iter().map(|&last| before(last)).max().unwrap_or(0);
    }
}
