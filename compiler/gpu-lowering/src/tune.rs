//! Tuning, where it is wished (configuration `tune`): of several kernels that compute the same, the fastest on the
//! device, timed once and kept in the host's store.
//!
//! Invariants:
//! 1. Only speed depends on what is kept: a lost or foreign entry names no kernel, and the kernels are timed again.
//! 2. The first kernel, which a rule chose, stands unless another is clearly faster: launches of equal length do
//!    not swap by chance.
//! 3. What cannot be timed leaves the choice to the rule, and is not kept.
//!
//! Not here: which kernels there are (the generators' `candidates`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use polychip_gpu_kernels::Kernel;
use polychip_sdk::Result;

use crate::autotune::AutotuneDevice;
use crate::guard::Keep;

/// Kernels that are timed of one list: each costs a pipeline, on an NVIDIA H200 0.05 to 0.5 s.
pub(crate) const MOST: usize = 4;
/// Below so many multiply-adds a launch is as long as any other.
const LEAST_WORK: u64 = 1 << 19;
/// Largest memory of one kernel, in bytes.
const BYTES: u64 = 256 << 20;
/// How long a device works before its clocks count as risen.
const WARM: Duration = Duration::from_millis(300);
/// Share of the first kernel's time that another must beat.
const CLEARLY: f64 = 0.95;
/// Rounds in which all kernels take their turn.
const ROUNDS: u32 = 3;
/// Length of one turn on the device.
const TURN: f64 = 1e-3;

/// Fastest kernels of one device.
pub struct Tuner {
    keep: Box<dyn Keep>,
    /// Of the build, the device and its driver.
    identity: String,
    device: Mutex<Arc<dyn AutotuneDevice>>,
    warm: AtomicBool,
}

impl std::fmt::Debug for Tuner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tuner")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Tuner {
    /// A tuner of one device; `identity` names the device and its driver, `build_id` the plugin's build.
    pub fn new(
        keep: impl Keep + 'static,
        build_id: &str,
        identity: &str,
        device: Arc<dyn AutotuneDevice>,
    ) -> Tuner {
        Tuner {
            keep: Box::new(keep),
            identity: format!("{build_id} {identity}"),
            device: Mutex::new(device),
            warm: AtomicBool::new(false),
        }
    }

    /// The device was opened anew.
    pub fn reopened(&self, device: Arc<dyn AutotuneDevice>) {
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = device;
    }

    /// Index of the fastest of these kernels, which compute the same over the same bindings.
    pub fn fastest(&self, kernels: &[Kernel]) -> usize {
        let small = |kernel: &Kernel| {
            let bytes = kernel.bindings.iter().map(|binding| binding.bytes);
            kernel.work < LEAST_WORK || bytes.fold(0, u64::saturating_add) > BYTES
        };
        if kernels.len() < 2 || kernels.iter().any(small) {
            return 0;
        }
        let key = format!("tune {} {:016x}", self.identity, digest(kernels));
        let kept = self.keep.read(&key);
        let known = kept.and_then(|name| {
            kernels
                .iter()
                .position(|kernel| kernel.variant.as_bytes() == name)
        });
        if let Some(known) = known {
            return known;
        }
        let device = Arc::clone(&self.device.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(times) = self.times(&*device, kernels) else {
            return 0;
        };
        let best = choose(&times);
        self.keep.write(&key, kernels[best].variant.as_bytes());
        best
    }

    /// Seconds of one launch of each; of one that the driver refuses, infinite.
    fn times(&self, device: &dyn AutotuneDevice, kernels: &[Kernel]) -> Result<Vec<f64>> {
        let mut timers = vec![device.timed(&kernels[0])?];
        let mut of = vec![0];
        for (index, kernel) in kernels.iter().enumerate().skip(1) {
            if let Ok(timer) = device.timed(kernel) {
                timers.push(timer);
                of.push(index);
            }
        }
        if !self.warm.swap(true, Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < WARM {
                timers[0].time(4)?;
            }
        }
        let mut times = vec![f64::INFINITY; kernels.len()];
        for _ in 0..ROUNDS {
            for (timer, &index) in timers.iter().zip(&of) {
                let once = timer.time(1)?.as_secs_f64().max(1e-7);
                let launches = (TURN / once).clamp(1.0, 64.0) as u32;
                let time = timer.time(launches)?.as_secs_f64() / f64::from(launches);
                times[index] = times[index].min(time);
            }
        }
        Ok(times)
    }
}

/// The fastest, or the first where that is not clearly slower.
fn choose(times: &[f64]) -> usize {
    let fastest = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b]));
    match fastest {
        Some(index) if times[index] < times[0] * CLEARLY => index,
        _ => 0,
    }
}

/// A number for a list of kernels, the same in every process (FNV-1a): an equal one of another list would name a
/// kernel that is not in this one, or be a slower choice.
fn digest(kernels: &[Kernel]) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    let mut feed = |bytes: &[u8]| {
        for &byte in bytes {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for kernel in kernels {
        feed(kernel.variant.as_bytes());
        feed(kernel.wgsl.as_bytes());
        kernel
            .groups
            .iter()
            .for_each(|groups| feed(&groups.to_le_bytes()));
    }
    digest
}

#[cfg(test)]
mod tests {
    use polychip_gpu_kernels::{ArgReduce, Generate, Limits, Scalar};

    use super::*;

    fn kernels() -> Vec<Kernel> {
        let of = |axis| ArgReduce {
            scalar: Scalar::F32,
            shape: vec![4, 6, 8],
            axis,
            largest: true,
            last: false,
            index: Scalar::I32,
        };
        (0..3)
            .map(|axis| of(axis).kernel(&Limits::LEAST).unwrap())
            .collect()
    }

    #[test]
    fn first_candidate_is_kept_unless_clearly_slower() {
        assert_eq!(choose(&[1.0, 0.97, 1.2]), 0);
        assert_eq!(choose(&[1.0, 0.97, 0.5]), 2);
        assert_eq!(choose(&[1.0, f64::INFINITY]), 0);
    }

    #[test]
    fn lists_of_kernels_differ_in_their_digest() {
        let all = kernels();
        assert_eq!(digest(&all), digest(&kernels()));
        assert_ne!(digest(&all), digest(&all[..2]));
        assert_ne!(digest(&all[..1]), digest(&all[1..2]));
    }
}
