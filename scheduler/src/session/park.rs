//! Parked sessions: their loaded plans are freed, and loaded again for the next run.
//!
//! Invariants:
//! 1. A plan is parked between runs: a run that has begun ends on it.
//! 2. Governed and admitted sessions keep their plans: they promise to have them ready.
//! 3. A parked session keeps its graph, costs and report, and its tensors stay valid.
//! 4. While a load waits for memory, an idle session gives its own up before its next run, so that the load
//!    is not overtaken.
//!
//! Not here: which sessions are parked when memory is short (`memory_account`), loading again (`recover`).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::specializations::Shapes;
use super::{Session, charges, loaded_memory};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind};
use crate::memory_account::{Parkable, Reservation, mebibytes};
use crate::planned::Planned;
use crate::policy::Settings;
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;

/// Why a session is not parked.
enum NotParked {
    /// Runs use it, or the app keeps their outputs.
    InUse,
    /// It keeps its plans ready.
    Keeps(&'static str),
}

impl Inner {
    fn must_stay(&self) -> Option<&'static str> {
        if self.governing.is_some() {
            Some("its governor keeps all plans loaded, to switch between them at once")
        } else if !self
            .standby
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
        {
            Some("it is admitted, and the proof of its deadlines needs loaded plans")
        } else {
            None
        }
    }

    /// Takes the plan away from the next run, with the plans on trial; none if one is in use. With `alone`, also if
    /// anything else holds one, so that dropping them frees them.
    fn take_plans(&self, alone: bool) -> Option<Vec<Arc<LoadedPlan>>> {
        let is_idle = |plan: &Arc<LoadedPlan>, holders: usize| {
            plan.is_idle(alone) && (!alone || Arc::strong_count(plan) == holders)
        };
        let take = |arms: &[&Arc<LoadedPlan>]| {
            let mut current = self.current();
            let plan = current.plan.as_ref()?;
            let is_same = |arm: &&Arc<LoadedPlan>| Arc::ptr_eq(arm, plan);
            let holders = 1 + arms.iter().copied().filter(is_same).count();
            let are_idle = arms.iter().all(|arm| is_same(arm) || is_idle(arm, 1));
            if !are_idle || !is_idle(plan, holders) {
                return None;
            }
            current.plan.take()
        };
        match &self.learning {
            Some(learning) => learning.take_plans(take),
            None => take(&[]).map(|plan| vec![plan]),
        }
    }

    /// Frees the loaded plans; gives the bytes that were freed, 0 if it is parked already.
    fn park(&self, why: &str, alone: bool) -> std::result::Result<u64, NotParked> {
        if let Some(why) = self.must_stay() {
            return Err(NotParked::Keeps(why));
        }
        // another thread makes a plan
        let _one = self.recovery.try_lock().map_err(|_| NotParked::InUse)?;
        self.reap_ended();
        if self.current().plan.is_none() {
            return Ok(0);
        }
        let memory = &self.shared.memory;
        let before = memory.held_by(self.id);
        let plans = self.take_plans(alone).ok_or(NotParked::InUse)?;
        plans.iter().for_each(|plan| self.keep_track(plan));
        drop(plans);
        let freed = before.saturating_sub(memory.held_by(self.id));
        // a session that shares all parts is parked, too
        self.parking.set_freed(freed.max(1));
        memory.count_parked();
        let words = format!("{why}; {} freed", mebibytes(freed));
        self.tell(Event::new(EventKind::Parked, "", 0, words));
        Ok(freed)
    }

    /// Gives the memory up for a load that waits for it, unless a run is in flight. Costs one atomic load if
    /// none waits.
    pub(super) fn yield_memory(&self) {
        let memory = &self.shared.memory;
        if memory.is_short() && memory.lacks_room() {
            // it keeps its plan if that is in use
            let _ = self.park("another session waits for memory", true);
        }
    }

    /// Memory for a parked plan that is about to be loaded again.
    ///
    /// # Errors
    /// It does not fit the memory limit.
    pub(super) fn reserve(&self, planned: &Planned, settings: Settings) -> Result<Option<Reservation>> {
        let freed = self.parking.freed();
        if freed == 0 {
            return Ok(None);
        }
        let known = Some((freed, self.policy.longest_run()));
        charges::reserve(&self.shared, self.id, planned, settings, known)
    }

    /// The plan is loaded again.
    pub(super) fn resumed(&self, took: Duration) {
        if self.parking.resumed(took) {
            let words = format!("loaded in {:.1} ms", took.as_secs_f64() * 1e3);
            self.tell(Event::new(EventKind::Resumed, "", 0, words));
        }
    }

