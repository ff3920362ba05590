//! What a governor answers, and why.
//!
//! Invariant: every decision carries the numbers that made it, so that a line of the log explains itself.

use serde::{Deserialize, Serialize};

use crate::observation::Place;

/// The answer to one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// So many of a thousand frames should run; the others are skipped (see [`takes`]). 1000 unless no candidate
    /// holds the limits at the full rate, and only where the frames' period is known.
    pub pace_permille: u32,
    /// Why.
    pub reason: Reason,
}

/// What to do with the plan that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Leave it.
    Stay,
    /// The next run takes this candidate.
    Switch(usize),
    /// Make a new portfolio in the background; until then `Governor::plan` says what runs. Without any usable
    /// candidate nothing can run before it is there.
    Replan,
}

/// Why: what decided, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nothing speaks for a change, or it is not time to look.
    Steady,
    /// Another candidate would be better, but the last switch is too near or there were too many.
    Waiting {
        /// The better one.
        candidate: usize,
    },
    /// The plan that runs is late by what was measured, and another one is predicted to be in time.
    Late {
        /// Time of a run now.
        latency_ns: u64,
        /// The other's predicted time.
        than_ns: u64,
        /// The deadline.
        deadline_ns: u64,
    },
    /// A temperature is predicted to pass its limit.
    Hot {
        /// Where.
        place: Place,
        /// As read (or as predicted where the sensor is not trusted).
        temperature_mc: i64,
        /// As predicted, with the plan that ran before at the full rate.
        predicted_mc: i64,
        /// The limit.
        limit_mc: i64,
    },
    /// The plan's power is above the limit.
    Power {
        /// Of the plan that ran before.
        power_mw: u64,
        /// The limit.
        limit_mw: u64,
    },
    /// There is a limit of power, and a device of the plan neither says what it draws nor is stated to: the limit is
    /// held against the others alone.
    PowerUnknown {
        /// The plan, which goes on.
        candidate: usize,
        /// The limit.
        limit_mw: u64,
    },
    /// A device of the plan is lost.
    Lost {
        /// The device.
        device: usize,
    },
    /// It is faster, and its heat can be borne.
    Faster {
        /// Its predicted time.
        latency_ns: u64,
        /// That of the plan that ran before.
        than_ns: u64,
    },
    /// It takes less energy and is in time.
    Frugal {
        /// Its energy per run.
        energy_uj: u64,
        /// That of the plan that ran before.
        than_uj: u64,
    },
    /// It holds the limits at a higher rate.
    Sustains {
        /// So many of a thousand frames in time.
        permille: u32,
        /// The plan that ran before.
        than_permille: u32,
    },
    /// Only the pace changes.
    Pace {
        /// The pace until now.
        from_permille: u32,
    },
    /// Runs take longer than predicted, for long, and no device's slowness explains it.
    PredictionOff {
        /// The candidate.
        candidate: usize,
        /// Measured against predicted time, in thousandths.
        measured_permille: u64,
    },
    /// Every candidate needs a lost device.
    NoCandidate,
    /// A new portfolio is in use.
    Replanned,
    /// The observation names a device or candidate that is not there; it changed nothing.
    Unknown,
}

impl Decision {
    /// The candidate to switch to, where there is one.
    #[must_use]
    pub fn switch_to(&self) -> Option<usize> {
        match self.action {
            Action::Switch(candidate) => Some(candidate),
            Action::Stay | Action::Replan => None,
        }
    }
}

/// Whether a frame of this number runs at a pace: so many of a thousand, as evenly as whole frames allow.
#[must_use]
pub fn takes(frame: u64, pace_permille: u32) -> bool {
    let pace = u128::from(pace_permille.min(1000));
    let frame = u128::from(frame);
    (frame + 1) * pace / 1000 > frame * pace / 1000
}
