//! What ran where, of a sequence.

use serde::Serialize;

/// What a device did of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseShare {
    /// Device, `plugin:index`.
    pub device: String,
    /// Whether the device is emulated.
    pub emulated: bool,
    /// Tokens.
    pub tokens: usize,
    /// Nanoseconds, on the runtime's clock.
    pub ns: u64,
    /// Nanoseconds that were predicted of them.
    pub predicted_ns: f64,
}

/// A change of the device that answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Position of the first token on the new device.
    pub position: usize,
    /// The device before.
    pub from: String,
    /// The device after.
    pub to: String,
    /// How much longer than measured the device before took.
    pub slowdown: f64,
}

/// What ran where since the sequence began, or since [`Sequence::reset_phases`](crate::Sequence::reset_phases).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseReport {
    /// The prompt, by device.
    pub prompt: Vec<PhaseShare>,
    /// The answer, by device.
    pub answer: Vec<PhaseShare>,
    /// Changes of the answering device.
    pub moves: Vec<Move>,
    /// Devices that are not used for some size of chunk, since their answers were not the reference's.
    pub quarantined: Vec<String>,
}

impl PhaseReport {
    /// Adds what a device did.
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
