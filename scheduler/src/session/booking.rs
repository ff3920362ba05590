//! Measured run times of a plan, kept for reports and recorded in the profile under their cadence.
//!
//! Invariant: a run without a clear cadence counts in reports, but not in the profile.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use polychip_partitioner::Time;
use polychip_profile::{Cadence, Conditions, Measurement, PartKey};

use crate::error::Result;
use crate::session::Session;
use crate::session::history::History;
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunState;

/// How long a chip shows the clock and the temperature of what it computed last: governors of clocks wait longer than
/// this before they lower one, or tens of milliseconds at least.
const WARM_NS: u64 = 100_000_000;

impl LoadedPlan {
    /// Keeps the figures of a run that has ended well, whether it was late, and what it is booked under.
    pub(crate) fn keep_figures(
        &self,
        slot: &RunState,
        latency: Duration,
        is_late: bool,
        cadence: Option<Cadence>,
    ) {
        let now_ns = self.clock().now_ns();
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.add(&slot.timings, latency, is_late, now_ns, cadence);
    }

    /// Forgets the measured part times, and gives them.
    pub(crate) fn forget(&self) -> History {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = history.emptied();
        std::mem::replace(&mut *history, empty)
    }

    /// Forgets the measured part times of runs that warmed the plan up; the next one counts.
    pub(crate) fn forget_warm_up(&self) {
        for plan in std::iter::once(self).chain(self.others.iter().map(|copy| &**copy)) {
            let mut history = plan.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.clear();
        }
    }

    /// Writes the measured part times into the profile database, and forgets them here. Clock and temperature are stated
    /// where the last run ended just now: what a chip shows later says nothing of its runs.
    pub(crate) fn record(&self) -> Result<()> {
        self.others.iter().try_for_each(|copy| copy.record())?;
        self.write(self.forget())
    }

    /// Writes those measured part times into the profile database that it has not got, and keeps them here too.
    pub(crate) fn record_fresh(&self) -> Result<()> {
        self.others.iter().try_for_each(|copy| copy.record_fresh())?;
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = history.split_fresh();
        drop(history);
        self.write(fresh)
    }

    fn write(&self, mut history: History) -> Result<()> {
        let since = history
            .ended_ns()
            .map(|ended| self.clock().now_ns().saturating_sub(ended));
        let is_warm = since.is_some_and(|since| since <= WARM_NS);
        let mut conditions: BTreeMap<String, Conditions> = BTreeMap::new();
        for (index, part) in self.parts.iter().enumerate() {
            let device = self.device(part);
            if self.clock().is_virtual() && !device.info().emulated {
                // a real chip's time cannot be read off a virtual clock
                continue;
            }
            let identity = device.identity();
            let key = PartKey {
                device: &identity,
                fingerprint: &part.structure,
                operating_point: &self.settings.operating_point(device.info().kind),
            };
            let runs = history.take_fresh(index);
            let last = runs.last().and_then(|run| run.cadence);
            let mut booked: BTreeMap<Cadence, Vec<Measurement>> = BTreeMap::new();
            for run in runs {
                let Some(cadence) = run.cadence else { continue };
                booked.entry(cadence).or_default().push(Measurement {
                    time: Time::from_nanoseconds(run.ns),
                    energy_uj: run.energy_uj,
                });
            }
            for (cadence, measurements) in booked {
                let present = conditions
                    .entry(identity.clone())
                    .or_insert_with(|| self.shared.under_load(device));
                // what sensors show is of the runs that ended just now
                let known = if is_warm && last == Some(cadence) {
                    present.clone()
                } else {
                    present.settings()
                };
                let known = Conditions {
                    cadence: Some(cadence),
                    ..known
                };
                self.shared
                    .profile
                    .record_under(key, device.info().emulated, &measurements, &known)?;
            }
        }
        Ok(())
    }
}

impl Session {
    /// Writes the measured part times of this session into the profile database, and clears them in
    /// the session. If the runtime has a profile file, dropping the last clone of a session does
    /// the same.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn record(&self) -> Result<()> {
        let plans = self
            .0
            .all()
            .into_iter()
            .filter_map(|inner| inner.current().plan.clone());
        let plans: Vec<Arc<LoadedPlan>> = plans.collect();
        plans.iter().try_for_each(|plan| plan.record())
    }

    /// Discards the part times since the last [`Session::record`], for example those of warm-up
    /// runs.
    pub fn forget(&self) {
        for inner in self.0.all() {
            let plan = inner.current().plan.clone();
            if let Some(plan) = plan {
                plan.forget_warm_up();
            }
        }
    }
}
