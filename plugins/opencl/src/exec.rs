//! Loaded parts: constants and arena on the device, kernels with their arguments, and one run.
//!
//! Invariants:
//! 1. Whatever depends on the part only is made at load; a run sets the arguments that name ports, and enqueues.
//! 2. Runs of one part follow one another, for they share its arena; so do runs of one queue.
//! 3. A port is bound in place where its memory is aligned and large enough for the kernels; else it is copied.
//!
//! Not here: runs, their queues and their fences (`polychip_sdk::Run`), what is compiled (`polychip_gpu_lowering`).

use std::sync::{Arc, Mutex, PoisonError};

use opencl3::event::Event;
use opencl3::kernel::Kernel as Entry;
use opencl3::types::cl_mem;
use polychip_gpu_lowering::blob::Loaded;
use polychip_gpu_lowering::program::{Home, PortUse, Program};
use polychip_sdk::{
    Compute, Error, Executable, ExecutableInfo, Pace, Port, PortBuffer, Priority, Result, Run, RunContext,
    RunQueue, Span, Submit,
};

use crate::buffer::OpenclBuffer;
use crate::driver::gpu::{Gpu, QUEUES};
use crate::driver::memory::MemoryBlock;
use crate::driver::program::Program as Compiled;
use crate::driver::said;
use crate::shared::Shared;

/// Alignment of a binding's start: the largest vector of the kernels, four integers of 64 bits.
const ALIGN: u64 = 32;

/// A launch with its arguments.
struct Launch {
    entry: Entry,
    global: [usize; 3],
    local: [usize; 3],
    /// Bindings that are ports: binding, port, byte of the port.
    ports: Vec<(u32, u32, u64)>,
}

/// The kernels, memory and scratch bytes of one run at a time.
struct Workspace {
    /// By queue, then by step: each kernel has its own arguments.
    launches: Vec<Vec<Launch>>,
    /// Memory for ports that cannot be bound in place, by port.
    spare: Vec<Option<MemoryBlock>>,
    /// Bytes on the way to or from such memory.
    bytes: Vec<u8>,
}

/// A run, and the fence that tells its end.
pub type OpenclRun = Run<OpenclExecutable>;

/// The run queue of each command queue.
pub(crate) type RunQueues = Arc<[Arc<RunQueue<OpenclRun>>]>;

/// A loaded part.
pub struct OpenclExecutable {
    gpu: Arc<Gpu>,
    shared: Arc<Shared>,
    queues: RunQueues,
    ports: Vec<Port>,
    uses: Vec<PortUse>,
    info: ExecutableInfo,
    workspace: Mutex<Workspace>,
    /// Held as long as the kernels that name them.
    _memory: [MemoryBlock; 2],
    pace: Pace,
}

