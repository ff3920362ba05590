//! The admitted sessions of a runtime, and which of their plans is active.
//!
//! Invariants:
//! 1. The registered set was admitted as a whole. The rest stays admitted when a session is
//!    dropped.
//! 2. One thread at a time chooses and activates plans. A session that is dropped meanwhile does
//!    not wait: the active thread checks again.
//! 3. A plan is compiled before anything changes; only compiled plans are activated.
//! 4. The registry holds no loaded plan, so that a session ends with its last clone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use polychip_partitioner::Plan;

use crate::admission::choose::{self, Chosen, Found, Member};
use crate::admission::report::{CertificateReport, RefusalReport};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Policy;
use crate::session::specialization_state::Inner;
use crate::session::standby_plan::StandbyPlan;
use crate::session::{Session, next_id, next_plans};
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
    registry: Arc<Registry>,
    shared: Arc<Shared>,
    number: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let registry = &self.registry;
        lock(&registry.entries)
            .all
            .retain(|entry| entry.number != self.number);
        registry.is_gone.store(true, Ordering::Release);
        registry.look(&self.shared);
    }
}

impl Registry {
    /// After a session is gone, unless another thread does so: replaces the plans that were cut for it with uncut ones.
    fn look(&self, shared: &Shared) {
        while self.is_gone.load(Ordering::Acquire) {
            let _one = match self.making.try_lock() {
                Ok(one) => one,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // the holder looks when it is done
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
                take_up(&inner, &entry.member.chosen());
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
                inner.set_due(entry.member.chosen().plan.planned.plan(), &due);
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

/// The next run takes the plan that was chosen; what is not to be ready any more goes.
fn take_up(inner: &Inner, chosen: &Chosen) {
    let why = match &chosen.plan.cut {
        Some((longest, _)) => format!("cut to parts of at most {longest}, for newly admitted sessions"),
        None => "uncut, since the sessions are gone that it was cut for".to_owned(),
    };
    inner.take_up(chosen.plan.planned.plan(), &chosen.plan.name, why);
    let ready: Vec<&Plan> = chosen.ready.iter().map(|plan| plan.planned.plan()).collect();
    inner.keep_only(&ready);
}

/// All admitted sessions with their current plans; `None` without any.
fn found(shared: &Shared, entries: &[Entry]) -> Result<Option<Found>> {
    let members: Vec<Member> = entries.iter().map(|entry| entry.member.clone()).collect();
    if members.is_empty() {
        return Ok(None);
    }
    let chosen = members.iter().map(Member::chosen).collect();
    choose::judged(&choose::devices(shared), &members, chosen)
}

/// What is to be admitted: how admission sees it, and the policy of its session.
pub(crate) type Asked = (Member, Policy);

/// Sessions that were admitted and are not made yet, with the proof.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) certificate: CertificateReport,
    sessions: Vec<(Reservation, Policy)>,
}

/// Judges sessions beside those that are admitted, and keeps a place for them.
pub(crate) fn admit(
    registry: &Arc<Registry>,
    shared: &Arc<Shared>,
    wanted: Vec<Asked>,
) -> Result<std::result::Result<Reserved, RefusalReport>> {
    registry.alone(shared, || {
        let mut entries = registry.snapshot();
        let mut all: Vec<Member> = entries.iter().map(|entry| entry.member.clone()).collect();
        for (member, _) in &wanted {
            if all.iter().any(|other| other.name == member.name) {
                let words = format!(
                    "an admitted session is already called {:?}; use another name",
                    member.name
                );
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            all.push(member.clone());
        }
        let found = match choose::choose(shared, &all)? {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let certificate = found.report(&all)?;
        let (before, new) = found.chosen.split_at(entries.len());
        for (entry, chosen) in entries.iter_mut().zip(before) {
            if let Some(inner) = entry.session.upgrade() {
                let mut ready = chosen.ready.iter();
                ready.try_for_each(|plan| inner.make_ready(plan.unloaded_standby()))?;
            }
            entry.member = entry.member.admitted(chosen);
        }
        registry.put_in_place(&entries);
        let mut sessions = Vec::with_capacity(wanted.len());
        for ((member, policy), chosen) in wanted.into_iter().zip(new) {
            let mut all = lock(&registry.entries);
            all.number += 1;
            let number = all.number;
            all.all.push(Entry {
                number,
                member: member.admitted(chosen),
                session: Weak::new(),
            });
            let reservation = Reservation {
                registry: Arc::clone(registry),
                shared: Arc::clone(shared),
                number,
            };
            sessions.push((reservation, policy));
        }
        registry.set_due(shared)?;
        Ok(Ok(Reserved {
            certificate,
            sessions,
        }))
    })
}

/// Makes sessions that were admitted.
pub(crate) fn make(
    registry: &Arc<Registry>,
    shared: &Arc<Shared>,
    reserved: Reserved,
) -> Result<Vec<Session>> {
    registry.alone(shared, || {
        let mut made = Vec::with_capacity(reserved.sessions.len());
        for (reservation, policy) in reserved.sessions {
            let number = reservation.number;
            let entries = registry.snapshot();
            let entry = entries.iter().find(|entry| entry.number == number);
            let entry = entry.expect("invariant: an entry is there as long as its reservation");
            let chosen = entry.member.chosen();
            let id = next_id();
            let first_plan = next_plans();
            let ready = (first_plan..).zip(&chosen.ready);
            let standby =
                ready.map(|(number, plan)| plan.unloaded_standby().load(shared, id, number, &policy));
            let standby: Vec<StandbyPlan> = standby.collect::<Result<_>>()?;
            let first = standby
                .iter()
                .find(|standby| standby.is_of(chosen.plan.planned.plan()));
            let first = Arc::clone(&first.expect("invariant: what was chosen is ready").plan);
            let session = {
                let next_plan = first_plan + standby.len() as u64;
                Session::admitted(
                    shared,
                    id,
                    policy,
                    first,
                    standby,
                    next_plan,
                    Box::new(reservation),
                )?
            };
            let inner = session.0.latest();
            let mut entries = lock(&registry.entries);
            if let Some(entry) = entries.all.iter_mut().find(|entry| entry.number == number) {
                entry.session = inner.map_or_else(Weak::new, |inner| Arc::downgrade(&inner));
            }
            drop(entries);
            made.push(session);
        }
        registry.set_due(shared)?;
        Ok(made)
    })
}
