//! Everything one run needs, made once: submissions with their bindings, fences, outputs, timings.
//!
//! Invariants:
//! 1. A slot belongs to one run at a time; issuing and finishing parts allocates nothing.
//! 2. Parts are issued in the plan's order. A part waits for a fence of its own plugin on the device,
//!    and for anything else here.
//!
//! Not here: who drives a slot (`run`, `conductor`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use polychip_host::{Clock, Fence, MAX_RANK, Submission, Timing};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result, kind_of_host};
use crate::session::buckets::Padding;
use crate::session::copy::Copy;
use crate::session::flights::Ticket;
use crate::session::state::States;
use crate::session::wiring::{OutputSource, OutputWiring, Wiring};
use crate::tensor::{Hold, TensorMemory};

/// How long a cancelled part may take to end before its device is quarantined.
const GRACE: Duration = Duration::from_millis(200);
/// The last wait before a run counts as hung.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// True sizes of a tensor, known after the run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extents {
    pub(crate) dims: [i64; MAX_RANK],
    pub(crate) rank: usize,
}

/// One run's state.
pub(crate) struct Slot {
    pub(crate) submissions: Vec<Submission>,
    fences: Vec<Option<Fence>>,
    finished: Vec<bool>,
    next: usize,
    pub(crate) timings: Vec<Timing>,
    /// By part and output port of the part, for ports with upper bounds.
    extents: Vec<Vec<Extents>>,
    /// The session's own memory of each computed graph output.
    pub(crate) outputs: Vec<Option<TensorMemory>>,
    /// The run wrote this output into the app's own memory.
    pub(crate) app_bound: Vec<bool>,
    /// By input: the run's own padded copy, whose memory later runs use again.
    pub(crate) padded: Vec<Option<Arc<TensorMemory>>>,
    /// What of the outputs is true, where the run that ended was padded.
    pub(crate) was_padded: Option<Arc<Padding>>,
    /// By output: what is true of it, where that does not come first in memory.
    pub(crate) cut: Vec<Vec<u8>>,
    /// What is true of this output was written into the app's own memory.
    pub(crate) cut_by_app: Vec<bool>,
    /// Copies to make when a part has ended.
    pub(crate) copies: Vec<Vec<Copy>>,
    /// When the run was started, on the machine's clock and on the host's, which may be virtual.
    pub(crate) started: Option<(Instant, u64)>,
    pub(crate) latency: Duration,
    /// What the run was given, held until it has given its outputs or an error.
    pub(crate) given: Given,
    /// The part at which the run hung.
    pub(crate) hung: Option<usize>,
    /// An output of the session's own memory that was too small for what a part computed, and the bytes that it takes.
    pub(crate) short: Option<(usize, u64)>,
}

/// What the app gave a run.
#[derive(Default)]
pub(crate) struct Given {
    /// By index of the model's inputs.
    pub(crate) inputs: Vec<(usize, Hold)>,
    /// By index of the model's outputs: those that are written into the app's own memory.
    pub(crate) outputs: Vec<(usize, Hold)>,
    /// By index of the model's outputs: those that are cut into the app's own memory once the run has ended.
    pub(crate) cut: Vec<(usize, Hold)>,
    /// What of the run is true, where its inputs are padded.
    pub(crate) padding: Option<Arc<Padding>>,
    /// The run is one of those that the policy allows in flight.
    pub(crate) ticket: Option<Ticket>,
    /// The states that it reads and writes, which go on when it has gone well.
    pub(crate) states: Option<Arc<States>>,
}

