//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. `execute` hands a run to the device's queue and returns; the library's call, which waits, is made by the
//!    queue's thread.
//! 2. A warm run allocates nothing: runs, fences and lists are used again.
//! 3. A reset voids what was loaded before it: the host loads the blob again.
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
use crate::session::Context;

pub(crate) use queue::{Queue, Runner};

/// A loaded part.
pub struct QnnExecutable {
    device: Arc<Shared>,
    ports: Vec<Port>,
    constant_bytes: u64,
    state: Mutex<State>,
    /// The reset that it was loaded after.
    epoch: u64,
}

/// The context of a part.
struct State {
    /// `None` while it runs, and after a reset.
    context: Option<Context>,
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
        let context = Context::load(&device.session, &part.binary, &part.tensors, part.inputs)?;
        Ok(QnnExecutable {
            device,
            ports: part.ports,
            constant_bytes: part.binary.len() as u64,
            state: Mutex::new(State {
                context: Some(context),
                running: false,
            }),
            epoch,
        })
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
        let void = || {
            Error::new(
                ErrorKind::DeviceLost,
                "the device was reset since the part was loaded",
            )
        };
        let mut context = {
            let mut state = self.state();
            let context = state.context.take().ok_or_else(void)?;
            state.running = true;
            context
        };
        let result = self.run_in(&mut context, bindings);
        let mut state = self.state();
        state.running = false;
        if self.device.epoch.now() == self.epoch {
            state.context = Some(context);
        }
        result
    }

    fn run_in(&self, context: &mut Context, bindings: &[(Arc<HostBuffer>, usize)]) -> Result<()> {
        for (port, (buffer, offset)) in bindings.iter().enumerate() {
            // fits, as a port was made of a tensor of this many bytes
            let bytes = self.ports[port].bytes as usize;
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
            constant_bytes: self.constant_bytes,
            arena_bytes: 0,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, RunFence>) -> Result<Arc<RunFence>> {
        self.device.queue.push(self, submit)
    }
}
