//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. The library's call waits, and may hang: the queue's thread alone makes it, which a reset leaves behind.
//! 2. A reset voids what was loaded before it: the host loads the blob again.
//! 3. A run gives the context back however it ends, also where it panics.
//! 4. Sizes are checked against the ports before each run: the library reads past what is too small.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`).

#![allow(unsafe_code, reason = "memory is handed to the vendor's library here")]

mod lent;

use std::sync::Arc;

use polychip_sdk::{
    Bound, Buffer as _, Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Port, Result, Run,
    RunContext, RunQueue, Span, Submit,
};

use self::lent::Lendable;
use crate::blob::Part;
use crate::session::{Context, Session};

/// A run, and the fence that tells its end.
pub type QnnRun = Run<QnnExecutable>;

/// A loaded part.
pub struct QnnExecutable {
    queue: Arc<RunQueue<QnnRun>>,
    ports: Vec<Port>,
    constant_bytes: u64,
    context: Lendable<Context>,
}

impl QnnExecutable {
    /// Loads a part.
    pub(crate) fn new(
        session: &Arc<Session>,
        queue: Arc<RunQueue<QnnRun>>,
        part: Part,
    ) -> Result<QnnExecutable> {
        let context = Context::load(session, &part.binary, &part.tensors, part.inputs)?;
        Ok(QnnExecutable {
            queue,
            ports: part.ports,
            constant_bytes: part.binary.len() as u64,
            context: Lendable::new(context),
        })
    }

    /// Ends the context before the device goes. `true` where a run has it, which then ends it.
    pub(crate) fn forget(&self) -> bool {
        self.context.forget()
    }

    fn run_in(&self, context: &mut Context, bound: &[Bound<HostBuffer>]) -> Result<()> {
        for (port, bound) in bound.iter().enumerate() {
            // fits, as a port was made of a tensor of this many bytes
            let bytes = self.ports[port].bytes as usize;
            let size = bound.buffer().bytes();
            if bound.offset().checked_add(bytes).is_none_or(|end| end > size) {
                return Err(Error::bad_argument("a port is bound past the end of its buffer"));
            }
            context.bind(port, bound.address(), bytes)?;
        }
        // SAFETY: every port was bound above to a range inside a buffer that is held until the run has ended;
        // the host binds memory to no two runs of which one writes.
        unsafe { context.run() }
    }
}

impl Compute for QnnExecutable {
    type Buffer = HostBuffer;
    const MAY_HANG: bool = true;

    fn compute(&self, bound: &[Bound<HostBuffer>], _run: &RunContext<'_>) -> Result<Span> {
        let void = || {
            Error::new(
                ErrorKind::DeviceLost,
                "the device was reset since the part was loaded",
            )
        };
        let mut lent = self.context.lend().ok_or_else(void)?;
        lent.with(|context| self.run_in(context, bound))
            .map(|()| Span::Call)
    }
}

impl Executable for QnnExecutable {
    type Buffer = HostBuffer;
    type Fence = QnnRun;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo {
            constant_bytes: self.constant_bytes,
            arena_bytes: 0,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, QnnRun>) -> Result<Arc<QnnRun>> {
        Run::start(self, &self.queue, submit)
    }
}
