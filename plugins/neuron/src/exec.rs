//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. The library's call blocks, and may hang: only the queue's thread makes it, and a reset leaves that thread behind.
//! 2. A reset invalidates parts loaded before it: the host loads the blob again.
//! 3. Sizes are checked against the ports before each run.
//! 4. Ports are bound anew in each run: the library holds bound memory by reference only.
//! 5. A state is computed in separate memory, because it may alias its input, and copied after the run.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`).

#![allow(unsafe_code, reason = "memory is handed to the vendor's library here")]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use polychip_sdk::{
    Buffer as _, Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Memory, MemoryKind, Port,
    PortBuffer, Result, Run, RunContext, RunQueue, Span, Submit,
};

use crate::api::Execution;
use crate::buffer::NeuronBuffer;
use crate::shared::{NO_BOOST, Shared};

/// A run, and the fence of its end.
pub type NeuronRun = Run<NeuronExecutable>;

/// Resources that one run at a time uses.
struct Seat {
    execution: Execution,
    /// The boost hint that was set last.
    boost: u8,
    /// Per port that is the new value of a state: memory of its own.
    spare: Vec<Option<HostBuffer>>,
}

/// A loaded part.
pub struct NeuronExecutable {
    shared: Arc<Shared>,
    queue: Arc<RunQueue<NeuronRun>>,
    ports: Vec<Port>,
    inputs: usize,
    constant_bytes: u64,
    epoch: u64,
    seat: Mutex<Seat>,
}

impl NeuronExecutable {
    /// Loads the library's bytes of a part, whose ports are `ports`.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queue: &Arc<RunQueue<NeuronRun>>,
        mut ports: Vec<Port>,
        bytes: &[u8],
    ) -> Result<NeuronExecutable> {
        let epoch = shared.epoch.load(Ordering::Acquire);
        let compilation = shared.api.restore(bytes)?;
        let inputs = ports.iter().take_while(|port| !port.output).count();
        for (number, port) in ports.iter_mut().enumerate() {
            let place = if port.output { number - inputs } else { number };
            port.bytes = compilation.padded(port.output, place, port.bytes)?;
        }
        let spare = |port: &Port| {
            let state = port.output && port.state_port.is_some();
            let wanted = Memory::wanted(MemoryKind::Host, port.bytes, 64);
            state.then(|| HostBuffer::create(&wanted)).transpose()
        };
        let spare = ports.iter().map(spare).collect::<Result<_>>()?;
        Ok(NeuronExecutable {
            shared: Arc::clone(shared),
            queue: Arc::clone(queue),
            ports,
            inputs,
            constant_bytes: bytes.len() as u64,
            epoch,
            seat: Mutex::new(Seat {
                execution: compilation.execution()?,
                boost: NO_BOOST,
                spare,
            }),
        })
    }
}

impl Compute for NeuronExecutable {
    type Buffer = NeuronBuffer;
    const MAY_HANG: bool = true;

    fn is_measured(&self) -> bool {
        !self.shared.api.is_emulated()
    }

    fn compute(&self, bound: &[PortBuffer<NeuronBuffer>], _run: &RunContext<'_>) -> Result<Span> {
        if self.epoch != self.shared.epoch.load(Ordering::Acquire) {
            let what = "the device was reset since the part was loaded";
            return Err(Error::new(ErrorKind::DeviceLost, what));
        }
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let Seat {
            execution,
            boost: told,
            spare,
        } = &mut *seat;
        let boost = self.shared.boost.load(Ordering::Acquire);
        if boost != *told && boost != NO_BOOST {
            execution.boost(boost)?;
            *told = boost;
        }
        for (number, ((bound, port), spare)) in bound.iter().zip(&self.ports).zip(&*spare).enumerate() {
            let bytes = port.bytes as usize;
            let (offset, buffer) = (bound.offset(), bound.buffer());
            if offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes()) {
                return Err(Error::bad_argument("a port is bound past the end of its buffer"));
            }
            let place = if port.output { number - self.inputs } else { number };
            let (memory, offset) = match spare {
                Some(spare) => ((None, spare), 0),
                None => (buffer.parts(), offset),
            };
            // SAFETY: inside the buffer, which the run holds until it has ended; the host binds memory to no two runs of
            // which one writes.
            unsafe { execution.bind(port.output, place, memory, offset, bytes) }?;
        }
        // SAFETY: every port was bound above.
        unsafe { execution.compute() }?;
        for (bound, spare) in bound.iter().zip(&*spare) {
            if let Some(spare) = spare {
                let bytes = bound.bytes().min(spare.bytes());
                // SAFETY: the library has ended with it, and nobody else has it.
                let new = unsafe { spare.slice(0, bytes) }?;
                bound.buffer().parts().1.copy_in(bound.offset(), new)?;
            }
        }
        Ok(Span::Call)
    }
}

impl Executable for NeuronExecutable {
    type Buffer = NeuronBuffer;
    type Fence = NeuronRun;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo {
            constant_bytes: self.constant_bytes,
            // the library does not say what it keeps between layers
            arena_bytes: 0,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, NeuronBuffer, NeuronRun>) -> Result<Arc<NeuronRun>> {
        Run::start(self, &self.queue, submit)
    }
}
