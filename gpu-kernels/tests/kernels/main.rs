//! Kernels on the driver that is there, each against the scalar truth that its generator states; every text
//! is validated without a driver too.

mod attention;
mod convolution;
mod device;
mod elementwise;
mod gemm;
mod gemv;
mod judge;
mod movement;
mod reduce;
mod sample_shapes;

use libtest_mimic::{Arguments, Trial};
use polychip_test_requirements::Need;

/// Without which nothing is judged here.
const NEED: Need = Need::Vulkan;

/// Only every so many trial runs, for drivers that compile slowly.
const EVERY: &str = "POLYCHIP_KERNELS_EVERY";

fn every() -> usize {
    match std::env::var(EVERY) {
        Ok(number) => number
            .parse()
            .ok()
            .filter(|&every| every > 0)
            .unwrap_or_else(|| panic!("{EVERY} is {number:?}, not a number from 1")),
        Err(_) => 1,
    }
}

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
    trials.extend(gemv::trials(&gpu));
    trials.extend(reduce::trials(&gpu));
    trials.extend(sample_shapes::trials(&gpu));
    let every = every();
    let mut index = 0;
    trials.retain(|_| {
        index += 1;
        (index - 1) % every == 0
    });
    libtest_mimic::run(&arguments, trials).exit();
}
