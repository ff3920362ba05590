//! Loaded parts, and one run of one.
//!
//! Invariants:
//! 1. A run has a workplace, an arena and a thread pool for itself while it computes. There are no more of them than runs
//!    that ever computed at once, however many are in flight; arenas and pools are the device's.
//! 2. A run of known shapes neither allocates nor decides.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`), what the steps are (`lower`).
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use polychip_cpu_kernels::ThreadPool;
use polychip_ops::{DType, PACKED_BYTES, UNBOUNDED_BYTES};
use polychip_sdk::{
    Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Layout, Pace, Port, PortBuffer,
    Result, Run, RunContext, RunQueue, Span, Submit,
};

use crate::arenas::{Arenas, Need};
use crate::part::Part;
use crate::pools::Pools;
use crate::step::{Clock, Context, Memory, Program, Slots, bytes_of, tensor_from_bytes};
use crate::weights::{HeldContents, Packed, Weights};

/// What a run works with, beside the arena.
struct Workplace {
    /// Its arena is that of the run.
    memory: Memory,
    slots: Slots,
}

/// What the parts of a device have in common.
pub(crate) struct Common {
    /// Runs.
    pub(crate) queue: Arc<RunQueue<CpuRun>>,
    /// Threads of runs.
    pub(crate) pools: Pools,
    /// Memory of runs.
    pub(crate) arenas: Arc<Arenas>,
    /// Packed weights.
    pub(crate) weights: Weights,
}

/// A run of the CPU, and the fence that tells its end.
pub type CpuRun = Run<CpuExecutable>;

/// A loaded part.
pub struct CpuExecutable {
    common: Arc<Common>,
    program: Arc<Program>,
    /// Held for its memory, which the workplaces point to.
    packed: Arc<Packed>,
    /// Hashes of its constants, for other parts with the same.
    _contents: HeldContents,
    ports: Vec<Port>,
    inputs: usize,
    /// Threads of a run.
    threads: usize,
    arena: Need,
    /// Those in which no run computes.
    workplaces: Mutex<Vec<Workplace>>,
    info: ExecutableInfo,
    pace: Pace,
}

/// The ports of a part, with the layouts that are granted.
pub(crate) fn ports(part: &Part, layouts: &[Layout]) -> Result<Vec<Port>> {
    let mut ports = Vec::new();
    let all = part
        .inputs
        .iter()
        .map(|t| (t, false))
        .chain(part.outputs.iter().map(|t| (t, true)));
    for (index, (&tensor, output)) in all.enumerate() {
        let t = &part.tensors[tensor];
        let strings = t.dtype == DType::String;
        let dtype = if strings { DType::U8 } else { t.dtype };
        // of strings, and of what has no bound, all that is known is the room there is
        let room = if strings { PACKED_BYTES } else { UNBOUNDED_BYTES };
        let dims = match t.dims.as_ref().or(t.bounds.as_ref()) {
            Some(dims) if !strings => dims.clone(),
            _ => vec![8 * room / dtype.bits().unwrap_or(8).max(1)],
        };
        let mut port = Port::dense(output, dtype, &dims).map_err(|error| error.at_tensor(tensor as u32))?;
        port.memory_kinds = crate::buffer::KINDS;
        port.upper_bound = strings || t.dims.is_none();
        port.layout = layouts[index];
        port.encoding.clone_from(&t.encoding);
        let state = part
            .states
            .iter()
            .find(|state| tensor == if output { state.1 } else { state.0 });
        if let Some(&(input, result)) = state {
            let other = if output {
                part.inputs.iter().position(|&t| t == input)
            } else {
                part.outputs
                    .iter()
                    .position(|&t| t == result)
                    .map(|i| part.inputs.len() + i)
            };
            port.state_port = other.map(|port| port as u32);
        }
        ports.push(port);
    }
    Ok(ports)
}

