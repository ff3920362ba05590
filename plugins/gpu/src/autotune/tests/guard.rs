//! The guard on the available driver: correct, wrong and refused kernels, and the stored verdicts.

use std::sync::Arc;

use polychip_gpu_kernels::{
    Binary, Elementwise, Expression, Generate, Kernel, Limits, Sample, Scalar, Values,
};
use polychip_gpu_lowering::Guard;
use polychip_test_requirements::{Need, absent};

use super::MemoryStore;
use crate::driver::adapter;
use crate::driver::gpu::{Commands, Gpu};

impl MemoryStore {
    fn values(&self) -> Vec<String> {
        let values = self.0.lock().unwrap().values().cloned().collect::<Vec<_>>();
        values
            .into_iter()
            .map(|value| String::from_utf8(value).unwrap())
            .collect()
    }
}

/// The first device; without one the tests have nothing to judge on and say so.
fn device() -> Option<(Arc<Gpu>, Limits)> {
    let found = adapter::find(None).unwrap_or_default().into_iter().next();
    let Some(found) = found else {
        absent(Need::Vulkan, "no GPU");
        return None;
    };
    Some((
        Gpu::open(&found, None, Commands::Recorded).unwrap(),
        found.limits(),
    ))
}

fn guard(store: &MemoryStore, identity: &str, gpu: &Arc<Gpu>, limits: Limits) -> Guard {
    Guard::new(store.clone(), "build", identity, limits, gpu.clone())
}

/// Adds two tensors, and claims what `claimed` claims.
struct Claim {
    made: Elementwise,
    claimed: fn(&Elementwise) -> Sample,
    text: fn(String) -> String,
    small: Option<Elementwise>,
}

fn sum(count: u64) -> Elementwise {
    let sum = Expression::operand(0).binary(Binary::Add, Expression::operand(1));
    Elementwise::dense(Scalar::F32, &[count], sum)
}

impl Claim {
    fn right() -> Claim {
        Claim {
            made: sum(20),
            claimed: Elementwise::sample,
            text: |text| text,
            small: None,
        }
    }

    /// Off by a tenth in one place.
    fn wrong() -> Claim {
        Claim {
            claimed: |made| {
                let mut sample = made.sample();
                if let Some(Values::F32(values)) = &mut sample.after[2] {
                    values[7] += 0.1;
                }
                sample
            },
            ..Claim::right()
        }
    }
}

impl Generate for Claim {
    fn kernel(&self, limits: &Limits) -> polychip_gpu_kernels::Result<Kernel> {
        let mut kernel = self.made.kernel(limits)?;
        kernel.wgsl = (self.text)(kernel.wgsl);
        Ok(kernel)
    }

    fn sample(&self) -> Sample {
        (self.claimed)(&self.made)
    }

    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        let made = self.small.clone()?;
        Some(Box::new(Claim {
            made,
            claimed: self.claimed,
            text: self.text,
            small: None,
        }))
    }
}

fn ask(guard: &Guard, claim: &Claim) -> Result<(), String> {
    guard.permit(claim, &claim.kernel(guard.limits()).unwrap())
}

#[test]
fn correct_kernel_is_permitted_and_verified_once() {
    let Some((gpu, limits)) = device() else { return };
    let store = MemoryStore::default();
    assert_eq!(ask(&guard(&store, "one", &gpu, limits), &Claim::right()), Ok(()));
    assert_eq!(store.values(), ["right"]);
    let unasked = Claim {
        claimed: |_| panic!("judged twice"),
        ..Claim::right()
    };
    assert_eq!(ask(&guard(&store, "one", &gpu, limits), &unasked), Ok(()));
}

#[test]
fn wrong_kernel_is_quarantined_on_its_device_only() {
    let Some((gpu, limits)) = device() else { return };
    let store = MemoryStore::default();
    let first = guard(&store, "one", &gpu, limits);
    for _ in 0..2 {
        let message = ask(&first, &Claim::wrong()).unwrap_err();
        assert!(message.starts_with("kernel elementwise-f32-f32"), "{message}");
        assert!(message.contains("value 7 of 20"), "{message}");
    }
    let verdicts = store.values();
    assert!(
        verdicts.len() == 1 && verdicts[0].starts_with("wrong of its sample value 7"),
        "{verdicts:?}"
    );
    // the next process reads it
    assert!(ask(&guard(&store, "one", &gpu, limits), &Claim::right()).is_err());
    // another driver is another matter
    assert_eq!(ask(&guard(&store, "two", &gpu, limits), &Claim::right()), Ok(()));
}

#[test]
fn kernel_refused_by_the_driver_is_quarantined() {
    let Some((gpu, limits)) = device() else { return };
    let store = MemoryStore::default();
    let claim = Claim {
        text: |text| text.replace("fn main", "fn another"),
        ..Claim::right()
    };
    let message = ask(&guard(&store, "one", &gpu, limits), &claim).unwrap_err();
    assert!(message.contains(" is quarantined: "), "{message}");
    assert_eq!(gpu.alive(), Ok(()));
}

#[test]
fn large_kernel_is_verified_by_its_sample_instance() {
    let Some((gpu, limits)) = device() else { return };
    let store = MemoryStore::default();
    let guard = guard(&store, "one", &gpu, limits);
    let mut claim = Claim {
        made: sum((1 << 21) + 4),
        ..Claim::wrong()
    };
    for _ in 0..2 {
        assert_eq!(ask(&guard, &claim), Ok(()));
    }
    assert_eq!(store.values().len(), 0);
    let notes = store.1.lock().unwrap().clone();
    assert!(
        notes.len() == 1 && notes[0].contains("2097156 steps is too large"),
        "{notes:?}"
    );
    claim.small = Some(sum(20));
    assert!(ask(&guard, &claim).is_err());
}
