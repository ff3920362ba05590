//! Fences: the end of a run, its status, and its measurements.
//!
//! Invariants:
//! 1. The first observer of the end releases the run's buffers, once.
//! 2. A run that only a reset of its device ended keeps its memory for ever, because the hung
//!    device may still write.
//! 3. A fence dropped before its end keeps buffers and executable for ever and quarantines the
//!    device, for the same reason.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::error::{Error, ErrorKind, Result};
use crate::guard;
use crate::open_device::Open;
use crate::retained_memory;
use crate::run_resources::RunResources;

/// More bytes than any run copies.
const MOST_COPIED: u64 = 1 << 50;

/// Longest accepted name of a step, in bytes.
const MOST_NAME: u64 = 1 << 16;

/// Largest number of steps read of a run.
const MOST_STEPS: usize = 1 << 22;

/// Measurements of a run by its device, on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Time at which the device queued the run, in nanoseconds.
    pub queued_ns: Option<u64>,
    /// Times at which the device started and finished, in nanoseconds.
    pub span_ns: Option<(u64, u64)>,
    /// Energy of the run, in microjoules.
    pub energy_uj: Option<u64>,
    /// Bytes of ports that the plugin or its library copied for the run; `None` if the plugin does
    /// not report it.
    pub copied_bytes: Option<u64>,
}

/// A step of a run, as its device measured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The plugin's name of the kernel or loop.
    pub name: String,
    /// The computed nodes, as indices in the part's graph; empty if the step serves the whole part.
    pub nodes: Vec<u32>,
    /// Time of the step, in nanoseconds.
    pub time_ns: u64,
    /// Arithmetic operations, if reported; a multiply-add counts as two.
    pub operations: Option<u64>,
    /// Bytes read and written, if reported.
    pub moved_bytes: Option<u64>,
    /// Whether a plain loop computes the step, because there is no kernel.
    pub is_reference: bool,
}

impl Step {
    /// Reads a record of a live fence.
    ///
    /// # Safety
    /// Name and nodes of the record are readable.
    unsafe fn of(record: &abi::polychip_step) -> Step {
        let has = |bit| record.flags & bit != 0;
        // a count that no graph has, or a misaligned address: ignored
        let nodes = if record.nodes.is_null()
            || !record.nodes.is_aligned()
            || record.node_count > u64::from(u32::MAX) >> 8
        {
            &[]
        } else {
            // SAFETY: as the caller promises.
            unsafe { std::slice::from_raw_parts(record.nodes, record.node_count as usize) }
        };
        let name = if record.name.data.is_null() || record.name.len > MOST_NAME {
            &[]
        } else {
            // SAFETY: as the caller promises.
            unsafe { std::slice::from_raw_parts(record.name.data, record.name.len as usize) }
        };
        Step {
            name: String::from_utf8_lossy(name).into_owned(),
            nodes: nodes.to_vec(),
            time_ns: record.time_ns,
            operations: has(abi::POLYCHIP_STEP_OPERATIONS).then_some(record.operations),
            moved_bytes: has(abi::POLYCHIP_STEP_BYTES).then_some(record.moved_bytes),
            is_reference: has(abi::POLYCHIP_STEP_REFERENCE),
        }
    }
}

/// A callback for the end of a run, from any thread. Made once, used for many runs.
pub struct Signal(Box<dyn Fn(Option<ErrorKind>) + Send + Sync>);

impl Signal {
    /// `call` receives the kind of failure, or `None` if the run succeeded. It must not block or
    /// panic.
    pub fn new(call: impl Fn(Option<ErrorKind>) + Send + Sync + 'static) -> Arc<Signal> {
        Arc::new(Signal(Box::new(call)))
    }
}

/// The end of one run. Thread-safe.
pub struct Fence {
    raw: *mut abi::polychip_fence,
    resources: Arc<RunResources>,
    ended: AtomicBool,
    /// What the run wrote outside its tensors, where guard bytes tell.
    damage: OnceLock<String>,
}

// SAFETY: the contract states the calls on a fence thread-safe, but timing and shape, which are read
// after the end and have no effects; `fence_destroy` is called once.
unsafe impl Send for Fence {}
// SAFETY: as above.
unsafe impl Sync for Fence {}

