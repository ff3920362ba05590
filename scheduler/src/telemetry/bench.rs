//! Runs work in blocks while a thread reads the sensors, with idle time before and after.
//!
//! Invariant: idle power for a measurement is measured right before and right after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polychip_host::Clock;

use crate::telemetry::energy::{EnergyFigures, EnergyMeter};
use crate::telemetry::sampler::{Sample, Sampler};

/// How often sensors are read: several times between two changes of NVIDIA's, which change ten times a second.
const EVERY: Duration = Duration::from_millis(20);

/// Samples of a time in which nothing ran, from when to when.
#[derive(Debug)]
struct Idle {
    samples: Vec<Sample>,
    from_ns: u64,
    to_ns: u64,
}

/// Ends the thread that reads, also where a block panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Measures the energy of repeated work.
#[derive(Debug)]
pub struct EnergyBench {
    sampler: Mutex<Sampler>,
    clock: Clock,
    settle: Duration,
    rest: Duration,
    /// Before and after what is measured.
    idle: [Option<Idle>; 2],
}

/// The sensor readings during blocks of runs.
#[derive(Debug)]
pub struct EnergyRun {
    samples: Vec<Sample>,
    /// From when to when, and how many runs.
    blocks: Vec<(u64, u64, u64)>,
}

impl EnergyRun {
    /// Number of runs in all blocks.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.blocks.iter().map(|(_, _, runs)| runs).sum()
    }

    /// Duration of all blocks in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let length = |(from_ns, to_ns, _): &(u64, u64, u64)| (to_ns - from_ns) as f64 / 1e9;
        self.blocks.iter().map(length).sum()
    }
}

/// Energy of a run on one device, or why it is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyOf {
    /// Device, `plugin:index`.
    pub device: String,
    /// The figures.
    pub figures: Result<EnergyFigures, String>,
}

impl EnergyBench {
    /// A bench with the sensors of a sampler. Clocks and sensors settle for `settle` before
    /// anything counts; `rest` is the idle time before and after each measurement.
    #[must_use]
    pub fn new(sampler: Sampler, settle: Duration, rest: Duration) -> EnergyBench {
        EnergyBench {
            clock: sampler.clock().clone(),
            sampler: Mutex::new(sampler),
            settle,
            rest,
            idle: [None, None],
        }
    }

    /// The sensors.
    pub fn sampler(&self) -> MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Idles for the rest time.
    pub fn rest(&mut self) {
        std::thread::sleep(self.settle);
        let (from_ns, mut samples) = (self.clock.now_ns(), Vec::new());
        {
            let mut sampler = self.sampler();
            let end = Instant::now() + self.rest;
            while Instant::now() < end {
                samples.push(sampler.sample());
                std::thread::sleep(EVERY);
            }
        }
        let idle = Idle {
            samples,
            from_ns,
            to_ns: self.clock.now_ns(),
        };
        self.idle[0] = self.idle[1].take();
        self.idle[1] = Some(idle);
    }

    /// Calls `block` the given number of times while the sensors are read; each call returns its
    /// number of runs.
    ///
    /// # Errors
    /// The error of `block`.
    pub fn run<E>(&self, blocks: u32, mut block: impl FnMut() -> Result<u64, E>) -> Result<EnergyRun, E> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut samples, mut sampler) = (Vec::new(), self.sampler());
                while !stop.load(Ordering::Acquire) {
                    samples.push(sampler.sample());
                    std::thread::sleep(EVERY);
                }
                samples
            });
            let mut times = Vec::new();
            let mut run = || {
                for _ in 0..blocks {
                    let from_ns = self.clock.now_ns();
                    let runs = block()?;
                    times.push((from_ns, self.clock.now_ns(), runs));
                }
                Ok(())
            };
            let guard = Stop(&stop);
            let done = run();
            drop(guard);
            let samples = reader.join().unwrap_or_default();
            done.map(|()| EnergyRun {
                samples,
                blocks: times,
            })
        })
    }

    /// Idles, and returns the energy of a run on each device.
    pub fn judge(&mut self, ran: &EnergyRun) -> Vec<EnergyOf> {
        self.rest();
        let idle = |at: usize| self.idle[at].iter();
        let samples = || {
            let before = idle(0).flat_map(|idle| &idle.samples);
            before
                .chain(&ran.samples)
                .chain(idle(1).flat_map(|idle| &idle.samples))
        };
        let devices = ran.samples.first().map_or(&[][..], |sample| &sample.devices);
        let judged = devices.iter().enumerate().map(|(index, state)| {
            let mut meter = EnergyMeter::default();
            for sample in samples() {
                let state = &sample.devices[index];
                meter.sample(sample.time_ns, state.power_mw.value, state.energy_uj.value);
            }
            for idle in idle(0).chain(idle(1)) {
                meter.idle(idle.from_ns, idle.to_ns);
            }
            for (from_ns, to_ns, runs) in &ran.blocks {
                meter.block(*from_ns, *to_ns, *runs);
            }
            EnergyOf {
                device: state.device.clone(),
                figures: meter.figures(),
            }
        });
        judged.collect()
    }
}