impl Given {
    fn with_capacity(inputs: usize, outputs: usize) -> Given {
        Given {
            inputs: Vec::with_capacity(inputs),
            outputs: Vec::with_capacity(outputs),
            cut: Vec::new(),
            padding: None,
            ticket: None,
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
        self.ticket = None;
    }

    /// As [`Given::release`], of a run that has gone well.
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

impl Slot {
    pub(crate) fn new(
        submissions: Vec<Submission>,
        outputs: Vec<Option<TensorMemory>>,
        copies: Vec<Vec<Copy>>,
        wiring: &Wiring,
    ) -> Slot {
        let parts = submissions.len();
        let extents = wiring
            .parts
            .iter()
            .map(|part| vec![Extents::default(); part.output_count])
            .collect();
        Slot {
            submissions,
            fences: (0..parts).map(|_| None).collect(),
            finished: vec![false; parts],
            next: 0,
            timings: vec![Timing::default(); parts],
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
            given: Given::with_capacity(wiring.inputs.len(), wiring.outputs.len()),
            hung: None,
            short: None,
        }
    }

    /// Makes the slot ready for the next run.
    pub(crate) fn reset(&mut self, clock: &Clock) {
        self.fences.iter_mut().for_each(|fence| *fence = None);
        self.finished.fill(false);
        self.timings.fill(Timing::default());
        self.next = 0;
        self.was_padded = None;
        self.cut_by_app.fill(false);
        self.hung = None;
        self.short = None;
        self.started = Some((Instant::now(), clock.now_ns()));
    }

    /// How long the run has been going on, on whichever clock shows more.
    pub(crate) fn age(&self, clock: &Clock) -> Duration {
        self.started.map_or(Duration::ZERO, |(real, host_ns)| {
            let host = Duration::from_nanos(clock.now_ns().saturating_sub(host_ns));
            real.elapsed().max(host)
        })
    }

    /// Waits for all issued parts, at most `timeout`; a run that is older than `patience` has hung.
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
            let patient = patience.saturating_sub(self.age(clock));
            // no shorter than that, so that a virtual clock, which only waits move, gets there
            let step = left.min(patient.max(LEAST_WAIT));
            if self.finish_all(wiring, step)? == Progress::Done {
                return Ok(Progress::Done);
            }
            if self.age(clock) >= patience {
                return Err(self.hang(wiring, patience));
            }
            if left <= patient {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// Ends a run that takes too long: its parts are cancelled, and the devices of those that go on all the
    /// same are quarantined.
    pub(crate) fn hang(&mut self, wiring: &Wiring, patience: Duration) -> Error {
        let part = (0..self.next).find(|part| !self.finished[*part]).unwrap_or(0);
        self.hung = Some(part);
        self.cancel();
        if !self.give_up(wiring, GRACE) {
            for index in part..self.next {
                let dependencies = wiring.after[index].iter().all(|other| self.has_ended(*other));
                if dependencies && !self.has_ended(index) {
                    wiring.parts[index].handle.quarantine();
                }
            }
        }
        let device = wiring.parts[part].handle.name();
        let words = format!(
            "part {}: {device} hung: the run takes longer than {:.3} s (Policy::patience)",
            wiring.parts[part].id,
            patience.as_secs_f64()
        );
        Error::of_device(ErrorKind::DeviceLost, device, words)
    }

    /// Whether the run waits for a device that is quarantined.
    pub(crate) fn is_stuck(&self, wiring: &Wiring) -> bool {
        (0..self.next).any(|part| wiring.parts[part].handle.is_quarantined() && !self.has_ended(part))
    }

    fn has_ended(&self, part: usize) -> bool {
        let timed_out = |error: polychip_host::Error| error.kind() == polychip_host::ErrorKind::Timeout;
        let fence = self.fences[part].as_ref();
        self.finished[part] || fence.is_none_or(|fence| !fence.wait(Duration::ZERO).is_err_and(timed_out))
    }

    /// Issues parts in order until all are issued or one needs something that has not ended yet. With
    /// `patience`, waits for it instead.
    pub(crate) fn issue(&mut self, wiring: &Wiring, patience: Option<Duration>) -> Result<Progress> {
        while self.next < wiring.parts.len() {
            let part = &wiring.parts[self.next];
            for &dependency in &part.after_here {
                if !self.finished[dependency] {
                    let Some(patience) = patience else {
                        return Ok(Progress::Waiting);
                    };
                    if self.finish_part(wiring, dependency, patience)? == Progress::Waiting {
                        return Ok(Progress::Waiting);
                    }
                }
            }
            for sized in &part.sized_inputs {
                let extents = self.extents[sized.from_part][sized.from_output];
                self.submissions[self.next]
                    .set_dims(sized.port, &extents.dims[..extents.rank])
                    .map_err(|error| part.failed(error))?;
            }
            let waits: SmallVec<[&Fence; 16]> = part
                .after_on_device
                .iter()
                .filter_map(|index| self.fences[*index].as_ref())
                .collect();
            let fence = part
                .executable
                .execute(&mut self.submissions[self.next], &waits)
                .map_err(|error| part.failed(error))?;
            drop(waits);
            self.fences[self.next] = Some(fence);
            self.next += 1;
        }
        Ok(Progress::Done)
    }

    /// Waits for all issued parts.
    pub(crate) fn finish_all(&mut self, wiring: &Wiring, patience: Duration) -> Result<Progress> {
        let start = Instant::now();
        for part in 0..self.next {
            let left = patience.saturating_sub(start.elapsed());
            if self.finish_part(wiring, part, left)? == Progress::Waiting {
                return Ok(Progress::Waiting);
            }
        }
        if self.next == wiring.parts.len()
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
        match fence.wait(patience) {
            Ok(()) => {}
            Err(error) if error.kind() == polychip_host::ErrorKind::Timeout => return Ok(Progress::Waiting),
            Err(error) => {
                if error.kind() == polychip_host::ErrorKind::BadArgument {
                    self.short = self.too_small(wiring, index, fence);
                }
                return Err(part.failed(error));
            }
        }
        // a device that does not tell its timing only has none
        self.timings[index] = fence.timing().unwrap_or_default();
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
        self.finished[index] = true;
        Ok(Progress::Done)
    }

    /// The output that a part which failed says it has no room for, and how much it takes.
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
        for fence in self.fences.iter().flatten() {
            let _ = fence.cancel();
        }
    }

    /// True sizes of an output port with upper bounds.
    pub(crate) fn extents(&self, part: usize, output: usize) -> Extents {
        self.extents[part][output]
    }

    /// After a failure: nothing more is issued, what was issued is waited for. Whether all of it has
    /// ended: only then may another run have the slot.
    pub(crate) fn give_up(&mut self, wiring: &Wiring, patience: Duration) -> bool {
        let start = Instant::now();
        self.started = None;
        let mut ended = true;
        for index in 0..self.next {
            if !self.finished[index]
                && let Some(fence) = &self.fences[index]
            {
                let patience = if wiring.parts[index].handle.is_quarantined() {
                    Duration::ZERO
                } else {
                    patience.saturating_sub(start.elapsed())
                };
                let result = fence.wait(patience);
                ended &= !result.is_err_and(|error| error.kind() == polychip_host::ErrorKind::Timeout);
            }
        }
        ended
    }
}

impl crate::session::wiring::PartWiring {
    /// An error of this part. What the device calls a bad argument are values that a run was given: shapes
    /// and types of ports were checked before.
    pub(crate) fn failed(&self, error: polychip_host::Error) -> Error {
        let kind = match error.kind() {
            polychip_host::ErrorKind::BadArgument => ErrorKind::BadInput,
            kind => kind_of_host(kind),
        };
        Error::caused(kind, format!("part {}", self.id), error)
    }
}
