//! Report of what ran where in a sequence.

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
    /// Nanoseconds on the runtime's clock.
    pub ns: u64,
    /// Predicted nanoseconds.
    pub predicted_ns: f64,
}

/// A change of the answering device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Position of the first token on the new device.
    pub position: usize,
    /// The device before.
    pub from: String,
    /// The device after.
    pub to: String,
    /// Factor by which the previous device was slower than measured.
    pub slowdown: f64,
}

/// What ran where since the sequence began, or since
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
