//! The account of the memory that a runtime's sessions hold: each byte has one owner.
//!
//! Invariants:
//! 1. A charge is released when its memory is freed, so the sum is that of the loaded plans.
//! 2. The sum never exceeds the limit: a charge that does not fit parks idle sessions, waits for
//!    sessions in use, or is refused.
//! 3. Loads that wait for memory get it in order of arrival.
//! 4. No lock of the account is held while a session is parked. A run on a loaded plan takes none.
//!
//! Not here: what parking a session frees (`session/park`), the limit's origin (`memory_limit`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::memory_limit::MemoryLimit;

/// Holders that an error names; it sums the others.
const NAMED: usize = 8;
/// A load that waits for memory looks so often whether a session has become idle unseen.
const LOOK: Duration = Duration::from_millis(10);
/// A load gives up when no session could free memory for so long: until then, one that has ended may still be
/// freeing its own.
const GRACE: Duration = Duration::from_secs(1);

/// Without a request of the app, a session is not parked that takes longer than this to load for each byte that it
/// frees: packing weights takes 1 to 10 ns a byte, and what is above has its weights elsewhere.
const WORTH_NS_PER_BYTE: u64 = 100;

/// What memory is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Weights, code and working memory of loaded parts.
    Parts,
    /// Tensors between parts, and outputs, of the runs that a plan has memory for.
    Buffers,
    /// Graphs and costs, which stay when a session is parked.
    Plans,
    /// Memory of the app that depends on a model, such as KV caches.
    Caches,
}

/// How many purposes there are.
const PURPOSES: usize = 4;

/// A session, or one of its specializations, that may give its memory up.
pub(crate) trait Parkable: std::fmt::Debug + Send + Sync {
    /// The number of its session.
    fn session(&self) -> usize;
    /// Bytes that parking frees once it is idle; 0 if it is parked or has to keep its plans.
    fn freeable(&self) -> u64;
    /// Time to load it again, in nanoseconds.
    fn rebuild_ns(&self) -> u64;
    /// When it was used last, in nanoseconds of the runtime's clock.
    fn used_ns(&self) -> u64;
    /// Whether no run uses it.
    fn is_idle(&self) -> bool;
    /// Frees its memory, unless it is in use; whether it did.
    fn park_idle(&self, why: &str) -> bool;
}

/// The specializations of a session.
pub(crate) trait SpecializationCache: std::fmt::Debug + Send + Sync {
    /// Drops all but the one used last, and reports why to the session.
    fn evict(&self, why: &str);
}

/// A session that holds memory.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) session: usize,
    /// The model file, for messages.
    pub(crate) model: String,
}

/// How a charge that does not fit gets room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It gets none.
    Free,
    /// By parking idle sessions.
    Parked,
    /// By parking idle sessions, and waiting so long for those in use.
    Awaited(Duration),
}

/// The memory of all sessions of a runtime.
#[derive(Debug)]
pub(crate) struct MemoryAccount {
    limit: MemoryLimit,
    parked: AtomicU64,
    /// Loads that wait for memory.
    waiting: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: u64,
    peak: u64,
    sessions: BTreeMap<usize, Sum>,
    parkable: Vec<Weak<dyn Parkable>>,
    caches: Vec<Weak<dyn SpecializationCache>>,
    /// Loads that wait: number, and the bytes that each needs more.
    queue: VecDeque<(u64, u64)>,
    next: u64,
    /// Loads that have memory and are not in place yet.
    loading: usize,
}

#[derive(Debug)]
struct Sum {
    holder: Arc<Holder>,
    bytes: [u64; PURPOSES],
}

