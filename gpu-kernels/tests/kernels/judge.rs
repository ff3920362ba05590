//! One kernel judged: the text by naga, the values by the sample of its generator.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use polychip_gpu_kernels::{Generate, Kernel, Limits, Sample};
use polychip_test_requirements::{Need, skipped};

use crate::device::Gpu;

/// A trial of one generator; skipped with the reason where there is no driver or the device cannot hold it.
pub(crate) fn trial(
    gpu: &Result<Arc<Gpu>, String>,
    name: impl Into<String>,
    generator: impl Generate + Send + 'static,
) -> Trial {
    let gpu = gpu.clone();
    let name = name.into();
    let gpu = match gpu {
        Ok(gpu) => gpu,
        Err(why) => return skipped(&name, crate::NEED, &why),
    };
    if let Err(error) = generator.kernel(&gpu.limits)
        && error.to_string().contains("the device has no ")
    {
        return skipped(&name, Need::GpuFeature, &error.to_string());
    }
    Trial::test(name, move || {
        let kernel = generator
            .kernel(&gpu.limits)
            .map_err(|error| Failed::from(error.to_string()))?;
        judge(&gpu, &kernel, &generator.sample()).map_err(Failed::from)
    })
}

/// Validates the text as any driver would see it.
pub(crate) fn validate(kernel: &Kernel) -> Result<(), String> {
    let module = naga::front::wgsl::Frontend::new_with_options(naga::front::wgsl::Options {
        capabilities: naga::valid::Capabilities::all(),
        ..naga::front::wgsl::Options::new()
    })
    .parse(&kernel.wgsl)
    .map_err(|error| format!("{}\n{}", error.emit_to_string(&kernel.wgsl), kernel.wgsl))?;
    naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::all(),
    )
    .validate(&module)
    .map_err(|error| format!("{}\n{}", error.emit_to_string(&kernel.wgsl), kernel.wgsl))?;
    Ok(())
}

/// Runs a kernel on its sample and compares every binding.
pub(crate) fn judge(gpu: &Gpu, kernel: &Kernel, sample: &Sample) -> Result<(), String> {
    validate(kernel)?;
    kernel
        .check(&Limits { ..gpu.limits })
        .map_err(|error| error.to_string())?;
    if sample.before.len() != kernel.bindings.len() {
        return Err(format!(
            "the sample has {} bindings, the kernel {}",
            sample.before.len(),
            kernel.bindings.len()
        ));
    }
    let before: Vec<Vec<u8>> = sample.before.iter().map(|values| values.bytes()).collect();
    let after = gpu.run(kernel, &before)?;
    for (index, bytes) in after.iter().enumerate() {
        sample
            .judge(index, bytes)
            .map_err(|why| format!("{}: binding {index}: {why}\n{}", kernel.variant, kernel.wgsl))?;
    }
    Ok(())
}
