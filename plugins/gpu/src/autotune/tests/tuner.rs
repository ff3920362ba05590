//! The tuner on the available driver: it times kernels once, and then uses the stored choice.

use std::time::Duration;

use polychip_gpu_kernels::{Epilogue, Gemm, GemmTile, Generate, Kernel, Limits, Right, Scalar};
use polychip_gpu_lowering::{Keep, Tuner};
use polychip_test_requirements::{Need, absent};

use super::MemoryStore;
use crate::driver::adapter;
use crate::driver::gpu::{Commands, Gpu};

fn kernels() -> Vec<Kernel> {
    [1, 2, 4]
        .map(|slices| {
            let gemm = Gemm {
                batch: Vec::new(),
                m: 96,
                n: 96,
                k: 96,
                transposed_a: false,
                b: Right::Packed,
                scalar: Scalar::F32,
                epilogue: Epilogue::sum(Scalar::F32),
                tile: GemmTile::Sliced {
                    across: 8,
                    down: 4,
                    rows: 2,
                    slices,
                },
            };
            gemm.kernel(&Limits::LEAST).unwrap()
        })
        .to_vec()
}

#[test]
fn kernels_are_timed_once_and_the_stored_choice_is_used() {
    let found = adapter::find(None).unwrap_or_default().into_iter().next();
    let Some(found) = found else {
        return absent(Need::Vulkan, "no GPU");
    };
    let gpu = Gpu::open(&found, None, Commands::Recorded).unwrap();
    let store = MemoryStore::default();
    let tuner = Tuner::new(store.clone(), "build", "device", gpu.clone());
    let all = kernels();
    let best = tuner.fastest(&all);
    let (key, value) = store.0.lock().unwrap().pop_first().unwrap();
    assert_eq!(value, all[best].variant.as_bytes());
    // another process uses the stored choice, whatever it is, and times nothing
    store.write(&key, all[2].variant.as_bytes());
    let other = Tuner::new(store.clone(), "build", "device", gpu.clone());
    assert_eq!(other.fastest(&all), 2);
    // what names none of them is timed again
    store.write(&key, b"no such kernel");
    let again = other.fastest(&all);
    assert_eq!(store.read(&key).unwrap(), all[again].variant.as_bytes());
    // one kernel is no choice
    assert_eq!(other.fastest(&all[..1]), 0);
    gpu.retire(Duration::from_secs(5));
}