    /// The loaded plans, if all of them may be parked.
    fn with_plans<T>(&self, ask: impl FnOnce(&[&Arc<LoadedPlan>]) -> T) -> Option<T> {
        let with_arms = |arms: &[&Arc<LoadedPlan>]| {
            let current = self.current();
            let plan = current.plan.as_ref()?;
            let mut all = vec![plan];
            all.extend(arms);
            Some(ask(&all))
        };
        match &self.learning {
            Some(learning) => learning.with_plans(with_arms),
            None => with_arms(&[]),
        }
    }
}

impl Parkable for Inner {
    fn session(&self) -> usize {
        self.id
    }

    fn freeable(&self) -> u64 {
        if self.must_stay().is_some() {
            return 0;
        }
        self.with_plans(loaded_memory::freed_with).unwrap_or(0)
    }

    fn rebuild_ns(&self) -> u64 {
        // about as long as it takes to read and pack its weights
        self.parking.rebuild_ns().unwrap_or_else(|| self.freeable())
    }

    fn used_ns(&self) -> u64 {
        self.parking.used_ns()
    }

    fn is_idle(&self) -> bool {
        self.with_plans(|plans| plans.iter().all(|plan| plan.is_idle(false)))
            .unwrap_or(false)
    }

    fn park_idle(&self, why: &str) -> bool {
        self.park(why, true).is_ok_and(|freed| freed > 0)
    }
}

impl Shapes {
    /// All specializations, also those of variants.
    fn with_variants(&self) -> Vec<Arc<Inner>> {
        let mut all = self.all();
        for variant in self.made_variants() {
            all.extend(variant.with_variants());
        }
        all
    }
}

impl Session {
    /// Frees the loaded plans of an idle session: weights, code and buffers. Returns the number of bytes that no
    /// other session uses. The next run, or [`Session::resume`], loads them again. Inputs, outputs and states
    /// stay valid; what the session learned about other plans is lost.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// # let session = runtime.session(&runtime.load("model.onnx")?, polychip::Policy::latency())?;
    /// let before = session.resident_bytes();
    /// session.park()?;
    /// assert!(session.resident_bytes() < before);
    /// session.resume()?; // or the next run
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A run is in flight or the app keeps its outputs ([`ErrorKind::InFlight`]), or the session is governed or
    /// admitted and keeps its plans ready ([`ErrorKind::BadInput`]).
    pub fn park(&self) -> Result<u64> {
        let mut freed = 0;
        for inner in self.0.with_variants() {
            freed += inner.park("requested by the app", false).map_err(|why| {
                let model = inner.current().planned.model().path().display().to_string();
                match why {
                    NotParked::InUse => {
                        let words = format!(
                            "{model}: a session in use cannot be parked: a run is in flight, its outputs are kept, or a plan is \
                             being made; wait for the run and drop its outputs"
                        );
                        Error::new(ErrorKind::InFlight, words)
                    }
                    NotParked::Keeps(why) => {
                        let words = format!("{model}: the session cannot be parked: {why}; drop it to free its memory");
                        Error::new(ErrorKind::BadInput, words)
                    }
                }
            })?;
        }
        polychip_host::trim_heap();
        Ok(freed)
    }

    /// Loads the plans of a parked session again, so that the next run does not wait for that. For a model with open
    /// sizes, those of all cached sizes. Does nothing if the session is not parked.
    ///
    /// # Errors
    /// The plans do not fit the memory limit ([`ErrorKind::OutOfMemory`]), or a device refused its part.
    pub fn resume(&self) -> Result<()> {
        let all = self.0.with_variants();
        let mut parked = all.iter().filter(|inner| inner.parking.is_parked());
        parked.try_for_each(|inner| inner.ready().map(drop))
    }

    /// Whether the plan of the next run is parked; for a model with open sizes, that of the sizes used last.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.0.latest().is_some_and(|inner| inner.parking.is_parked())
    }

    /// The memory that the session holds, in bytes: loaded parts, buffers, and graphs (an estimate), as its
    /// report lists it. Tensors that the app made, and the memory of devices that have their own, are not
    /// included. A part that sessions share counts for the one that loaded it.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let memory = &self.0.shared().memory;
        let variants = self.0.made_variants();
        let ids = variants.iter().map(|variant| variant.id);
        std::iter::once(self.0.id)
            .chain(ids)
            .map(|id| memory.held_by(id))
            .sum()
    }
}
