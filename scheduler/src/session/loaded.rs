//! A loaded plan, with memory for several runs in flight: what one run executes from start to end.
//!
//! Invariants:
//! 1. A run holds its plan until it has ended, so a replaced plan is freed after its last run.
//! 2. Runs in flight use different slots, so they share no memory except inputs, which are only
//!    read. The number of slots is the maximum of runs in flight and outputs kept by the app.
//!
//! Not here: replacing a plan (`recover`), retrying a run (`run`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use polychip_host::Clock;

use crate::device_queue::Member;
use crate::error::{Error, ErrorKind, Result};
use crate::loaded_part::LoadedPart;
use crate::planned::Planned;
use crate::policy::{Policy, Settings};
use crate::session::compile::Loaded;
use crate::session::history::History;
use crate::session::memory::{self, Footprint};
use crate::session::padding;
use crate::session::replicas::{ReplicaReport, Replicas, Taken};
use crate::session::run_driver::RunDriver;
use crate::session::run_state::{Progress, RunBindings, RunState};
use crate::session::wiring::{self, OutputSource, PartWiring, Wiring};
use crate::shared::Shared;

/// Slots of a plan, at most: of as many runs the app may keep the outputs.
const MOST_SLOTS: usize = 256;

/// A plan of a session, loaded.
pub(crate) struct LoadedPlan {
    /// Which plan of the session: buffers of inputs and outputs are made per plan.
    pub(crate) number: u64,
    /// The session, among those of the process.
    pub(crate) session: usize,
    /// The session shares the device queues of the plan's devices with others.
    _members: Vec<Member>,
    pub(super) shared: Arc<Shared>,
    /// Threads that the policy asks for, which measured times of a CPU are true for.
    pub(super) settings: Settings,
    patience: Duration,
    pub(crate) planned: Arc<Planned>,
    pub(crate) wiring: Arc<Wiring>,
    pub(super) parts: Vec<LoadedPart>,
    /// Of the first copy of the model: the others.
    pub(super) others: Vec<Arc<LoadedPlan>>,
    /// All copies, and which of them this is; none where it is the only one.
    copies: Option<(Arc<Replicas>, usize)>,
    pub(crate) footprint: Footprint,
    slots: Mutex<Slots>,
    /// One per slot, made with it where parts wait for each other across plugins; else when parts first wait for their
    /// turns.
    run_drivers: Vec<OnceLock<RunDriver>>,
    priority: polychip_host::Priority,
    pub(crate) history: Mutex<History>,
    /// For how long its devices' clocks may be those of a load that has passed, where its runs leave gaps.
    pub(crate) clock_hold_ns: u64,
    /// Shared by all copies, which are replaced together.
    failed: Arc<AtomicBool>,
}

struct Slots {
    /// How many there are.
    count: usize,
    /// By slot: the run whose outputs the app keeps, 0 where it keeps none.
    kept: Vec<u64>,
    free: Vec<(usize, Box<RunState>)>,
    /// Slots of abandoned runs that had not ended.
    abandoned: Vec<(usize, Option<Box<RunState>>)>,
}

impl std::fmt::Debug for LoadedPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPlan")
            .field("number", &self.number)
            .field("parts", &self.wiring.parts.len())
            .finish_non_exhaustive()
    }
}

