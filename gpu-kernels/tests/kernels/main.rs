//! Kernels on the driver that is there, each against the scalar truth that its generator states; every text
//! is validated without a driver too.

mod attention;
mod convolution;
mod device;
mod elementwise;
mod gemm;
mod judge;
mod movement;
mod reduce;
mod sample_shapes;

use libtest_mimic::{Arguments, Trial};
use polychip_test_requirements::Need;

/// Without which nothing is judged here.
const NEED: Need = Need::Vulkan;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::Gpu::open();
    if let Ok(gpu) = &gpu {
        let kind = if gpu.software { "software" } else { "hardware" };
        eprintln!("on {} ({kind})", gpu.name);
    }
    let mut trials: Vec<Trial> = [1, 16, 4096, 1 << 20, (1 << 20) + 3]
        .into_iter()
        .map(|bytes| {
            judge::trial(
                &gpu,
                format!("copy/{bytes}"),
                polychip_gpu_kernels::Copy { bytes },
            )
        })
        .collect();
    trials.extend(attention::trials(&gpu));
    trials.extend(convolution::trials(&gpu));
    trials.extend(elementwise::trials(&gpu));
    trials.extend(movement::trials(&gpu));
    trials.extend(gemm::trials(&gpu));
    trials.extend(reduce::trials(&gpu));
    trials.extend(sample_shapes::trials(&gpu));
    libtest_mimic::run(&arguments, trials).exit();
}
