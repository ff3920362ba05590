//! Runs of a model in a thread, as fast as they end or so many a second, while others look on.
//!
//! Invariant: a run that fails stops the thread, and its error is the command's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip::{DecisionLog, GovernedReport, Session};

use crate::input::Given;
use crate::load::Load;
use crate::run::feed;

pub(crate) struct Runner {
    session: Session,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    counts: Arc<Counts>,
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
        given: &[Given],
        lanes: usize,
        fps: Option<f64>,
    ) -> anyhow::Result<Runner> {
        let memory = feed(&session, given)?;
        let counts = Arc::new(Counts::default());
        let (same, shared) = (session.clone(), Arc::clone(&counts));
        let thread = std::thread::spawn(move || -> anyhow::Result<()> {
            let inputs: Vec<&polychip::Input> = memory.iter().collect();
            let mut load = Load::new(&same, inputs, lanes);
            let period = fps.map(|fps| Duration::from_secs_f64(1.0 / fps));
            let mut next = Instant::now();
            let mut pause = Pause::new();
            while !shared.stop.load(Ordering::Acquire) {
                let start = Instant::now();
                if same.takes_frame() {
                    load.once()?;
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

    pub(crate) fn governed(&self) -> Option<GovernedReport> {
        self.session.governed()
    }

    /// The error of a thread that has ended before it was told to.
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
        .unwrap_or_else(|_| Err(anyhow::anyhow!("the thread of the runs panicked")))
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.counts.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