impl LoadedPlan {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        number: u64,
        session: usize,
        planned: Planned,
        parts: Vec<LoadedPart>,
        policy: &Policy,
    ) -> Result<LoadedPlan> {
        LoadedPlan::counted(shared, number, session, planned, parts, policy, None)
    }

    /// The same of an admitted session, whose parts were counted with these times in nanoseconds.
    pub(crate) fn counted(
        shared: &Arc<Shared>,
        number: u64,
        session: usize,
        planned: Planned,
        parts: Vec<LoadedPart>,
        policy: &Policy,
        times_ns: Option<&[u64]>,
    ) -> Result<LoadedPlan> {
        let failed = Arc::<AtomicBool>::default();
        let one = |planned, parts| {
            let failed = Arc::clone(&failed);
            LoadedPlan::one(shared, number, session, planned, parts, policy, times_ns, failed)
        };
        let replicas = planned.plan().replicas.len();
        if replicas == 0 {
            return one(planned, parts);
        }
        let mut parts = parts.into_iter();
        let mut take = |planned: &Planned| parts.by_ref().take(planned.plan().parts.len()).collect();
        let mut copies = Vec::with_capacity(1 + replicas);
        let own = take(&planned);
        copies.push(one(planned.clone(), own)?);
        for index in 0..replicas {
            let copy = planned.copy(index);
            let own = take(&copy);
            copies.push(one(copy, own)?);
        }
        let set = Arc::new(replicas_of(&copies));
        for (index, copy) in copies.iter_mut().enumerate() {
            copy.copies = Some((Arc::clone(&set), index));
        }
        let mut copies = copies.into_iter();
        let mut first = copies.next().expect("invariant: the first copy was made");
        first.others = copies.map(Arc::new).collect();
        Ok(first)
    }

    /// One copy of the model.
    #[allow(clippy::too_many_arguments)] // what a plan is made of
    fn one(
        shared: &Arc<Shared>,
        number: u64,
        session: usize,
        planned: Planned,
        parts: Vec<LoadedPart>,
        policy: &Policy,
        times_ns: Option<&[u64]>,
        failed: Arc<AtomicBool>,
    ) -> Result<LoadedPlan> {
        let devices = planned.devices();
        let (device_queues, threads) = (&shared.device_queues, policy.settings().threads);
        let mut wiring = Wiring::new(
            planned.graph(),
            planned.plan(),
            parts.clone(),
            devices,
            device_queues,
            threads,
        )?;
        if let Some(times_ns) = times_ns {
            wiring.count_on(times_ns);
        }
        // where devices wait for each other by themselves their order is theirs; on virtual time only who waits moves a run
        let waits_here = wiring.parts.iter().any(|part| !part.after_here.is_empty());
        let is_virtual = shared.host.clock().is_virtual();
        let pipeline = waits_here && policy.runs_in_flight() > 1 && !is_virtual;
        // what an admitted session gave its device at once would be ahead of the next one's first part
        let needs_grants = pipeline || times_ns.is_some();
        let join = |part: &PartWiring| part.device_queue.join(session, needs_grants);
        let members = wiring.parts.iter().map(join).collect();
        let wiring = Arc::new(wiring);
        let most = policy.runs_in_flight();
        let slots = Slots {
            count: 0,
            kept: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            abandoned: Vec::with_capacity(most),
        };
        let run_drivers = (0..MOST_SLOTS).map(|_| OnceLock::new()).collect();
        let mut plan = LoadedPlan {
            number,
            session,
            _members: members,
            shared: Arc::clone(shared),
            settings: policy.settings(),
            patience: policy.longest_run(),
            history: Mutex::new(History::new(
                wiring.parts.len(),
                shared.host.clock().is_virtual(),
                policy.runs_in_flight() > 1,
            )),
            clock_hold_ns: held(&planned),
            planned: Arc::new(planned),
            wiring,
            parts,
            footprint: Footprint::default(),
            slots: Mutex::new(slots),
            run_drivers,
            priority: policy.urgency(),
            failed,
            others: Vec::new(),
            copies: None,
        };
        // the others are made when as many runs are in flight
        if let Some((index, slot, footprint)) = plan.new_slot()? {
            plan.footprint = footprint;
            plan.lock().free.push((index, slot));
        }
        Ok(plan)
    }

    /// One more slot, with its number; none where there are as many as there may be.
    fn new_slot(&self) -> Result<Option<(usize, Box<RunState>, Footprint)>> {
        let index = {
            let mut slots = self.lock();
            if slots.count == MOST_SLOTS {
                return Ok(None);
            }
            let room = slots.count + 1;
            // so that giving one back allocates nothing
            let (free, abandoned) = (slots.free.len(), slots.abandoned.len());
            slots.free.reserve(room.saturating_sub(free));
            slots.abandoned.reserve(room.saturating_sub(abandoned));
            slots.kept.resize(room, 0);
            slots.count += 1;
            slots.count - 1
        };
        let made = self.make_slot(index);
        if made.is_err() {
            self.lock().count -= 1;
        }
        made.map(|(slot, footprint)| Some((index, slot, footprint)))
    }

    fn make_slot(&self, index: usize) -> Result<(Box<RunState>, Footprint)> {
        let (mut slot, footprint) = memory::slot(&self.wiring, self.planned.devices(), self.number)?;
        for submission in &mut slot.submissions {
            submission.priority = self.priority;
        }
        if self.wiring.needs_run_driver() {
            self.make_run_driver(index)?;
        }
        Ok((Box::new(slot), footprint))
    }

    /// Makes a slot's run_driver, where there is none.
    pub(crate) fn make_run_driver(&self, index: usize) -> Result<()> {
        let place = &self.run_drivers[index];
        if place.get().is_none() {
            let (wiring, clock) = (Arc::clone(&self.wiring), self.clock().clone());
            let run_driver = RunDriver::new(wiring, clock, self.patience)
                .map_err(|error| Error::caused(ErrorKind::Io, "starting a thread", error))?;
            // whoever has the slot is alone with its number
            let _ = place.set(run_driver);
        }
        Ok(())
    }

    fn run_driver(&self, index: usize) -> &RunDriver {
        let run_driver = self.run_drivers.get(index).and_then(OnceLock::get);
        run_driver.expect("invariant: a slot whose parts wait for each other has a run driver")
    }

    /// The further copies of the model.
    pub(crate) fn others(&self) -> &[Arc<LoadedPlan>] {
        &self.others
    }

    /// What runs are given to copies by; none where there is one.
    pub(crate) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.copies.as_ref().map(|(set, _)| set)
    }

    /// The copy that the next run takes, with the run's place there. Runs that follow each other, on states, take the
    /// first copy.
    pub(crate) fn choose(self: Arc<Self>, stateful: bool) -> (Arc<LoadedPlan>, Option<Taken>) {
        match &self.copies {
            Some((set, 0)) if !stateful => {
                let taken = set.take(self.clock().now_ns());
                let plan = match taken.copy() {
                    0 => Arc::clone(&self),
                    index => Arc::clone(&self.others[index - 1]),
                };
                (plan, Some(taken))
            }
            _ => (self, None),
        }
    }

    /// The devices that read an input, in any copy: it is bound to all of them at once.
    pub(crate) fn input_users(&self, index: usize) -> Vec<(usize, polychip_host::Device)> {
        let devices = self.planned.devices();
        match &self.copies {
            Some((set, _)) => set.input_users(index, devices),
            None => memory::input_users(&self.wiring, index, devices),
        }
    }

    /// The devices that an output is bound to: those of all copies, where each shares memory with the host; else those
    /// of this one.
    pub(crate) fn output_users(&self, index: usize) -> Vec<(usize, polychip_host::Device)> {
        let devices = self.planned.devices();
        match &self.copies {
            Some((set, _)) if set.shares_output(index) => set.output_users(index, devices),
            _ => memory::output_users(&self.wiring, index, devices),
        }
    }

    /// The number that memory of an output is bound with.
    pub(crate) fn output_number(&self, index: usize) -> u64 {
        match &self.copies {
            // no plan of a session has such a number
            Some((set, copy)) if !set.shares_output(index) => self.number | (*copy as u64 + 1) << 32,
            _ => self.number,
        }
    }

    /// What its slots and constants take, in bytes, with those of all copies.
    pub(crate) fn bytes(&self) -> u64 {
        let others = self.others.iter().map(|copy| copy.bytes());
        others.fold(self.own_bytes(), u64::saturating_add)
    }

    fn own_bytes(&self) -> u64 {
        let slots = self.lock().count as u64;
        let one = self.footprint.arena_bytes + self.footprint.output_bytes;
        let infos = self.parts.iter().map(|part| part.executable.info());
        let constants: u64 = infos.map(|info| info.constant_bytes).sum();
        constants.saturating_add(slots.saturating_mul(one))
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.shared.host.clock()
    }

    /// Whether the part came from the cache.
    pub(crate) fn is_cached(&self, part: usize) -> bool {
        self.parts[part].cached
    }

    /// A device was seen to be lost: the session makes another plan of this before its next run.
    pub(crate) fn mark_failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether a part cannot run as it is: its device is lost, or was reset.
    pub(crate) fn is_broken(&self) -> bool {
        let broken = |part: &LoadedPart| self.device(part).is_quarantined() || part.executable.is_void();
        self.parts.iter().any(broken)
    }

    pub(super) fn device(&self, part: &LoadedPart) -> &polychip_host::Device {
        &self.planned.devices()[part.device.index()]
    }

    /// The parts that can go on in another plan, and the blobs of the others.
    pub(crate) fn reusable(&self) -> Loaded {
        let mut loaded = Loaded::default();
        let others = self.others.iter().map(Arc::as_ref);
        for copy in std::iter::once(self).chain(others) {
            for (described, part) in copy.planned.plan().parts.iter().zip(&copy.parts) {
                if self.device(part).is_quarantined() || part.executable.is_void() {
                    loaded.keep_blob(described, part);
                } else {
                    loaded.add(described, part.clone());
                }
            }
        }
        loaded
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free slot; another one where the app keeps the outputs of them all.
    pub(crate) fn take_slot(&self) -> Result<(usize, Box<RunState>)> {
        let free = || self.lock().free.pop();
        if let Some(taken) = free() {
            return Ok(taken);
        }
        self.reap(Duration::ZERO);
        if let Some(taken) = free() {
            return Ok(taken);
        }
        if let Some((index, slot, _)) = self.new_slot()? {
            return Ok((index, slot));
        }
        Err(Error::new(ErrorKind::InFlight, self.all_kept()))
    }

    /// The app keeps the outputs of a run, which are in this slot.
    pub(crate) fn keep(&self, index: usize, run: u64) {
        self.lock().kept[index] = run;
    }

    /// That there is no slot, and whose outputs have them.
    fn all_kept(&self) -> String {
        /// Runs that are named; of more it is said how many.
        const NAMED: usize = 8;
        let mut runs: Vec<u64> = self.lock().kept.iter().copied().filter(|run| *run > 0).collect();
        runs.sort_unstable();
        let more = match runs.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<String> = runs.iter().take(NAMED).map(u64::to_string).collect();
        format!(
            "memory for {MOST_SLOTS} runs is in use: the app keeps the outputs of {} (oldest first: runs {}{more}); drop those \
             that are read (Outputs::run says which run they are of)",
            runs.len(),
            named.join(", ")
        )
    }

    /// A free slot, once a run that was given up has ended where there is none.
    pub(crate) fn wait_for_slot(&self) -> Result<(usize, Box<RunState>)> {
        self.take_slot().or_else(|_| {
            self.cancel_abandoned();
            self.reap(self.patience);
            self.take_slot()
        })
    }

    /// Gives an output of a slot that it had no room for so many bytes.
    pub(crate) fn grow(&self, slot: &mut RunState, output: usize, bytes: u64) -> Result<()> {
        // what holds the memory goes first
        slot.reset(self.clock());
        memory::grow_output(
            &self.wiring,
            slot,
            output,
            bytes,
            self.planned.devices(),
            self.number,
        )
    }

    /// Gives a slot back after its run.
    pub(crate) fn put_back(&self, index: usize, mut slot: Box<RunState>) {
        slot.given.release();
        let mut slots = self.lock();
        slots.kept[index] = 0;
        slots.free.push((index, slot));
    }

    /// Takes the slot of a run that failed: back where all of its parts have ended, else once they have.
    pub(crate) fn give_up(&self, index: usize, mut slot: Box<RunState>) {
        slot.cancel();
        if slot.give_up(&self.wiring, Duration::ZERO) {
            self.put_back(index, slot);
        } else {
            self.abandon(index, Some(slot));
        }
    }

    /// Takes over the slot of an abandoned run that has not ended.
    pub(crate) fn abandon(&self, index: usize, mut slot: Option<Box<RunState>>) {
        if let Some(slot) = &mut slot {
            if slot.has_more() {
                // on virtual time nobody would go on with it
                slot.give_up(&self.wiring, Duration::ZERO);
            }
            if let Some(permit) = &slot.given.permit {
                permit.give_up();
            }
            if slot.is_stuck(&self.wiring) {
                // it may never end: what it was given is to be had again, in memory of its own
                slot.given.release();
            }
        }
        self.lock().abandoned.push((index, slot));
    }

    /// Binds what the slot was given, and issues the first parts of its run.
    pub(crate) fn start(&self, slot: &mut RunState) -> Result<Progress> {
        slot.reset(self.clock());
        // out of the slot while the slot is written
        let given = std::mem::take(&mut slot.given);
        let bound = self.bind(slot, &given);
        slot.given = given;
        bound?;
        let clock = self.clock();
        let progress = slot.issue(&self.wiring, clock, None)?;
        if self.wiring.needs_run_driver() {
            return Ok(progress);
        }
        Ok(match clock.is_virtual() {
            // who waits for the run gives its parts to their devices, and moves the clock
            true => Progress::Done,
            false if slot.is_untold() => Progress::Waiting,
            false => progress,
        })
    }

    fn bind(&self, slot: &mut RunState, given: &RunBindings) -> Result<()> {
        let (wiring, devices) = (&*self.wiring, self.planned.devices());
        for (index, input) in &given.inputs {
            let bound = input.bound_to(self.number, || self.input_users(*index))?;
            let readers = &wiring.inputs[*index].readers;
            let reads = |device: usize| {
                readers
                    .iter()
                    .any(|&(part, _)| wiring.parts[part].device == device)
            };
            input.copy_to_devices(&bound, reads, &self.wiring.copied)?;
            for &(part, port) in &wiring.inputs[*index].readers {
                let wired = &wiring.parts[part];
                let buffer = bound
                    .buffer(wired.device)
                    .expect("invariant: every reader has a buffer");
                slot.submissions[part]
                    .bind(port, buffer, 0)
                    .map_err(|error| wired.failed(error))?;
            }
        }
        for (index, source) in wiring.outputs.iter().enumerate() {
            if let OutputSource::Input(from) = source.source
                && let Some((_, input)) = given.inputs.iter().find(|(input, _)| *input == from)
                && let Some(output) = &slot.outputs[index]
            {
                memory::hand_through(input, output)?;
            }
            if !matches!(source.source, OutputSource::Part(..)) {
                if given.outputs.iter().any(|(output, _)| *output == index) {
                    return Err(memory::unwritten(wiring, index));
                }
                continue;
            }
            if let Some((_, output)) = given.outputs.iter().find(|(output, _)| *output == index) {
                // who uses it is asked for only where it is bound to others
                let number = self.output_number(index);
                if !output.is_bound_to(number) {
                    output.rebind(number, &self.output_users(index))?;
                }
                memory::bind_output(wiring, slot, index, output, devices)?;
                slot.app_bound[index] = true;
            } else if slot.app_bound[index] {
                // the last run wrote into the app's memory
                let own = slot.outputs[index].take();
                if let Some(memory) = &own {
                    memory::bind_output(wiring, slot, index, memory, devices)?;
                }
                slot.outputs[index] = own;
                slot.app_bound[index] = false;
            }
        }
        Ok(())
    }

    /// Waits for a run, at most `timeout`.
    pub(crate) fn finish(&self, slot: &mut RunState, timeout: Duration) -> Result<Progress> {
        slot.finish(&self.wiring, self.clock(), timeout, self.patience)
    }

    /// Waits for a run that may take so long on the runtime's clock, from its start.
    pub(crate) fn finish_within(&self, slot: &mut RunState, most: Duration) -> Result<Progress> {
        slot.finish_within(&self.wiring, self.clock(), most)
    }

    /// What is left to do for a run whose parts have all ended well: its outputs are in the app's memory, and cut where
    /// they were padded; its states go on, and the app has its tensors back.
    pub(crate) fn complete(&self, slot: &mut RunState) -> Result<()> {
        let mut written = slot.given.outputs.iter();
        let copied = written.try_for_each(|(_, output)| output.copy_to_app(&self.wiring.copied));
        let cut = padding::cut(self, slot);
        slot.given.complete();
        copied.and(cut)
    }

    /// Like [`LoadedPlan::complete`], for an abandoned run.
    fn complete_alone(&self, slot: &mut RunState) {
        if let Err(error) = self.complete(slot) {
            tracing::warn!("outputs of a run that nobody waited for: {error}");
        }
    }

    /// Hands a slot to its run_driver.
    pub(crate) fn drive(&self, index: usize, slot: Box<RunState>) {
        self.run_driver(index).start(slot);
    }

    /// Waits for a run that is driven by its run_driver.
    pub(crate) fn wait_driven(&self, index: usize, timeout: Duration) -> Option<(Box<RunState>, Result<()>)> {
        self.run_driver(index).wait(timeout)
    }

    /// As [`LoadedPlan::wait_driven`] for one who does not wait: the waker is woken at the end.
    pub(crate) fn poll_driven(&self, index: usize, waker: &Waker) -> Option<(Box<RunState>, Result<()>)> {
        self.run_driver(index).poll(waker)
    }

    pub(crate) fn cancel_driven(&self, index: usize) {
        self.run_driver(index).cancel();
    }

    /// Takes back slots of runs that were given up and have ended, of all copies.
    pub(crate) fn reap_ended(&self) {
        self.reap(Duration::ZERO);
        self.others.iter().for_each(|copy| copy.reap_ended());
    }

    fn cancel_abandoned(&self) {
        for (index, slot) in &self.lock().abandoned {
            match slot {
                Some(slot) => slot.cancel(),
                None => self.cancel_driven(*index),
            }
        }
    }

    /// Takes back slots of runs that were given up, where they end within `timeout`.
    fn reap(&self, timeout: Duration) {
        let abandoned = std::mem::take(&mut self.lock().abandoned);
        for (index, slot) in abandoned {
            let ended = match slot {
                Some(slot) if slot.is_stuck(&self.wiring) => self.ended(slot, Duration::ZERO),
                Some(slot) if slot.is_given_up() => self.ended(slot, timeout),
                Some(mut slot) => match self.finish(&mut slot, timeout) {
                    Ok(Progress::Waiting) => Err(Some(slot)),
                    Ok(Progress::Done) => {
                        self.complete_alone(&mut slot);
                        Ok(slot)
                    }
                    // one part failed; the others may still be with their devices
                    Err(_) => self.ended(slot, timeout),
                },
                None => match self.run_driver(index).wait(timeout) {
                    Some((mut slot, Ok(()))) => {
                        self.complete_alone(&mut slot);
                        Ok(slot)
                    }
                    Some((slot, Err(_))) => self.ended(slot, timeout),
                    None => Err(None),
                },
            };
            match ended {
                Ok(slot) => self.put_back(index, slot),
                Err(slot) => self.abandon(index, slot),
            }
        }
    }

    /// The slot of a failed run, where all of it has ended.
    fn ended(
        &self,
        mut slot: Box<RunState>,
        timeout: Duration,
    ) -> std::result::Result<Box<RunState>, Option<Box<RunState>>> {
        if self.is_broken() {
            self.mark_failed();
        }
        if slot.give_up(&self.wiring, timeout) {
            Ok(slot)
        } else {
            Err(Some(slot))
        }
    }
}