impl OpenclExecutable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queues: &RunQueues,
        loaded: Loaded<'_>,
    ) -> Result<OpenclExecutable> {
        let gpu = shared.gpu();
        gpu.alive()?;
        let Loaded {
            program,
            constants: sources,
            compiled,
            ports,
        } = loaded;
        program.check(&shared.target.limits)?;
        let binaries: Vec<Vec<u8>> = postcard::from_bytes(compiled)
            .map_err(|error| Error::bad_blob(format!("the blob's binaries are torn: {error}")))?;
        let arena = MemoryBlock::local(&gpu, program.arena_bytes)?;
        let constants = MemoryBlock::local(&gpu, sources.bytes())?;
        sources.blocks(|at, bytes| constants.write(&gpu, at, bytes))?;
        let uses = program.port_uses(&ports);
        let compiled = program
            .kernels
            .iter()
            .enumerate()
            .map(|(at, kernel)| Compiled::get(&gpu, kernel, binaries.get(at).map(Vec::as_slice)))
            .collect::<Result<Vec<_>>>()?;
        let launches = (0..QUEUES)
            .map(|_| launches(&program, &compiled, &arena, &constants))
            .collect::<Result<Vec<_>>>()?;
        Ok(OpenclExecutable {
            info: ExecutableInfo {
                constant_bytes: constants.bytes,
                arena_bytes: arena.bytes,
            },
            workspace: Mutex::new(Workspace {
                launches,
                spare: ports.iter().map(|_| None).collect(),
                bytes: Vec::new(),
            }),
            shared: Arc::clone(shared),
            queues: Arc::clone(queues),
            ports,
            uses,
            _memory: [arena, constants],
            pace: Pace::default(),
            gpu,
        })
    }

    /// Runs over bound buffers on a queue, whose grant the caller holds; returns the device time in nanoseconds.
    fn run_on(&self, run: &RunContext<'_>, bound: &[PortBuffer<OpenclBuffer>]) -> Result<Option<u64>> {
        let queue_index = run.queue_index();
        self.gpu.alive()?;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let Workspace {
            launches,
            spare,
            bytes,
        } = &mut *workspace;
        let mut bindings: [(cl_mem, u64); MOST_PORTS] = [(std::ptr::null_mut(), 0); MOST_PORTS];
        let mut far = Vec::new();
        let bindings: &mut [(cl_mem, u64)] = if bound.len() <= MOST_PORTS {
            &mut bindings[..bound.len()]
        } else {
            far.resize(bound.len(), (std::ptr::null_mut(), 0));
            &mut far
        };
        // blocks are held by their buffers, which the run holds
        for (port, (of, binding)) in bound.iter().zip(bindings.iter_mut()).enumerate() {
            let uses = self.uses[port];
            let block = of.buffer().piece(&self.gpu)?;
            if self.is_direct(of, &block, uses) {
                *binding = (block.raw(), of.offset() as u64);
                if uses.output {
                    of.buffer().set_stale();
                }
                continue;
            }
            let own = match &mut spare[port] {
                Some(own) => own,
                none => none.insert(MemoryBlock::local(&self.gpu, uses.bytes)?),
            };
            if !uses.output {
                bytes.resize(self.carried(port, of), 0);
                of.buffer().copy_out(of.offset(), bytes)?;
                own.write(&self.gpu, 0, bytes)?;
                run.add_copied_bytes(bytes.len());
            }
            *binding = (own.raw(), 0);
        }
        let spent = self.launch(queue_index, &launches[queue_index], bindings)?;
        for (port, of) in bound.iter().enumerate() {
            let uses = self.uses[port];
            if uses.output
                && let Some(own) = &spare[port]
                && !self.is_direct(of, &*of.buffer().piece(&self.gpu)?, uses)
            {
                bytes.resize(self.carried(port, of), 0);
                own.read(&self.gpu, 0, bytes)?;
                of.buffer().copy_in(of.offset(), bytes)?;
                run.add_copied_bytes(bytes.len());
            }
        }
        Ok(spent)
    }

    /// Bytes of a port that are copied where it cannot be bound.
    fn carried(&self, port: usize, of: &PortBuffer<OpenclBuffer>) -> usize {
        of.bytes().min(self.ports[port].bytes as usize)
    }

    /// Whether kernels may be given a port's memory itself.
    fn is_direct(&self, of: &PortBuffer<OpenclBuffer>, block: &MemoryBlock, uses: PortUse) -> bool {
        let end = (of.offset() as u64).saturating_add(uses.bytes);
        let limit = if uses.output {
            of.buffer().writable().min(block.bytes)
        } else {
            block.bytes
        };
        // a port that no kernel touches needs nothing
        uses.bytes == 0 || ((of.offset() as u64).is_multiple_of(ALIGN) && end <= limit)
    }

    #[allow(unsafe_code, reason = "kernels are launched by calls of the driver")]
    fn launch(
        &self,
        queue_index: usize,
        launches: &[Launch],
        bindings: &[(cl_mem, u64)],
    ) -> Result<Option<u64>> {
        let queue = &self.gpu.queues[queue_index];
        let broken = |error| self.gpu.broken(error);
        let mut first: Option<Event> = None;
        let mut last: Option<Event> = None;
        for launch in launches {
            for &(binding, port, at) in &launch.ports {
                let (memory, start) = bindings[port as usize];
                let offset = start + at;
                // SAFETY: argument `2 i` of a kernel is a buffer, whose buffer lives until the run ends.
                unsafe { launch.entry.set_arg(2 * binding, &memory) }.map_err(broken)?;
                // SAFETY: argument `2 i + 1` is a number of 64 bits.
                unsafe { launch.entry.set_arg(2 * binding + 1, &offset) }.map_err(broken)?;
            }
            // SAFETY: all arguments are set, and the memory is as large as the kernel's bindings.
            let event = unsafe {
                queue.enqueue_nd_range_kernel(
                    launch.entry.get(),
                    3,
                    std::ptr::null(),
                    launch.global.as_ptr(),
                    launch.local.as_ptr(),
                    &[],
                )
            }
            .map_err(broken)?;
            match first {
                None => first = Some(event),
                Some(_) => last = Some(event),
            }
        }
        queue.finish().map_err(broken)?;
        let Some(first) = first else {
            return Ok(Some(0));
        };
        let last = last.as_ref().unwrap_or(&first);
        // a command that failed ends with its error
        let status = last.command_execution_status().map_err(broken)?.0;
        if status < 0 {
            return Err(broken(opencl3::error_codes::ClError(status)));
        }
        let times = (first.profiling_command_start(), last.profiling_command_end());
        Ok(match times {
            (Ok(start), Ok(end)) => end.checked_sub(start),
            _ => None,
        })
    }
}

