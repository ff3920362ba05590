//! Runs.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::time::Duration;

use polychip::{Late, Run, RunOptions};

use crate::completion::{self, Watched};
use crate::entry::entry;
use crate::failure::{Failure, Result, polychip_failure};
use crate::handle::Object;
use crate::read::{Out, array, sized};
use crate::run::RunObject;
use crate::session::SessionObject;
use crate::status::{POLYCHIP_ERROR_TIMEOUT, polychip_status_t};

use super::session::polychip_session_t;
use super::tensor::{polychip_tensor_info, polychip_tensor_t};

/// A run, in flight or ended, with its outputs.
pub type polychip_run_t = u64;
/// Called when a run has ended, with the status that polychip_run_wait then returns.
pub type polychip_done_callback_t =
    Option<unsafe extern "C" fn(user: *mut c_void, status: polychip_status_t)>;

/// No time limit.
pub const POLYCHIP_FOREVER: u64 = u64::MAX;

/// The policy decides about a late run.
pub const POLYCHIP_LATE_BY_POLICY: u32 = 0;
/// A late run continues.
pub const POLYCHIP_LATE_FINISH: u32 = 1;
/// A run is dropped if its deadline passes before all of its parts are on their devices.
pub const POLYCHIP_LATE_DROP: u32 = 2;
/// A run is dropped if a later run of its session arrives before the first of its parts is on a
/// device.
pub const POLYCHIP_LATE_LATEST: u32 = 3;

/// Options of one run. Zero in a field other than `struct_size` is its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_run_options {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_run_options).
    pub struct_size: u32,
    /// One of POLYCHIP_LATE_*.
    pub late: u32,
    /// Time after which the run is late, in nanoseconds; 0: as the policy states.
    pub deadline_ns: u64,
    /// Longest wait while as many runs are in flight as the policy allows, in nanoseconds; 0: no
    /// wait.
    pub queue_timeout_ns: u64,
    /// Called once when the run has ended, on a thread of the library; null: no callback. It may
    /// call the library.
    pub on_done: polychip_done_callback_t,
    /// Passed to `on_done`.
    pub user: *mut c_void,
}

/// Options and callback of a run.
struct Said {
    options: RunOptions,
    on_done: polychip_done_callback_t,
    user: *mut c_void,
}

/// Reads a run's options and callback.
///
/// # Safety
/// `options` is null or as rule 4 of the header says.
unsafe fn said(options: *const polychip_run_options) -> Result<Said> {
    let mut said = RunOptions::new();
    if options.is_null() {
        return Ok(Said {
            options: said,
            on_done: None,
            user: std::ptr::null_mut(),
        });
    }
    // SAFETY: the caller's promise.
    let given = unsafe { sized(options, "polychip_run_options") }?;
    if given.deadline_ns > 0 {
        said = said.deadline(Duration::from_nanos(given.deadline_ns));
    }
    if given.queue_timeout_ns > 0 {
        said = said.queue_timeout(Duration::from_nanos(given.queue_timeout_ns));
    }
    said = match given.late {
        POLYCHIP_LATE_BY_POLICY => said,
        POLYCHIP_LATE_FINISH => said.late(Late::Finish),
        POLYCHIP_LATE_DROP => said.late(Late::Drop),
        POLYCHIP_LATE_LATEST => said.late(Late::Latest),
        late => {
            return Err(Failure::argument(format!(
                "late {late} is not a POLYCHIP_LATE_* value"
            )));
        }
    };
    Ok(Said {
        options: said,
        on_done: given.on_done,
        user: given.user,
    })
}

/// A limit of time; none where it is as long as it takes.
fn limit(timeout_ns: u64) -> Option<Duration> {
    (timeout_ns != POLYCHIP_FOREVER).then(|| Duration::from_nanos(timeout_ns))
}