impl Sum {
    fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

/// Bytes of the account, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<MemoryAccount>,
    holder: Arc<Holder>,
    purpose: Purpose,
    bytes: AtomicU64,
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Charges more bytes.
    ///
    /// # Errors
    /// As for [`MemoryAccount::charge`].
    pub(crate) fn grow(&self, more: u64) -> Result<()> {
        let more = [(self.purpose, more)];
        let granted = self.account.charge(&self.holder, &more, None, Room::Parked)?;
        for charge in granted.charges {
            // what was charged moves here
            let bytes = charge.bytes.swap(0, Ordering::AcqRel);
            self.bytes.fetch_add(bytes, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Releases all but so many bytes.
    pub(crate) fn shrink(&self, bytes: u64) {
        let before = self
            .bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(now.min(bytes)));
        // the closure always gives a value
        let freed = before.unwrap_or(0).saturating_sub(bytes);
        if freed > 0 {
            self.account
                .lock()
                .subtract(self.holder.session, self.purpose, freed);
            self.account.notify();
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let bytes = self.bytes();
        if bytes > 0 {
            self.account
                .lock()
                .subtract(self.holder.session, self.purpose, bytes);
            self.account.notify();
        }
    }
}

/// A load that has memory and is not in place yet, so that nothing can be parked of it. Others wait for it.
#[derive(Debug)]
pub(crate) struct Loading(Arc<MemoryAccount>);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.lock().loading -= 1;
        self.0.notify();
    }
}

/// Charges, one per purpose that was asked for.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) charges: Vec<Charge>,
    /// Kept until what was charged may be parked.
    pub(crate) loading: Loading,
}

/// Memory for a load that is about to begin.
#[derive(Debug)]
pub(crate) struct Reservation {
    charge: Charge,
    loading: Loading,
}

/// The memory of a runtime's sessions, in bytes, without that of devices with memory of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct MemoryReport {
    /// The limit ([`Builder::memory_limit`](crate::Builder::memory_limit)); none if there is none, or
    /// it is unknown.
    pub limit_bytes: Option<u64>,
    /// Where the limit comes from: `memory-limit`, the file of a control group, or `none`.
    pub limit_from: String,
    /// What all sessions hold.
    pub held_bytes: u64,
    /// The most that they held at once.
    pub peak_bytes: u64,
    /// Of what they hold: weights, code and working memory of loaded parts.
    pub parts_bytes: u64,
    /// Of what they hold: tensors between parts, and outputs.
    pub buffers_bytes: u64,
    /// Of what they hold: graphs and costs (an estimate), which stay when a session is parked.
    pub plans_bytes: u64,
    /// Of what they hold: memory that apps account for beside their sessions, such as KV caches of language models.
    pub caches_bytes: u64,
    /// How often a session, or one of its specializations, was parked.
    pub parked: u64,
    /// What each session holds, the largest first. A part that sessions share counts for the one
    /// that loaded it.
    pub sessions: Vec<SessionMemory>,
}

/// What one session holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionMemory {
    /// Model file.
    pub model: String,
    /// The sum in bytes.
    pub bytes: u64,
    /// Of it: memory that the app accounts for beside its sessions, such as KV caches.
    pub caches_bytes: u64,
}

impl std::fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [held, parts, buffers, plans, caches, peak] = [
            self.held_bytes,
            self.parts_bytes,
            self.buffers_bytes,
            self.plans_bytes,
            self.caches_bytes,
            self.peak_bytes,
        ]
        .map(mebibytes);
        write!(
            f,
            "{held} held (parts {parts}, buffers {buffers}, plans {plans}, caches {caches}), at most {peak}, "
        )?;
        match self.limit_bytes {
            Some(limit) => write!(f, "limit {} ({})", mebibytes(limit), self.limit_from),
            None => f.write_str("no limit"),
        }
    }
}

impl State {
    fn subtract(&mut self, session: usize, purpose: Purpose, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
        if let Some(sum) = self.sessions.get_mut(&session) {
            let own = &mut sum.bytes[purpose as usize];
            *own = own.saturating_sub(bytes);
            if sum.total() == 0 {
                self.sessions.remove(&session);
            }
        }
    }
}