/// The layouts that are granted of those that are asked for.
pub(crate) fn grant(part: &Part, requests: &[polychip_sdk::PortRequest]) -> Vec<Layout> {
    part.inputs
        .iter()
        .chain(&part.outputs)
        .enumerate()
        .map(|(index, &tensor)| {
            let t = &part.tensors[tensor];
            let images = t.dims.as_ref().is_some_and(|dims| dims.len() >= 3)
                && t.dtype == DType::F32
                && t.encoding.is_none()
                && t.constant.is_none()
                && !part
                    .states
                    .iter()
                    .any(|&(input, output)| tensor == input || tensor == output);
            let asked = requests
                .iter()
                .any(|request| request.port as usize == index && request.layout == Layout::ChannelsLast);
            if images && asked {
                Layout::ChannelsLast
            } else {
                Layout::RowMajor
            }
        })
        .collect()
}

impl CpuExecutable {
    pub(crate) fn new(
        common: Arc<Common>,
        program: Arc<Program>,
        (packed, contents): (Arc<Packed>, HeldContents),
        ports: Vec<Port>,
        inputs: usize,
        threads: usize,
    ) -> Result<Self> {
        let info = ExecutableInfo {
            constant_bytes: packed.own_bytes()
                + program.copies.iter().map(|copy| copy.len() as u64).sum::<u64>(),
            arena_bytes: program.arena_bytes as u64,
        };
        let arena = common.arenas.need(program.arena_bytes.div_ceil(4))?;
        let executable = Self {
            workplaces: Mutex::default(),
            common,
            program,
            packed,
            _contents: contents,
            ports,
            inputs,
            threads,
            arena,
            info,
            pace: Pace::default(),
        };
        executable.leave(executable.workplace());
        Ok(executable)
    }

