//! What prefill and decode placement remembers of one sequence.
//!
//! Not here: what is done with it (`placed`).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::prefill_decode::{Chunk, PhaseReport, Phases};

/// The devices of chunks under prefill and decode placement.
#[derive(Debug, Default)]
pub(super) struct PlacementState {
    /// The plan that all device numbers below refer to.
    pub(super) phases: Option<Arc<Phases>>,
    /// Chunks of the prompt that are still to be read.
    pub(super) ahead: VecDeque<Chunk>,
    /// Devices that may be used at once.
    pub(super) allowed: Vec<usize>,
    /// The device that gave the last token of an answer, or is planned to give the first one.
    pub(super) answering: Option<usize>,
    /// The position from which it has answered.
    pub(super) since: usize,
    /// The device that ran last.
    pub(super) last: Option<usize>,
    /// Expected answer length in tokens.
    pub(super) expected: Option<usize>,
    pub(super) report: PhaseReport,
}
