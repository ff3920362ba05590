//! Sessions.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::{Failure, Result, polychip_failure};
use crate::handle::Object;
use crate::model::ModelObject;
use crate::port::Port;
use crate::read::{Out, text};
use crate::runtime::{PolicyObject, RuntimeObject};
use crate::session::SessionObject;
use crate::status::polychip_status_t;
use crate::tensor::Tensor;
use crate::text::formatted;

use super::model::polychip_model_t;
use super::policy::polychip_policy_t;
use super::runtime::polychip_runtime_t;
use super::tensor::{
    POLYCHIP_INFO_ANY_RANK, POLYCHIP_INFO_OPTIONAL, POLYCHIP_INFO_PACKED, POLYCHIP_INFO_UPPER_BOUND,
    polychip_tensor_info, polychip_tensor_t,
};
use super::text::polychip_text_t;

/// A model compiled for its devices, ready to run.
pub type polychip_session_t = u64;

/// Plans, compiles and loads a model for the devices of a runtime. Policy 0: the shortest run time.
/// Thread-safe. Blocks, possibly for seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_create(
    runtime: polychip_runtime_t,
    model: polychip_model_t,
    policy: polychip_policy_t,
    out_session: *mut polychip_session_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_session, "out_session") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let model = ModelObject::of(model)?;
        let policy = PolicyObject::given(policy)?;
        let session = runtime.runtime.session(&model.0, policy)?;
        place.put(SessionObject::new(session).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a session. Accepts 0. Runs in flight continue and deliver their outputs. Thread-safe.
/// Blocks if no call and no run uses the session any more: until a plan that one of its threads makes is
/// ready, until devices have ended abandoned runs (at most the setting `hang-timeout` each), and with a
/// profile file while measured times are written. polychip_session_close returns at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_destroy(
    session: polychip_session_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<SessionObject>(session, failure) }
}

/// Returns the number of inputs and of outputs; either pointer may be null. Thread-safe.
///
/// Inputs with a default (POLYCHIP_INFO_OPTIONAL) are not counted; their indices come after those of
/// the inputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_counts(
    session: polychip_session_t,
    out_inputs: *mut u64,
    out_outputs: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let inputs = unsafe { Out::optional(out_inputs, "out_inputs") }?;
        // SAFETY: as above.
        let outputs = unsafe { Out::optional(out_outputs, "out_outputs") }?;
        let session = SessionObject::of(session)?;
        if let Some(place) = inputs {
            place.put(session.required() as u64);
        }
        if let Some(place) = outputs {
            place.put(session.outputs.len() as u64);
        }
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Describes an input or output.
///
/// # Safety
/// `out_info` is null or as rule 4 of the header says.
unsafe fn describe(
    ports: &[Port],
    what: &str,
    index: u64,
    out_info: *mut polychip_tensor_info,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let place = unsafe { Out::new(out_info, "out_info") }?;
    let port = SessionObject::port(ports, what, usize::try_from(index).unwrap_or(usize::MAX))?;
    let spec = &port.spec;
    if spec.shape.len() > super::tensor::POLYCHIP_MAX_RANK {
        return Err(Failure::argument(format!(
            "{what} {:?} has rank {}, above POLYCHIP_MAX_RANK",
            spec.name,
            spec.shape.len()
        )));
    }
    let fill = |info: &mut polychip_tensor_info| {
        info.fill(spec.dtype.code(), &spec.shape, spec.bytes);
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        info.flags = flag(spec.upper_bound, POLYCHIP_INFO_UPPER_BOUND)
            | flag(spec.packed, POLYCHIP_INFO_PACKED)
            | flag(spec.any_rank, POLYCHIP_INFO_ANY_RANK)
            | flag(port.is_optional, POLYCHIP_INFO_OPTIONAL);
        info.open_axes = spec.open.iter().fold(0, |all, (axis, _)| all | 1 << axis);
        info.name = port.name.as_ptr();
    };
    // SAFETY: the caller's promise; the caller has set the size.
    unsafe { place.fill("polychip_tensor_info", fill) }
}

/// Describes an input: name, type and shape. `index` counts from 0 in the model's order.
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_input(
    session: polychip_session_t,
    index: u64,
    out_info: *mut polychip_tensor_info,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        let session = SessionObject::of(session)?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        unsafe { describe(&session.inputs, "input", index, out_info) }
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Describes an output: name, type and shape. `index` counts from 0 in the model's order.
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_output(
    session: polychip_session_t,
    index: u64,
    out_info: *mut polychip_tensor_info,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        let session = SessionObject::of(session)?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        unsafe { describe(&session.outputs, "output", index, out_info) }
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns the index of the input with this name. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_input_index(
    session: polychip_session_t,
    name: *const c_char,
    out_index: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_index, "out_index") }?;
        let session = SessionObject::of(session)?;
        place.put(SessionObject::index_of(&session.inputs, "input", name)? as u64);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns the index of the output with this name. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_output_index(
    session: polychip_session_t,
    name: *const c_char,
    out_index: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_index, "out_index") }?;
        let session = SessionObject::of(session)?;
        place.put(SessionObject::index_of(&session.outputs, "output", name)? as u64);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Feeds an output back as an input: each run reads in place what the previous run wrote, and the
/// first run reads zeros. Thread-safe.
///
/// From then on, runs receive 0 for both tensors and execute one after the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_bind_state(
    session: polychip_session_t,
    input: *const c_char,
    output: *const c_char,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let input = unsafe { text(input, "input") }?;
        // SAFETY: as above.
        let output = unsafe { text(output, "output") }?;
        Ok(SessionObject::of(session)?.session.bind_state(input, output)?)
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Sets all states to zero. No run may be in flight. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_reset_state(
    session: polychip_session_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || Ok(SessionObject::of(session)?.session.reset_state()?);
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Copies the state of an input to a new tensor, for polychip_session_set_state of this or another
/// session, also after a restart of the app. No run may be in flight. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_state(
    session: polychip_session_t,
    input: *const c_char,
    out_tensor: *mut polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let input = unsafe { text(input, "input") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_tensor, "out_tensor") }?;
        place.put(SessionObject::of(session)?.state(input)?.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Copies a tensor of matching shape to the state of an input. No run may be in flight.
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_set_state(
    session: polychip_session_t,
    input: *const c_char,
    tensor: polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let input = unsafe { text(input, "input") }?;
        SessionObject::of(session)?.set_state(input, &*Tensor::of(tensor)?)
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Closes a session to new runs. Later submits fail, also those that wait for another run to end;
/// runs in flight continue to their end. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_close(
    session: polychip_session_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        SessionObject::of(session)?.session.close();
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Reports which nodes run on which device, with predicted and measured costs, in the format
/// POLYCHIP_FORMAT_*. Thread-safe.
///
/// The JSON equals the field `report` of `polychip run --json` (apps/cli/schemas/run.schema.json).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_report(
    session: polychip_session_t,
    format: u32,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let session = SessionObject::of(session)?;
        let text = formatted(format, &session.session.report(), serde_json::to_string)?;
        place.put(text.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Writes the measured times of the session's parts to the runtime's profile and clears them here.
/// The session also does so when it is destroyed. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_record(
    session: polychip_session_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || Ok(SessionObject::of(session)?.session.record()?);
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
