//! Loaded parts and their runs.
//!
//! A run binds each port to the board's side of its buffer and enqueues the model on the opening's
//! stream, between two events that measure the board's own time. A port that cannot be passed to
//! the library (its start is not a multiple of 64 bytes, or an output aliases an input) uses memory
//! of the part, copied on the board; the copy is counted and reported.
//!
//! Invariants:
//! 1. The library's calls of a run block, and may hang: only the queue's thread makes them, and a
//!    reset leaves that thread behind.
//! 2. A warm run allocates nothing on the board, and transfers no byte over the link.
//! 3. A reset invalidates parts loaded before it.
//!
//! Not here: runs, their queues and their fences (`polychip_sdk::Run`), compilation (`lower`),
//! copies of the host's side of a buffer (`polychip_sdk::DeviceBuffer`).

use std::sync::{Arc, Mutex, PoisonError};

use polychip_sdk::{
    Compute, Executable, ExecutableInfo, LogLevel, Port, Result, Run, RunContext, RunQueue, Span, Submit,
};

use crate::buffer::AscendBuffer;
use crate::driver::{Model, Opening, Piece};
use crate::lower::Part;
use crate::shared::Shared;

/// Where the memory of a port may start: the library's alignment.
const ALIGN: usize = 64;

/// A run, and the fence of its end.
pub type AscendRun = Run<AscendExecutable>;
type PortBuffer = polychip_sdk::PortBuffer<AscendBuffer>;

/// What one run at a time works with. The model goes before memory that it names.
struct Seat {
    model: Model,
    /// Memory for ports that cannot be bound in place, by port.
    spare: Vec<Option<Piece>>,
    /// Whether it was said that ports are copied.
    said: bool,
}

/// A loaded part.
pub struct AscendExecutable {
    shared: Arc<Shared>,
    queue: Arc<RunQueue<AscendRun>>,
    opening: Arc<Opening>,
    seat: Mutex<Seat>,
    ports: Vec<Port>,
    inputs: usize,
    info: ExecutableInfo,
}

impl AscendExecutable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queue: &Arc<RunQueue<AscendRun>>,
        opening: Arc<Opening>,
        part: Part,
    ) -> AscendExecutable {
        let [work, weights] = part.model.bytes();
        AscendExecutable {
            shared: Arc::clone(shared),
            queue: Arc::clone(queue),
            opening,
            seat: Mutex::new(Seat {
                model: part.model,
                spare: part.ports.iter().map(|_| None).collect(),
                said: false,
            }),
            ports: part.ports,
            inputs: part.inputs,
            info: ExecutableInfo {
                constant_bytes: u32::try_from(weights).unwrap_or(u32::MAX).into(),
                arena_bytes: u32::try_from(work).unwrap_or(u32::MAX).into(),
            },
        }
    }

    /// Whether the library may be given a port's memory itself.
    fn is_direct(&self, port: usize, bound: &[PortBuffer]) -> bool {
        let bytes = |port: usize| self.ports[port].bytes as usize;
        let place = &bound[port];
        let overlaps = |other: usize| {
            let other_place = &bound[other];
            Arc::ptr_eq(place.buffer(), other_place.buffer())
                && place.offset() < other_place.offset() + bytes(other)
                && other_place.offset() < place.offset() + bytes(port)
        };
        let alone = port < self.inputs || !(0..self.inputs).any(overlaps);
        place.offset().is_multiple_of(ALIGN) && alone
    }
}

impl Compute for AscendExecutable {
    type Buffer = AscendBuffer;
    const MAY_HANG: bool = true;

    fn compute(&self, bound: &[PortBuffer], run: &RunContext<'_>) -> Result<Span> {
        self.opening.alive()?;
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let Seat { model, spare, said } = &mut *seat;
        let mut pieces = Vec::with_capacity(bound.len());
        for (port, place) in bound.iter().enumerate() {
            let bytes = self.ports[port].bytes as usize;
            let piece = place.buffer().piece(&self.opening)?;
            let direct = self.is_direct(port, bound);
            let (at, index) = (port >= self.inputs, port.checked_sub(self.inputs).unwrap_or(port));
            let address = if direct {
                piece.address(place.offset(), bytes)?
            } else {
                if spare[port].is_none() {
                    spare[port] = Some(Piece::new(&self.opening, bytes)?);
                }
                spare[port]
                    .as_ref()
                    .map_or(piece.address(place.offset(), bytes), |own| own.address(0, bytes))?
            };
            model.bind(at, index, address, bytes)?;
            pieces.push((piece, direct));
        }
        if !*said && pieces.iter().any(|(_, direct)| !direct) {
            *said = true;
            let words =
                "a port at no multiple of 64 bytes, or on another, is copied on the board at each run";
            self.shared.common.host.log(LogLevel::Info, words);
        }
        for place in &bound[self.inputs..] {
            place.buffer().set_stale();
        }
        let ns = self.opening.timed(|| {
            let copied = |ports: std::ops::Range<usize>| {
                ports
                    .filter_map(|port| Some((port, spare[port].as_ref()?)))
                    .filter(|(port, _)| !pieces[*port].1)
            };
            let bytes = |port: usize| self.ports[port].bytes as usize;
            for (port, own) in copied(0..self.inputs) {
                let from = (&*pieces[port].0, bound[port].offset());
                own.copy_from(&self.opening, 0, from, bytes(port))?;
                run.add_copied_bytes(bytes(port));
            }
            model.enqueue()?;
            for (port, own) in copied(self.inputs..bound.len()) {
                let to = &pieces[port].0;
                to.copy_from(&self.opening, bound[port].offset(), (own, 0), bytes(port))?;
                run.add_copied_bytes(bytes(port));
            }
            Ok(())
        })?;
        Ok(Span::Device(ns))
    }
}

impl Executable for AscendExecutable {
    type Buffer = AscendBuffer;
    type Fence = AscendRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, AscendBuffer, AscendRun>) -> Result<Arc<AscendRun>> {
        Run::start(self, &self.queue, submit)
    }
}
