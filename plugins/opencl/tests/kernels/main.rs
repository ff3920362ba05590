//! The generators' kernels through OpenCL, each against the scalar truth that its generator states: the trials are
//! those of `gpu-kernels`, on another driver. One of some is run; with `POLYCHIP_KERNELS=all` all of them are.

#[path = "../../../../gpu-kernels/tests/kernels/attention.rs"]
mod attention;
#[path = "../../../../gpu-kernels/tests/kernels/convolution.rs"]
mod convolution;
mod device;
#[path = "../../../../gpu-kernels/tests/kernels/elementwise.rs"]
mod elementwise;
#[path = "../../../../gpu-kernels/tests/kernels/gemm.rs"]
mod gemm;
#[path = "../../../../gpu-kernels/tests/kernels/judge.rs"]
mod judge;
#[path = "../../../../gpu-kernels/tests/kernels/movement.rs"]
mod movement;
#[path = "../../../../gpu-kernels/tests/kernels/reduce.rs"]
mod reduce;

use libtest_mimic::{Arguments, Trial};
use polychip_test_requirements::Need;

/// Without which nothing is judged here.
const NEED: Need = Need::Opencl;

/// Of so many trials one is run where all are not wished: a number that no count of shapes or types divides.
const STEP: usize = 7;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::Gpu::open();
    if let Ok(gpu) = &gpu {
        eprintln!("on {}", gpu.name);
    }
    let mut trials: Vec<Trial> = Vec::new();
    let all = std::env::var_os("POLYCHIP_KERNELS").is_some_and(|which| which == "all");
    trials.extend(attention::trials(&gpu));
    trials.extend(convolution::trials(&gpu));
    trials.extend(elementwise::trials(&gpu));
    trials.extend(movement::trials(&gpu));
    trials.extend(gemm::trials(&gpu));
    trials.extend(reduce::trials(&gpu));
    if !all && arguments.filter.is_none() {
        // a driver in software compiles for as long as the GPU's computes
        let count = trials.len();
        let mut index = 0;
        trials.retain(|_| {
            index += 1;
            index % STEP == 0
        });
        eprintln!(
            "{} of {count} trials; POLYCHIP_KERNELS=all runs all",
            trials.len()
        );
    }
    libtest_mimic::run(&arguments, trials).exit();
}