impl Fence {
    pub(crate) fn new(resources: Arc<RunResources>, raw: *mut abi::polychip_fence) -> Fence {
        Fence {
            raw,
            resources,
            ended: AtomicBool::new(false),
            damage: OnceLock::new(),
        }
    }

    pub(crate) fn raw(&self) -> *mut abi::polychip_fence {
        self.raw
    }

    pub(crate) fn device(&self) -> &Arc<Open> {
        &self.resources.executable.0.device
    }

    /// Waits for the end of the run, at most `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the run has not ended; otherwise the failure of the run.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let mut record = abi::polychip_error::sized();
        let status = self.status(timeout, &mut record);
        self.check(status, &record)
    }

    /// Waits for the end of the run, at most `timeout`, and returns its result. Returns `None`,
    /// without an allocation, if the run has not ended.
    pub fn poll(&self, timeout: Duration) -> Option<Result<()>> {
        let mut record = abi::polychip_error::sized();
        let status = self.status(timeout, &mut record);
        (status != abi::POLYCHIP_STATUS_TIMEOUT).then(|| self.check(status, &record))
    }

    /// Waits for the run, and returns its status.
    fn status(&self, timeout: Duration, record: &mut abi::polychip_error) -> u32 {
        let device = self.device();
        let call = device
            .table()
            .fence_wait
            .expect("invariant: required calls are checked");
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the fence is alive and the out pointer is ours.
        let status = unsafe { call(self.raw, timeout_ns, &raw mut *record) };
        if status != abi::POLYCHIP_STATUS_TIMEOUT && !self.ended.swap(true, Ordering::AcqRel) {
            if guard::buffers_are_guarded()
                && let Some(words) = self.resources.damage()
            {
                // another error hides it
                if status != abi::POLYCHIP_STATUS_OK {
                    tracing::error!("{}: a run {words}", device.name);
                }
                let _ = self.damage.set(words);
            }
            let resets = self.resources.executable.0.resets;
            if status == abi::POLYCHIP_STATUS_DEVICE_LOST && device.was_reset_since(resets) {
                self.resources.retain_memory();
            } else {
                self.resources.end_run();
            }
        }
        status
    }

    /// Converts a status to a result. A loss before the last reset does not affect the device's
    /// present state.
    fn check(&self, status: u32, record: &abi::polychip_error) -> Result<()> {
        let resets = self.resources.executable.0.resets;
        self.device().check_since(resets, "run", status, record)?;
        match self.damage.get() {
            Some(words) => Err(Error::new(
                ErrorKind::BadPlugin,
                &self.device().name,
                format!("a run {words}"),
            )),
            None => Ok(()),
        }
    }

    /// Calls `signal` when the run ends. Returns false if the plugin does not offer it.
    ///
    /// # Errors
    /// The call failed.
    pub fn on_signal(&self, signal: &Arc<Signal>) -> Result<bool> {
        let device = self.device();
        let Some(call) = device.table().fence_on_signal else {
            return Ok(false);
        };
        let user = Arc::into_raw(Arc::clone(signal));
        let mut record = abi::polychip_error::sized();
        // SAFETY: the fence is alive; `user` holds the signal until it is called, once.
        let status = unsafe {
            call(
                self.raw,
                Some(signalled),
                user.cast_mut().cast::<c_void>(),
                &raw mut record,
            )
        };
        if status != abi::POLYCHIP_STATUS_OK {
            // SAFETY: a call that failed does not keep the signal, by the contract.
            drop(unsafe { Arc::from_raw(user) });
        }
        device.check("fence_on_signal", status, &record)?;
        Ok(true)
    }

    /// Asks the run to end early. Its fence then fails as cancelled, or ends as it would have.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the plugin does not offer it.
    pub fn cancel(&self) -> Result<()> {
        let device = self.device();
        let Some(call) = device.table().cancel else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                &device.name,
                "its plugin cannot cancel a run",
            ));
        };
        let mut record = abi::polychip_error::sized();
        // SAFETY: the fence is alive.
        let status = unsafe { call(self.raw, &raw mut record) };
        device.check("cancel", status, &record)
    }

    /// Measurements of a run that has ended.
    ///
    /// # Errors
    /// The call failed.
    pub fn timing(&self) -> Result<Timing> {
        let device = self.device();
        let Some(call) = device.table().fence_timing else {
            return Ok(Timing::default());
        };
        let mut found = abi::polychip_timing::sized();
        let mut record = abi::polychip_error::sized();
        // SAFETY: the fence is alive and the out pointers are ours.
        let status = unsafe { call(self.raw, &raw mut found, &raw mut record) };
        device.check("fence_timing", status, &record)?;
        let has = |bit| found.valid & bit != 0;
        Ok(Timing {
            queued_ns: has(abi::POLYCHIP_TIMING_QUEUED).then_some(found.queued_ns),
            // a run that ends before it starts was not measured
            span_ns: has(abi::POLYCHIP_TIMING_SPAN)
                .then_some((found.start_ns, found.end_ns))
                .filter(|(start_ns, end_ns)| start_ns <= end_ns),
            energy_uj: has(abi::POLYCHIP_TIMING_ENERGY).then_some(found.energy_uj),
            copied_bytes: has(abi::POLYCHIP_TIMING_COPIED)
                .then_some(found.copied_bytes)
                .filter(|bytes| *bytes <= MOST_COPIED),
        })
    }

    /// Steps of a run that has ended. The run must have been started with
    /// [`Submission::measures_steps`](crate::Submission). `None` if the device does not measure
    /// steps.
    ///
    /// # Errors
    /// The call failed.
    pub fn steps(&self) -> Result<Option<Vec<Step>>> {
        let device = self.device();
        let Some(call) = device.table().fence_steps else {
            return Ok(None);
        };
        let stride = size_of::<abi::polychip_step>() as u64;
        let mut records: Vec<abi::polychip_step> = Vec::new();
        loop {
            let mut count = 0;
            let mut record = abi::polychip_error::sized();
            // SAFETY: the fence is alive, there is room for the stated capacity.
            let status = unsafe {
                call(
                    self.raw,
                    records.as_mut_ptr(),
                    records.len() as u64,
                    stride,
                    &raw mut count,
                    &raw mut record,
                )
            };
            if status == abi::POLYCHIP_STATUS_UNSUPPORTED {
                return Ok(None);
            }
            device.check("fence_steps", status, &record)?;
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(MOST_STEPS);
            if count <= records.len() {
                records.truncate(count);
                break;
            }
            records.resize(count, abi::polychip_step::sized());
        }
        // SAFETY: the fence is alive, and with it what its records point to.
        Ok(Some(
            records.iter().map(|record| unsafe { Step::of(record) }).collect(),
        ))
    }

    /// Writes the actual extents of an output port of a run that has ended into `dims`, and returns
    /// the rank.
    ///
    /// # Errors
    /// The plugin does not offer it, or the rank is too high.
    pub fn output_dims(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        let device = self.device();
        let Some(call) = device.table().fence_output_shape else {
            let words = "it states upper bounds but not the actual shapes";
            return Err(Error::new(ErrorKind::BadPlugin, &device.name, words));
        };
        let mut rank = 0;
        let mut record = abi::polychip_error::sized();
        // SAFETY: the fence is alive, there is room for the stated capacity.
        let status = unsafe {
            call(
                self.raw,
                port,
                dims.as_mut_ptr(),
                dims.len() as u64,
                &raw mut rank,
                &raw mut record,
            )
        };
        device.check("fence_output_shape", status, &record)?;
        usize::try_from(rank)
            .ok()
            .filter(|rank| *rank <= dims.len())
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::BadPlugin,
                    &device.name,
                    format!("port {port} has rank {rank} after the run"),
                )
            })
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        let running = !self.ended.load(Ordering::Acquire)
            && self
                .wait(Duration::ZERO)
                .is_err_and(|error| error.kind() == ErrorKind::Timeout);
        if running {
            tracing::error!(
                "{}: a run was abandoned before its end; the device is quarantined",
                self.device().name
            );
            self.device().quarantine_after_hang();
            // the device may still write: buffers and executable are never freed
            retained_memory::retain(&self.resources);
        }
        if let Some(destroy) = self.device().table().fence_destroy {
            // SAFETY: the fence came from this table and is destroyed once.
            unsafe { destroy(self.raw) };
        }
    }
}

unsafe extern "C" fn signalled(user: *mut c_void, status: u32) {
    // SAFETY: `user` is the signal that `on_signal` passed in, and it is returned once.
    let signal = unsafe { Arc::from_raw(user.cast_const().cast::<Signal>()) };
    let failed = (status != abi::POLYCHIP_STATUS_OK).then(|| ErrorKind::of_status(status));
    (signal.0)(failed);
}
