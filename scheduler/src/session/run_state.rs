//! Everything one run needs, made once: submissions with their bindings, fences, outputs, timings.
//!
//! Invariants:
//! 1. A run state belongs to one run at a time; issuing and finishing parts allocates nothing.
//! 2. A part is issued once all its inputs are ready: its device waits for fences of the same plugin,
//!    and the run waits here for all others. Ready parts are issued in plan order.
//!    On a device that several sessions use, the run waits for all inputs here, and then for a queue
//!    grant (`queue_grants`). A part that waits only for the part before it on the device requests its
//!    grant when that part ends.
//! 3. A part reserves its device until it is late by the plan's schedule, because a plan may leave a
//!    device idle for a critical part. Afterwards it blocks no other part.
//!
//! Not here: driving a run (`run`, `run_driver`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polychip_host::{Clock, Fence, MAX_RANK, Step, Submission, Timing};
use smallvec::SmallVec;

use crate::device_queue::PartFence;
use crate::error::{Error, ErrorKind, Result};
use crate::session::buckets::Padding;
use crate::session::copy::Copy;
use crate::session::in_flight_limit::Permit;
use crate::session::notifier::Notifier;
use crate::session::queue_grants::QueueGrants;
use crate::session::replicas::Taken;
use crate::session::state::States;
use crate::session::wiring::{OutputSource, OutputWiring, Wiring};
use crate::tensor::{Hold, TensorMemory};

mod slow;

/// How long a cancelled part may take to end before its device is quarantined.
const GRACE: Duration = Duration::from_millis(200);
/// A virtual clock that has not moved for so long, by the machine's clock, stands still.
const STANDSTILL: Duration = Duration::from_secs(2);
/// The last wait before a run counts as hung.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// Polling interval for ends without a notification.
const LOOK: Duration = Duration::from_micros(200);
/// A virtual clock is moved in steps of this, or of this fraction of the wait so far where that is more: so exactly
/// ends are seen where several parts are with their devices.
const QUANTUM: Duration = Duration::from_micros(1);
const QUANTUM_FRACTION: u32 = 1024;
/// A part is late when this fraction of its planned start has passed since then. Times on devices
/// vary less from run to run.
const LATE_FRACTION: u32 = 4;
/// On virtual time: a grant unused for so long, by the machine's clock, is withdrawn.
const LAPSE: Duration = Duration::from_millis(20);

/// True sizes of a tensor, known after the run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extents {
    pub(crate) dims: [i64; MAX_RANK],
    pub(crate) rank: usize,
}

/// One run's state.
pub(crate) struct RunState {
    pub(crate) submissions: Vec<Submission>,
    fences: Vec<Option<PartFence>>,
    finished: Vec<bool>,
    /// Parts whose ends notify the waiting thread.
    told: Vec<bool>,
    notifier: Notifier,
    pub(crate) grants: QueueGrants,
    /// A part without an end notification was issued: a thread must wait for it.
    untold: bool,
    /// The run was cancelled while parts were not issued.
    is_cancelled: AtomicBool,
    /// Nothing more is issued.
    is_given_up: bool,
    pub(crate) timings: Vec<Timing>,
    /// Devices are to measure the steps of the next run.
    pub(crate) measures_steps: bool,
    /// What they measured, by part.
    pub(crate) steps: Vec<Vec<Step>>,
    /// By part and output port of the part, for ports with upper bounds.
    extents: Vec<Vec<Extents>>,
    /// The session's own memory of each computed graph output.
    pub(crate) outputs: Vec<Option<TensorMemory>>,
    /// The run wrote this output into the app's own memory.
    pub(crate) app_bound: Vec<bool>,
    /// By input: the run's own padded copy, whose memory later runs use again.
    pub(crate) padded: Vec<Option<Arc<TensorMemory>>>,
    /// The valid sizes of the outputs, if the run that ended was padded.
    pub(crate) was_padded: Option<Arc<Padding>>,
    /// By output: its valid elements, unless they come first in memory.
    pub(crate) cut: Vec<Vec<u8>>,
    /// By output: its valid elements were written into the app's own memory.
    pub(crate) cut_by_app: Vec<bool>,
    /// Copies to make when a part has ended.
    pub(crate) copies: Vec<Vec<Copy>>,
    /// When the run was started, on the machine's clock and on the host's, which may be virtual.
    pub(crate) started: Option<(Instant, u64)>,
    pub(crate) latency: Duration,
    /// The app's tensors and permits, held until the run returns its outputs or an error.
    pub(crate) given: RunBindings,
    /// The part at which the run hung.
    pub(crate) hung: Option<usize>,
    /// A warning was logged that the run takes long.
    is_told_slow: bool,
    /// An output whose session memory was too small for the computed tensor, and the bytes it needs.
    pub(crate) short: Option<(usize, u64)>,
}

