//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. The library's call blocks, and may hang: only the queue's thread makes it, and a reset leaves that thread behind.
//! 2. A reset invalidates parts loaded before it: the host loads the blob again.
//! 3. A run gives the context back however it ends, also where it panics.
//! 4. Sizes are checked against the ports before each run: the library reads past what is too small.
//! 5. Memory is registered once per port and range; a warm run registers none.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`).

#![allow(unsafe_code, reason = "memory is handed to the vendor's library here")]

mod exclusive;

use std::sync::{Arc, Weak};

use polychip_sdk::{
    Buffer as _, Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBacked as _, Port, Result, Run,
    RunContext, RunQueue, Span, Submit,
};

use self::exclusive::Exclusive;
use crate::blob::Part;
use crate::buffer::QnnBuffer;
use crate::session::{Context, Power, Registered, Session};

/// Ranges cached per port: as many as a session binds alternately. The oldest is evicted first.
const MAX_RANGES: usize = 64;

/// A run, and the fence of its end.
pub type QnnRun = Run<QnnExecutable>;
type PortBuffer = polychip_sdk::PortBuffer<QnnBuffer>;

/// A buffer's range that the context knows.
struct RegisteredRange {
    buffer: Weak<QnnBuffer>,
    offset: usize,
    memory: Registered,
}

/// Resources that one run at a time uses.
struct Seat {
    /// Per port; before the context, which outlives what it knows.
    ranges: Vec<Vec<RegisteredRange>>,
    context: Context,
}

/// A loaded part.
pub struct QnnExecutable {
    queue: Arc<RunQueue<QnnRun>>,
    ports: Vec<Port>,
    constant_bytes: u64,
    /// Its run times are those of the emulating computer.
    emulated: bool,
    seat: Exclusive<Seat>,
    /// The vote that is active while the part is loaded.
    _vote: Option<Arc<Power>>,
}

impl QnnExecutable {
    /// Loads a part.
    pub(crate) fn new(
        session: &Arc<Session>,
        queue: Arc<RunQueue<QnnRun>>,
        part: Part,
        vote: Option<Arc<Power>>,
    ) -> Result<QnnExecutable> {
        let context = Context::load(session, &part.binary, &part.tensors, part.inputs)?;
        let ranges = part.ports.iter().map(|_| Vec::new()).collect();
        Ok(QnnExecutable {
            queue,
            ports: part.ports,
            constant_bytes: part.binary.len() as u64,
            emulated: session.is_emulated(),
            seat: Exclusive::new(Seat { ranges, context }),
            _vote: vote,
        })
    }

    /// Ends the context before the device is released. Returns `true` if a run holds it; the run then ends it.
    pub(crate) fn forget(&self) -> bool {
        self.seat.forget()
    }

    fn run_in(&self, Seat { ranges, context }: &mut Seat, bound: &[PortBuffer]) -> Result<()> {
        for (port, bound) in bound.iter().enumerate() {
            // fits, as a port was made of a tensor of this many bytes
            let bytes = self.ports[port].bytes as usize;
            let size = bound.buffer().bytes();
            if bound.offset().checked_add(bytes).is_none_or(|end| end > size) {
                return Err(Error::bad_argument("a port is bound past the end of its buffer"));
            }
            match bound.buffer().range(bound.offset()) {
                Some(range) => {
                    let known = known(&mut ranges[port], bound, || context.register(port, range))?;
                    context.bind_known(port, known);
                }
                None => {
                    let address = bound.buffer().host().as_ptr().wrapping_add(bound.offset());
                    context.bind(port, address, bytes)?;
                }
            }
        }
        // SAFETY: every port was bound above to a range inside a buffer that is held until the run has ended;
        // the host binds memory to no two runs of which one writes.
        unsafe { context.run() }
    }
}

/// The memory of a bound range, registered if the context does not know it yet.
fn known<'a>(
    ranges: &'a mut Vec<RegisteredRange>,
    bound: &PortBuffer,
    register: impl FnOnce() -> Result<Registered>,
) -> Result<&'a Registered> {
    // a weak pointer keeps the address from being used again
    let here = |range: &RegisteredRange| {
        range.offset == bound.offset() && std::ptr::eq(range.buffer.as_ptr(), Arc::as_ptr(bound.buffer()))
    };
    if let Some(at) = ranges.iter().position(here) {
        return Ok(&ranges[at].memory);
    }
    ranges.retain(|range| range.buffer.strong_count() > 0);
    if ranges.len() == MAX_RANGES {
        ranges.remove(0);
    }
    ranges.push(RegisteredRange {
        buffer: Arc::downgrade(bound.buffer()),
        offset: bound.offset(),
        memory: register()?,
    });
    Ok(&ranges[ranges.len() - 1].memory)
}

impl Compute for QnnExecutable {
    type Buffer = QnnBuffer;
    const MAY_HANG: bool = true;

    fn is_measured(&self) -> bool {
        !self.emulated
    }

    fn compute(&self, bound: &[PortBuffer], _run: &RunContext<'_>) -> Result<Span> {
        let void = || {
            Error::new(
                ErrorKind::DeviceLost,
                "the device was reset since the part was loaded",
            )
        };
        let mut held = self.seat.acquire().ok_or_else(void)?;
        held.with(|seat| self.run_in(seat, bound)).map(|()| Span::Call)
    }
}

impl Executable for QnnExecutable {
    type Buffer = QnnBuffer;
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

    fn execute(self: &Arc<Self>, submit: &Submit<'_, QnnBuffer, QnnRun>) -> Result<Arc<QnnRun>> {
        Run::start(self, &self.queue, submit)
    }
}
