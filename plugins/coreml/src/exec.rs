//! Loaded parts and their runs.
//!
//! Invariants:
//! 1. Core ML's call blocks, and may hang: only the queue's thread makes it, and a reset leaves
//!    that thread behind.
//! 2. Arrays are made over bound memory once per set of addresses; a warm run makes none.
//! 3. Byte ports have arrays of the part's own, which the run fills and reads (`widen`).
//! 4. Results are written to the memory bound to their port. If Core ML returns an output in its
//!    own memory, the output is copied, and that is logged once.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`).

#![allow(unsafe_code, reason = "memory is handed to Core ML here")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_ops::DType;
use polychip_sdk::{
    AlignedBytes, Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, LogLevel, Port,
    PortBuffer, Result, Run, RunContext, RunQueue, Span, Submit,
};
use polychip_sys::coreml::{Array, DataType, Features, Options};

use crate::blob::{Stored, array_type};
use crate::prepare::{Prepared, Shared, error};
use crate::program::Type;
use crate::widen::Widened;

/// Sets of addresses that are kept: as many as a session binds in turn. The oldest goes first.
const SETS: usize = 64;

/// Alignment of memory that a state is written to before it is copied.
const ALIGN: usize = 64;

/// A run, and the fence of its end.
pub type CoremlRun = Run<CoremlExecutable>;

/// A port as Core ML knows it.
struct Named {
    name: String,
    data: DataType,
    dims: Vec<usize>,
}

/// Arrays over one set of addresses.
struct Set {
    addresses: Vec<usize>,
    inputs: Features,
    options: Options,
    /// Behind what was made of them.
    _arrays: Vec<Array>,
}

/// Resources of a run.
struct Seat {
    /// Behind the model, which may read what its sets hold.
    ready: Prepared,
    sets: Vec<Set>,
    /// Per port: memory for an output that is bound onto an input.
    spare: Vec<Option<AlignedBytes>>,
    /// Per port: its array, where it is one of bytes.
    widened: Vec<Option<Widened>>,
    addresses: Vec<usize>,
}

/// A loaded part.
pub struct CoremlExecutable {
    shared: Arc<Shared>,
    queue: Arc<RunQueue<CoremlRun>>,
    ports: Vec<Port>,
    named: Vec<Named>,
    inputs: usize,
    constant_bytes: u64,
    seat: Mutex<Seat>,
    resets: Arc<AtomicU64>,
    loaded_at: u64,
    told_of_copies: AtomicBool,
}

const fn data_type(ty: Type) -> DataType {
    match ty {
        Type::F16 | Type::I8 | Type::U8 => DataType::F16,
        Type::F32 => DataType::F32,
        Type::I32 => DataType::I32,
    }
}

impl CoremlExecutable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queue: &Arc<RunQueue<CoremlRun>>,
        stored: Stored,
        ready: Prepared,
        resets: &Arc<AtomicU64>,
    ) -> Result<CoremlExecutable> {
        let named = |(number, port): (usize, &Port)| -> Result<Named> {
            let ty =
                array_type(port.dtype).ok_or_else(|| Error::bad_blob("a port of a type without arrays"))?;
            let dims: Vec<usize> = port.dims.clone();
            Ok(Named {
                name: match number.checked_sub(stored.inputs) {
                    None => format!("in{number}"),
                    Some(place) => format!("out{place}"),
                },
                data: data_type(ty),
                dims: if dims.is_empty() { vec![1] } else { dims },
            })
        };
        let named: Vec<Named> = stored
            .ports
            .iter()
            .enumerate()
            .map(named)
            .collect::<Result<_>>()?;
        let widened = stored.ports.iter().map(Widened::of).collect::<Result<_>>()?;
        let spare = |port: &Port| {
            let wanted = port.output && port.state_port.is_some() && !is_widened(port);
            wanted
                .then(|| AlignedBytes::zeroed(port.bytes as usize, ALIGN))
                .transpose()
        };
        let spare = stored.ports.iter().map(spare).collect::<Result<_>>()?;
        let count = named.len();
        Ok(CoremlExecutable {
            shared: Arc::clone(shared),
            queue: Arc::clone(queue),
            named,
            inputs: stored.inputs,
            constant_bytes: stored.package.weights.len() as u64,
            seat: Mutex::new(Seat {
                ready,
                sets: Vec::with_capacity(SETS),
                spare,
                widened,
                addresses: Vec::with_capacity(count),
            }),
            ports: stored.ports,
            resets: Arc::clone(resets),
            loaded_at: resets.load(Ordering::Acquire),
            told_of_copies: AtomicBool::new(false),
        })
    }

    /// Arrays over these addresses.
    fn set(&self, addresses: &[usize]) -> Result<Set> {
        let library = self.shared.library;
        let failed = |failure| {
            error(
                ErrorKind::Persistent,
                "Core ML takes no array over the memory",
                &failure,
            )
        };
        let mut arrays = Vec::with_capacity(addresses.len());
        for (&address, named) in addresses.iter().zip(&self.named) {
            let address = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: the port is bound to memory of its size, which lives during each run; between runs nobody reads
            // an array. A set is used by runs that bind these very addresses only.
            let array = unsafe { Array::over(library, address, &named.dims, named.data) };
            arrays.push(array.map_err(failed)?);
        }
        let names = self.named.iter().map(|named| &*named.name);
        let pairs: Vec<(&str, &Array)> = names.zip(&arrays).collect();
        let inputs = Features::of(library, &pairs[..self.inputs]).map_err(failed)?;
        let options = Options::into(library, &pairs[self.inputs..]).map_err(failed)?;
        Ok(Set {
            addresses: addresses.to_vec(),
            inputs,
            options,
            _arrays: arrays,
        })
    }

    /// Where an output is, if not where it was wanted: brings it there. Whether it was copied.
    fn collect(&self, results: &Features, number: usize, address: usize, bytes: usize) -> Result<bool> {
        let named = &self.named[number];
        let missing = |what: &str| {
            let words = format!("Core ML gave no output {} {what}", named.name);
            Error::new(ErrorKind::Persistent, words)
        };
        let array = results.array(&named.name).ok_or_else(|| missing("at all"))?;
        if array.address().expose_provenance() == address {
            return Ok(false);
        }
        if !self.told_of_copies.swap(true, Ordering::Relaxed) {
            let words = format!(
                "Core ML gives output {} in memory of its own, which is copied",
                named.name
            );
            self.shared.host.log(LogLevel::Warn, &words);
        }
        let to = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: `to` is the memory that the port is bound to, or its array of halves, of so many bytes, which the run
        // alone uses.
        let copied = unsafe { array.copy_to(to, &named.dims, named.data, bytes) };
        if copied {
            Ok(true)
        } else {
            Err(missing("of the extents of its port"))
        }
    }

    fn check(&self, bound: &[PortBuffer<HostBuffer>]) -> Result<()> {
        for (number, bound) in bound.iter().enumerate() {
            let bytes = self.ports[number].bytes as usize;
            let size = polychip_sdk::Buffer::bytes(&**bound.buffer());
            if bound.offset().checked_add(bytes).is_none_or(|end| end > size) {
                return Err(Error::bad_argument("a port is bound past the end of its buffer"));
            }
        }
        Ok(())
    }
}

