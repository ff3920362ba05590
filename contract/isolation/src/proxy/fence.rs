//! The end of a run in the plugin's process.
//!
//! Invariants:
//! 1. The first end that this side sees is the end, whatever the process writes later.
//! 2. A run that the death of the process ended is lost, with the story of the death.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_abi as abi;
use polychip_sdk::{Error, ErrorKind, Fence, NO_TIMEOUT, Result, SignalCallback, Step, Timing};

use super::convert;
use super::process::Process;
use crate::message::{Reply, Request};

/// The end of a run.
pub(crate) struct ProxyFence(Mutex<State>);

struct State {
    process: Arc<Process>,
    fence: u64,
    slot: u32,
    /// Result of the run, once it was seen.
    end: Option<Result<()>>,
    steps: Option<Arc<[Step]>>,
    /// Whether the process knows the run.
    started: bool,
}

impl State {
    fn release(&mut self) {
        if self.started {
            self.process.release(self.slot, self.fence);
        } else {
            self.process.cancel_slot(self.slot);
        }
    }
}

impl ProxyFence {
    pub(super) fn new(process: &Arc<Process>, fence: u64, slot: u32) -> ProxyFence {
        ProxyFence(Mutex::new(State {
            process: Arc::clone(process),
            fence,
            slot,
            end: None,
            steps: None,
            started: true,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the object, which has no other holder, for another run.
    pub(super) fn restart(&mut self, process: &Arc<Process>, fence: u64, slot: u32) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.release();
        if !Arc::ptr_eq(&state.process, process) {
            state.process = Arc::clone(process);
        }
        (state.fence, state.slot) = (fence, slot);
        (state.end, state.steps, state.started) = (None, None, true);
    }

    /// Marks a run that the process refused.
    pub(super) fn not_started(&self) {
        self.state().started = false;
    }

    /// The number by which a run in `process` waits for this one; `None` if it need not wait.
    pub(super) fn number_in(&self, process: &Arc<Process>) -> Result<Option<u64>> {
        let (own, fence) = {
            let state = self.state();
            (Arc::clone(&state.process), state.fence)
        };
        if Arc::ptr_eq(&own, process) {
            return Ok(Some(fence));
        }
        self.wait(0).map(|()| None)
    }

    fn handles(&self) -> (Arc<Process>, u64, u32) {
        let state = self.state();
        (Arc::clone(&state.process), state.fence, state.slot)
    }

    /// The result of a run that ended with `status`; asks for the message of a failure once.
    fn ended(&self, status: u32) -> Result<()> {
        let (process, fence, _) = self.handles();
        if let Some(end) = &self.state().end {
            return end.clone();
        }
        let end = match ErrorKind::from_status(status) {
            None => Ok(()),
            Some(_) if process.death().is_some() => Err(process.lost()),
            // a run never ends as a wait that timed out
            Some(ErrorKind::Timeout) => Err(process.lied("a run ended with the status of a timeout")),
            Some(kind) => {
                let request = Request::FenceWait { fence, timeout_ns: 0 };
                match process.call("fence_wait", None, &request, &[]) {
                    // the process may die meanwhile
                    Err(error) if error.kind() == kind || error.kind() == ErrorKind::DeviceLost => Err(error),
                    _ => Err(Error::new(kind, "the run failed without a message")),
                }
            }
        };
        self.state().end.get_or_insert(end).clone()
    }

    /// On virtual time the plugin itself must wait, because waiting advances the clock.
    fn wait_there(&self, timeout_ns: u64) -> Result<()> {
        /// Longest wait in one call, in nanoseconds; the call has a limit of its own.
        const STEP_NS: u64 = 1_000_000_000;
        let (process, fence, slot) = self.handles();
        let mut left_ns = timeout_ns;
        loop {
            if let Some(end) = &self.state().end {
                return end.clone();
            }
            if process.death().is_some() {
                return self.ended(
                    process
                        .slots
                        .ended(slot)
                        .unwrap_or(abi::POLYCHIP_STATUS_DEVICE_LOST),
                );
            }
            let request = Request::FenceWait {
                fence,
                timeout_ns: left_ns.min(STEP_NS),
            };
            let end = process.call("fence_wait", None, &request, &[]).map(drop);
            match &end {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                _ => return self.state().end.get_or_insert(end).clone(),
            }
            if left_ns <= STEP_NS {
                return end;
            }
            if left_ns != NO_TIMEOUT {
                left_ns -= STEP_NS;
            }
        }
    }
}

impl Drop for ProxyFence {
    fn drop(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).release();
    }
}

impl Fence for ProxyFence {
    fn wait(&self, timeout_ns: u64) -> Result<()> {
        if let Some(end) = &self.state().end {
            return end.clone();
        }
        let (process, _, slot) = self.handles();
        if process.is_virtual {
            return self.wait_there(timeout_ns);
        }
        let timeout = (timeout_ns != NO_TIMEOUT).then(|| Duration::from_nanos(timeout_ns));
        match process.slots.wait(slot, timeout) {
            Some(status) => self.ended(status),
            None => Err(Error::new(ErrorKind::Timeout, "the run has not ended")),
        }
    }

    fn on_signal(&self, signalled: SignalCallback) -> Result<()> {
        let (process, _, slot) = self.handles();
        process.on_end(slot, signalled);
        Ok(())
    }

    fn timing(&self) -> Result<Timing> {
        let (process, _, slot) = self.handles();
        let seen = self.state().end.is_some();
        if !seen && process.slots.ended(slot).is_none() {
            return Err(Error::new(ErrorKind::Timeout, "the run has not ended"));
        }
        let copied = process.slots.moved(slot);
        let mut timing = match process.slots.timing(slot) {
            Some(timing) => timing,
            None if copied == 0 => return Err(Error::unsupported("the run was not measured")),
            None => Timing::default(),
        };
        if copied > 0 {
            timing.copied_bytes = Some(timing.copied_bytes.unwrap_or(0).saturating_add(copied));
        }
        Ok(timing)
    }

    fn steps(&self) -> Result<Arc<[Step]>> {
        if let Some(steps) = &self.state().steps {
            return Ok(Arc::clone(steps));
        }
        let (process, fence, _) = self.handles();
        match process
            .call("fence_steps", None, &Request::FenceSteps { fence }, &[])?
            .0
        {
            Reply::Steps(records) => {
                let steps: Arc<[Step]> = records.into_iter().map(convert::step).collect();
                // the host holds addresses in the first answer
                Ok(Arc::clone(self.state().steps.get_or_insert(steps)))
            }
            other => Err(process.wrong("fence_steps", &other)),
        }
    }

    fn output_shape(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        let (process, fence, _) = self.handles();
        match process
            .call(
                "fence_output_shape",
                None,
                &Request::FenceShape { fence, port },
                &[],
            )?
            .0
        {
            Reply::Shape(shape)
                if shape.len() <= abi::POLYCHIP_MAX_RANK && shape.iter().all(|dim| *dim >= 0) =>
            {
                for (to, from) in dims.iter_mut().zip(&shape) {
                    *to = *from;
                }
                Ok(shape.len())
            }
            other => Err(process.wrong("fence_output_shape", &other)),
        }
    }

    fn cancel(&self) -> Result<()> {
        let (process, fence, _) = self.handles();
        process
            .call("cancel", None, &Request::Cancel { fence }, &[])
            .map(drop)
    }

    fn export_fd(&self) -> Result<i64> {
        use std::os::fd::IntoRawFd;
        let (process, fence, _) = self.handles();
        let (_, descriptors) = process.call("fence_export_fd", None, &Request::FenceExport { fence }, &[])?;
        match descriptors.into_iter().next() {
            // the caller closes it
            Some(file) => Ok(i64::from(file.into_raw_fd())),
            None => Err(process.lied("fence_export_fd: no descriptor")),
        }
    }
}
