//! The numerics guard: the first use of a kernel's variant on a device runs the generator's sample there and
//! compares it with the scalar truth; a variant that is wrong is quarantined.
//!
//! Invariants:
//! 1. A verdict belongs to one build of this plugin, one device and one driver; it is kept in the host's store
//!    and never changes there.
//! 2. What tells nothing of the variant (no memory, a lost device) is no verdict: the variant is judged at its
//!    next use.
//! 3. A sample is judged where its truth is quickly computed: else the generator's smaller instance of the same
//!    variant, and where there is none the variant stands unjudged.
//!
//! Not here: who asks (`lower`), and the reason that a refused node gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_gpu_kernels::{Generate, Kernel, Limits, Sample};
use polychip_sdk::{ErrorKind, HostServices, LogLevel, Result};

use crate::driver::gpu::Gpu;
use crate::driver::memory::USAGE;

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
pub(crate) trait Keep: Send + Sync {
    /// The value of a key.
    fn read(&self, key: &str) -> Option<Vec<u8>>;
    /// Keeps a value; where that fails, the variant is judged again in the next process.
    fn write(&self, key: &str, value: &[u8]);
    /// Says that something is wrong.
    fn warn(&self, words: &str);
}

impl Keep for HostServices {
    fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.store_read(key).unwrap_or(None)
    }

    fn write(&self, key: &str, value: &[u8]) {
        let _ = self.store_write(key, value);
    }

    fn warn(&self, words: &str) {
        self.log(LogLevel::Warn, words);
    }
}

/// Verdicts of one device.
pub(crate) struct Guard {
    keep: Box<dyn Keep>,
    /// Of the build, the device and its driver.
    identity: String,
    limits: Limits,
    gpu: Mutex<Arc<Gpu>>,
    known: Mutex<BTreeMap<String, Verdict>>,
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
    pub(crate) fn new(
        keep: impl Keep + 'static,
        build_id: &str,
        identity: &str,
        limits: Limits,
        gpu: &Arc<Gpu>,
    ) -> Guard {
        Guard {
            keep: Box::new(keep),
            identity: format!("{build_id} {identity}"),
            limits,
            gpu: Mutex::new(Arc::clone(gpu)),
            known: Mutex::default(),
        }
    }

    /// The device was opened anew.
    pub(crate) fn reopened(&self, gpu: &Arc<Gpu>) {
        *lock(&self.gpu) = Arc::clone(gpu);
    }

    /// Whether a kernel may be used; `generator` is what made it. Runs a sample where nothing is known yet.
    ///
    /// # Errors
    /// Why its variant is quarantined, in words.
    pub(crate) fn permit(&self, generator: &dyn Generate, kernel: &Kernel) -> Result<(), String> {
        match self.verdict(generator, kernel) {
            // short: a refusal has room for a line
            Some(Verdict::Wrong(words)) => Err(format!("kernel {} is quarantined: {words}", kernel.variant)),
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
                if let Verdict::Wrong(words) = &verdict {
                    let words = format!("kernel {variant} is quarantined on {}: {words}", self.identity);
                    self.keep.warn(&words);
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
        let small = generator.small()?;
        let of_small = small.kernel(&self.limits).ok()?;
        if of_small.variant != kernel.variant || !affordable(&of_small) {
            return None;
        }
        self.judge_sample(&of_small, &small.sample())
    }

    fn judge_sample(&self, kernel: &Kernel, sample: &Sample) -> Option<Verdict> {
        let count = kernel.bindings.len();
        if sample.before.len() != count || sample.after.len() != count {
            return None;
        }
        let gpu = Arc::clone(&lock(&self.gpu));
        let after = match run(&gpu, kernel, sample) {
            Ok(Some(after)) => after,
            Ok(None) => {
                let words = format!("it did not end within {} s", PATIENCE.as_secs());
                gpu.lose(format!("kernel {}: {words}", kernel.variant));
                return Some(Verdict::Wrong(words));
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
        Verdict::Wrong(words) => format!("wrong {words}").into_bytes(),
    }
}

/// A verdict that was kept; what is no verdict is judged again.
fn read(bytes: &[u8]) -> Option<Verdict> {
    let text = std::str::from_utf8(bytes).ok()?;
    match text.split_once(' ') {
        None if text == "right" => Some(Verdict::Right),
        Some(("wrong", words)) => Some(Verdict::Wrong(words.to_owned())),
        _ => None,
    }
}

/// Runs a kernel over its sample in memory of its own; what each binding holds afterwards, or nothing where it did
/// not end.
fn run(gpu: &Gpu, kernel: &Kernel, sample: &Sample) -> Result<Option<Vec<Vec<u8>>>> {
    gpu.alive()?;
    let lane = &gpu.lanes[0];
    let (pipelines, _) = gpu.pipelines.get(gpu, 0, std::slice::from_ref(kernel))?;
    let (submission, reads) = Gpu::caught(lane, || {
        let mut encoder = lane.device.create_command_encoder(&Default::default());
        let buffer = |size: u64, usage: wgpu::BufferUsages| {
            lane.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let mut buffers = Vec::with_capacity(kernel.bindings.len());
        for (binding, values) in kernel.bindings.iter().zip(&sample.before) {
            let made = buffer(binding.bytes, USAGE);
            let mut bytes = values.bytes();
            bytes.truncate(usize::try_from(binding.bytes).unwrap_or(usize::MAX));
            lane.queue.write_buffer(&made, 0, &bytes);
            buffers.push(made);
        }
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
            .zip(&buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = lane.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipelines[0].layout,
            entries: &entries,
        });
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipelines[0].pipeline);
            pass.set_bind_group(0, &group, &[]);
            let [x, y, z] = kernel.groups;
            pass.dispatch_workgroups(x, y, z);
        }
        let reads: Vec<wgpu::Buffer> = buffers
            .iter()
            .map(|from| {
                let to = buffer(
                    from.size(),
                    wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                );
                encoder.copy_buffer_to_buffer(from, 0, &to, 0, from.size());
                to
            })
            .collect();
        let submission = lane.submit(Some(encoder.finish()));
        for read in &reads {
            read.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        }
        (submission, reads)
    })?;
    if !lane.wait(&submission, PATIENCE)? {
        return Ok(None);
    }
    lane.settle();
    let mut after = Vec::with_capacity(reads.len());
    for read in &reads {
        let mapped = read.slice(..).get_mapped_range();
        let mapped = mapped.map_err(|error| {
            polychip_sdk::Error::new(ErrorKind::Transient, format!("a sample cannot be read: {error}"))
        })?;
        after.push(mapped.to_vec());
    }
    Ok(Some(after))
}

#[cfg(test)]
mod tests;