/// Starts a run.
///
/// # Safety
/// The arrays have as many elements as is said.
unsafe fn start(
    session: polychip_session_t,
    inputs: (*const polychip_tensor_t, u64),
    outputs: (*const polychip_tensor_t, u64),
    options: RunOptions,
    never_waits: bool,
) -> Result<Run> {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller's promise.
    let inputs = unsafe { array(inputs.0, count(inputs.1), "inputs") }?;
    // SAFETY: the caller's promise.
    let outputs = unsafe { array(outputs.0, count(outputs.1), "outputs") }?;
    SessionObject::of(session)?.submit(session, inputs, outputs, options, never_waits)
}

/// Starts a run and does not wait for its end. Thread-safe. Blocks, possibly for seconds, if the
/// session must first plan and compile: for new input sizes of a model with open sizes, or after a
/// device was lost, became too hot for the policy or has cooled. With `queue_timeout_ns`, it may
/// also wait for other runs.
///
/// - `inputs` has one tensor per input in the model's order; 0 for a state. Tensors for the inputs
///   with a default may follow; 0 for an input that is left out.
/// - `outputs` has one tensor per output, into which the run writes; 0: the run allocates memory.
///   With an `output_count` of 0, the run allocates memory for all outputs.
/// - `options` may be null.
///
/// Tensors may be destroyed once this call has returned. Several runs may read a tensor at once; a
/// tensor that a run writes must have no other user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_submit(
    session: polychip_session_t,
    inputs: *const polychip_tensor_t,
    input_count: u64,
    outputs: *const polychip_tensor_t,
    output_count: u64,
    options: *const polychip_run_options,
    out_run: *mut polychip_run_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let (inputs, outputs) = ((inputs, input_count), (outputs, output_count));
    // SAFETY: the caller's promise.
    unsafe { submit(session, inputs, outputs, options, out_run, failure, false) }
}

/// As polychip_session_submit, but never waits and never plans: it fails with POLYCHIP_ERROR_WOULD_BLOCK
/// if as many runs are in flight as the policy allows, or if the plan for these sizes is not ready. A
/// missing plan is then made on a thread of the library; submit again later. Thread-safe.
/// `queue_timeout_ns` has no effect. A failure of that thread is returned once, by a later call with
/// the same sizes.
///
/// The call still copies inputs for devices that cannot import their memory, and hands the run to the
/// devices' drivers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_try_submit(
    session: polychip_session_t,
    inputs: *const polychip_tensor_t,
    input_count: u64,
    outputs: *const polychip_tensor_t,
    output_count: u64,
    options: *const polychip_run_options,
    out_run: *mut polychip_run_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let (inputs, outputs) = ((inputs, input_count), (outputs, output_count));
    // SAFETY: the caller's promise.
    unsafe { submit(session, inputs, outputs, options, out_run, failure, true) }
}

