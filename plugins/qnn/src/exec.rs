//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. `execute` hands a run to the device's queue and returns; the library's call, which waits, is made by the
//!    queue's thread.
//! 2. A warm run allocates nothing: runs, fences and lists are used again.
//! 3. A part keeps the library's binary, so that it runs again after the device was reset.
//! 4. Sizes are checked against the ports before each run: the library reads past what is too small.

#![allow(unsafe_code, reason = "memory is handed to the vendor's library here")]

mod queue;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_sdk::{
    Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Port, Result, RunFence, Submit,
};

use crate::blob::Part;
use crate::plugin::Shared;
use crate::session::{Context, Session};

pub(crate) use queue::{Queue, Runner};

/// A loaded part.
pub struct QnnExecutable {
    device: Arc<Shared>,
    part: Part,
    state: Mutex<State>,
}

/// The context of a part and the reset it belongs to.
#[derive(Default)]
struct State {
    /// `None` while it runs, and after a reset until the next run.
    context: Option<Context>,
    epoch: u64,
    /// A run has it.
    running: bool,
}

/// Counts resets of a device.
#[derive(Debug, Default)]
pub(crate) struct Epoch(AtomicU64);

impl Epoch {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl QnnExecutable {
    /// Loads a part.
    pub(crate) fn new(device: Arc<Shared>, part: Part) -> Result<QnnExecutable> {
        let epoch = device.epoch.now();
        let context = Self::context(&device.session, &part)?;
        Ok(QnnExecutable {
            device,
            part,
            state: Mutex::new(State {
                context: Some(context),
                epoch,
                running: false,
            }),
        })
    }

    fn context(session: &Arc<Session>, part: &Part) -> Result<Context> {
        Context::load(session, &part.binary, &part.tensors, part.inputs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the context before the device goes. `true` where a run has it, which then ends it.
    pub(crate) fn forget(&self) -> bool {
        let mut state = self.state();
        state.context = None;
        state.running
    }

    /// Runs on bound memory, in the order of ports: each a buffer and where the tensor starts in it.
    fn run(&self, bindings: &[(Arc<HostBuffer>, usize)]) -> Result<()> {
        let epoch = self.device.epoch.now();
        let mut context = {
            let mut state = self.state();
            if state.running {
                return Err(Error::new(
                    ErrorKind::DeviceLost,
                    "an earlier run of this part has not come back from the device",
                ));
            }
            let kept = state.context.take().filter(|_| state.epoch == epoch);
            state.running = true;
            drop(state);
            match kept {
                Some(context) => context,
                // the device was reset since: the binary is loaded again
                None => match Self::context(&self.device.session, &self.part) {
                    Ok(context) => context,
                    Err(error) => {
                        self.state().running = false;
                        return Err(error);
                    }
                },
            }
        };
        let result = Self::run_in(&mut context, &self.part, bindings);
        let mut state = self.state();
        state.running = false;
        if self.device.epoch.now() == epoch {
            state.epoch = epoch;
            state.context = Some(context);
        }
        result
    }

    fn run_in(context: &mut Context, part: &Part, bindings: &[(Arc<HostBuffer>, usize)]) -> Result<()> {
        for (port, (buffer, offset)) in bindings.iter().enumerate() {
            let bytes = part.tensors[port].bytes;
            let size = polychip_sdk::Buffer::bytes(&**buffer);
            if offset.checked_add(bytes).is_none_or(|end| end > size) {
                return Err(Error::bad_argument("a port is bound past the end of its buffer"));
            }
            context.bind(port, buffer.as_ptr().wrapping_add(*offset), bytes)?;
        }
        // SAFETY: every port was bound above to a range inside a buffer that is held until the run has ended;
        // the host binds memory to no two runs of which one writes.
        unsafe { context.run() }
    }
}

impl Executable for QnnExecutable {
    type Buffer = HostBuffer;
    type Fence = RunFence;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo {
            constant_bytes: self.part.binary.len() as u64,
            arena_bytes: 0,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.part.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, RunFence>) -> Result<Arc<RunFence>> {
        self.device.queue.push(self, submit)
    }
}
