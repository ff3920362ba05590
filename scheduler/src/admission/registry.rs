//! The admitted sessions of a runtime, and which of their plans is in place.
//!
//! Invariants:
//! 1. What is registered was admitted as a whole. A session that goes leaves the rest admitted.
//! 2. One thread at a time chooses plans and puts them in place. A session that goes meanwhile waits for nobody: whoever
//!    is at it looks again.
//! 3. A plan is compiled before anything changes; one that is put in place was compiled before.
//! 4. Lists of the registry hold no plan that is loaded, so that a session ends with its last clone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use polychip_partitioner::Plan;

use crate::admission::choose::{self, Chosen, Counted, Found, Member};
use crate::admission::report::CertificateReport;
use crate::admission::{Admission, Admitted, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind};
use crate::policy::Policy;
use crate::replan;
use crate::session::compile::Loaded;
use crate::session::inner::Inner;
use crate::session::loaded::LoadedPlan;
use crate::session::{Session, next_id};
use crate::shared::Shared;

/// The admitted sessions of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Held by the one thread that chooses plans and puts them in place.
    making: Mutex<()>,
    entries: Mutex<Entries>,
    /// A session is gone since somebody looked.
    is_gone: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    all: Vec<Entry>,
    number: u64,
}

/// An admitted session.
#[derive(Debug, Clone)]
struct Entry {
    number: u64,
    member: Member,
    /// None before it is made.
    session: Weak<Inner>,
}

/// The place of a session among the admitted ones, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    number: u64,
}

/// A plan that an admitted session keeps ready.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    counted: Arc<Counted>,
    plan: Arc<LoadedPlan>,
}

impl Kept {
    /// Whether it has just these parts.
    fn is_of(&self, plan: &Plan) -> bool {
        let parts = |plan: &Plan| -> Vec<String> { plan.parts.iter().map(|part| part.id.clone()).collect() };
        parts(self.counted.planned.plan()) == parts(plan)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let registry = &self.shared.admitted;
        lock(&registry.entries)
            .all
            .retain(|entry| entry.number != self.number);
        registry.is_gone.store(true, Ordering::Release);
        registry.look(&self.shared);
    }
}

impl Registry {
    /// Where a session is gone and nobody is at it: plans that were cut for it are replaced by their uncut ones.
    fn look(&self, shared: &Shared) {
        while self.is_gone.load(Ordering::Acquire) {
            let _one = match self.making.try_lock() {
                Ok(one) => one,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // who holds it looks when it is done
                Err(TryLockError::WouldBlock) => return,
            };
            self.is_gone.store(false, Ordering::Release);
            if let Err(error) = self.settle(shared) {
                tracing::warn!("admitted sessions keep their plans: {error}");
            }
        }
    }

    /// Does something as the one thread that chooses plans.
    fn alone<T>(&self, shared: &Shared, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let made = {
            let _one = lock(&self.making);
            work()
        };
        self.look(shared);
        made
    }

    fn snapshot(&self) -> Vec<Entry> {
        lock(&self.entries).all.clone()
    }

    /// Sessions have their uncut plans again where nothing needs the cut ones any more.
    fn settle(&self, shared: &Shared) -> Result<()> {
        let devices = choose::devices(shared);
        let mut entries = self.snapshot();
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(entries[*index].member.class));
        for index in order {
            let members: Vec<Member> = entries.iter().map(|entry| entry.member.clone()).collect();
            let mut chosen: Vec<Chosen> = members.iter().map(Member::chosen).collect();
            let Some(uncut) = members[index].ready_uncut() else {
                continue;
            };
            chosen[index].plan = uncut;
            if let Some(found) = choose::judged(&devices, &members, chosen)? {
                entries[index].member = members[index].admitted(&found.chosen[index]);
            }
        }
        self.put_in_place(&entries);
        self.set_due(shared)
    }

    /// The plans that were chosen are those of the next runs.
    fn put_in_place(&self, entries: &[Entry]) {
        for entry in entries {
            let mut all = lock(&self.entries);
            let Some(own) = all.all.iter_mut().find(|own| own.number == entry.number) else {
                continue;
            };
            own.member = entry.member.clone();
            drop(all);
            if let Some(inner) = entry.session.upgrade() {
                inner.take_up(&entry.member.chosen());
            }
        }
    }

    /// Parts are due as the proof of all that are admitted says.
    fn set_due(&self, shared: &Shared) -> Result<()> {
        let entries = self.snapshot();
        let Some(found) = found(shared, &entries)? else {
            return Ok(());
        };
        for (entry, due) in entries.iter().zip(found.due()) {
            if let Some(inner) = entry.session.upgrade() {
                inner.set_due(&entry.member.chosen().plan, &due);
            }
        }
        Ok(())
    }

    /// The proof of all that are admitted.
    pub(crate) fn certificate(&self, shared: &Shared) -> Option<CertificateReport> {
        let entries = self.snapshot();
        let members: Vec<Member> = entries.iter().map(|entry| entry.member.clone()).collect();
        let found = found(shared, &entries).ok()??;
        found.report(&members).ok()
    }
}

