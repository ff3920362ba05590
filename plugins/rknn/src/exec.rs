//! Loaded parts and their runs.
//!
//! A part has one context per lane, each on its own core; a run uses the next lane. If the runtime
//! computes on registered memory, a port uses the buffer in place, or memory of the runtime with an
//! explicit copy if the chip cannot see the buffer. Otherwise the runtime copies all tensors. Ports
//! of quantised integers are converted: f32 is the only form that the runtime's manual describes
//! for both directions.
//!
//! Invariants:
//! 1. The library's calls of a run block, and may hang: only the lane's thread makes them, and a
//!    reset leaves that thread behind.
//! 2. Memory is registered once per port and range; a warm run registers none and binds only
//!    changed ranges.
//! 3. A reset invalidates parts loaded before it.
//!
//! Not here: runs, their queues and their fences (`polychip_sdk::Run`), compilation (`lower`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use polychip_sdk::{
    Compute, Error, ErrorKind, Executable, ExecutableInfo, LogLevel, Port, Result, Run, RunContext, RunQueue,
    Span, Submit,
};

use crate::buffer::RknnBuffer;
use crate::convert::Linear;
use crate::driver::{Context, Copies, DeviceMemory, Seen};
use crate::lower::Part;
use crate::shared::Shared;

/// Places kept per port and lane: as many as a session binds in turn. The oldest goes first.
const MAX_RANGES: usize = 64;

/// A run, and the fence of its end.
pub type RknnRun = Run<RknnExecutable>;
type PortBuffer = polychip_sdk::PortBuffer<RknnBuffer>;

/// The lanes of a device.
pub(crate) type Lanes = Vec<Arc<RunQueue<RknnRun>>>;

/// A buffer's range that the context knows.
struct KnownRange {
    buffer: Weak<RknnBuffer>,
    offset: usize,
    memory: Arc<DeviceMemory>,
}

/// Room to copy through, and to convert where a port has integers that encode reals: the runtime is given f32.
struct Room {
    stored: Vec<u8>,
    reals: Option<(Linear, Vec<u8>)>,
}

/// A port of one lane.
struct Seat {
    seen: Seen,
    linear: Option<Linear>,
    ranges: Vec<KnownRange>,
    /// Memory of the runtime's own, for buffers that the chip does not see.
    own: Option<(Arc<DeviceMemory>, Room)>,
    /// What the context has now.
    bound: Option<Arc<DeviceMemory>>,
}

/// How tensors get to the context of a lane.
enum Way {
    /// In place, per port.
    Shared(Vec<Seat>),
    /// By the runtime's copies; a port of integers by way of a room.
    Copied(Copies, Vec<Option<Room>>),
}

/// A lane's context. Memory goes before it.
struct Lane {
    way: Way,
    context: Arc<Context>,
}

/// A loaded part.
pub struct RknnExecutable {
    shared: Arc<Shared>,
    queues: Arc<Lanes>,
    lanes: Vec<Mutex<Option<Lane>>>,
    next: Arc<AtomicUsize>,
    void: AtomicBool,
    ports: Vec<Port>,
    inputs: usize,
    info: ExecutableInfo,
}