/// Starts a run, with its callback.
///
/// # Safety
/// As the header says.
unsafe fn submit(
    session: polychip_session_t,
    inputs: (*const polychip_tensor_t, u64),
    outputs: (*const polychip_tensor_t, u64),
    options: *const polychip_run_options,
    out_run: *mut polychip_run_t,
    failure: *mut polychip_failure,
    never_waits: bool,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_run, "out_run") }?;
        // SAFETY: as above.
        let said = unsafe { said(options) }?;
        // SAFETY: as above.
        let started = unsafe { start(session, inputs, outputs, said.options, never_waits) }?;
        let handle = RunObject::new(started).into_handle()?;
        // the callback may come before this returns, and then knows its run
        place.put(handle);
        let Some(callback) = said.on_done else {
            return Ok(());
        };
        // SAFETY: the caller's promise, rule 6 of the header.
        let watched = unsafe { Watched::new(RunObject::of(handle)?, callback, said.user) };
        completion::watch(watched).inspect_err(|_| drop(RunObject::take(handle)))
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Runs and waits, at most `timeout_ns` nanoseconds (POLYCHIP_FOREVER: without a limit), as
/// polychip_session_submit and polychip_run_wait do. Thread-safe. Blocks.
///
/// `out_run` may be null if all required outputs are passed as tensors. If the time limit passes,
/// `out_run` is not written and the run continues: its tensors stay in use until it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_run(
    session: polychip_session_t,
    inputs: *const polychip_tensor_t,
    input_count: u64,
    outputs: *const polychip_tensor_t,
    output_count: u64,
    options: *const polychip_run_options,
    timeout_ns: u64,
    out_run: *mut polychip_run_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::optional(out_run, "out_run") }?;
        // SAFETY: as above.
        let said = unsafe { said(options) }?;
        if said.on_done.is_some() {
            return Err(Failure::argument(
                "on_done is for polychip_session_submit: this call returns when the run has ended",
            ));
        }
        // SAFETY: as above.
        let started = unsafe {
            start(
                session,
                (inputs, input_count),
                (outputs, output_count),
                said.options,
                false,
            )
        }?;
        let mut run = started;
        let limit = limit(timeout_ns);
        // a year at a time where there is no limit
        let patience = limit.unwrap_or(Duration::from_secs(365 * 24 * 3600));
        let outputs = loop {
            match run.poll(patience)? {
                Some(outputs) => break outputs,
                None if limit.is_none() => {}
                None => {
                    return Err(Failure::new(
                        POLYCHIP_ERROR_TIMEOUT,
                        format!("the run has not ended after {} ms", patience.as_millis()),
                    ));
                }
            }
        };
        if let Some(place) = place {
            place.put(RunObject::ended(outputs).into_handle()?);
        }
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Waits until a run has ended, at most `timeout_ns` nanoseconds (POLYCHIP_FOREVER: without a
/// limit; 0: polls). Thread-safe: several threads may wait for one run while others cancel it.
/// Blocks.
///
/// - POLYCHIP_OK: the outputs are available.
/// - POLYCHIP_ERROR_TIMEOUT: the run has not ended.
/// - Otherwise: the failure of the run, the same for every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_run_wait(
    run: polychip_run_t,
    timeout_ns: u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || RunObject::of(run)?.wait(limit(timeout_ns));
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Asks a run to end early, and does not wait for its end. The run then ends as cancelled, unless
/// it completes first. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_run_cancel(
    run: polychip_run_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        RunObject::of(run)?.cancel();
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns an output of a run that ended well; `index` counts from 0 in the model's order.
/// Thread-safe.
///
/// `out_info`, which may be null, receives its actual type and shape. `out_data` receives the
/// address of its elements, which is valid until the run is destroyed. If the run wrote into a
/// tensor of the caller, read that tensor instead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_run_output(
    run: polychip_run_t,
    index: u64,
    out_info: *mut polychip_tensor_info,
    out_data: *mut *const c_void,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let info = unsafe { Out::optional(out_info, "out_info") }?;
        // SAFETY: as above.
        let place = unsafe { Out::new(out_data, "out_data") }?;
        let output = RunObject::of(run)?.output(usize::try_from(index).unwrap_or(usize::MAX))?;
        if let Some(info) = info {
            let fill = |info: &mut polychip_tensor_info| info.fill(output.dtype, &output.shape, output.bytes);
            // SAFETY: as above; the caller has set the size.
            unsafe { info.fill("polychip_tensor_info", fill) }?;
        }
        place.put(output.data.cast());
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns two times of a run that ended well, in nanoseconds; either pointer may be null.
/// Thread-safe.
///
/// - `out_latency_ns`: the time from submit to the end of its last part.
/// - `out_late_ns`: by how much it missed its deadline; 0 if it was on time, or has no deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_run_timing(
    run: polychip_run_t,
    out_latency_ns: *mut u64,
    out_late_ns: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let latency = unsafe { Out::optional(out_latency_ns, "out_latency_ns") }?;
        // SAFETY: as above.
        let late = unsafe { Out::optional(out_late_ns, "out_late_ns") }?;
        let (took, late_by) = RunObject::of(run)?.timing()?;
        let whole = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(place) = latency {
            place.put(whole(took));
        }
        if let Some(place) = late {
            place.put(late_by.map_or(0, whole));
        }
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a run. Accepts 0. A run in flight continues without delivering outputs; its callback is
/// still called. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_run_destroy(
    run: polychip_run_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<RunObject>(run, failure) }
}
