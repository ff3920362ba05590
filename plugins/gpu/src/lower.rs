//! Compiling: the launches of a part. Their kernels become the driver's when the part is loaded.

use polychip_gpu_lowering::blob;
use polychip_sdk::{AlignedBytes, CompileOptions, GraphView, Result};

use crate::shared::Shared;

/// Makes the blob of a part.
pub(crate) fn compile(
    build_id: &str,
    shared: &Shared,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    let lowered = polychip_gpu_lowering::lower(graph, options, &shared.target)?;
    blob::write(build_id, &shared.identity, graph, &lowered, &[])
}
