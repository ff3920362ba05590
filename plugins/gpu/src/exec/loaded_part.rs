//! A loaded part: constants and arena on the GPU, pipelines, and what of each launch is made once.
//!
//! Invariant: whatever depends on the part only is made at load; what depends on the bound memory is made at the first
//! run over it and kept.
//!
//! Not here: runs (`run`).

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polychip_gpu_kernels::Access;
use polychip_gpu_lowering::blob::Loaded;
use polychip_gpu_lowering::program::{Home, PortUse, Program};
use polychip_sdk::{ExecutableInfo, Port, Result};

use super::bind::Sets;
use super::port_binding::{self, PortBinding};
use super::watch::Watch;
use crate::buffer::{self, GpuBuffer};
use crate::driver::command_queue::Submission;
use crate::driver::gpu::Gpu;
use crate::driver::launch::{BufferBinding, Launch};
use crate::driver::launches::Launches;
use crate::driver::memory::MemoryBlock;
use crate::driver::pipeline::Pipeline;
use crate::shared::{NamesBuffers, Shared, lock};

/// A part as one command queue runs it.
pub(super) struct Prepared {
    /// By kernel.
    pub(super) pipelines: Vec<Arc<Pipeline>>,
    /// Launches by the memory bound to ports.
    pub(super) sets: Mutex<Sets>,
}

/// The last submission of a part.
pub(super) struct Last {
    pub(super) queue_index: usize,
    pub(super) submission: Submission,
}

/// A loaded part.
pub(crate) struct LoadedPart {
    pub(super) shared: Arc<Shared>,
    /// Of its device.
    pub(super) watch: Arc<Watch>,
    pub(super) gpu: Arc<Gpu>,
    pub(super) program: Program,
    pub(super) ports: Vec<Port>,
    pub(super) uses: Vec<PortUse>,
    pub(super) info: ExecutableInfo,
    pub(super) arena: Arc<MemoryBlock>,
    pub(super) constants: Arc<MemoryBlock>,
    pub(super) per_queue: Vec<Prepared>,
    pub(super) last: Mutex<Option<Last>>,
    /// How long the last run took, in nanoseconds; 0 before the first.
    pub(super) expected_ns: AtomicU64,
    /// Buffers for ports whose memory cannot be bound, with the port's number.
    pub(super) spare: Mutex<Vec<(u32, Arc<GpuBuffer>)>>,
    /// What each run brings over the link to memory of the GPU's own, and back.
    pub(super) carried_bytes: u64,
}

impl LoadedPart {
    pub(super) fn new(shared: &Arc<Shared>, watch: &Arc<Watch>, loaded: Loaded<'_>) -> Result<LoadedPart> {
        let gpu = shared.gpu();
        gpu.alive()?;
        let Loaded {
            program,
            constants,
            compiled: _,
            ports,
        } = loaded;
        program.check(&shared.target.limits)?;
        let arena = MemoryBlock::local(&gpu, program.arena_bytes)?;
        let constants = shared.constants.get(&gpu, &constants)?;
        let uses = program.port_uses(&ports);
        let carried_bytes = if shared.target.discrete {
            ports.iter().map(|port| port.bytes).sum()
        } else {
            0
        };
        let mut made = LoadedPart {
            carried_bytes,
            info: ExecutableInfo {
                constant_bytes: constants.bytes,
                arena_bytes: arena.bytes,
            },
            shared: Arc::clone(shared),
            watch: Arc::clone(watch),
            program,
            ports,
            uses,
            arena: Arc::new(arena),
            constants,
            per_queue: Vec::new(),
            last: Mutex::new(None),
            expected_ns: AtomicU64::new(0),
            spare: Mutex::default(),
            gpu,
        };
        let mut new = 0;
        for queue_index in 0..made.gpu.command_queues.len() {
            let (pipelines, made_here) =
                made.gpu
                    .pipelines
                    .get(&made.gpu.command_queues, queue_index, &made.program.kernels)?;
            made.per_queue.push(Prepared {
                pipelines,
                sets: Mutex::default(),
            });
            new += made_here;
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
    pub(super) fn take(&self, queue_index: usize, bound: &[PortBinding]) -> Result<Launches> {
        if let Some(ready) = lock(&self.per_queue[queue_index].sets).take(bound) {
            return Ok(ready);
        }
        let pipelines = &self.per_queue[queue_index].pipelines;
        let launches: Vec<Launch<'_>> = self
            .program
            .steps
            .iter()
            .map(|step| {
                let kernel = &self.program.kernels[step.kernel as usize];
                let operands = kernel.bindings.iter().zip(&step.operands);
                Launch {
                    pipeline: &pipelines[step.kernel as usize],
                    bindings: operands
                        .map(|(binding, &operand)| {
                            let (block, offset) = match self.program.values[operand as usize].home {
                                Home::Arena(at) => (&self.arena, at),
                                Home::Constants(at) => (&self.constants, at),
                                Home::Port(port, at) => {
                                    let bound = &bound[port as usize];
                                    (bound.block(), bound.offset() + at)
                                }
                            };
                            BufferBinding {
                                block,
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
        Launches::new(&self.gpu, queue_index, &launches, true)
    }

    /// Memory of a port as kernels can see it.
    pub(super) fn bound(
        &self,
        buffer: &Arc<GpuBuffer>,
        port: u32,
        offset: usize,
        bytes: usize,
    ) -> Result<PortBinding> {
        let uses = self.uses[port as usize];
        let block = buffer.piece(&self.gpu)?;
        let end = (offset as u64).saturating_add(uses.bytes);
        let limit = if uses.output {
            buffer.writable()
        } else {
            block.bytes
        };
        let direct =
            (offset as u64).is_multiple_of(self.gpu.offset_alignment) && end <= limit.min(block.bytes);
        // a port that no kernel touches needs nothing
        if direct || uses.bytes == 0 {
            return Ok(PortBinding {
                buffer: Arc::clone(buffer),
                block,
                offset: offset as u64,
                staged: None,
            });
        }
        let own = self.spare(port)?;
        Ok(PortBinding {
            block: own.piece(&self.gpu)?,
            buffer: own,
            offset: 0,
            staged: Some(port_binding::Staged {
                port,
                buffer: Arc::clone(buffer),
                offset,
                bytes: bytes.min(self.ports[port as usize].bytes as usize),
                output: uses.output,
            }),
        })
    }

    /// Whether no run of the part is under way on another command queue.
    pub(super) fn is_free(&self, queue_index: usize) -> bool {
        match lock(&self.last)
            .as_ref()
            .filter(|last| last.queue_index != queue_index)
        {
            None => true,
            Some(last) => matches!(
                self.gpu.command_queues[last.queue_index].wait(&last.submission, Duration::ZERO),
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

impl NamesBuffers for LoadedPart {
    fn forget(&self, buffer: u64) {
        for prepared in &self.per_queue {
            lock(&prepared.sets).forget(buffer);
        }
    }
}