impl MemoryAccount {
    pub(crate) fn new(limit: MemoryLimit) -> Arc<MemoryAccount> {
        Arc::new(MemoryAccount {
            limit,
            parked: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit in bytes, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit.bytes()
    }

    /// From now on this may be parked when memory is short.
    pub(crate) fn add_parkable(&self, one: Weak<dyn Parkable>) {
        let mut state = self.lock();
        state.parkable.retain(|other| other.strong_count() > 0);
        state.parkable.push(one);
    }

    /// From now on this is evicted from when the system is short of memory.
    pub(crate) fn add_cache(&self, one: Weak<dyn SpecializationCache>) {
        let mut state = self.lock();
        state.caches.retain(|other| other.strong_count() > 0);
        state.caches.push(one);
    }

    /// Counts a parking.
    pub(crate) fn count_parked(&self) {
        self.parked.fetch_add(1, Ordering::Relaxed);
    }

    /// Charges bytes to a session, all or none; gives a charge for each purpose in the list. They
    /// take the place of what was reserved.
    ///
    /// # Errors
    /// They do not fit the limit ([`ErrorKind::OutOfMemory`]).
    pub(crate) fn charge(
        self: &Arc<Self>,
        holder: &Arc<Holder>,
        amounts: &[(Purpose, u64)],
        reserved: Option<Reservation>,
        room: Room,
    ) -> Result<Granted> {
        let (reserved, loading) = reserved.map(|one| (one.charge, one.loading)).unzip();
        let bytes = amounts.iter().map(|(_, bytes)| *bytes);
        let bytes = bytes.fold(0, u64::saturating_add);
        let more = bytes.saturating_sub(reserved.as_ref().map_or(0, Charge::bytes));
        let enter = || self.enter(holder, amounts, bytes, reserved.as_ref());
        // what is reserved has had its turn
        let has_turn = room == Room::Parked || more == 0 || reserved.is_some() || !self.is_short();
        // what can never fit parks nothing
        let can_fit = self.limit.bytes().is_none_or(|limit| more <= limit);
        let is_entered = (has_turn && enter())
            || can_fit
                && match room {
                    Room::Free => false,
                    Room::Parked => {
                        self.park_for(more);
                        enter()
                    }
                    Room::Awaited(patience) => {
                        let turn = Turn::new(self, more, reserved.is_some());
                        // what waits itself is nothing to wait for
                        drop(loading);
                        self.await_room(&turn, holder.session, more, patience, &enter)
                    }
                };
        if !is_entered {
            // what it had reserved is not held by others
            drop(reserved);
            return Err(self.refusal(&holder.model, bytes));
        }
        let charge = |(purpose, bytes): &(Purpose, u64)| Charge {
            account: Arc::clone(self),
            holder: Arc::clone(holder),
            purpose: *purpose,
            bytes: AtomicU64::new(*bytes),
        };
        Ok(Granted {
            charges: amounts.iter().map(charge).collect(),
            loading: Loading(Arc::clone(self)),
        })
    }

    /// Charges what a load is expected to take, before it begins.
    ///
    /// # Errors
    /// As for [`MemoryAccount::charge`].
    pub(crate) fn reserve(
        self: &Arc<Self>,
        holder: &Arc<Holder>,
        bytes: u64,
        room: Room,
    ) -> Result<Option<Reservation>> {
        let Granted { mut charges, loading } = self.charge(holder, &[(Purpose::Parts, bytes)], None, room)?;
        Ok(charges.pop().map(|charge| Reservation { charge, loading }))
    }

    /// Adds the amounts in the place of what was reserved, if they fit.
    fn enter(
        &self,
        holder: &Arc<Holder>,
        amounts: &[(Purpose, u64)],
        bytes: u64,
        reserved: Option<&Charge>,
    ) -> bool {
        let mut state = self.lock();
        let before = reserved.map_or(0, Charge::bytes);
        let held = state.held.saturating_sub(before).saturating_add(bytes);
        if held > state.held && self.limit.bytes().is_some_and(|limit| held > limit) {
            return false;
        }
        if let Some(reserved) = reserved {
            // void from now on
            reserved.bytes.store(0, Ordering::Release);
            state.subtract(reserved.holder.session, reserved.purpose, before);
        }
        state.held = held;
        state.peak = state.peak.max(held);
        state.loading += 1;
        let sum = state.sessions.entry(holder.session).or_insert_with(|| Sum {
            holder: Arc::clone(holder),
            bytes: [0; PURPOSES],
        });
        for (purpose, bytes) in amounts {
            sum.bytes[*purpose as usize] += bytes;
        }
        if sum.total() == 0 {
            state.sessions.remove(&holder.session);
        }
        true
    }

    /// Waits for its turn, and then for room.
    fn await_room(
        &self,
        turn: &Turn<'_>,
        session: usize,
        more: u64,
        patience: Duration,
        enter: &dyn Fn() -> bool,
    ) -> bool {
        let until = Instant::now().checked_add(patience);
        let mut hopeless_since: Option<Instant> = None;
        loop {
            if turn.is_next() {
                if enter() {
                    return true;
                }
                self.park_for(more);
                if enter() {
                    return true;
                }
                if self.may_get_room(session) {
                    hopeless_since = None;
                } else if hopeless_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                    return enter();
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let state = self.lock();
            let wait = self.changed.wait_timeout(state, left.unwrap_or(LOOK).min(LOOK));
            drop(wait.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Whether another session has memory that it gives up once it is idle, or is being loaded.
    fn may_get_room(&self, session: usize) -> bool {
        if self.lock().loading > 0 {
            return true;
        }
        let mut all = self.parkable().into_iter();
        all.any(|one| one.session() != session && one.freeable() > 0)
    }

    fn parkable(&self) -> Vec<Arc<dyn Parkable>> {
        self.lock().parkable.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether a load waits for memory. Costs one atomic load.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether the next load that waits has no room yet.
    pub(crate) fn lacks_room(&self) -> bool {
        let state = self.lock();
        let next = state
            .queue
            .front()
            .map(|(_, more)| state.held.saturating_add(*more));
        next.is_some_and(|held| self.limit.bytes().is_some_and(|limit| held > limit))
    }

    /// Wakes loads that wait, after memory was freed or a session became idle.
    pub(crate) fn notify(&self) {
        if self.is_short() {
            self.changed.notify_all();
        }
    }

    fn has_room(&self, bytes: u64) -> bool {
        let held = self.lock().held.saturating_add(bytes);
        self.limit.bytes().is_none_or(|limit| held <= limit)
    }

    /// Parks idle sessions until so many bytes more stay within the limit, or none is left.
    fn park_for(&self, bytes: u64) {
        self.park_until("the memory limit", u64::MAX, || self.has_room(bytes));
    }

    /// Parks idle sessions, the least valuable first, until `is_enough` or none is left. With `unused_since` below the
    /// largest number, only those last used before it whose memory is worth loading them again.
    fn park_until(&self, why: &str, unused_since: u64, is_enough: impl Fn() -> bool) {
        let mut left = self.parkable();
        if unused_since < u64::MAX {
            let is_worth = |one: &dyn Parkable| one.rebuild_ns() / WORTH_NS_PER_BYTE <= one.freeable();
            left.retain(|one| one.used_ns() <= unused_since && is_worth(&**one));
        }
        let mut is_freed = false;
        while !is_enough() {
            let now = left.iter().map(|one| one.used_ns()).max().unwrap_or(0);
            let values = left.iter().enumerate().filter_map(|(index, one)| {
                let bytes = one.freeable();
                (bytes > 0 && one.is_idle()).then(|| (index, value(&**one, bytes, now)))
            });
            let Some((least, _)) = values.min_by(|(_, a), (_, b)| a.total_cmp(b)) else {
                break;
            };
            is_freed |= left.swap_remove(least).park_idle(why);
        }
        if is_freed {
            polychip_host::trim_heap();
        }
    }

    /// Drops cached specializations, and if `parks` the plans of idle sessions: of all, or of those worth it that were
    /// last used before `unused_since`, in nanoseconds of the runtime's clock.
    pub(crate) fn trim(&self, parks: bool, why: &str, unused_since: u64) {
        let caches: Vec<Arc<dyn SpecializationCache>> = {
            let state = self.lock();
            state.caches.iter().filter_map(Weak::upgrade).collect()
        };
        caches.iter().for_each(|cache| cache.evict(why));
        if parks {
            self.park_until(why, unused_since, || false);
        }
        polychip_host::trim_heap();
    }

    /// What sessions hold, in bytes.
    pub(crate) fn held(&self) -> u64 {
        self.lock().held
    }

    /// What a session holds, in bytes.
    pub(crate) fn held_by(&self, session: usize) -> u64 {
        self.lock().sessions.get(&session).map_or(0, Sum::total)
    }

    pub(crate) fn report(&self) -> MemoryReport {
        let state = self.lock();
        let mut sessions: Vec<SessionMemory> = state
            .sessions
            .values()
            .map(|sum| SessionMemory {
                model: sum.holder.model.clone(),
                bytes: sum.total(),
                caches_bytes: sum.bytes[Purpose::Caches as usize],
            })
            .collect();
        // the memory of an app's many owners of one kind is one row
        sessions.sort_by(|a, b| a.model.cmp(&b.model));
        sessions.dedup_by(|next, one| {
            let is_same =
                next.model == one.model && [&*next, &*one].iter().all(|row| row.bytes == row.caches_bytes);
            if is_same {
                one.bytes += next.bytes;
                one.caches_bytes += next.caches_bytes;
            }
            is_same
        });
        sessions.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.model.cmp(&b.model)));
        let of = |purpose: Purpose| {
            state
                .sessions
                .values()
                .map(|sum| sum.bytes[purpose as usize])
                .sum()
        };
        MemoryReport {
            limit_bytes: self.limit.bytes(),
            limit_from: self.limit.to_string(),
            held_bytes: state.held,
            peak_bytes: state.peak,
            parts_bytes: of(Purpose::Parts),
            buffers_bytes: of(Purpose::Buffers),
            plans_bytes: of(Purpose::Plans),
            caches_bytes: of(Purpose::Caches),
            parked: self.parked.load(Ordering::Relaxed),
            sessions,
        }
    }

    fn refusal(&self, model: &str, bytes: u64) -> Error {
        let report = self.report();
        let holders = report.sessions.iter().take(NAMED);
        let mut holders: Vec<String> = holders
            .map(|one| format!("{} {}", one.model, mebibytes(one.bytes)))
            .collect();
        if let Some(rest) = report.sessions.get(NAMED..).filter(|rest| !rest.is_empty()) {
            let bytes = rest.iter().map(|one| one.bytes).sum();
            holders.push(format!("{} more sessions {}", rest.len(), mebibytes(bytes)));
        }
        let holders = if holders.is_empty() {
            String::new()
        } else {
            format!(" ({})", holders.join(", "))
        };
        let words = format!(
            "{model} needs {} more; the limit for all sessions is {} ({}), and {} are held by sessions that cannot be parked \
             now{holders}: raise the limit (memory-limit), or wait for runs, drop their outputs and drop sessions",
            mebibytes(bytes),
            report.limit_bytes.map_or_else(|| "unknown".into(), mebibytes),
            report.limit_from,
            mebibytes(report.held_bytes)
        );
        Error::new(ErrorKind::OutOfMemory, words)
    }
}

/// A place in the queue of loads that wait for memory, which its end frees.
struct Turn<'a> {
    account: &'a MemoryAccount,
    number: u64,
}

impl Turn<'_> {
    /// The last place; the first one if a part of the memory is reserved, which others may wait for.
    fn new(account: &MemoryAccount, more: u64, is_reserved: bool) -> Turn<'_> {
        let mut state = account.lock();
        let number = state.next;
        state.next += 1;
        if is_reserved {
            state.queue.push_front((number, more));
        } else {
            state.queue.push_back((number, more));
        }
        account.waiting.store(state.queue.len(), Ordering::Release);
        Turn { account, number }
    }

    fn is_next(&self) -> bool {
        let state = self.account.lock();
        state
            .queue
            .front()
            .is_some_and(|(number, _)| *number == self.number)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.account.lock();
        state.queue.retain(|(number, _)| *number != self.number);
        self.account.waiting.store(state.queue.len(), Ordering::Release);
        drop(state);
        self.account.changed.notify_all();
    }
}

/// The value of keeping a session: the time to load it again, per byte that it holds, which falls the longer it is
/// unused (after GreedyDual-Size, Cao and Irani, 1997).
fn value(one: &dyn Parkable, bytes: u64, now_ns: u64) -> f64 {
    let age = now_ns.saturating_sub(one.used_ns()) + 1;
    (one.rebuild_ns() + 1) as f64 / bytes as f64 / age as f64
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests;
