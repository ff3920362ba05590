//! Looking at the first runs of a plan with reduced precision.
//!
//! Invariant: inputs are copied only if an output is not finite. A language model's inputs are its KV cache, and copying
//! it takes longer than the run.
//!
//! Not here: what is done about outputs that are not finite (`act`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use polychip_host::Access;

use super::act::Job;
use super::{OverflowState, largest};
use crate::run::outputs::Outputs;
use crate::session::learn::shadow::Sample;
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunState;
use crate::session::specialization_state::Inner;
use crate::tensor::TensorMemory;

/// What is kept of a run that is looked at, from before it lets go of its tensors.
pub(crate) struct Watched {
    /// The inputs' memory; none if the run cannot be repeated: it reads a state or strings.
    inputs: Option<Vec<(usize, Arc<TensorMemory>)>>,
    /// Outputs in the app's memory.
    app: Vec<(usize, Arc<TensorMemory>)>,
}

impl Watched {
    /// Of a run that has ended; `None` if it is not looked at.
    pub(crate) fn of(plan: &LoadedPlan, slot: &RunState) -> Option<Watched> {
        if !plan.watched_runs.take() {
            return None;
        }
        let given = &slot.given;
        let app = given.outputs.iter().chain(&given.cut);
        Some(Watched {
            inputs: Sample::memories(plan, given),
            app: app.map(|(index, hold)| (*index, hold.memory())).collect(),
        })
    }

    /// The first output that is not finite.
    fn overflowed(&self, outputs: &Outputs) -> Option<usize> {
        (0..outputs.len()).find(|index| {
            let app = self.app.iter().find(|(other, _)| other == index);
            let largest = match app {
                Some((_, memory)) => memory
                    .access(Access::Read)
                    .map(|bytes| largest(memory.dtype, &bytes)),
                None => outputs.at(*index).map(|view| largest(view.dtype(), view.bytes())),
            };
            largest.is_ok_and(|largest| !largest.is_finite())
        })
    }
}

/// Looks at the outputs of a run, and starts what is to be done about them.
pub(crate) fn look(inner: &Arc<Inner>, plan: &Arc<LoadedPlan>, watched: Watched, outputs: &Outputs) {
    let Some(output) = watched.overflowed(outputs) else {
        return;
    };
    let inputs = watched.inputs.as_ref();
    let sample = inputs.and_then(|inputs| Sample::copy(plan, inputs));
    let is_finite = |sample: &Sample| sample.largest_input().is_finite();
    if !sample.as_ref().is_none_or(is_finite) {
        return;
    }
    let state = &inner.overflow.0;
    let begin =
        |now: u8| (now == OverflowState::IDLE || now == OverflowState::MOVED).then_some(OverflowState::BUSY);
    let Ok(before) = state.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin) else {
        return;
    };
    let job = Job {
        inner: Arc::clone(inner),
        plan: Arc::clone(plan),
        sample,
        output,
        run: outputs.run(),
        has_moved: before == OverflowState::MOVED,
    };
    if inner.shared.host.clock().is_virtual() {
        return job.act();
    }
    let thread = std::thread::Builder::new().name("polychip-overflow".into());
    if let Err(error) = thread.spawn(move || job.act()) {
        state.store(before, Ordering::Release);
        tracing::warn!("outputs with reduced precision are not finite; cannot start a thread: {error}");
    }
}
