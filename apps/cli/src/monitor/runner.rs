//! Runs a model in a thread, as fast as possible or at a rate, while other threads observe it.
//!
//! Invariants:
//! 1. A run that fails stops the thread, and its error is the command's.
//! 2. Run times use bounded memory, even if nothing reads them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use polychip::{DecisionLog, GovernedReport, Session};
use schemars::JsonSchema;
use serde::Serialize;

use crate::input::InputData;
use crate::load::Load;
use crate::run::feed;

pub(crate) struct Runner {
    session: Session,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    counts: Arc<Counts>,
    times: Arc<Mutex<Times>>,
}

/// So many times of runs are kept until somebody asks for them; then the oldest go.
const KEPT: usize = 65_536;
/// Significant digits of the times of all runs.
const DIGITS: u8 = 3;

/// Run times from submission to outputs, over the whole time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Latencies {
    /// Median in nanoseconds.
    pub(super) p50_ns: u64,
    /// p95 in nanoseconds.
    pub(super) p95_ns: u64,
    /// p99 in nanoseconds.
    pub(super) p99_ns: u64,
    /// The longest in nanoseconds.
    pub(super) max_ns: u64,
}

/// Times of runs: those since somebody asked, and all in classes of size.
struct Times {
    new: VecDeque<u64>,
    all: Histogram<u64>,
}

impl Times {
    fn new() -> Times {
        Times {
            new: VecDeque::new(),
            all: Histogram::new(DIGITS).expect("invariant: at most five digits"),
        }
    }

    fn add(&mut self, times_ns: &[u64]) {
        for &ns in times_ns {
            if self.new.len() == KEPT {
                self.new.pop_front();
            }
            self.new.push_back(ns);
            // it grows with what it is given: no value is out of its range
            self.all += ns;
        }
    }
}

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    runs: AtomicU64,
    skipped: AtomicU64,
    late: AtomicU64,
}

/// The time that a skipped frame would have taken, where frames come as fast as they go.
struct Pause {
    since: Instant,
    runs: u32,
    frame: Duration,
}

impl Pause {
    fn new() -> Pause {
        Pause {
            since: Instant::now(),
            runs: 0,
            frame: Duration::from_millis(1),
        }
    }

    fn take(&mut self) {
        if self.runs > 0 {
            self.frame = self.since.elapsed() / self.runs;
        }
        std::thread::sleep(self.frame);
        self.since = Instant::now();
        self.runs = 0;
    }
}

impl Runner {
    pub(crate) fn start(
        session: Session,
        given: &[InputData],
        lanes: usize,
        fps: Option<f64>,
    ) -> anyhow::Result<Runner> {
        let memory = feed(&session, given)?;
        let counts = Arc::new(Counts::default());
        let times = Arc::new(Mutex::new(Times::new()));
        let (same, shared, taken) = (session.clone(), Arc::clone(&counts), Arc::clone(&times));
        let thread = std::thread::spawn(move || -> anyhow::Result<()> {
            let inputs: Vec<&polychip::Input> = memory.iter().collect();
            let mut load = Load::new(&same, inputs, lanes).paced(fps.is_some());
            let period = fps.map(|fps| Duration::from_secs_f64(1.0 / fps));
            let mut next = Instant::now();
            let mut pause = Pause::new();
            while !shared.stop.load(Ordering::Acquire) {
                let start = Instant::now();
                if same.takes_frame() {
                    load.once()?;
                    taken
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(&load.times);
                    load.times.clear();
                    shared.late.store(load.late, Ordering::Release);
                    pause.runs += 1;
                    shared.runs.fetch_add(1, Ordering::AcqRel);
                } else {
                    shared.skipped.fetch_add(1, Ordering::AcqRel);
                    if period.is_none() {
                        // what is in flight would fill the pause
                        load.end()?;
                        pause.take();
                    }
                }
                if let Some(period) = period {
                    next = (next + period).max(start);
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            }
            load.end()
        });
        Ok(Runner {
            session,
            thread: Some(thread),
            counts,
            times,
        })
    }

    pub(crate) fn runs(&self) -> u64 {
        self.counts.runs.load(Ordering::Acquire)
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.counts.skipped.load(Ordering::Acquire)
    }

    pub(crate) fn late(&self) -> u64 {
        self.counts.late.load(Ordering::Acquire)
    }

    /// Times of the runs that ended since this was asked.
    pub(crate) fn take_times(&self) -> Vec<u64> {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut times.new).into()
    }

    /// Of all runs; none before the first one has ended.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &times.all;
        (!all.is_empty()).then(|| Latencies {
            p50_ns: all.value_at_quantile(0.5),
            p95_ns: all.value_at_quantile(0.95),
            p99_ns: all.value_at_quantile(0.99),
            max_ns: all.max(),
        })
    }

    pub(crate) fn governed(&self) -> Option<GovernedReport> {
        self.session.governed()
    }

    /// Returns the error of a thread that ended before it was asked to stop.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => ended(thread),
            None => Ok(()),
        }
    }

    /// Ends the runs; what the governor decided.
    pub(crate) fn finish(mut self) -> anyhow::Result<Option<DecisionLog>> {
        self.counts.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            ended(thread)?;
        }
        Ok(self.session.decisions())
    }
}

fn ended(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread
        .join()
        .unwrap_or_else(|_| Err(anyhow::anyhow!("the thread that runs the model panicked")))
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.counts.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
