//! Loaded parts as the contract has them.
//!
//! Invariant: runs of one part follow one another on the GPU, for they share its arena.
//!
//! Not here: what a part is on the GPU (`loaded_part`), runs and their fences (`run`), the thread that polls runs
//! without a waiting caller (`runner`).

mod bind;
mod loaded_part;
mod port_binding;
mod run;
pub(crate) mod runner;
mod watch;

use std::sync::{Arc, Weak};

use polychip_gpu_lowering::blob::Loaded;
use polychip_sdk::{Executable, ExecutableInfo, Port, Result, Submit};

use self::loaded_part::LoadedPart;
pub use self::run::GpuRun;
pub(crate) use self::run::Runs;
use crate::buffer::GpuBuffer;
use crate::shared::{NamesBuffers, Shared};

/// A loaded part.
pub struct GpuExecutable {
    part: Arc<LoadedPart>,
    runs: Arc<Runs>,
}

impl GpuExecutable {
    pub(crate) fn new(shared: &Arc<Shared>, runs: &Arc<Runs>, loaded: Loaded<'_>) -> Result<GpuExecutable> {
        Ok(GpuExecutable {
            part: Arc::new(LoadedPart::new(shared, &runs.watch, loaded)?),
            runs: Arc::clone(runs),
        })
    }

    /// What of it names buffers, as long as it or a run of it is there.
    pub(crate) fn names(&self) -> Weak<dyn NamesBuffers> {
        let part: Arc<dyn NamesBuffers> = Arc::clone(&self.part) as _;
        Arc::downgrade(&part)
    }
}

impl Executable for GpuExecutable {
    type Buffer = GpuBuffer;
    type Fence = GpuRun;

    fn info(&self) -> ExecutableInfo {
        self.part.info
    }

    fn ports(&self) -> &[Port] {
        &self.part.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, GpuBuffer, GpuRun>) -> Result<Arc<GpuRun>> {
        self.part.shared.check_open(&self.part.gpu)?;
        let run = self.runs.take();
        run.start(&self.part, submit)?;
        Ok(run)
    }
}
