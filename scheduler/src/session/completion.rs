//! The end of runs: waiting for their parts, copies into memory of the app, states.
//!
//! Invariant: what may fail because a device is lost happens before a run counts as ended, so that the run can be
//! repeated.

use std::task::Waker;
use std::time::Duration;

use crate::error::Result;
use crate::session::loaded::LoadedPlan;
use crate::session::padding;
use crate::session::run_state::{Progress, RunState};

impl LoadedPlan {
    /// Waits for a run, at most `timeout`.
    pub(crate) fn finish(&self, slot: &mut RunState, timeout: Duration) -> Result<Progress> {
        let _limit = self.limit_calls();
        let progress = slot.finish(&self.wiring, self.clock(), timeout, self.patience)?;
        if progress == Progress::Done {
            self.copy_to_app(slot)?;
        }
        Ok(progress)
    }

    /// Copies outputs into memory of the app that no device has, as the last part of the run: if a device is lost
    /// meanwhile, the run is repeated.
    fn copy_to_app(&self, slot: &RunState) -> Result<()> {
        let mut written = slot.given.outputs.iter();
        written.try_for_each(|(_, output)| output.copy_to_app(&self.wiring.copied))
    }

    /// The end of a run that a run driver drove.
    fn driven(&self, (slot, ended): (Box<RunState>, Result<()>)) -> (Box<RunState>, Result<()>) {
        let _limit = self.limit_calls();
        let ended = ended.and_then(|()| self.copy_to_app(&slot));
        (slot, ended)
    }

    /// Waits for a run for at most this time on the runtime's clock, from its start.
    pub(crate) fn finish_within(&self, slot: &mut RunState, most: Duration) -> Result<Progress> {
        let _limit = self.limit_calls();
        slot.finish_within(&self.wiring, self.clock(), most)
    }

    /// Completes a run whose parts all succeeded: cuts padded outputs into the app's memory, advances states and
    /// releases the app's tensors.
    pub(crate) fn complete(&self, slot: &mut RunState) -> Result<()> {
        let _limit = self.limit_calls();
        let cut = padding::cut(&self.wiring, slot);
        slot.given.complete();
        cut
    }

    /// Like [`LoadedPlan::complete`], for an abandoned run.
    pub(super) fn complete_alone(&self, slot: &mut RunState) {
        if let Err(error) = self.complete(slot) {
            tracing::warn!("outputs of an abandoned run: {error}");
        }
    }

    /// Waits for a run that a run driver drives.
    pub(crate) fn wait_driven(&self, index: usize, timeout: Duration) -> Option<(Box<RunState>, Result<()>)> {
        self.run_driver(index)
            .wait(timeout)
            .map(|ended| self.driven(ended))
    }

    /// As [`LoadedPlan::wait_driven`], without blocking: wakes the waker at the end.
    pub(crate) fn poll_driven(&self, index: usize, waker: &Waker) -> Option<(Box<RunState>, Result<()>)> {
        self.run_driver(index).poll(waker).map(|ended| self.driven(ended))
    }
}
