//! What a run is given: the app's tensors, copies of padded inputs, and the run that random numbers are of.
//!
//! Invariant: a run has what it was given until it ends, also where it is tried again on another plan.

use std::sync::Arc;

use polychip_host::Access;

use crate::error::{Error, ErrorKind, Result};
use crate::session::buckets::Padding;
use crate::session::loaded::LoadedPlan;
use crate::session::memory;
use crate::session::padding;
use crate::session::run_input::run_input;
use crate::session::run_state::RunState;
use crate::session::specialization_state::output_in_flight;
use crate::session::state::States;
use crate::tensor::{Hold, Input, Output, TensorMemory};

/// What a run is to be given.
pub(super) struct Wanted<'a> {
    pub(super) inputs: &'a [&'a Input],
    pub(super) outputs: &'a [&'a Output],
    pub(super) padding: Option<&'a Arc<Padding>>,
    pub(super) seed: u64,
    /// The run's number.
    pub(super) run: u64,
    /// The session's states, if it has some.
    pub(super) states: Option<&'a Arc<States>>,
}

impl Wanted<'_> {
    /// A run state of the plan, or of one of its replicas, that holds all of it.
    pub(super) fn slot(&self, plan: &Arc<LoadedPlan>) -> Result<(Arc<LoadedPlan>, usize, Box<RunState>)> {
        let _limit = plan.limit_calls();
        let (plan, taken) = Arc::clone(plan).choose(self.states.is_some());
        let (index, mut slot) = plan.take_slot()?;
        slot.given.taken = taken;
        match self.give(&plan, &mut slot) {
            Ok(()) => Ok((plan, index, slot)),
            Err(error) => {
                plan.put_back(index, slot);
                Err(error)
            }
        }
    }

    fn give(&self, plan: &LoadedPlan, slot: &mut RunState) -> Result<()> {
        give(plan, slot, self.inputs, self.outputs, self.padding.cloned())?;
        give_run(plan, slot, self.seed, self.run)?;
        if let Some(states) = self.states {
            let (wiring, given) = (&plan.wiring, &mut slot.given);
            let users = |input, output| memory::state_users(wiring, input, output, plan.planned.devices());
            let take = |read, written| {
                given.inputs.push(read);
                given.outputs.push(written);
            };
            states.give(wiring, plan.number, users, take)?;
            slot.given.states = Some(Arc::clone(states));
        }
        Ok(())
    }
}

/// Writes the session's seed and the number of the run where random numbers are drawn.
fn give_run(plan: &LoadedPlan, slot: &mut RunState, seed: u64, run: u64) -> Result<()> {
    let Some(index) = run_input(plan.wiring.inputs.iter().map(|input| &input.spec)) else {
        return Ok(());
    };
    let memory = own_memory(plan, slot, index)?;
    {
        let mut bytes = memory.access(Access::Write)?;
        let (first, second) = bytes.split_at_mut(size_of::<u64>());
        first.copy_from_slice(&seed.to_le_bytes());
        second.copy_from_slice(&run.to_le_bytes());
    }
    let hold = keep(slot, index, &memory);
    slot.given.inputs.push((index, hold));
    Ok(())
}

/// The slot's own memory of an input, which later runs use again.
fn own_memory(plan: &LoadedPlan, slot: &mut RunState, index: usize) -> Result<Arc<TensorMemory>> {
    let kept = slot.padded[index].take();
    // a run that was tried again elsewhere may have it still
    match kept.filter(|memory| !memory.is_in_flight()) {
        Some(memory) => Ok(memory),
        None => {
            let users = plan.input_users(index);
            let spec = &plan.wiring.inputs[index].spec;
            Ok(Arc::new(TensorMemory::new(spec, true, plan.number, &users)?))
        }
    }
}

/// Keeps the slot's own memory of an input for later runs, and holds it for this one.
fn keep(slot: &mut RunState, index: usize, memory: &Arc<TensorMemory>) -> Hold {
    slot.padded[index] = Some(Arc::clone(memory));
    Hold::of_reader(memory).expect("invariant: no run writes the slot's own copy")
}

/// Gives a slot what its run reads and writes: where the run is padded, copies of the inputs, and outputs to be cut into.
fn give(
    plan: &LoadedPlan,
    slot: &mut RunState,
    inputs: &[&Input],
    outputs: &[&Output],
    padding: Option<Arc<Padding>>,
) -> Result<()> {
    let is_padded = |shapes: &[Option<Vec<usize>>], index: usize| shapes[index].is_some();
    for input in inputs {
        let own = Hold::of_reader(&input.memory).ok_or_else(|| input_in_flight(input))?;
        let hold = match &padding {
            Some(padding) if is_padded(&padding.shapes.inputs, input.index) => {
                let memory = own_memory(plan, slot, input.index)?;
                padding::pad(&own, &memory, padding)?;
                keep(slot, input.index, &memory)
            }
            _ => own,
        };
        slot.given.inputs.push((input.index, hold));
    }
    for output in outputs {
        // another thread was faster where there is none
        let hold = Hold::alone(&output.memory).ok_or_else(|| output_in_flight(output))?;
        let is_cut = |padding: &Arc<Padding>| is_padded(&padding.shapes.outputs, output.index);
        if padding.as_ref().is_some_and(is_cut) {
            slot.given.cut.push((output.index, hold))
        } else {
            slot.given.outputs.push((output.index, hold))
        }
    }
    if let Some(padding) = &padding {
        padding.count.add_run();
    }
    slot.given.padding = padding;
    Ok(())
}

fn input_in_flight(input: &Input) -> Error {
    let words = format!(
        "input {:?}: a run in flight writes its memory, which it shares with an output; wait for that run first",
        input.name()
    );
    Error::new(ErrorKind::InFlight, words)
}
