//! The governor's decision and its reason.
//!
//! Invariant: every decision carries the numbers behind it, so that a line of the log explains
//! itself.

use serde::{Deserialize, Serialize};

use crate::observation::SensorLocation;

/// The governor's response to one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// Share of frames that should run, in thousandths; the others are skipped (see [`takes`]). It
    /// is below 1000 only if no candidate keeps within the limits at the full rate and the frame
    /// period is known.
    pub pace_permille: u32,
    /// The reason.
    pub reason: Reason,
}

/// A change of the running plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Keep the plan.
    Stay,
    /// Use this candidate from the next run on.
    Switch(usize),
    /// Make a new portfolio in the background. Until it is ready, run `Governor::plan`; without a
    /// usable candidate, nothing can run.
    Replan,
}

/// The reason for a decision, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No reason to change, or the next comparison is not due yet.
    Steady,
    /// Another candidate would be better, but the last switch is too recent or there were too many.
    Waiting {
        /// The better candidate.
        candidate: usize,
    },
    /// Measured runs of the current plan are late, and another plan is predicted to be in time.
    Late {
        /// Current time of a run.
        latency_ns: u64,
        /// Predicted time of the other plan.
        than_ns: u64,
        /// The deadline.
        deadline_ns: u64,
    },
    /// A temperature is predicted to exceed its limit.
    Hot {
        /// The location.
        place: SensorLocation,
        /// Measured temperature, or the model's if the sensor is not trusted.
        temperature_mc: i64,
        /// Predicted temperature with the previous plan at the full rate.
        predicted_mc: i64,
        /// The limit.
        limit_mc: i64,
    },
    /// The plan's power exceeds the limit.
    Power {
        /// Power of the previous plan.
        power_mw: u64,
        /// The limit.
        limit_mw: u64,
    },
    /// There is a power limit, but the power of a device of the plan is neither measured nor
    /// stated: the limit applies to the other devices only.
    PowerUnknown {
        /// The plan, which continues to run.
        candidate: usize,
        /// The limit.
        limit_mw: u64,
    },
    /// A device of the plan is lost.
    Lost {
        /// The device.
        device: usize,
    },
    /// The new plan is faster and stays within thermal limits.
    Faster {
        /// Its predicted time.
        latency_ns: u64,
        /// That of the plan that ran before.
        than_ns: u64,
    },
    /// The new plan uses less energy and is in time.
    Frugal {
        /// Its energy per run.
        energy_uj: u64,
        /// That of the plan that ran before.
        than_uj: u64,
    },
    /// The new plan keeps within the limits at a higher rate.
    Sustains {
        /// Share of frames in time, in thousandths.
        permille: u32,
        /// The same of the previous plan.
        than_permille: u32,
    },
    /// Only the pace changes.
    Pace {
        /// The previous pace.
        from_permille: u32,
    },
    /// Runs have long been slower than predicted, and no device's slowness explains it.
    PredictionOff {
        /// The candidate.
        candidate: usize,
        /// Measured time relative to the prediction, in thousandths.
        measured_permille: u64,
    },
    /// Every candidate needs a lost device.
    NoCandidate,
    /// A new portfolio is in use.
    Replanned,
    /// The observation names an unknown device or candidate, and was ignored.
    Unknown,
}

impl Decision {
    /// The candidate to switch to, if any.
    #[must_use]
    pub fn switch_to(&self) -> Option<usize> {
        match self.action {
            Action::Switch(candidate) => Some(candidate),
            Action::Stay | Action::Replan => None,
        }
    }
}

/// Whether the frame of this number runs at a pace in thousandths; frames are spread as evenly as
/// possible.
#[must_use]
pub fn takes(frame: u64, pace_permille: u32) -> bool {
    let pace = u128::from(pace_permille.min(1000));
    let frame = u128::from(frame);
    (frame + 1) * pace / 1000 > frame * pace / 1000
}
