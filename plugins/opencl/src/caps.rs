//! What a device supports and what that costs: as the lowering of all GPUs has it, within this one's limits.

use std::sync::Arc;

use polychip_gpu_lowering::{Guard, Target, Tuner};
use polychip_sdk::HostServices;

use crate::driver::discovery::ClDevice;
use crate::driver::gpu::Gpu;
use crate::telemetry;

/// What is judged and timed on the device itself, as the host's configuration has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Whether the first use of a kernel's variant is judged.
    pub(crate) guard: bool,
    /// Whether kernels that compute the same are timed when a part is compiled.
    pub(crate) tune: bool,
}

/// What parts are lowered for.
pub(crate) fn target(
    host: &HostServices,
    build_id: &str,
    cl_device: &ClDevice,
    gpu: &Arc<Gpu>,
    settings: Settings,
) -> Target {
    let (identity, limits) = (cl_device.identity(), cl_device.limits);
    let guard = || Guard::new(host.clone(), build_id, &identity, limits, Arc::<Gpu>::clone(gpu));
    let tuner = || Tuner::new(host.clone(), build_id, &identity, Arc::<Gpu>::clone(gpu));
    Target {
        limits,
        guard: settings.guard.then(|| Arc::new(guard())),
        tuner: settings.tune.then(|| Arc::new(tuner())),
        discrete: !cl_device.unified,
        rates: telemetry::rates(cl_device),
    }
}
