//! Model states: outputs that a session feeds back as inputs, in device memory.
//!
//! Invariants:
//! 1. A state has two buffers: a run reads one and writes the other, and they swap after a
//!    successful run. Nothing is copied; a failed run leaves the state unchanged.
//! 2. Runs of a stateful session are serial: one is in flight.
//! 3. Sizes of the runs may change as long as the state's do not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_host::{Access, Device};

use crate::error::{Error, ErrorKind, Result};
use crate::session::wiring::Wiring;
use crate::tensor::{Hold, TensorMemory, TensorSpec};

/// The states of a session.
#[derive(Debug, Default)]
pub(crate) struct States(Mutex<Vec<State>>);

#[derive(Debug)]
struct State {
    input: usize,
    output: usize,
    /// What the next run reads, and what it writes; none before the sizes are known.
    memories: Option<[Arc<TensorMemory>; 2]>,
}

fn in_flight(name: &str) -> Error {
    let words = format!("a run in flight uses the state of input {name:?}; wait for that run first");
    Error::new(ErrorKind::InFlight, words)
}

impl States {
    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds an output back as an input from the next run on.
    pub(crate) fn bind(
        &self,
        (input, takes): (usize, &TensorSpec),
        (output, gives): (usize, &TensorSpec),
    ) -> Result<()> {
        let wrong = |why: &str| {
            let words = format!(
                "output {:?} cannot be the state of input {:?}: {why}",
                gives.name, takes.name
            );
            Err(Error::new(ErrorKind::BadInput, words))
        };
        let apart = |(axis, size): (usize, &usize)| {
            let open = |spec: &TensorSpec| spec.open.iter().any(|(open, _)| *open == axis);
            *size != gives.shape[axis] && !open(takes) && !open(gives)
        };
        if takes.dtype != gives.dtype || takes.packed || gives.packed {
            return wrong("their types differ, or are packed");
        }
        if takes.shape.len() != gives.shape.len() || takes.shape.iter().enumerate().any(apart) {
            return wrong("their shapes differ");
        }
        let mut all = self.lock();
        if all
            .iter()
            .any(|state| state.input == input || state.output == output)
        {
            return wrong("one of them is bound already");
        }
        all.push(State {
            input,
            output,
            memories: None,
        });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether an input is a state, which no run is given.
    pub(crate) fn has_input(&self, input: usize) -> bool {
        self.lock().iter().any(|state| state.input == input)
    }

    /// Whether an output is a state, which stays in the session.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.lock().iter().any(|state| state.output == output)
    }

    /// Shape of an input's state, where it has one by now.
    pub(crate) fn shape(&self, input: usize) -> Option<Vec<usize>> {
        let all = self.lock();
        let state = all.iter().find(|state| state.input == input)?;
        state.memories.as_ref().map(|[read, _]| read.shape.clone())
    }

