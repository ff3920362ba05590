//! A loaded plan, with memory for several runs in flight: what one run executes from start to end.
//!
//! Invariants:
//! 1. A run holds its plan until it has ended, so a replaced plan is freed after its last run.
//! 2. Runs in flight use different slots, so they share no memory except inputs, which are only
//!    read. The number of slots is the maximum of runs in flight and outputs kept by the app.
//!
//! Not here: replacing a plan (`recover`), retrying a run (`run`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use polychip_host::{CallLimit, CheckedGuard, CheckedMutex, Clock};

use crate::device_queue::Member;
use crate::error::{Error, ErrorKind, Result};
use crate::loaded_part::LoadedPart;
use crate::lock_order::SLOTS;
use crate::planned::Planned;
use crate::policy::{Policy, Settings};
use crate::session::charges::{Need, PlanCharges};
use crate::session::compile::Loaded;
use crate::session::history::History;
use crate::session::memory::{self, Footprint};
use crate::session::overflow::RunsToWatch;
use crate::session::replicas::{ReplicaReport, Replicas, Taken};
use crate::session::run_driver::RunDriver;
use crate::session::run_state::{Progress, RunBindings, RunState};
use crate::session::wiring::{self, OutputSource, PartWiring, Wiring};
use crate::shared::Shared;

/// Maximum run states of a plan: the app may keep the outputs of as many runs.
const MOST_SLOTS: usize = 256;

/// A loaded plan of a session.
pub(crate) struct LoadedPlan {
    /// The plan's number in the session: buffers of inputs and outputs are made per plan.
    pub(crate) number: u64,
    /// The session's number in the process.
    pub(crate) session: usize,
    /// Membership in the queues of the plan's devices.
    _members: Vec<Member>,
    pub(super) shared: Arc<Shared>,
    /// The policy's settings; measured times of a CPU hold for its number of threads.
    pub(super) settings: Settings,
    pub(super) patience: Duration,
    /// How long calls to plugins in processes of their own may take, where the app says.
    call_limit: Option<Duration>,
    pub(crate) planned: Arc<Planned>,
    pub(crate) wiring: Arc<Wiring>,
    pub(super) parts: Vec<LoadedPart>,
    /// The other replicas, if this is the first.
    pub(super) others: Vec<Arc<LoadedPlan>>,
    /// All replicas, and the index of this one; `None` if it is the only one.
    copies: Option<(Arc<Replicas>, usize)>,
    pub(crate) footprint: Footprint,
    pub(super) charges: PlanCharges,
    slots: CheckedMutex<Slots, SLOTS>,
    /// One per run state. Made with it if parts wait for each other across plugins, otherwise when
    /// parts first wait for queue grants.
    run_drivers: Vec<OnceLock<RunDriver>>,
    priority: polychip_host::Priority,
    pub(crate) history: Mutex<History>,
    /// How long device clocks stay raised after a run, if runs leave gaps.
    pub(crate) clock_hold_ns: u64,
    pub(crate) watched_runs: RunsToWatch,
    /// Shared by all replicas, which are replaced together.
    failed: Arc<AtomicBool>,
}

