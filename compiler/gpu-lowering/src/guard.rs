//! The numerics guard: the first use of a kernel's variant on a device runs the generator's sample there and
//! compares it with the scalar truth; a variant that is wrong is quarantined.
//!
//! Invariants:
//! 1. A verdict belongs to one build of this plugin, one device and one driver; it is kept in the host's store
//!    and never changes there.
//! 2. What tells nothing of the variant (no memory, a lost device) is no verdict: the variant is judged at its
//!    next use.
//! 3. A sample is judged where its truth is quickly computed: else the generator's smaller instance of the same
//!    variant, and where there is none the variant stands unjudged, which is said once.
//!
//! Not here: the caller (`lower`), and the reason that a refused node gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_gpu_kernels::{Generate, Kernel, Limits, Sample};
use polychip_sdk::{ErrorKind, HostServices, LogLevel, Result};

use crate::autotune::AutotuneDevice;

/// Largest work of a sample: its truth takes a fraction of a second even where nothing is optimised.
const WORK: u64 = 1 << 21;

/// Largest memory of a sample, in bytes.
const BYTES: u64 = 8 << 20;

/// A driver that is wrong is far off, where one that rounds otherwise than ours is not: the tolerance of a
/// sample counts so many times, and of floats no less than [`LEAST`].
const GENEROUS: f64 = 8.0;

/// Least tolerance of what is not compared bit for bit.
const LEAST: f64 = 2e-3;

/// After so long a sample counts as hung.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Right,
    /// What was wrong.
    Wrong(String),
}

/// Where verdicts are kept, and who is told.
pub trait Keep: Send + Sync {
    /// The value of a key.
    fn read(&self, key: &str) -> Option<Vec<u8>>;
    /// Keeps a value; where that fails, the variant is judged again in the next process.
    fn write(&self, key: &str, value: &[u8]);
    /// Says that something is wrong.
    fn warn(&self, message: &str);
    /// Says what is worth knowing and not wrong.
    fn note(&self, message: &str);
}

impl Keep for HostServices {
    fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.store_read(key).unwrap_or(None)
    }

    fn write(&self, key: &str, value: &[u8]) {
        let _ = self.store_write(key, value);
    }

    fn warn(&self, message: &str) {
        self.log(LogLevel::Warn, message);
    }

    fn note(&self, message: &str) {
        self.log(LogLevel::Info, message);
    }
}

/// Verdicts of one device.
pub struct Guard {
    keep: Box<dyn Keep>,
    /// Of the build, the device and its driver.
    identity: String,
    limits: Limits,
    device: Mutex<Arc<dyn AutotuneDevice>>,
    known: Mutex<BTreeMap<String, Verdict>>,
    /// Variants of which it was said that they stand unjudged.
    unjudged: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    /// A guard of one device; `identity` names the device and its driver, `build_id` the plugin's build.
    pub fn new(
        keep: impl Keep + 'static,
        build_id: &str,
        identity: &str,
        limits: Limits,
        device: Arc<dyn AutotuneDevice>,
    ) -> Guard {
        Guard {
            keep: Box::new(keep),
            identity: format!("{build_id} {identity}"),
            limits,
            device: Mutex::new(device),
            known: Mutex::default(),
            unjudged: Mutex::default(),
        }
    }

    /// What kernels of the device are made for.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The device was opened anew.
    pub fn reopened(&self, device: Arc<dyn AutotuneDevice>) {
        *lock(&self.device) = device;
    }

    /// Whether a kernel may be used; `generator` is what made it. Runs a sample where nothing is known yet.
    ///
    /// # Errors
    /// Why its variant is quarantined.
    pub fn permit(&self, generator: &dyn Generate, kernel: &Kernel) -> Result<(), String> {
        match self.verdict(generator, kernel) {
            // short: a refusal has room for a line
            Some(Verdict::Wrong(message)) => {
                Err(format!("kernel {} is quarantined: {message}", kernel.variant))
            }
            _ => Ok(()),
        }
    }

    fn key(&self, variant: &str) -> String {
        format!("guard {} {variant}", self.identity)
    }