/// The app's tensors and the permits that a run holds.
#[derive(Default)]
pub(crate) struct RunBindings {
    /// By index of the model's inputs.
    pub(crate) inputs: Vec<(usize, Hold)>,
    /// By index of the model's outputs: those that are written into the app's own memory.
    pub(crate) outputs: Vec<(usize, Hold)>,
    /// By index of the model's outputs: those that are cut into the app's own memory once the run has ended.
    pub(crate) cut: Vec<(usize, Hold)>,
    /// The valid sizes of the run, if its inputs are padded.
    pub(crate) padding: Option<Arc<Padding>>,
    /// The run is one of those that the policy allows in flight.
    pub(crate) permit: Option<Permit>,
    /// Its place in a copy of the model, where there are several.
    pub(crate) taken: Option<Taken>,
    /// The states that it reads and writes; they advance if the run succeeds.
    pub(crate) states: Option<Arc<States>>,
}

impl RunBindings {
    fn with_capacity(inputs: usize, outputs: usize) -> RunBindings {
        RunBindings {
            inputs: Vec::with_capacity(inputs),
            outputs: Vec::with_capacity(outputs),
            cut: Vec::new(),
            padding: None,
            permit: None,
            taken: None,
            states: None,
        }
    }

    /// The run has ended for the app: it may write and read its tensors again, and start another run.
    pub(crate) fn release(&mut self) {
        self.inputs.clear();
        self.outputs.clear();
        self.cut.clear();
        self.padding = None;
        self.states = None;
        self.taken = None;
        self.permit = None;
    }

    /// As [`RunBindings::release`], after a successful run.
    pub(crate) fn complete(&mut self) {
        if let Some(states) = self.states.take() {
            states.advance();
        }
        self.release();
    }
}

/// Whether all parts of a run have been issued or finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    Waiting,
}

/// Whether a part can be issued.
enum Ready {
    Now,
    /// An earlier part reserves the device until then, from the start of the run.
    Held(Duration),
    /// Its inputs are not ready.
    Not,
}

impl RunState {
    pub(crate) fn new(
        submissions: Vec<Submission>,
        outputs: Vec<Option<TensorMemory>>,
        copies: Vec<Vec<Copy>>,
        wiring: &Wiring,
    ) -> RunState {
        let parts = submissions.len();
        let extents = wiring
            .parts
            .iter()
            .map(|part| vec![Extents::default(); part.output_count])
            .collect();
        let notifier = Notifier::new();
        RunState {
            grants: QueueGrants::new(wiring, &notifier),
            untold: false,
            is_cancelled: AtomicBool::new(false),
            is_given_up: false,
            submissions,
            fences: (0..parts).map(|_| None).collect(),
            finished: vec![false; parts],
            told: vec![false; parts],
            notifier,
            timings: vec![Timing::default(); parts],
            measures_steps: false,
            steps: Vec::new(),
            extents,
            app_bound: vec![false; outputs.len()],
            padded: vec![None; wiring.inputs.len()],
            was_padded: None,
            cut: vec![Vec::new(); outputs.len()],
            cut_by_app: vec![false; outputs.len()],
            outputs,
            copies,
            started: None,
            latency: Duration::ZERO,
            given: RunBindings::with_capacity(wiring.inputs.len(), wiring.outputs.len()),
            hung: None,
            is_told_slow: false,
            short: None,
        }
    }

