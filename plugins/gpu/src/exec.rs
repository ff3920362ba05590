//! Loaded parts: constants and arena on the GPU, pipelines, and what of each launch is made once.
//!
//! Invariants:
//! 1. Whatever depends on the part only is made at load; what depends on the bound memory is made at the first
//!    run over it and kept.
//! 2. Runs of one part follow one another on the GPU, for they share its arena.
//!
//! Not here: runs and their fences (`run`), the thread that serves runs nobody waits for (`runner`).

mod bind;
mod pool;
mod run;
mod runner;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_sdk::{Error, ErrorKind, Executable, ExecutableInfo, Port, Result, Submit};

use self::bind::Sets;
pub(crate) use self::pool::Pool;
pub use self::run::GpuRun;
pub(crate) use self::runner::{Runner, Watch};
use crate::buffer::GpuBuffer;
use crate::driver::gpu::Gpu;
use crate::driver::lane::Ticket;
use crate::driver::memory::Piece;
use crate::driver::pipeline::Pipeline;
use crate::plugin::Shared;
use polychip_gpu_lowering::blob::Loaded;
use polychip_gpu_lowering::program::{Home, Program};

/// What the runs of a part need of a port.
#[derive(Debug, Clone, Copy, Default)]
struct PortUse {
    /// Bytes that kernels touch from its start.
    bytes: u64,
    /// Whether they write.
    output: bool,
}

/// A part as one lane runs it.
struct Prepared {
    /// By kernel.
    pipelines: Vec<Arc<Pipeline>>,
    /// Launches by the memory bound to ports.
    sets: Mutex<Sets>,
}

/// The last submission of a part.
struct Last {
    lane: usize,
    submission: Ticket,
}

/// A loaded part.
pub struct GpuExecutable {
    shared: Arc<Shared>,
    gpu: Arc<Gpu>,
    program: Program,
    ports: Vec<Port>,
    uses: Vec<PortUse>,
    info: ExecutableInfo,
    arena: Arc<Piece>,
    constants: Arc<Piece>,
    lanes: Vec<Prepared>,
    last: Mutex<Option<Last>>,
    /// How long the last run took, in nanoseconds; 0 before the first.
    expected_ns: AtomicU64,
    /// Buffers for ports whose memory cannot be bound, with the port's number.
    spare: Mutex<Vec<(u32, Arc<GpuBuffer>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuExecutable {
    pub(crate) fn new(shared: &Arc<Shared>, loaded: Loaded<'_>) -> Result<GpuExecutable> {
        let gpu = shared.gpu();
        gpu.alive()?;
        let Loaded {
            program,
            constants: bytes,
            compiled: _,
            ports,
        } = loaded;
        for kernel in &program.kernels {
            kernel
                .check(&shared.target.limits)
                .map_err(|error| Error::bad_blob(error.to_string()))?;
        }
        let arena = Piece::local(&gpu, program.arena_bytes)?;
        let constants = Piece::local(&gpu, bytes.len() as u64)?;
        constants.write(&gpu, 0, bytes)?;
        let mut uses = vec![PortUse::default(); ports.len()];
        for (of, port) in uses.iter_mut().zip(&ports) {
            of.output = port.output;
        }
        for step in &program.steps {
            let kernel = &program.kernels[step.kernel as usize];
            for (binding, &operand) in kernel.bindings.iter().zip(&step.operands) {
                if let Home::Port(port, at) = program.values[operand as usize].home {
                    let of = &mut uses[port as usize];
                    of.bytes = of.bytes.max(at + binding.bytes);
                }
            }
        }
        let mut made = GpuExecutable {
            info: ExecutableInfo {
                constant_bytes: constants.bytes,
                arena_bytes: arena.bytes,
            },
            shared: Arc::clone(shared),
            program,
            ports,
            uses,
            arena: Arc::new(arena),
            constants: Arc::new(constants),
            lanes: Vec::new(),
            last: Mutex::new(None),
            expected_ns: AtomicU64::new(0),
            spare: Mutex::default(),
            gpu,
        };
        let mut new = 0;
        for lane in 0..made.gpu.lanes.len() {
            let (pipelines, of_lane) = made.gpu.pipelines.get(&made.gpu, lane, &made.program.kernels)?;
            made.lanes.push(Prepared {
                pipelines,
                sets: Mutex::default(),
            });
            new += of_lane;
        }
        if new > 0 {
            shared.keep_pipelines(&made.gpu);
        }
        Ok(made)
    }

    /// Lets go of a buffer that is destroyed.
    pub(crate) fn forget(&self, buffer: u64) {
        for lane in &self.lanes {
            lock(&lane.sets).forget(buffer);
        }
    }

    /// A buffer of the part's own for a port whose bound memory cannot be bound.
    fn spare(&self, port: u32) -> Result<Arc<GpuBuffer>> {
        let mut spare = lock(&self.spare);
        if let Some(at) = spare.iter().position(|(of, _)| *of == port) {
            return Ok(spare.swap_remove(at).1);
        }
        drop(spare);
        let bytes = self.uses[port as usize].bytes;
        let wanted = polychip_sdk::Memory::wanted(polychip_sdk::MemoryKind::Host, bytes, 64);
        GpuBuffer::create(&self.shared, &wanted).map(Arc::new)
    }
}

impl Executable for GpuExecutable {
    type Buffer = GpuBuffer;
    type Fence = GpuRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, GpuBuffer, GpuRun>) -> Result<Arc<GpuRun>> {
        self.gpu.alive()?;
        if self.shared.gpu().number != self.gpu.number {
            return Err(Error::new(
                ErrorKind::DeviceLost,
                "the device was reset after this part was loaded",
            ));
        }
        let run = self.shared.pool.take();
        run.start(self, submit)?;
        Ok(run)
    }
}