    /// Passes to `take` the memory of each state that a run on a plan reads and writes. `users` returns the devices of
    /// the plan that use an input or the output that becomes it.
    pub(crate) fn give(
        &self,
        wiring: &Wiring,
        plan: u64,
        users: impl Fn(usize, usize) -> Result<Vec<(usize, Device)>>,
        mut take: impl FnMut((usize, Hold), (usize, Hold)),
    ) -> Result<()> {
        for state in &mut *self.lock() {
            let (input, output) = (&wiring.inputs[state.input], &wiring.outputs[state.output]);
            let name = &input.spec.name;
            if input.spec.shape != output.spec.shape || output.spec.upper_bound {
                let words = format!(
                    "the state of input {name:?} is {:?}, and output {:?} becomes {:?}{}",
                    input.spec.shape,
                    output.spec.name,
                    output.spec.shape,
                    if output.spec.upper_bound { " or less" } else { "" }
                );
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            let fits = |memories: &[Arc<TensorMemory>; 2]| memories[0].shape == input.spec.shape;
            let memories = match &mut state.memories {
                Some(memories) if fits(memories) => memories,
                Some(memories) => {
                    let words = format!(
                        "the state of input {name:?} is {:?}, this run needs {:?}; reset it (Session::reset_state)",
                        memories[0].shape, input.spec.shape
                    );
                    return Err(Error::new(ErrorKind::BadInput, words));
                }
                none => {
                    let users = users(state.input, state.output)?;
                    let made = || TensorMemory::new(&input.spec, true, plan, &users).map(Arc::new);
                    none.insert([made()?, made()?])
                }
            };
            for memory in &*memories {
                if !memory.is_bound_to(plan) {
                    memory.rebind(plan, &users(state.input, state.output)?)?;
                }
            }
            let [read, write] = memories;
            let written = Hold::alone(write).ok_or_else(|| in_flight(name))?;
            let read = Hold::of_reader(read).ok_or_else(|| in_flight(name))?;
            take((state.input, read), (state.output, written));
        }
        Ok(())
    }

    /// A run has gone well: what it wrote is read next.
    pub(crate) fn advance(&self) {
        for state in &mut *self.lock() {
            if let Some(memories) = &mut state.memories {
                memories.swap(0, 1);
            }
        }
    }

    /// Forgets all states: the next run reads zeros, of whatever sizes it has.
    pub(crate) fn reset(&self, inputs: &[TensorSpec]) -> Result<()> {
        let mut all = self.lock();
        for state in &*all {
            if let Some(memories) = &state.memories
                && memories.iter().any(|memory| memory.is_held())
            {
                return Err(in_flight(&inputs[state.input].name));
            }
        }
        for state in &mut *all {
            let Some([read, _]) = &state.memories else {
                continue;
            };
            if inputs[state.input].open.is_empty() {
                read.access(Access::Write)?.fill(0);
            } else {
                state.memories = None;
            }
        }
        Ok(())
    }

    /// Bytes of the state of an input: zeros before the first run, of which none are known where sizes are open.
    pub(crate) fn save(&self, input: usize, spec: &TensorSpec) -> Result<Vec<u8>> {
        let all = self.lock();
        let state = all.iter().find(|state| state.input == input);
        match &state.ok_or_else(|| no_state(spec))?.memories {
            Some([read, _]) => Ok(read.access(Access::Read)?.to_vec()),
            None => Ok(vec![0; usize::try_from(spec.bytes).unwrap_or(0)]),
        }
    }

    /// Sets the state of an input, of this shape.
    pub(crate) fn load(&self, input: usize, spec: &TensorSpec, shape: &[usize], bytes: &[u8]) -> Result<()> {
        spec.check(shape)?;
        let mut all = self.lock();
        let state = all.iter_mut().find(|state| state.input == input);
        let state = state.ok_or_else(|| no_state(spec))?;
        let elements = polychip_ops::axis::product(shape);
        let wanted = elements.and_then(|elements| spec.dtype.byte_len(elements));
        if wanted != Some(bytes.len()) {
            let words = format!(
                "the state of input {:?} of shape {shape:?} takes {} bytes, not {}",
                spec.name,
                wanted.unwrap_or(usize::MAX),
                bytes.len()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let same = state
            .memories
            .as_ref()
            .is_some_and(|[read, _]| *read.shape == *shape);
        if !same {
            if let Some(memories) = &state.memories
                && memories.iter().any(|memory| memory.is_held())
            {
                return Err(in_flight(&spec.name));
            }
            let spec = TensorSpec {
                shape: shape.to_vec(),
                bytes: bytes.len() as u64,
                ..spec.clone()
            };
            // the next run binds them to the devices that read and write them then
            let made = || TensorMemory::new(&spec, true, u64::MAX, &[]).map(Arc::new);
            state.memories = Some([made()?, made()?]);
        }
        if let Some([read, _]) = &state.memories {
            read.access(Access::Write)?.copy_from_slice(bytes);
        }
        Ok(())
    }
}

fn no_state(spec: &TensorSpec) -> Error {
    let words = format!(
        "input {:?} is not a state; bind it first (Session::bind_state)",
        spec.name
    );
    Error::new(ErrorKind::BadInput, words)
}