impl RknnExecutable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queues: &Arc<Lanes>,
        next: &Arc<AtomicUsize>,
        part: Part,
    ) -> Result<RknnExecutable> {
        let Part {
            context,
            inputs,
            outputs,
            ports,
            linears,
        } = part;
        let first = Arc::new(context);
        let (weights, internal) = first.memory().unwrap_or_default();
        let several = queues.len() > 1;
        let mut lanes = Vec::with_capacity(queues.len());
        for lane in 0..queues.len() {
            let context = match lane {
                0 => Arc::clone(&first),
                _ => Arc::new(first.another()?),
            };
            if several {
                context.set_core(lane)?;
            }
            let seats = inputs
                .iter()
                .chain(&outputs)
                .zip(&linears)
                .map(|(&seen, &linear)| Seat {
                    seen,
                    linear,
                    ranges: Vec::new(),
                    own: None,
                    bound: None,
                });
            let way = if shared.driver.library().shares() {
                Way::Shared(seats.collect())
            } else {
                let room = |(port, &linear): (&Port, &Option<Linear>)| {
                    linear.map(|linear| Room::new(port.bytes as usize, Some(linear)))
                };
                let rooms = ports.iter().zip(&linears).map(room);
                Way::Copied(Copies::new(&inputs, &outputs), rooms.collect())
            };
            lanes.push(Mutex::new(Some(Lane { way, context })));
        }
        Ok(RknnExecutable {
            shared: Arc::clone(shared),
            queues: Arc::clone(queues),
            lanes,
            next: Arc::clone(next),
            void: AtomicBool::new(false),
            ports,
            inputs: inputs.len(),
            info: ExecutableInfo {
                constant_bytes: weights,
                arena_bytes: internal,
            },
        })
    }

    /// Ends the contexts of a device that is reset, but of lanes whose run does not come back.
    pub(crate) fn forget(&self) {
        self.void.store(true, Ordering::Release);
        for lane in &self.lanes {
            if let Ok(mut lane) = lane.try_lock() {
                *lane = None;
            }
        }
    }

    fn lane(&self, number: usize) -> Result<MutexGuard<'_, Option<Lane>>> {
        if self.void.load(Ordering::Acquire) {
            return Err(void());
        }
        let lane = self.lanes.get(number).ok_or_else(void)?;
        Ok(lane.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Computes over memory that the context knows.
    fn in_place(
        &self,
        context: &Arc<Context>,
        seats: &mut [Seat],
        bound: &[PortBuffer],
        run: &RunContext<'_>,
    ) -> Result<()> {
        for (port, (seat, place)) in seats.iter_mut().zip(bound).enumerate() {
            let bytes = self.ports[port].bytes as usize;
            let output = port >= self.inputs;
            let alone = !output || !overlaps(place, bytes, &bound[..self.inputs]);
            let memory = if place.buffer().is_file() && alone && seat.linear.is_none() {
                seat.known(context, place, bytes)?
            } else {
                let (memory, room) = seat.own(context, bytes)?;
                if !output {
                    memory.copy_in(room.taken(place)?)?;
                    memory.flush()?;
                    run.add_copied_bytes(bytes);
                }
                Arc::clone(memory)
            };
            seat.bind(memory)?;
        }
        context.run()?;
        for (seat, place) in seats.iter_mut().zip(bound).skip(self.inputs) {
            if let Some((memory, room)) = seat.used_own() {
                memory.invalidate()?;
                memory.copy_out(room.ours())?;
                room.given(place)?;
                run.add_copied_bytes(room.stored.len());
            }
        }
        Ok(())
    }
}

impl Room {
    /// Room for a port's stored bytes.
    fn new(bytes: usize, linear: Option<Linear>) -> Room {
        Room {
            stored: vec![0; bytes],
            reals: linear.map(|linear| (linear, vec![0; Linear::REAL_BYTES * bytes])),
        }
    }

    /// What the runtime has of the port.
    fn ours(&mut self) -> &mut [u8] {
        match &mut self.reals {
            Some((_, reals)) => reals,
            None => &mut self.stored,
        }
    }

    /// An input, as the runtime has it.
    fn taken(&mut self, from: &PortBuffer) -> Result<&mut [u8]> {
        from.buffer().copy_out(from.offset(), &mut self.stored)?;
        if let Some((linear, reals)) = &mut self.reals {
            linear.reals(&self.stored, reals);
        }
        Ok(self.ours())
    }

    /// Gives an output that the runtime has written.
    fn given(&mut self, to: &PortBuffer) -> Result<()> {
        if let Some((linear, reals)) = &self.reals {
            linear.stored(reals, &mut self.stored);
        }
        to.buffer().copy_in(to.offset(), &self.stored)
    }
}

impl Seat {
    /// The memory of a buffer's range.
    fn known(
        &mut self,
        context: &Arc<Context>,
        place: &PortBuffer,
        bytes: usize,
    ) -> Result<Arc<DeviceMemory>> {
        let here = |known: &KnownRange| {
            known.offset == place.offset() && std::ptr::eq(known.buffer.as_ptr(), Arc::as_ptr(place.buffer()))
        };
        // a weak pointer keeps the address from being used again
        if let Some(known) = self.ranges.iter().find(|known| here(known)) {
            return Ok(Arc::clone(&known.memory));
        }
        self.ranges.retain(|known| known.buffer.strong_count() > 0);
        if self.ranges.len() == MAX_RANGES {
            self.ranges.remove(0);
        }
        let memory = place.buffer().made_known(context, place.offset(), bytes)?;
        self.ranges.push(KnownRange {
            buffer: Arc::downgrade(place.buffer()),
            offset: place.offset(),
            memory: Arc::clone(&memory),
        });
        Ok(memory)
    }