    fn verdict(&self, generator: &dyn Generate, kernel: &Kernel) -> Option<Verdict> {
        let variant = &kernel.variant;
        if let Some(known) = lock(&self.known).get(variant) {
            return Some(known.clone());
        }
        let kept = self.keep.read(&self.key(variant));
        let verdict = match kept.as_deref().and_then(read) {
            Some(verdict) => verdict,
            None => {
                let verdict = self.judge(generator, kernel)?;
                if let Verdict::Wrong(message) = &verdict {
                    let message = format!("kernel {variant} is quarantined on {}: {message}", self.identity);
                    self.keep.warn(&message);
                }
                self.keep.write(&self.key(variant), &written(&verdict));
                verdict
            }
        };
        lock(&self.known).insert(variant.clone(), verdict.clone());
        Some(verdict)
    }

    /// Runs a sample of the variant; `None` where that tells nothing.
    fn judge(&self, generator: &dyn Generate, kernel: &Kernel) -> Option<Verdict> {
        if affordable(kernel) {
            return self.judge_sample(kernel, &generator.sample());
        }
        let small = generator.sample_instance().and_then(|small| {
            let of_small = small.kernel(&self.limits).ok()?;
            let fits = of_small.variant == kernel.variant && affordable(&of_small);
            fits.then_some((small, of_small))
        });
        let Some((small, of_small)) = small else {
            if lock(&self.unjudged).insert(kernel.variant.clone()) {
                self.keep.note(&format!(
                    "kernel {} is not judged on {}: its sample of {} steps is too large, and it has no smaller one",
                    kernel.variant, self.identity, kernel.work
                ));
            }
            return None;
        };
        self.judge_sample(&of_small, &small.sample())
    }

    fn judge_sample(&self, kernel: &Kernel, sample: &Sample) -> Option<Verdict> {
        let count = kernel.bindings.len();
        if sample.before.len() != count || sample.after.len() != count {
            return None;
        }
        let device = Arc::clone(&lock(&self.device));
        let after = match device.run(kernel, sample, PATIENCE) {
            Ok(Some(after)) => after,
            Ok(None) => {
                let message = format!("it did not end within {} s", PATIENCE.as_secs());
                device.lose(format!("kernel {}: {message}", kernel.variant));
                return Some(Verdict::Wrong(message));
            }
            Err(error) if error.kind() == ErrorKind::Persistent => {
                return Some(Verdict::Wrong(error.to_string()));
            }
            Err(_) => return None,
        };
        let tolerance = match sample.tolerance {
            0.0 => 0.0,
            tolerance => (tolerance * GENEROUS).max(LEAST),
        };
        let sample = Sample {
            tolerance,
            ..sample.clone()
        };
        let wrong = after.iter().enumerate().find_map(|(binding, bytes)| {
            let why = sample.judge(binding, bytes).err()?;
            Some(format!("of its sample {why}"))
        });
        Some(wrong.map_or(Verdict::Right, Verdict::Wrong))
    }
}

fn affordable(kernel: &Kernel) -> bool {
    let bytes = kernel.bindings.iter().map(|binding| binding.bytes).sum::<u64>();
    kernel.work <= WORK && bytes <= BYTES
}

fn written(verdict: &Verdict) -> Vec<u8> {
    match verdict {
        Verdict::Right => b"right".to_vec(),
        Verdict::Wrong(message) => format!("wrong {message}").into_bytes(),
    }
}

/// A verdict that was kept; what is no verdict is judged again.
fn read(bytes: &[u8]) -> Option<Verdict> {
    let text = std::str::from_utf8(bytes).ok()?;
    match text.split_once(' ') {
        None if text == "right" => Some(Verdict::Right),
        Some(("wrong", message)) => Some(Verdict::Wrong(message.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_choice_is_read_back() {
        for verdict in [Verdict::Right, Verdict::Wrong("value 3 is off".to_owned())] {
            assert_eq!(read(&written(&verdict)), Some(verdict));
        }
        assert_eq!(read(b"torn"), None);
        assert_eq!(read(&[0xff]), None);
    }
}
