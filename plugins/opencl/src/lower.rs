//! Compiling: the launches of a part, and the driver's binaries of their kernels.

use polychip_gpu_lowering::blob;
use polychip_sdk::{AlignedBytes, CompileOptions, Error, ErrorKind, GraphView, Result};

use crate::driver::program::Program;
use crate::shared::Shared;

/// Makes the blob of a part.
pub(crate) fn compile(
    build_id: &str,
    identity: &str,
    shared: &Shared,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    let lowered = polychip_gpu_lowering::lower(graph, options, &shared.target)?;
    let gpu = shared.gpu();
    gpu.alive()?;
    let binaries = lowered
        .program
        .kernels
        .iter()
        .map(|kernel| Ok(Program::get(&gpu, kernel, None)?.binary()))
        .collect::<Result<Vec<_>>>()?;
    let binaries = postcard::to_stdvec(&binaries)
        .map_err(|_| Error::new(ErrorKind::OutOfMemory, "no memory for the blob"))?;
    blob::write(build_id, identity, graph, &lowered, &binaries)
}
