//! Runs of a session with a fixed number in flight.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use polychip::Session;

use crate::pace::Pacer;
use crate::setup::PATIENCE;

/// Keeps so many runs in flight.
pub(crate) struct Load<'a> {
    session: &'a Session,
    inputs: Vec<&'a polychip::Input>,
    lanes: usize,
    flying: VecDeque<(Instant, polychip::Run)>,
    /// Runs that may still be submitted.
    left: u64,
    pub(crate) times: Vec<u64>,
    /// Runs that exceeded their deadline.
    pub(crate) late: u64,
    /// Runs are collected long after they ended, so a run's time is the one that it reports itself.
    is_paced: bool,
    pacer: Pacer,
}

impl<'a> Load<'a> {
    pub(crate) fn new(session: &'a Session, inputs: Vec<&'a polychip::Input>, lanes: usize) -> Load<'a> {
        Load {
            session,
            inputs,
            lanes,
            flying: VecDeque::with_capacity(lanes),
            left: u64::MAX,
            times: Vec::new(),
            late: 0,
            is_paced: false,
            pacer: Pacer::new(Duration::ZERO),
        }
    }

    /// Submits a run each period; zero: as soon as there is room.
    pub(crate) fn every(mut self, period: Duration) -> Load<'a> {
        self.pacer = Pacer::new(period);
        self
    }

    /// Somebody else lets time pass between two runs.
    pub(crate) fn paced(mut self, is_paced: bool) -> Load<'a> {
        self.is_paced = is_paced;
        self
    }

    /// Submits no more runs than so many are still to be waited for.
    pub(crate) fn end_after(&mut self, runs: u64) {
        self.left = runs.saturating_sub(self.flying.len() as u64);
    }

    /// Runs for a while; how many ended.
    pub(crate) fn run_for(&mut self, time: Duration) -> anyhow::Result<u64> {
        let end = Instant::now() + time;
        let mut runs = 0;
        while Instant::now() < end {
            self.once()?;
            runs += 1;
        }
        Ok(runs)
    }

    /// Fills the lanes and waits for the oldest run.
    pub(crate) fn once(&mut self) -> anyhow::Result<()> {
        while self.flying.len() < self.lanes && self.left > 0 {
            self.left -= 1;
            self.pacer.wait();
            self.flying
                .push_back((Instant::now(), self.session.submit(&self.inputs)?));
        }
        if let Some((start, run)) = self.flying.pop_front() {
            let outputs = run.wait(PATIENCE)?;
            let took = if self.is_paced {
                outputs.latency()
            } else {
                start.elapsed()
            };
            self.times
                .push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            self.late += u64::from(outputs.late_by().is_some());
        }
        Ok(())
    }

    /// Waits for what is in flight.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        while let Some((_, run)) = self.flying.pop_front() {
            drop(run.wait(PATIENCE)?);
        }
        Ok(())
    }
}