/// What runs are given to copies by.
fn replicas_of(copies: &[LoadedPlan]) -> Replicas {
    let first = &copies[0];
    let devices = first.planned.devices();
    let union = |users: &dyn Fn(&Wiring) -> Vec<(usize, polychip_host::Device)>| {
        let all = copies.iter().flat_map(|copy| users(&copy.wiring));
        let mut all: Vec<usize> = all.map(|(index, _)| index).collect();
        all.sort_by_key(|index| wiring::binding_order(*index, devices));
        all.dedup();
        all
    };
    let described = copies.iter().map(|copy| {
        let plan = copy.planned.plan();
        let used = plan.used_devices().into_iter();
        ReplicaReport {
            devices: used
                .map(|device| devices[device.index()].name().to_owned())
                .collect(),
            predicted_interval_ns: plan.own_interval().nanoseconds(),
            measured_interval_ns: None,
            runs: 0,
            rests: false,
            emulated: plan.totals.emulated,
        }
    });
    let inputs = 0..first.wiring.inputs.len();
    let outputs = 0..first.wiring.outputs.len();
    Replicas::new(
        described.collect(),
        inputs
            .map(|index| union(&|wiring| memory::input_users(wiring, index, devices)))
            .collect(),
        outputs
            .map(|index| {
                let users = union(&|wiring| memory::output_users(wiring, index, devices));
                let shared = users.iter().all(|&user| devices[user].info().imports_memory());
                (users, shared)
            })
            .collect(),
    )
}

/// For how long clocks may be those of a load that has passed, in nanoseconds, whatever the period.
fn held(planned: &Planned) -> u64 {
    let held = planned.clock_hold(Duration::from_secs(1));
    u64::try_from(held.as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for LoadedPlan {
    fn drop(&mut self) {
        self.cancel_abandoned();
        self.reap(self.patience);
        if self.shared.profile.path().is_some()
            && let Err(error) = self.record()
        {
            tracing::warn!("measured times are lost: {error}");
        }
    }
}