/// Whether a port has an array of its own.
fn is_widened(port: &Port) -> bool {
    matches!(port.dtype, DType::I8 | DType::U8)
}

/// Whether memory of a port lies on that of an input.
fn lies_on(one: &PortBuffer<HostBuffer>, inputs: &[PortBuffer<HostBuffer>]) -> bool {
    let start = |bound: &PortBuffer<HostBuffer>| bound.address().addr();
    inputs
        .iter()
        .any(|input| start(one) < start(input) + input.bytes() && start(input) < start(one) + one.bytes())
}

impl Compute for CoremlExecutable {
    type Buffer = HostBuffer;
    const MAY_HANG: bool = true;

    fn admit(&self, port: u32, bound: &PortBuffer<HostBuffer>) -> Result<()> {
        let dtype: DType = self.ports[port as usize].dtype;
        bound.check_aligned(port, dtype)
    }

    fn compute(&self, bound: &[PortBuffer<HostBuffer>], run: &RunContext<'_>) -> Result<Span> {
        if self.resets.load(Ordering::Acquire) != self.loaded_at {
            let words = "the device was reset since the part was loaded";
            return Err(Error::new(ErrorKind::DeviceLost, words));
        }
        self.check(bound)?;
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = &mut *seat;
        seat.addresses.clear();
        let (inputs, outputs) = bound.split_at(self.inputs);
        for (number, place) in bound.iter().enumerate() {
            let spare = seat.spare[number].as_mut().filter(|_| lies_on(place, inputs));
            let address = match (&mut seat.widened[number], spare) {
                (Some(widened), _) => {
                    if number < self.inputs {
                        widened.widen(place)?;
                        run.add_copied_bytes(self.ports[number].bytes as usize);
                    }
                    widened.address()
                }
                (None, Some(spare)) => spare.as_mut_ptr(),
                (None, None) => place.address(),
            };
            seat.addresses.push(address.expose_provenance());
        }
        let known = seat.sets.iter().position(|set| set.addresses == seat.addresses);
        let place = match known {
            Some(place) => place,
            None => {
                if seat.sets.len() == SETS {
                    seat.sets.remove(0);
                }
                seat.sets.push(self.set(&seat.addresses)?);
                seat.sets.len() - 1
            }
        };
        let set = &seat.sets[place];
        run.check_cancelled()?;
        // SAFETY: the host binds memory to no two runs of which one writes, and holds it until this run has ended.
        let results = unsafe { seat.ready.model.predict(&set.inputs, &set.options) };
        let results = results
            .map_err(|failure| error(ErrorKind::DeviceLost, "Core ML did not finish the run", &failure))?;
        for (number, place) in bound.iter().enumerate().skip(self.inputs) {
            let bytes = match &seat.widened[number] {
                Some(widened) => widened.size(),
                None => self.ports[number].bytes as usize,
            };
            if self.collect(&results, number, seat.addresses[number], bytes)? {
                run.add_copied_bytes(bytes);
            }
            if let Some(widened) = &mut seat.widened[number] {
                widened.narrow(place)?;
                run.add_copied_bytes(self.ports[number].bytes as usize);
            }
        }
        for (number, place) in outputs.iter().enumerate() {
            if let Some(spare) = &seat.spare[self.inputs + number]
                && lies_on(place, inputs)
            {
                place.copy_in(spare)?;
                run.add_copied_bytes(spare.len());
            }
        }
        Ok(Span::Call)
    }
}

impl Executable for CoremlExecutable {
    type Buffer = HostBuffer;
    type Fence = CoremlRun;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo {
            constant_bytes: self.constant_bytes,
            // Core ML does not say what it keeps between operations
            arena_bytes: 0,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, CoremlRun>) -> Result<Arc<CoremlRun>> {
        Run::start(self, &self.queue, submit)
    }
}
