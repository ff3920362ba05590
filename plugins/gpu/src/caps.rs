//! What a device supports and what that costs: as the lowering of all GPUs has it, within this one's limits.

use std::sync::Arc;

use polychip_gpu_lowering::{Guard, Target, Tuner};
use polychip_sdk::{HostServices, RatesWanted};

use crate::driver::adapter::GpuAdapter;
use crate::driver::gpu::Gpu;
use crate::probe;

/// What the configuration says of lowering.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Whether the first use of a kernel's variant is judged.
    pub(crate) guard: bool,
    /// Whether kernels that compute the same are timed when a part is compiled.
    pub(crate) tune: bool,
    /// Whether rates are measured.
    pub(crate) rates: RatesWanted,
    /// Bytes that a kernel may bind of one tensor at most; `None`: as many as the device can.
    pub(crate) binding_bytes: Option<u64>,
    /// Whether what stands in the host's memory is brought to the device's before it is used; `None`: as the device is.
    pub(crate) carry: Option<bool>,
}

/// What parts are lowered for, and when its rates were measured, where they were.
pub(crate) fn target(
    host: &HostServices,
    build_id: &str,
    found: &GpuAdapter,
    gpu: &Arc<Gpu>,
    settings: Settings,
) -> (Target, Option<u64>) {
    let identity = found.identity();
    let mut limits = found.limits();
    let most = settings.binding_bytes.unwrap_or(u64::MAX);
    limits.binding_bytes = limits.binding_bytes.min(most);
    let guard = Guard::new(host.clone(), build_id, &identity, limits, gpu.clone());
    let tuner = Tuner::new(host.clone(), build_id, &identity, gpu.clone());
    let (rates, rates_measured_s) = probe::rates(host, settings.rates, build_id, found, gpu, &limits);
    let target = Target {
        limits,
        guard: settings.guard.then(|| Arc::new(guard)),
        tuner: settings.tune.then(|| Arc::new(tuner)),
        discrete: settings.carry.unwrap_or_else(|| found.discrete()),
        rates,
    };
    (target, rates_measured_s)
}