/// Ports of a run whose bindings need no memory of their own.
const MOST_PORTS: usize = 32;

/// The launches of a part with all arguments but ports.
#[allow(unsafe_code, reason = "arguments are set by calls of the driver")]
fn launches(
    program: &Program,
    compiled: &[Compiled],
    arena: &MemoryBlock,
    constants: &MemoryBlock,
) -> Result<Vec<Launch>> {
    let refuse = |error| said("a kernel refuses its arguments", error);
    let mut all = Vec::with_capacity(program.steps.len());
    for step in &program.steps {
        let kernel = &program.kernels[step.kernel as usize];
        let entry = compiled[step.kernel as usize].entry()?;
        let mut ports = Vec::new();
        for (binding, &operand) in (0u32..).zip(&step.operands) {
            let (memory, offset) = match program.values[operand as usize].home {
                Home::Arena(at) => (arena.raw(), at),
                Home::Constants(at) => (constants.raw(), at),
                Home::Port(port, at) => {
                    ports.push((binding, port, at));
                    continue;
                }
            };
            // SAFETY: argument `2 i` of a kernel is a buffer, which the part holds.
            unsafe { entry.set_arg(2 * binding, &memory) }.map_err(refuse)?;
            // SAFETY: argument `2 i + 1` is a number of 64 bits.
            unsafe { entry.set_arg(2 * binding + 1, &offset) }.map_err(refuse)?;
        }
        let local = kernel.workgroup.map(|threads| threads as usize);
        all.push(Launch {
            entry,
            global: [0, 1, 2].map(|axis| local[axis] * kernel.groups[axis] as usize),
            local,
            ports,
        });
    }
    Ok(all)
}

impl Compute for OpenclExecutable {
    type Buffer = OpenclBuffer;

    /// A chip behind a driver may hang: no wait that may run out calls it in place.
    fn pace(&self) -> Option<&Pace> {
        self.gpu.cl_device.software.then_some(&self.pace)
    }

    fn compute(&self, bound: &[PortBuffer<OpenclBuffer>], run: &RunContext<'_>) -> Result<Span> {
        Ok(self.run_on(run, bound)?.map_or(Span::Call, Span::Device))
    }
}

impl Executable for OpenclExecutable {
    type Buffer = OpenclBuffer;
    type Fence = OpenclRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, OpenclBuffer, OpenclRun>) -> Result<Arc<OpenclRun>> {
        self.shared.check_open(&self.gpu)?;
        let queue_index = match submit.priority() {
            Priority::Urgent => QUEUES - 1,
            Priority::Batch | Priority::Normal => 0,
        };
        Run::start(self, &self.queues[queue_index], submit)
    }
}