struct Slots {
    /// The number of run states.
    count: usize,
    /// By run state: the run whose outputs the app keeps; 0 for none.
    kept: Vec<u64>,
    free: Vec<(usize, Box<RunState>)>,
    /// Run states of abandoned runs that had not ended.
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
        need: Need,
    ) -> Result<LoadedPlan> {
        LoadedPlan::counted(shared, number, session, planned, parts, policy, None, need)
    }

    /// Loads a plan of an admitted session; `times_ns` are the part times of the admission test.
    #[allow(clippy::too_many_arguments)] // what a plan is made of
    pub(crate) fn counted(
        shared: &Arc<Shared>,
        number: u64,
        session: usize,
        planned: Planned,
        parts: Vec<LoadedPart>,
        policy: &Policy,
        times_ns: Option<&[u64]>,
        need: Need,
    ) -> Result<LoadedPlan> {
        let plan = LoadedPlan::uncharged(shared, number, session, planned, parts, policy, times_ns)?;
        plan.charge(need, policy.longest_run())?;
        Ok(plan)
    }

    fn uncharged(
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

    /// Loads one replica.
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
        // constants may have been folded from a file that was truncated meanwhile
        planned.model().check_files()?;
        let planned = Arc::new(planned);
        let (device_queues, threads) = (&shared.device_queues, policy.settings().threads);
        let mut wiring = Wiring::new(&planned, parts.clone(), device_queues, threads)?;
        if let Some(times_ns) = times_ns {
            wiring.count_on(times_ns);
        }
        // devices that wait for each other keep their own order; on virtual time only a waiting
        // thread advances a run
        let waits_here = wiring.parts.iter().any(|part| !part.after_here.is_empty());
        let is_virtual = shared.host.clock().is_virtual();
        let pipeline = waits_here && policy.runs_in_flight() > 1 && !is_virtual;
        // parts that an admitted session issued at once would delay the first part of the next
        // session
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
            call_limit: policy.hang_timeout,
            history: Mutex::new(History::new(
                wiring.parts.len(),
                shared.host.clock().is_virtual(),
                policy.runs_in_flight() > 1,
            )),
            clock_hold_ns: held(&planned),
            watched_runs: RunsToWatch::of(&planned, policy.settings().precision),
            planned,
            wiring,
            parts,
            footprint: Footprint::default(),
            charges: PlanCharges::default(),
            slots: CheckedMutex::new(slots),
            run_drivers,
            priority: policy.urgency(),
            failed,
            others: Vec::new(),
            copies: None,
        };
        // the others are made when needed
        if let Some((index, slot, footprint)) = plan.new_slot()? {
            plan.footprint = footprint;
            plan.lock().free.push((index, slot));
        }
        Ok(plan)
    }

    /// Makes one more run state and its index; `None` at the maximum.
    fn new_slot(&self) -> Result<Option<(usize, Box<RunState>, Footprint)>> {
        let index = {
            let mut slots = self.lock();
            if slots.count == MOST_SLOTS {
                return Ok(None);
            }
            let room = slots.count + 1;
            // returning one then allocates nothing
            let (free, abandoned) = (slots.free.len(), slots.abandoned.len());
            slots.free.reserve(room.saturating_sub(free));
            slots.abandoned.reserve(room.saturating_sub(abandoned));
            slots.kept.resize(room, 0);
            slots.count += 1;
            slots.count - 1
        };
        let made = self.make_slot(index).and_then(|(slot, footprint)| {
            self.charges.grow(footprint.bytes())?;
            Ok((slot, footprint))
        });
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

    /// Makes the run driver of a run state, unless it exists.
    pub(crate) fn make_run_driver(&self, index: usize) -> Result<()> {
        let place = &self.run_drivers[index];
        if place.get().is_none() {
            let (wiring, clock) = (Arc::clone(&self.wiring), self.clock().clone());
            let run_driver = RunDriver::new(wiring, clock, self.patience, self.call_limit)
                .map_err(|error| Error::caused(ErrorKind::Io, "starting a thread", error))?;
            // only the holder of the run state uses its index
            let _ = place.set(run_driver);
        }
        Ok(())
    }

    /// Limits the calls of this thread to plugins in processes of their own, where the app has set a limit.
    pub(crate) fn limit_calls(&self) -> Option<CallLimit> {
        self.call_limit.map(CallLimit::new)
    }

    pub(super) fn run_driver(&self, index: usize) -> &RunDriver {
        let run_driver = self.run_drivers.get(index).and_then(OnceLock::get);
        run_driver.expect("invariant: a slot whose parts wait for each other has a run driver")
    }

    /// The further replicas.
    pub(crate) fn others(&self) -> &[Arc<LoadedPlan>] {
        &self.others
    }

    /// The statistics by which runs are assigned to replicas; `None` for a single one.
    pub(crate) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.copies.as_ref().map(|(set, _)| set)
    }

    /// The replica for the next run, and the run's slot there. Runs on states follow each other and
    /// use the first replica.
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

    /// The devices that read an input, in any replica: it is bound to all of them at once.
    pub(crate) fn input_users(&self, index: usize) -> Vec<(usize, polychip_host::Device)> {
        let devices = self.planned.devices();
        match &self.copies {
            Some((set, _)) => set.input_users(index, devices),
            None => memory::input_users(&self.wiring, index, devices),
        }
    }

    /// The devices that an output is bound to: those of all replicas if each shares memory with the
    /// host, otherwise those of this one.
    pub(crate) fn output_users(&self, index: usize) -> Vec<(usize, polychip_host::Device)> {
        let devices = self.planned.devices();
        match &self.copies {
            Some((set, _)) if set.shares_output(index) => set.output_users(index, devices),
            _ => memory::output_users(&self.wiring, index, devices),
        }
    }

    /// The plan number under which an output's memory is bound.
    pub(crate) fn output_number(&self, index: usize) -> u64 {
        match &self.copies {
            // no plan of a session has this number
            Some((set, copy)) if !set.shares_output(index) => self.number | (*copy as u64 + 1) << 56,
            _ => self.number,
        }
    }

    /// Bytes of the run states and constants of all replicas.
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

    /// Records a lost device: the session replans before its next run.
    pub(crate) fn mark_failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether an error is due to the loss of a device of the plan, which the next run then does not take.
    pub(crate) fn is_lost(&self, error: &Error) -> bool {
        let is_lost = error.kind() == ErrorKind::DeviceLost && self.is_broken();
        if is_lost {
            self.mark_failed();
        }
        is_lost
    }

    /// Whether a part cannot run because its device is lost or was reset.
    pub(crate) fn is_broken(&self) -> bool {
        let broken = |part: &LoadedPart| self.device(part).is_quarantined() || part.executable.is_void();
        self.parts.iter().any(broken)
    }

    pub(super) fn device(&self, part: &LoadedPart) -> &polychip_host::Device {
        &self.planned.devices()[part.device.index()]
    }

    /// The parts that another plan can reuse, and the blobs of the others.
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

    fn lock(&self) -> CheckedGuard<'_, Slots, SLOTS> {
        self.slots.lock()
    }

    /// A free run state, or a new one if the app keeps the outputs of all.
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

    /// Records that the app keeps the outputs of a run in this run state.
    pub(crate) fn keep(&self, index: usize, run: u64) {
        self.lock().kept[index] = run;
    }

    /// Error text for run state exhaustion, listing the runs that hold them.
    fn all_kept(&self) -> String {
        /// Maximum number of named runs; the others are counted.
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
             that are read (Outputs::run returns the run)",
            runs.len(),
            named.join(", ")
        )
    }

    /// A free run state. Without one, waits for the end of a given-up run.
    pub(crate) fn wait_for_slot(&self) -> Result<(usize, Box<RunState>)> {
        self.take_slot().or_else(|_| {
            self.cancel_abandoned();
            self.reap(self.patience);
            self.take_slot()
        })
    }

    /// Replaces the memory of an output that was too small with this many bytes.
    pub(crate) fn grow(&self, slot: &mut RunState, output: usize, bytes: u64) -> Result<()> {
        let before = slot.outputs[output].as_ref().map_or(0, |memory| memory.bytes);
        self.charges.grow(bytes.saturating_sub(before))?;
        // the bindings to the memory are dropped first
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

    /// Returns a run state after its run.
    pub(crate) fn put_back(&self, index: usize, mut slot: Box<RunState>) {
        slot.given.release();
        let mut slots = self.lock();
        slots.kept[index] = 0;
        slots.free.push((index, slot));
        drop(slots);
        self.shared.memory.notify();
    }

    /// Whether no run uses a run state of this replica.
    pub(super) fn is_free(&self) -> bool {
        let slots = self.lock();
        slots.free.len() == slots.count
    }

    /// Returns the run state of a failed run once all of its parts have ended.
    pub(crate) fn give_up(&self, index: usize, mut slot: Box<RunState>) {
        let _limit = self.limit_calls();
        slot.cancel();
        if slot.give_up(&self.wiring, Duration::ZERO) {
            self.put_back(index, slot);
        } else {
            self.abandon(index, Some(slot));
        }
    }

    /// Takes over the run state of an abandoned run that has not ended.
    pub(crate) fn abandon(&self, index: usize, mut slot: Option<Box<RunState>>) {
        let _limit = self.limit_calls();
        if let Some(slot) = &mut slot {
            if slot.has_more() {
                // on virtual time no thread would continue it
                slot.give_up(&self.wiring, Duration::ZERO);
            }
            if let Some(permit) = &slot.given.permit {
                permit.give_up();
            }
            if slot.is_stuck(&self.wiring) {
                // it may never end, so it releases the app's tensors and continues in memory of its
                // own
                slot.given.release();
            }
        }
        self.lock().abandoned.push((index, slot));
    }

    /// Binds the app's tensors and issues the first parts of the run.
    pub(crate) fn start(&self, slot: &mut RunState) -> Result<Progress> {
        let _limit = self.limit_calls();
        slot.reset(self.clock());
        // moved out while the run state is written
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
            // the waiting thread issues its parts and moves the clock
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
                // its users are looked up only if the binding changes
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

    /// Refuses the results of a run if another process truncated mapped files that its parts read.
    pub(crate) fn check_files(&self) -> Result<()> {
        let mut parts = self.wiring.parts.iter();
        let damaged = |error| Error::new(ErrorKind::Io, error);
        parts
            .try_for_each(|part| part.executable.check_files())
            .map_err(damaged)
    }

    /// Hands a run state to its run driver.
    pub(crate) fn drive(&self, index: usize, slot: Box<RunState>) {
        self.run_driver(index).start(slot);
    }

    pub(crate) fn cancel_driven(&self, index: usize) {
        self.run_driver(index).cancel();
    }

    /// Takes back the run states of given-up runs that have ended, in all replicas.
    pub(crate) fn reap_ended(&self) {
        self.reap(Duration::ZERO);
        self.others.iter().for_each(|copy| copy.reap_ended());
    }

    fn cancel_abandoned(&self) {
        let _limit = self.limit_calls();
        // devices are called, so the run states are taken out meanwhile
        let mut abandoned = std::mem::take(&mut self.lock().abandoned);
        for (index, slot) in &abandoned {
            match slot {
                Some(slot) => slot.cancel(),
                None => self.cancel_driven(*index),
            }
        }
        self.lock().abandoned.append(&mut abandoned);
    }

    /// Takes back the run states of given-up runs that end within `timeout`.
    fn reap(&self, timeout: Duration) {
        let _limit = self.limit_calls();
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
                    // one part failed; the others may still be on their devices
                    Err(_) => self.ended(slot, timeout),
                },
                None => match self.wait_driven(index, timeout) {
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

    /// Returns the run state of a failed run if all of its parts have ended.
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

/// Statistics by which runs are assigned to replicas.
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

/// Time for which clocks stay raised after a load, in nanoseconds, for any period.
fn held(planned: &Planned) -> u64 {
    let held = planned.clock_hold(Duration::from_secs(1));
    u64::try_from(held.as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for LoadedPlan {
    fn drop(&mut self) {
        let _limit = self.limit_calls();
        self.cancel_abandoned();
        self.reap(self.patience);
        if self.shared.profile.path().is_some()
            && let Err(error) = self.record()
        {
            tracing::warn!("measured times are lost: {error}");
        }
    }
}