    /// Memory of the runtime's own.
    fn own(&mut self, context: &Arc<Context>, bytes: usize) -> Result<&mut (Arc<DeviceMemory>, Room)> {
        if self.own.is_none() {
            let mut room = Room::new(bytes, self.linear);
            let memory = Arc::new(DeviceMemory::own(context, room.ours().len())?);
            self.own = Some((memory, room));
        }
        self.own.as_mut().ok_or_else(void)
    }

    /// Memory of the runtime's own, where the run used it.
    fn used_own(&mut self) -> Option<&mut (Arc<DeviceMemory>, Room)> {
        let bound = self.bound.as_ref()?;
        self.own.as_mut().filter(|(memory, _)| Arc::ptr_eq(memory, bound))
    }

    fn bind(&mut self, memory: Arc<DeviceMemory>) -> Result<()> {
        if self
            .bound
            .as_ref()
            .is_some_and(|bound| Arc::ptr_eq(bound, &memory))
        {
            return Ok(());
        }
        memory.bind(&self.seen)?;
        self.bound = Some(memory);
        Ok(())
    }
}

fn void() -> Error {
    Error::new(
        ErrorKind::DeviceLost,
        "the device was reset since the part was loaded",
    )
}

/// Whether an output lies on an input, as the two halves of a state may.
fn overlaps(one: &PortBuffer, bytes: usize, inputs: &[PortBuffer]) -> bool {
    let range = |bound: &PortBuffer, bytes: usize| {
        let start = bound
            .buffer()
            .address(bound.offset(), 0)
            .map_or(0, |at| at as usize);
        start..start.saturating_add(bytes)
    };
    let one = range(one, bytes);
    inputs.iter().any(|input| {
        let input = range(input, input.bytes());
        one.start < input.end && input.start < one.end
    })
}

impl Compute for RknnExecutable {
    type Buffer = RknnBuffer;
    const MAY_HANG: bool = true;

    fn admit(&self, port: u32, bound: &PortBuffer) -> Result<()> {
        let align = self.ports[port as usize].dtype.byte_width().unwrap_or(1);
        let address = bound.buffer().address(bound.offset(), 0)? as usize;
        if address.is_multiple_of(align) {
            return Ok(());
        }
        let what = format!("port {port} lies at no multiple of {align} bytes");
        Err(Error::bad_argument(what).at_tensor(port))
    }

    fn compute(&self, bound: &[PortBuffer], run: &RunContext<'_>) -> Result<Span> {
        let mut lane = self.lane(run.queue_index())?;
        let Lane { way, context } = lane.as_mut().ok_or_else(void)?;
        match way {
            Way::Shared(seats) => self.in_place(context, seats, bound, run)?,
            Way::Copied(copies, rooms) => {
                // the runtime copies every port
                run.add_copied_bytes(self.ports.iter().map(|port| port.bytes as usize).sum());
                for (room, place) in rooms.iter_mut().zip(bound).take(self.inputs) {
                    if let Some(room) = room {
                        room.taken(place)?;
                    }
                }
                // a room has as many bytes as the runtime's port, whose elements were counted when it was loaded
                context.run_copied(copies, |port, bytes| match &mut rooms[port] {
                    Some(room) => Ok(room.ours().as_mut_ptr()),
                    None => bound[port].buffer().address(bound[port].offset(), bytes),
                })?;
                for (room, place) in rooms.iter_mut().zip(bound).skip(self.inputs) {
                    if let Some(room) = room {
                        room.given(place)?;
                    }
                }
            }
        }
        if self.shared.settings.times
            && let Some(times) = context.times()
        {
            self.shared.host.log(LogLevel::Info, &times);
        }
        Ok(context.run_time_ns().map_or(Span::Call, Span::Device))
    }
}

impl Executable for RknnExecutable {
    type Buffer = RknnBuffer;
    type Fence = RknnRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, RknnBuffer, RknnRun>) -> Result<Arc<RknnRun>> {
        let lane = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        Run::start(self, &self.queues[lane], submit)
    }
}
