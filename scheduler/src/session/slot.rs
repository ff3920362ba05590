//! Everything one run needs, made once: submissions with their bindings, fences, outputs, timings.
//!
//! Invariants:
//! 1. A slot belongs to one run at a time; issuing and finishing parts allocates nothing.
//! 2. Parts are issued in the plan's order. A part waits for a fence of its own plugin on the device,
//!    and for anything else here.
//!
//! Not here: who drives a slot (`run`, `conductor`).

use std::time::{Duration, Instant};

use polychip_host::{Fence, MAX_RANK, Submission, Timing};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result, kind_of_host};
use crate::session::copy::Copy;
use crate::session::wiring::Wiring;
use crate::tensor::TensorMemory;

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
    /// Copies to make when a part has ended.
    pub(crate) copies: Vec<Vec<Copy>>,
    pub(crate) started: Option<Instant>,
    pub(crate) latency: Duration,
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
            outputs,
            copies,
            started: None,
            latency: Duration::ZERO,
        }
    }

    /// Makes the slot ready for the next run.
    pub(crate) fn reset(&mut self) {
        self.fences.iter_mut().for_each(|fence| *fence = None);
        self.finished.fill(false);
        self.timings.fill(Timing::default());
        self.next = 0;
        self.started = Some(Instant::now());
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
                    if self.finish(wiring, dependency, patience)? == Progress::Waiting {
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
            if self.finish(wiring, part, left)? == Progress::Waiting {
                return Ok(Progress::Waiting);
            }
        }
        if self.next == wiring.parts.len()
            && let Some(started) = self.started.take()
        {
            self.latency = started.elapsed();
        }
        Ok(Progress::Done)
    }

    fn finish(&mut self, wiring: &Wiring, index: usize, patience: Duration) -> Result<Progress> {
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
            Err(error) => return Err(part.failed(error)),
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
    pub(crate) fn give_up(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        self.started = None;
        let mut ended = true;
        for index in 0..self.next {
            if !self.finished[index]
                && let Some(fence) = &self.fences[index]
            {
                let result = fence.wait(patience.saturating_sub(start.elapsed()));
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