/// All that are admitted, as they are; none where there are none.
fn found(shared: &Shared, entries: &[Entry]) -> Result<Option<Found>> {
    let members: Vec<Member> = entries.iter().map(|entry| entry.member.clone()).collect();
    if members.is_empty() {
        return Ok(None);
    }
    let chosen = members.iter().map(Member::chosen).collect();
    choose::judged(&choose::devices(shared), &members, chosen)
}

/// Judges sessions beside those that are admitted, and keeps a place for them.
pub(crate) fn admit(shared: &Arc<Shared>, wanted: &[Wanted]) -> Result<Admission> {
    let members = wanted.iter().map(|wanted| wanted.member(shared));
    let members: Vec<Member> = members.collect::<Result<_>>()?;
    let registry = &shared.admitted;
    registry.alone(shared, || {
        let mut entries = registry.snapshot();
        let mut all: Vec<Member> = entries.iter().map(|entry| entry.member.clone()).collect();
        for member in members {
            if all.iter().any(|other| other.name == member.name) {
                let words = format!("there is an admitted session {:?} already", member.name);
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            all.push(member);
        }
        let found = match choose::choose(shared, &all)? {
            Ok(found) => found,
            Err(refusal) => return Ok(Admission::Refused(refusal)),
        };
        let certificate = found.report(&all)?;
        let new = all.split_off(entries.len());
        let (before, wanted_chosen) = found.chosen.split_at(entries.len());
        for (entry, chosen) in entries.iter_mut().zip(before) {
            if let Some(inner) = entry.session.upgrade() {
                inner.make_ready(shared, chosen)?;
            }
            entry.member = entry.member.admitted(chosen);
        }
        registry.put_in_place(&entries);
        let mut sessions = Vec::with_capacity(wanted.len());
        for ((member, chosen), wanted) in new.iter().zip(wanted_chosen).zip(wanted) {
            let mut all = lock(&registry.entries);
            all.number += 1;
            let number = all.number;
            all.all.push(Entry {
                number,
                member: member.admitted(chosen),
                session: Weak::new(),
            });
            let reservation = Reservation {
                shared: Arc::clone(shared),
                number,
            };
            sessions.push((reservation, wanted.own_policy()));
        }
        registry.set_due(shared)?;
        Ok(Admission::Admitted(Admitted {
            shared: Arc::clone(shared),
            certificate,
            sessions,
        }))
    })
}

/// Makes sessions that were admitted.
pub(crate) fn make(shared: &Arc<Shared>, sessions: Vec<(Reservation, Policy)>) -> Result<Vec<Session>> {
    let registry = &shared.admitted;
    registry.alone(shared, || {
        let mut made = Vec::with_capacity(sessions.len());
        for (reservation, policy) in sessions {
            let number = reservation.number;
            let entry = registry
                .snapshot()
                .into_iter()
                .find(|entry| entry.number == number);
            let entry = entry.expect("invariant: an entry is there as long as its reservation");
            let chosen = entry.member.chosen();
            let id = next_id();
            let mut kept = Vec::with_capacity(chosen.ready.len());
            for (number, counted) in (0..).zip(&chosen.ready) {
                kept.push(load(shared, counted, &policy, id, number)?);
            }
            let first = kept.iter().find(|kept| Arc::ptr_eq(&kept.counted, &chosen.plan));
            let first = Arc::clone(&first.expect("invariant: what was chosen is ready").plan);
            let session = Session::admitted(shared, id, policy, first, kept, reservation)?;
            let mut entries = lock(&registry.entries);
            if let Some(entry) = entries.all.iter_mut().find(|entry| entry.number == number) {
                entry.session = session
                    .0
                    .latest()
                    .map_or_else(Weak::new, |inner| Arc::downgrade(&inner));
            }
            drop(entries);
            made.push(session);
        }
        registry.set_due(shared)?;
        Ok(made)
    })
}

/// Compiles and loads a plan as it was counted: a device that refuses a part of it is an error.
fn load(
    shared: &Arc<Shared>,
    counted: &Arc<Counted>,
    policy: &Policy,
    session: usize,
    number: u64,
) -> Result<Kept> {
    let as_it_is = policy.clone().replan(false);
    let planned = counted.planned.clone();
    let (planned, parts) = replan::compile(shared, planned, &as_it_is, Loaded::default())?;
    let times: Vec<u64> = counted.parts.iter().map(|part| part.time_ns).collect();
    let plan = LoadedPlan::counted(shared, number, session, planned, parts, policy, Some(&times))?;
    Ok(Kept {
        counted: Arc::clone(counted),
        plan: Arc::new(plan),
    })
}

impl Inner {
    /// Compiles and loads what is to be ready and is not; nothing changes for runs.
    fn make_ready(&self, shared: &Arc<Shared>, chosen: &Chosen) -> Result<()> {
        for counted in &chosen.ready {
            let is_ready = |kept: &Kept| Arc::ptr_eq(&kept.counted, counted);
            if lock(&self.kept).iter().any(is_ready) {
                continue;
            }
            let made = load(shared, counted, &self.policy, self.id, self.next_number())?;
            lock(&self.kept).push(made);
        }
        Ok(())
    }

    /// The next run takes the plan that was chosen; what is not to be ready any more goes.
    fn take_up(&self, chosen: &Chosen) {
        let mut kept = lock(&self.kept);
        let is_chosen = |kept: &&Kept| Arc::ptr_eq(&kept.counted, &chosen.plan);
        let Some(found) = kept.iter().find(is_chosen).map(|kept| Arc::clone(&kept.plan)) else {
            return;
        };
        let (is_in_place, policy) = {
            let current = self.current();
            let in_place = current.plan.as_ref();
            (
                in_place.is_some_and(|plan| Arc::ptr_eq(plan, &found)),
                Arc::clone(&current.policy),
            )
        };
        if !is_in_place && !found.has_failed() && !found.is_broken() {
            self.put_in_place(&found, &policy);
            let words = match &chosen.plan.cut {
                Some((longest, _)) => format!("cut to parts of {longest}, for sessions that were admitted"),
                None => "uncut, since the sessions are gone that it was cut for".to_owned(),
            };
            self.tell(Event::new(EventKind::Switched, &chosen.plan.name, 0, words));
        }
        kept.retain(|kept| chosen.ready.iter().any(|ready| Arc::ptr_eq(ready, &kept.counted)));
    }

    /// The times that a plan of these parts was counted with, where admission keeps it ready, in nanoseconds.
    pub(crate) fn counted_times(&self, plan: &Plan) -> Option<Vec<u64>> {
        let kept = lock(&self.kept);
        let found = kept.iter().find(|kept| kept.is_of(plan))?;
        Some(found.counted.parts.iter().map(|part| part.time_ns).collect())
    }

    /// A plan was loaded again: it stays ready in the place of what is void.
    pub(crate) fn keep_instead(&self, plan: &Arc<LoadedPlan>) {
        let mut kept = lock(&self.kept);
        if let Some(kept) = kept.iter_mut().find(|kept| kept.is_of(plan.planned.plan())) {
            plan.wiring.set_due(&kept.plan.wiring.due());
            kept.plan = Arc::clone(plan);
        }
    }

    /// Parts of a plan are due so long after their run is submitted.
    fn set_due(&self, counted: &Arc<Counted>, within_ns: &[u64]) {
        let kept = lock(&self.kept);
        if let Some(kept) = kept.iter().find(|kept| Arc::ptr_eq(&kept.counted, counted)) {
            kept.plan.wiring.set_due(within_ns);
        }
    }
}