    /// A workplace for a run: one in which none computes, or a new one.
    fn workplace(&self) -> Workplace {
        let mut workplaces = self.workplaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workplace) = workplaces.pop() {
            return workplace;
        }
        drop(workplaces);
        Workplace {
            memory: Memory {
                arena: std::ptr::null_mut(),
                packed: self.packed.table().as_ptr(),
                ports: vec![(std::ptr::null_mut(), 0); self.ports.len()],
            },
            slots: vec![None; self.program.slots],
        }
    }

    fn leave(&self, workplace: Workplace) {
        let mut workplaces = self.workplaces.lock().unwrap_or_else(PoisonError::into_inner);
        workplaces.push(workplace);
    }

    fn steps(
        &self,
        workplace: &mut Workplace,
        pool: &ThreadPool,
        bound: &[PortBuffer<HostBuffer>],
        run: &RunContext<'_>,
    ) -> Result<()> {
        let program = &*self.program;
        for (port, bound) in bound.iter().enumerate() {
            workplace.memory.ports[port] = (bound.address(), bound.bytes());
            if program.ports[port].boxed && port < self.inputs {
                let dims: Vec<usize> = match bound.dims() {
                    // without a bound, the host always says the extents: of a scalar there are none
                    [] if !program.ports[port].unbounded => self.ports[port].dims.clone(),
                    dims => dims
                        .iter()
                        .map(|&dim| usize::try_from(dim).unwrap_or(0))
                        .collect(),
                };
                let dtype = self.ports[port].dtype;
                let bytes = polychip_ops::axis::product(&dims)
                    .and_then(|elements| dtype.byte_len(elements))
                    .filter(|&bytes| bytes <= bound.bytes())
                    .ok_or_else(|| Error::bad_argument(format!("port {port} is bound to too few bytes")))?;
                // SAFETY: the host bound at least `bytes` bytes, which no run writes meanwhile.
                let source = unsafe { std::slice::from_raw_parts(bound.address(), bytes) };
                let crate::step::Home::Slot(slot) = self.home(port) else {
                    continue;
                };
                let wrong = |message: String| Error::bad_argument(format!("port {port}: {message}"));
                let tensor = match program.ports[port].packed {
                    None => tensor_from_bytes(dtype, &dims, source)?,
                    Some(DType::String) => polychip_reference::unpack_tensor(DType::String, source)
                        .map_err(|error| wrong(error.to_string()))?,
                    Some(_) => {
                        let len = polychip_ops::Packed::byte_len(source)
                            .ok_or_else(|| wrong("the bytes are no packed sequence or optional".into()))?;
                        tensor_from_bytes(DType::U8, &[len], &source[..len])?
                    }
                };
                workplace.slots[slot] = Some(tensor);
            }
        }
        let is_cancelled = || run.is_cancelled();
        let _region = pool.region();
        let clock = run.measures_steps().then(|| Clock::start(program.steps.len()));
        let context = Context {
            node: &Some,
            clock: clock.as_ref(),
            once: true,
        };
        // SAFETY: the run's arena has `arena_bytes` bytes, the table of packed weights was made of the
        // program's sections, the SDK
        // checked that each binding is as large as its port; workplace and arena are this run's alone.
        unsafe {
            program.run_steps(
                &workplace.memory,
                &mut workplace.slots,
                pool,
                &is_cancelled,
                &context,
            )?;
        }
        if let Some(clock) = clock {
            run.set_steps(clock.into_inner().steps());
        }
        for (port, bound) in bound.iter().enumerate().skip(self.inputs) {
            if !program.ports[port].boxed {
                continue;
            }
            let crate::step::Home::Slot(slot) = self.home(port) else {
                continue;
            };
            let tensor = workplace.slots[slot].take().ok_or_else(|| {
                Error::new(
                    ErrorKind::Persistent,
                    format!("output port {port} was not computed"),
                )
            })?;
            let strings = program.ports[port].packed == Some(DType::String);
            let wanted = if strings {
                DType::String
            } else {
                self.ports[port].dtype
            };
            if polychip_reference::dtype(tensor.element()) != wanted {
                // only a sequence's elements are not known to be what the part says
                return Err(Error::bad_argument(format!(
                    "output port {port} holds {wanted}, the result is {}",
                    polychip_reference::dtype(tensor.element())
                )));
            }
            let bytes = if strings {
                polychip_reference::pack_tensor(&tensor)
                    .map_err(|error| Error::bad_argument(format!("output port {port}: {error}")))?
                    .into()
            } else {
                bytes_of(&tensor)
            };
            let dims: Vec<i64> = if strings {
                vec![bytes.len() as i64]
            } else {
                tensor.shape().iter().map(|&dim| dim as i64).collect()
            };
            // also where they do not fit: the host may try again with the room that they take
            run.set_output_shape(port as u32, &dims);
            if bytes.len() > bound.bytes() {
                return Err(Error::new(
                    ErrorKind::BadArgument,
                    format!(
                        "output port {port} holds {} bytes, the result has {}",
                        bound.bytes(),
                        bytes.len()
                    ),
                ));
            }
            // SAFETY: the binding is that long, and is the run's to write.
            let target = unsafe { std::slice::from_raw_parts_mut(bound.address(), bytes.len()) };
            target.copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn home(&self, port: usize) -> crate::step::Home {
        let value = self.program.ports[port].value;
        let allocation = self.program.values[value.0 as usize].allocation;
        self.program.allocations[allocation.0 as usize].home.clone()
    }
}

impl Compute for CpuExecutable {
    type Buffer = HostBuffer;

    fn admit(&self, port: u32, bound: &PortBuffer<HostBuffer>) -> Result<()> {
        bound.check_aligned(port, self.ports[port as usize].dtype)
    }

    fn slots(&self) -> usize {
        self.threads
    }

    fn pace(&self) -> Option<&Pace> {
        (!self.program.boundless).then_some(&self.pace)
    }

    fn compute(&self, bound: &[PortBuffer<HostBuffer>], run: &RunContext<'_>) -> Result<Span> {
        let mut arena = self.arena.lend()?;
        let mut workplace = self.workplace();
        workplace.memory.arena = arena.start();
        let pool = self.common.pools.take(self.threads);
        let result = self.steps(&mut workplace, &pool, bound, run);
        workplace.memory.arena = std::ptr::null_mut();
        self.leave(workplace);
        result.map(|()| Span::Call)
    }
}

impl Executable for CpuExecutable {
    type Buffer = HostBuffer;
    type Fence = CpuRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, CpuRun>) -> Result<Arc<CpuRun>> {
        Run::start(self, &self.common.queue, submit)
    }
}
