//! Reports the devices that processed a sequence's prompt and answer.

use serde::Serialize;

/// A device's share of prefill or decode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseShare {
    /// Device, `plugin:index`.
    pub device: String,
    /// Whether the device is emulated.
    pub emulated: bool,
    /// Number of tokens.
    pub tokens: usize,
    /// Measured time of these tokens on the runtime's clock, in nanoseconds.
    pub ns: u64,
    /// Predicted time of these tokens, in nanoseconds.
    pub predicted_ns: f64,
}

/// A change of the answering device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Position of the first token on the new device.
    pub position: usize,
    /// The previous device.
    pub from: String,
    /// The new device.
    pub to: String,
    /// Slowdown of the previous device: its current time divided by its measured time.
    pub slowdown: f64,
}

/// The devices that processed the prompt and the answer since the sequence began, or since
/// [`Sequence::reset_phases`](crate::Sequence::reset_phases).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseReport {
    /// The prompt, by device.
    pub prompt: Vec<PhaseShare>,
    /// The answer, by device.
    pub answer: Vec<PhaseShare>,
    /// Changes of the answering device.
    pub moves: Vec<Move>,
    /// Devices that are not used for some chunk size, because their results differed from the
    /// reference's.
    pub quarantined: Vec<String>,
}

impl PhaseReport {
    /// Adds a device's share.
    pub(crate) fn add(shares: &mut Vec<PhaseShare>, share: PhaseShare) {
        match shares.iter_mut().find(|known| known.device == share.device) {
            Some(known) => {
                known.tokens += share.tokens;
                known.ns += share.ns;
                known.predicted_ns += share.predicted_ns;
            }
            None => shares.push(share),
        }
    }
}
