//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. The runtime's call blocks, and may hang: only the queue's thread makes it, and a reset leaves that thread behind.
//! 2. A reset invalidates parts loaded before it: the host loads the blob again.
//! 3. A tensor is made once per port and bound range; a warm run makes none.
//! 4. A state is computed in separate memory, because it may alias its input, and copied after the run.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`).

#![allow(unsafe_code, reason = "memory that the runtime has ended with is read here")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_sdk::{
    Buffer as _, Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBacked as _, Memory, MemoryKind,
    Port, PortBuffer, Result, Run, RunContext, RunQueue, Span, Submit,
};

use crate::api::{Api, Compilation, Executor, RunTensor};
use crate::buffer::NnrtBuffer;
use crate::program::Tensor;

/// A run, and the fence of its end.
pub type NnrtRun = Run<NnrtExecutable>;

/// Ranges cached per port: as many as a session binds alternately. The oldest is evicted first.
const MAX_RANGES: usize = 32;

/// A range of a buffer as a tensor of the runtime's.
struct RangeTensor {
    buffer: Weak<NnrtBuffer>,
    offset: usize,
    tensor: RunTensor,
}

/// Resources that one run at a time uses.
struct Seat {
    /// Before the executor: tensors are the device's.
    ranges: Vec<VecDeque<RangeTensor>>,
    /// Per port that is the new value of a state: memory of its own.
    spare: Vec<Option<Arc<NnrtBuffer>>>,
    executor: Executor,
}

/// A loaded part.
pub struct NnrtExecutable {
    api: Api,
    queue: Arc<RunQueue<NnrtRun>>,
    /// Incremented by a reset, which invalidates parts loaded before.
    resets: Arc<AtomicU64>,
    loaded_at: u64,
    ports: Vec<Port>,
    inputs: usize,
    tensors: Vec<Tensor>,
    constant_bytes: u64,
    seat: Mutex<Seat>,
}

impl NnrtExecutable {
    /// A compiled part, whose ports are `ports` and, to the runtime, `tensors`.
    pub(crate) fn new(
        api: Api,
        queue: &Arc<RunQueue<NnrtRun>>,
        resets: &Arc<AtomicU64>,
        ports: Vec<Port>,
        tensors: Vec<Tensor>,
        compilation: Compilation,
        constant_bytes: u64,
    ) -> Result<NnrtExecutable> {
        let inputs = ports.iter().take_while(|port| !port.output).count();
        let executor = compilation.executor((inputs, ports.len() - inputs))?;
        let spare = ports.iter().map(|port| {
            let state = port.output && port.state_port.is_some();
            let wanted = Memory::wanted(MemoryKind::Host, port.bytes, 64);
            state
                .then(|| NnrtBuffer::create(api.is_emulated(), &wanted))
                .transpose()
        });
        let seat = Seat {
            ranges: ports.iter().map(|_| VecDeque::new()).collect(),
            spare: spare.collect::<Result<_>>()?,
            executor,
        };
        Ok(NnrtExecutable {
            api,
            queue: Arc::clone(queue),
            resets: Arc::clone(resets),
            loaded_at: resets.load(Ordering::Acquire),
            ports,
            inputs,
            tensors,
            constant_bytes,
            seat: Mutex::new(seat),
        })
    }

    /// The index in a port's list of the tensor over a range, made if it is missing.
    fn place(
        &self,
        ranges: &mut VecDeque<RangeTensor>,
        port: usize,
        buffer: &Arc<NnrtBuffer>,
        offset: usize,
    ) -> Result<usize> {
        // before anything that is kept: an earlier binding says nothing of this one's range
        let (file, start, whole) = buffer.range(offset, self.ports[port].bytes as usize)?;
        let is_it =
            |range: &RangeTensor| range.offset == offset && range.buffer.as_ptr() == Arc::as_ptr(buffer);
        if let Some(known) = ranges.iter().position(is_it) {
            return Ok(known);
        }
        // a tensor keeps the file's memory: not for buffers that are gone
        ranges.retain(|range| range.buffer.strong_count() > 0);
        if ranges.len() == MAX_RANGES {
            ranges.pop_front();
        }
        ranges.push_back(RangeTensor {
            buffer: Arc::downgrade(buffer),
            offset,
            tensor: self.api.tensor(&self.tensors[port], file, start, whole)?,
        });
        Ok(ranges.len() - 1)
    }
}

impl Compute for NnrtExecutable {
    type Buffer = NnrtBuffer;
    const MAY_HANG: bool = true;

    fn is_measured(&self) -> bool {
        !self.api.is_emulated()
    }

    fn compute(&self, bound: &[PortBuffer<NnrtBuffer>], _run: &RunContext<'_>) -> Result<Span> {
        if self.loaded_at != self.resets.load(Ordering::Acquire) {
            let what = "the device was reset since the part was loaded";
            return Err(Error::new(ErrorKind::DeviceLost, what));
        }
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let Seat {
            ranges,
            spare,
            executor,
        } = &mut *seat;
        let mut tensors = Vec::with_capacity(bound.len());
        for ((port, ranges), (bound, spare)) in ranges.iter_mut().enumerate().zip(bound.iter().zip(&*spare)) {
            let (buffer, offset) = match spare {
                Some(spare) => (spare, 0),
                None => (bound.buffer(), bound.offset()),
            };
            let at = self.place(ranges, port, buffer, offset)?;
            tensors.push(&ranges[at].tensor);
        }
        // inputs come first
        let (inputs, outputs) = tensors.split_at(self.inputs);
        executor.run(inputs, outputs)?;
        for (bound, spare) in bound.iter().zip(&*spare) {
            let Some(spare) = spare else { continue };
            let bytes = bound.bytes().min(spare.bytes());
            // SAFETY: the runtime has finished with it, and it has no other user.
            let new = unsafe { spare.host().slice(0, bytes) }?;
            bound.buffer().host().copy_in(bound.offset(), new)?;
        }
        Ok(Span::Call)
    }
}

impl Executable for NnrtExecutable {
    type Buffer = NnrtBuffer;
    type Fence = NnrtRun;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo {
            constant_bytes: self.constant_bytes,
            // the runtime does not say what it keeps between layers
            arena_bytes: 0,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, NnrtBuffer, NnrtRun>) -> Result<Arc<NnrtRun>> {
        Run::start(self, &self.queue, submit)
    }
}
