//! Loaded parts: constants and arena on the GPU, pipelines, and what of each launch is made once.
//!
//! Invariants:
//! 1. Whatever depends on the part only is made at load; what depends on the bound memory is made at the first
//!    run over it and kept.
//! 2. Runs of one part follow one another on the GPU, for they share its arena.
//!
//! Not here: runs and their fences (`run`), the thread that serves runs nobody waits for (`runner`).

mod bind;
mod bound;
mod run;
pub(crate) mod runner;
mod watch;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polychip_gpu_kernels::Access;
use polychip_gpu_lowering::blob::Loaded;
use polychip_gpu_lowering::program::{Home, PortUse, Program};

use polychip_sdk::{Executable, ExecutableInfo, Port, Result, Submit};

use self::bind::Sets;
use self::bound::Bound;
pub use self::run::GpuRun;
pub(crate) use self::run::Runs;
use crate::buffer::{self, GpuBuffer};
use crate::driver::gpu::Gpu;
use crate::driver::lane::Ticket;
use crate::driver::launch::{Launch, Place};
use crate::driver::launches::Launches;
use crate::driver::memory::Piece;
use crate::driver::pipeline::Pipeline;
use crate::shared::{NamesBuffers, Shared, lock};

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
    runs: Arc<Runs>,
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
    /// What each run brings over the link to memory of the GPU's own, and back.
    carried_bytes: u64,
}

impl GpuExecutable {
    pub(crate) fn new(shared: &Arc<Shared>, runs: &Arc<Runs>, loaded: Loaded<'_>) -> Result<GpuExecutable> {
        let gpu = shared.gpu();
        gpu.alive()?;
        let Loaded {
            program,
            constants: bytes,
            compiled: _,
            ports,
        } = loaded;
        program.check(&shared.target.limits)?;
        let arena = Piece::local(&gpu, program.arena_bytes)?;
        let constants = shared.constants.get(&gpu, bytes)?;
        let uses = program.port_uses(&ports);
        let carried_bytes = match shared.target.discrete {
            true => ports.iter().map(|port| port.bytes).sum(),
            false => 0,
        };
        let mut made = GpuExecutable {
            carried_bytes,
            info: ExecutableInfo {
                constant_bytes: constants.bytes,
                arena_bytes: arena.bytes,
            },
            shared: Arc::clone(shared),
            runs: Arc::clone(runs),
            program,
            ports,
            uses,
            arena: Arc::new(arena),
            constants,
            lanes: Vec::new(),
            last: Mutex::new(None),
            expected_ns: AtomicU64::new(0),
            spare: Mutex::default(),
            gpu,
        };
        let mut new = 0;
        for lane in 0..made.gpu.lanes.len() {
            let (pipelines, of_lane) =
                made.gpu
                    .pipelines
                    .get(&made.gpu.lanes, lane, &made.program.kernels)?;
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

    /// The part's launches over this memory, for one run.
    ///
    /// # Errors
    /// Where the driver has no memory for them.
    fn take(&self, lane: usize, bound: &[Bound]) -> Result<Launches> {
        if let Some(ready) = lock(&self.lanes[lane].sets).take(bound) {
            return Ok(ready);
        }
        let pipelines = &self.lanes[lane].pipelines;
        let launches: Vec<Launch<'_>> = self
            .program
            .steps
            .iter()
            .map(|step| {
                let kernel = &self.program.kernels[step.kernel as usize];
                let places = kernel.bindings.iter().zip(&step.operands);
                Launch {
                    pipeline: &pipelines[step.kernel as usize],
                    places: places
                        .map(|(binding, &operand)| {
                            let (piece, offset) = match self.program.values[operand as usize].home {
                                Home::Arena(at) => (&self.arena, at),
                                Home::Constants(at) => (&self.constants, at),
                                Home::Port(port, at) => {
                                    let bound = &bound[port as usize];
                                    (bound.piece(), bound.offset() + at)
                                }
                            };
                            Place {
                                piece,
                                offset,
                                bytes: binding.bytes,
                                writes: binding.access == Access::Write,
                            }
                        })
                        .collect(),
                    groups: kernel.groups,
                }
            })
            .collect();
        Launches::new(&self.gpu, lane, &launches, true)
    }

    /// Memory of a port as kernels can see it.
    fn bound(&self, buffer: &Arc<GpuBuffer>, port: u32, offset: usize, bytes: usize) -> Result<Bound> {
        let uses = self.uses[port as usize];
        let piece = buffer.piece(&self.gpu)?;
        let end = (offset as u64).saturating_add(uses.bytes);
        let limit = if uses.output {
            buffer.writable()
        } else {
            piece.bytes
        };
        let direct =
            (offset as u64).is_multiple_of(self.gpu.offset_alignment) && end <= limit.min(piece.bytes);
        // a port that no kernel touches needs nothing
        if direct || uses.bytes == 0 {
            return Ok(Bound {
                buffer: Arc::clone(buffer),
                piece,
                offset: offset as u64,
                staged: None,
            });
        }
        let own = self.spare(port)?;
        Ok(Bound {
            piece: own.piece(&self.gpu)?,
            buffer: own,
            offset: 0,
            staged: Some(bound::Staged {
                port,
                buffer: Arc::clone(buffer),
                offset,
                bytes: bytes.min(self.ports[port as usize].bytes as usize),
                output: uses.output,
            }),
        })
    }

    /// Whether no run of the part is under way on another lane.
    fn is_free(&self, lane: usize) -> bool {
        match lock(&self.last).as_ref().filter(|last| last.lane != lane) {
            None => true,
            Some(last) => matches!(
                self.gpu.lanes[last.lane].wait(&last.submission, Duration::ZERO),
                Ok(true)
            ),
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
        buffer::create(&self.shared, &wanted)
    }
}

impl NamesBuffers for GpuExecutable {
    fn forget(&self, buffer: u64) {
        for lane in &self.lanes {
            lock(&lane.sets).forget(buffer);
        }
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
        self.shared.check_open(&self.gpu)?;
        let run = self.runs.take();
        run.start(self, submit)?;
        Ok(run)
    }
}