    /// Makes the slot ready for the next run.
    pub(crate) fn reset(&mut self, clock: &Clock) {
        self.fences.iter_mut().for_each(|fence| *fence = None);
        self.finished.fill(false);
        self.told.fill(false);
        self.grants.reset();
        self.untold = false;
        self.is_cancelled.store(false, Ordering::Release);
        self.is_given_up = false;
        self.timings.fill(Timing::default());
        self.steps.clear();
        self.was_padded = None;
        self.cut_by_app.fill(false);
        (self.hung, self.is_told_slow) = (None, false);
        self.short = None;
        self.started = Some((Instant::now(), clock.now_ns()));
    }

    /// Age of the run, by the clock that shows more. A virtual clock that moves counts alone: a thread
    /// that waits for the machine's processor adds nothing to the run's time.
    pub(crate) fn age(&self, clock: &Clock) -> Duration {
        self.started.map_or(Duration::ZERO, |(real, host_ns)| {
            let host = Duration::from_nanos(clock.now_ns().saturating_sub(host_ns));
            if clock.is_virtual() && !host.is_zero() {
                host
            } else {
                real.elapsed().max(host)
            }
        })
    }

    /// Waits for all parts, at most `timeout`; a run that is older than `patience` has hung.
    pub(crate) fn finish(
        &mut self,
        wiring: &Wiring,
        clock: &Clock,
        timeout: Duration,
        patience: Duration,
    ) -> Result<Progress> {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let age = self.age(clock);
            let patient = patience.saturating_sub(age);
            let quiet = self.quiet(clock, age, patience);
            // no shorter than that, so that a virtual clock, which only waits move, gets there
            let step = left.min(patient.min(quiet).max(LEAST_WAIT));
            if self.go_on(wiring, clock, step)? == Progress::Done {
                return Ok(Progress::Done);
            }
            if self.age(clock) >= patience {
                return Err(self.hang(wiring, patience));
            }
            if !self.tell_slow(wiring, clock, patience) && left <= patient.min(quiet) {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// Waits for all parts until the run is so old, on the runtime's clock alone; gives up where that stands still.
    pub(crate) fn finish_within(
        &mut self,
        wiring: &Wiring,
        clock: &Clock,
        most: Duration,
    ) -> Result<Progress> {
        let start_ns = self.started.map_or(0, |(_, host_ns)| host_ns);
        // a part that waits for its grant, or hangs, does not move a virtual clock
        let patient = Instant::now() + most.max(STANDSTILL);
        loop {
            let age = Duration::from_nanos(clock.now_ns().saturating_sub(start_ns));
            let left = most.saturating_sub(age);
            let progress = self.go_on(wiring, clock, left)?;
            if progress == Progress::Done || left.is_zero() || Instant::now() >= patient {
                return Ok(progress);
            }
        }
    }

    /// On virtual time parts may not have had their grants when the run was submitted; otherwise all
    /// parts are issued.
    fn go_on(&mut self, wiring: &Wiring, clock: &Clock, step: Duration) -> Result<Progress> {
        let start = Instant::now();
        if !self.is_given_up && self.has_more() {
            if self.is_cancelled.load(Ordering::Acquire) {
                return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
            }
            if self.issue(wiring, clock, Some(step))? == Progress::Waiting {
                return Ok(Progress::Waiting);
            }
        }
        self.finish_all(wiring, step.saturating_sub(start.elapsed()))
    }

    /// Whether parts are not issued.
    pub(crate) fn has_more(&self) -> bool {
        self.fences.iter().any(Option::is_none)
    }

    /// Whether a thread must wait for the end of a part, because its queue gets no notification.
    pub(crate) fn is_untold(&self) -> bool {
        self.untold
    }

    /// Whether nothing more of the run is issued.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Ends a run that takes too long: cancels its parts, and quarantines the devices of parts that
    /// continue.
    pub(crate) fn hang(&mut self, wiring: &Wiring, patience: Duration) -> Error {
        let out = (0..self.fences.len()).find(|part| self.is_out(*part));
        if let (None, Some(part)) = (out, self.grants.waiting()) {
            return self.wait_too_long(wiring, part, patience);
        }
        let part = out.unwrap_or(0);
        self.hung = Some(part);
        self.cancel();
        if !self.give_up(wiring, GRACE) {
            for index in part..self.fences.len() {
                let dependencies = wiring.after[index].iter().all(|other| self.has_ended(*other));
                if dependencies && !self.has_ended(index) {
                    wiring.parts[index].handle.quarantine();
                    self.grants.of(index).over();
                }
            }
        }
        let device = wiring.parts[part].handle.name();
        let words = format!(
            "part {}: {device} hung: the run takes longer than {:.3} s (Policy::hang_timeout, `--hang-timeout`)",
            wiring.parts[part].id,
            patience.as_secs_f64()
        );
        Error::of_device(ErrorKind::DeviceLost, device, words)
    }

    /// Ends a run that has no part on a device, because one waits for its grant behind runs of other
    /// sessions. If one of those has hung, quarantines its device.
    fn wait_too_long(&mut self, wiring: &Wiring, index: usize, patience: Duration) -> Error {
        let (part, seconds) = (&wiring.parts[index], patience.as_secs_f64());
        let device = part.handle.name();
        self.give_up(wiring, Duration::ZERO);
        if !part.device_queue.is_stuck(patience) {
            let words = format!(
                "the run was dropped: part {} waited for its turn on {device}, behind runs of other sessions, and the \
                 run takes longer than {seconds:.3} s (Policy::hang_timeout)",
                part.id
            );
            return Error::new(ErrorKind::Dropped, words);
        }
        self.hung = Some(index);
        part.handle.quarantine();
        part.device_queue.forget_active();
        let words = format!(
            "part {}: {device} hung in a run of another session: the run takes longer than {seconds:.3} s \
             (Policy::hang_timeout)",
            part.id
        );
        Error::of_device(ErrorKind::DeviceLost, device, words)
    }

    /// Whether the run waits for a device that is quarantined.
    pub(crate) fn is_stuck(&self, wiring: &Wiring) -> bool {
        let stuck = |part: usize| wiring.parts[part].handle.is_quarantined() && !self.has_ended(part);
        (0..self.fences.len()).any(stuck)
    }

    /// Whether a part is with its device, as far as was seen here.
    fn is_out(&self, part: usize) -> bool {
        self.fences[part].is_some() && !self.finished[part]
    }

    fn has_ended(&self, part: usize) -> bool {
        let fence = self.fences[part].as_ref();
        self.finished[part] || fence.is_none_or(|fence| fence.poll(Duration::ZERO).is_some())
    }

    /// Issues parts that are ready until all are issued or what the others need has not ended yet. With `patience`,
    /// waits for that instead.
    pub(crate) fn issue(
        &mut self,
        wiring: &Wiring,
        clock: &Clock,
        patience: Option<Duration>,
    ) -> Result<Progress> {
        let start = Instant::now();
        loop {
            let seen = self.notifier.count();
            if let Some(error) = self.dropped(clock) {
                return Err(error);
            }
            let since = self.since(clock);
            // what a part waits for on its device comes before it, so one way through finds all
            let (mut all, mut next_late) = (true, None::<Duration>);
            for index in 0..wiring.parts.len() {
                if self.fences[index].is_some() {
                    continue;
                }
                match self.ready(wiring, index, since) {
                    Ready::Now => {
                        if self.has_grant(wiring, index, clock) {
                            self.issue_part(wiring, index, clock)?
                        } else {
                            all = false
                        }
                    }
                    Ready::Held(late) => {
                        all = false;
                        next_late = Some(next_late.map_or(late, |other| other.min(late)));
                    }
                    Ready::Not => all = false,
                }
            }
            if all {
                return Ok(Progress::Done);
            }
            let Some(patience) = patience else {
                return Ok(Progress::Waiting);
            };
            let left = patience.saturating_sub(start.elapsed());
            let mut step = next_late.map_or(left, |late| left.min(late.saturating_sub(since).max(LOOK)));
            // then it is looked at again
            let until = self.grants.until_dropped(clock).map(|until| until.max(LOOK));
            let is_short = until.is_some_and(|until| until < step);
            step = until.map_or(step, |until| step.min(until));
            if self.finish_any(wiring, clock, step, next_late.is_some(), seen)? == Progress::Waiting
                && !is_short
                && (step == left || clock.is_virtual())
            {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// The error of a run that is dropped because it is late or not the latest.
    fn dropped(&self, clock: &Clock) -> Option<Error> {
        let is_begun = self.fences.iter().any(Option::is_some);
        self.has_more().then(|| self.grants.dropped(clock, is_begun))?
    }

    /// Whether a part that is ready has its grant on its device.
    fn has_grant(&mut self, wiring: &Wiring, index: usize, clock: &Clock) -> bool {
        let all_ended = wiring.after[index].iter().all(|other| self.finished[*other]);
        self.grants.has(&wiring.parts[index], index, all_ended, clock)
    }

    /// Age of the run on the host's clock.
    fn since(&self, clock: &Clock) -> Duration {
        let host_ns = self.started.map_or(0, |(_, host_ns)| host_ns);
        Duration::from_nanos(clock.now_ns().saturating_sub(host_ns))
    }

    /// Whether a part can be issued, at this age of the run.
    fn ready(&self, wiring: &Wiring, index: usize, since: Duration) -> Ready {
        let part = &wiring.parts[index];
        let here = part.after_here.iter().all(|other| self.finished[*other]);
        if !here
            || part
                .after_on_device
                .iter()
                .any(|other| self.fences[*other].is_none())
        {
            return Ready::Not;
        }
        if part.planned_start.is_none() {
            return Ready::Now;
        }
        let before = wiring.parts[..index].iter().zip(&self.fences);
        let held = before
            .filter(|(other, fence)| other.device == part.device && fence.is_none())
            .filter_map(|(other, _)| other.planned_start)
            .map(|start| start + start / LATE_FRACTION)
            .filter(|late| since < *late)
            .max();
        held.map_or(Ready::Now, Ready::Held)
    }

    fn issue_part(&mut self, wiring: &Wiring, index: usize, clock: &Clock) -> Result<()> {
        let part = &wiring.parts[index];
        for sized in &part.sized_inputs {
            let extents = self.extents[sized.from_part][sized.from_output];
            self.submissions[index]
                .set_dims(sized.port, &extents.dims[..extents.rank])
                .map_err(|error| part.failed(error))?;
        }
        let waits: SmallVec<[&Fence; 16]> = part
            .after_on_device
            .iter()
            .filter_map(|index| self.fences[*index].as_deref())
            .collect();
        self.submissions[index].measures_steps = self.measures_steps;
        let fence = part
            .executable
            .execute(&mut self.submissions[index], &waits)
            .map_err(|error| part.failed(error))?;
        drop(waits);
        let grant = self.grants.of(index);
        let has_grant = grant.is_asked();
        let fence = PartFence::new(fence, has_grant && clock.is_virtual());
        if has_grant {
            let is_told = grant.begun(&fence);
            // the notification of the device queue wakes this run's thread too
            self.told[index] = is_told;
            self.untold |= !is_told;
        }
        self.fences[index] = Some(fence);
        self.hand_over(wiring, index);
        Ok(())
    }

    /// Sets the part that requests a grant when this one, which is on its device, ends: the first on the
    /// same device that waits for nothing else.
    fn hand_over(&self, wiring: &Wiring, index: usize) {
        let grant = self.grants.of(index);
        if !grant.is_asked() || self.is_given_up {
            return;
        }
        let waits_only = |next: &usize| {
            let mut after = wiring.after[*next].iter();
            self.fences[*next].is_none()
                // a part with a planned start may leave the device idle
                && wiring.parts[*next].planned_start.is_none()
                && Arc::ptr_eq(&wiring.parts[*next].device_queue, grant.device_queue())
                && after.all(|other| *other == index || self.finished[*other])
        };
        let next = (index + 1..self.fences.len()).find(waits_only);
        self.grants.then(wiring, index, next);
    }

    /// The part that all parts not issued yet wait for, directly or through others: waiting for it
    /// delays nothing.
    fn awaited_by_all(&self, wiring: &Wiring) -> Option<usize> {
        let waits_for = |index: usize, out: usize| {
            // a part that waits for a part not issued yet is issued after it
            let later = |other: &usize| self.fences[*other].is_none();
            let part = &wiring.parts[index];
            // a part that needs a grant waits here for all its inputs
            let here = if part.device_queue.is_shared() {
                &wiring.after[index]
            } else {
                &part.after_here
            };
            here.contains(&out) || wiring.after[index].iter().any(later)
        };
        let all = 0..self.fences.len();
        let mut out = all.clone().filter(|part| self.is_out(*part));
        out.find(|&out| {
            let mut rest = all.clone().filter(|index| self.fences[*index].is_none());
            rest.all(|index| waits_for(index, out))
        })
    }

    /// Waits for the end of any part that parts not issued yet may wait for.
    fn finish_any(
        &mut self,
        wiring: &Wiring,
        clock: &Clock,
        patience: Duration,
        held: bool,
        mut seen: u64,
    ) -> Result<Progress> {
        if !held && let Some(part) = self.awaited_by_all(wiring) {
            // waiting lets a device that computes on this thread do so
            return self.finish_part(wiring, part, patience);
        }
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        loop {
            let (mut all_told, mut any) = (true, false);
            for index in 0..self.fences.len() {
                if !self.is_out(index) {
                    continue;
                }
                // on virtual time a notification of an end would move the clock there
                if !self.told[index] && !clock.is_virtual() {
                    self.told[index] = self.fences[index]
                        .as_ref()
                        .is_some_and(|fence| self.notifier.subscribe(fence));
                }
                all_told &= self.told[index];
                any |= self.finish_part(wiring, index, Duration::ZERO)? == Progress::Done;
            }
            if any {
                return Ok(Progress::Done);
            }
            if clock.is_virtual() {
                self.grants.look();
                if self.may_go() {
                    return Ok(Progress::Done);
                }
                let (left, began_ns) = (patience - waited, clock.now_ns());
                let mut step = QUANTUM.max(waited / QUANTUM_FRACTION).min(left);
                let out = (0..self.fences.len()).find(|index| self.is_out(*index));
                match (out, self.grants.device_queue()) {
                    // its outcome is read above
                    (Some(fence), _) => drop(self.fences[fence].as_ref().map(|fence| fence.poll(step))),
                    // the clock moves at most to the end of a part
                    (None, Some((_, device_queue))) if device_queue.look(left) => {
                        step = Duration::from_nanos(clock.now_ns().saturating_sub(began_ns));
                    }
                    (None, Some((grant, device_queue))) => {
                        // the part that holds the grant has not used it yet
                        std::thread::sleep(LEAST_WAIT.min(patience));
                        if start.elapsed() >= patience {
                            return Ok(Progress::Waiting);
                        }
                        if start.elapsed() >= LAPSE {
                            device_queue.lapse(grant);
                        }
                        continue;
                    }
                    (None, None) => return Ok(Progress::Waiting),
                }
                waited += step;
                if waited >= patience {
                    return Ok(Progress::Waiting);
                }
            } else {
                if self.may_go() {
                    return Ok(Progress::Done);
                }
                let left = patience.saturating_sub(start.elapsed());
                if left.is_zero() {
                    return Ok(Progress::Waiting);
                }
                self.notifier
                    .wait(seen, if all_told { left } else { left.min(LOOK) });
                seen = self.notifier.count();
            }
        }
    }

    /// Whether a waiting part has its grant now.
    fn may_go(&self) -> bool {
        let given = |index: usize| self.grants.of(index).is_asked() && !self.grants.of(index).is_waiting();
        (0..self.fences.len()).any(|index| self.fences[index].is_none() && given(index))
    }

    /// Waits for all issued parts.
    pub(crate) fn finish_all(&mut self, wiring: &Wiring, patience: Duration) -> Result<Progress> {
        let start = Instant::now();
        for part in 0..self.fences.len() {
            if self.fences[part].is_none() {
                continue;
            }
            let left = patience.saturating_sub(start.elapsed());
            if self.finish_part(wiring, part, left)? == Progress::Waiting {
                return Ok(Progress::Waiting);
            }
        }
        if self.finished.iter().all(|finished| *finished)
            && let Some(started) = self.started.take()
        {
            self.latency = started.0.elapsed();
        }
        Ok(Progress::Done)
    }

    fn finish_part(&mut self, wiring: &Wiring, index: usize, patience: Duration) -> Result<Progress> {
        if self.finished[index] {
            return Ok(Progress::Done);
        }
        let part = &wiring.parts[index];
        let fence = self.fences[index]
            .as_ref()
            .expect("invariant: an earlier part is issued");
        let Some(ended) = fence.poll(patience) else {
            return Ok(Progress::Waiting);
        };
        self.grants.of(index).over();
        match ended {
            Ok(()) => {}
            Err(error) => {
                if error.kind() == polychip_host::ErrorKind::BadArgument {
                    self.short = self.too_small(wiring, index, fence);
                }
                return Err(part.failed(error));
            }
        }
        // a device that does not tell its timing only has none
        self.timings[index] = fence.timing().unwrap_or_default();
        wiring
            .copied
            .add_in_device(self.timings[index].copied_bytes.unwrap_or(0));
        if self.measures_steps {
            self.steps.resize(self.timings.len(), Vec::new());
            self.steps[index] = fence.steps().ok().flatten().unwrap_or_default();
        }
        for &output in &part.bounded_outputs {
            let extents = &mut self.extents[index][output];
            let port =
                u32::try_from(part.input_count + output).expect("invariant: ports are counted in 32 bits");
            extents.rank = fence
                .output_dims(port, &mut extents.dims)
                .map_err(|error| part.failed(error))?;
        }
        for copy in &self.copies[index] {
            copy.run()?;
        }
        wiring.copied.add_shared(part.shared_bytes);
        self.finished[index] = true;
        // a part may now wait only for a part that is on its device
        (0..self.fences.len())
            .filter(|other| self.is_out(*other))
            .for_each(|other| self.hand_over(wiring, other));
        Ok(Progress::Done)
    }

    /// The output whose memory was too small for a failed part, and the bytes it needs.
    fn too_small(&self, wiring: &Wiring, index: usize, fence: &Fence) -> Option<(usize, u64)> {
        let part = &wiring.parts[index];
        part.bounded_outputs.iter().find_map(|&output| {
            let mut dims = [0; MAX_RANK];
            let port = u32::try_from(part.input_count + output).ok()?;
            let rank = fence.output_dims(port, &mut dims).ok()?;
            let sizes = dims[..rank].iter().map(|dim| usize::try_from(*dim).ok());
            let elements = polychip_ops::axis::product(&sizes.collect::<Option<Vec<usize>>>()?)?;
            let is_it = |wired: &OutputWiring| matches!(wired.source, OutputSource::Part(p, o) if (p, o) == (index, output));
            let at = wiring.outputs.iter().position(is_it)?;
            let bytes = wiring.outputs[at].spec.dtype.byte_len(elements)? as u64;
            let has = self.outputs[at].as_ref()?.bytes;
            (bytes > has && !self.app_bound[at]).then_some((at, bytes))
        })
    }

    /// Asks all parts in flight to end early; a device that cannot is left to finish.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        for fence in self.fences.iter().flatten() {
            let _ = fence.cancel();
        }
    }

    /// True sizes of an output port with upper bounds.
    pub(crate) fn extents(&self, part: usize, output: usize) -> Extents {
        self.extents[part][output]
    }

    /// After a failure: issues nothing more and waits for issued parts. Whether all have ended: only
    /// then may another run use this state.
    pub(crate) fn give_up(&mut self, wiring: &Wiring, patience: Duration) -> bool {
        let start = Instant::now();
        self.started = None;
        self.is_given_up = true;
        for index in 0..self.fences.len() {
            self.grants.then(wiring, index, None);
        }
        let mut ended = true;
        for index in 0..self.fences.len() {
            let is_lost = wiring.parts[index].handle.is_quarantined();
            let goes_on = match &self.fences[index] {
                Some(fence) if !self.finished[index] => {
                    let patience = if is_lost {
                        Duration::ZERO
                    } else {
                        patience.saturating_sub(start.elapsed())
                    };
                    fence.poll(patience).is_none()
                }
                _ => false,
            };
            // a part that continues keeps its grant until its end
            if !goes_on || is_lost {
                self.grants.of(index).over();
            }
            ended &= !goes_on;
        }
        ended
    }
}
