//! Plans: made without compiling, explained, written to and read from files.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::{Failure, polychip_failure};
use crate::handle::Object;
use crate::model::ModelObject;
use crate::plan::PlanObject;
use crate::read::{Out, text};
use crate::runtime::{PolicyObject, RuntimeObject};
use crate::session::SessionObject;
use crate::status::{POLYCHIP_ERROR_BAD_PLAN, polychip_status_t};
use crate::text::{Text, formatted};

use super::model::polychip_model_t;
use super::policy::polychip_policy_t;
use super::runtime::polychip_runtime_t;
use super::session::polychip_session_t;
use super::text::polychip_text_t;

/// A plan: the device of each node, and the reasons.
pub type polychip_plan_t = u64;

/// A plan file, human-readable and accepted by polychip_plan_read.
pub const POLYCHIP_PLAN_FILE: u32 = 0;
/// A lock file: a plan file that also records the costs of launches, links and whole parts at
/// planning time.
pub const POLYCHIP_PLAN_LOCK: u32 = 1;

/// Plans a model without compiling anything. Policy 0: the shortest run time. Thread-safe. Blocks,
/// possibly for seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_plan_create(
    runtime: polychip_runtime_t,
    model: polychip_model_t,
    policy: polychip_policy_t,
    out_plan: *mut polychip_plan_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_plan, "out_plan") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let (model, policy) = (ModelObject::of(model)?, PolicyObject::given(policy)?);
        let planned = runtime.runtime.plan(&model.0, &policy)?;
        place.put(PlanObject(planned).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Reads a plan from the text of a file that polychip_plan_text or `polychip partition -o` wrote,
/// and checks it for this model and these devices. Thread-safe.
///
/// A session of such a plan keeps it and tries no other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_plan_read(
    runtime: polychip_runtime_t,
    model: polychip_model_t,
    policy: polychip_policy_t,
    file: *const c_char,
    out_plan: *mut polychip_plan_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let file = unsafe { text(file, "file") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_plan, "out_plan") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let (model, policy) = (ModelObject::of(model)?, PolicyObject::given(policy)?);
        let plan = PlanObject::read(&runtime, &model, &policy, file)?;
        place.put(plan.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns the plan that the session's next run executes. Thread-safe.
///
/// For a model with open sizes, it is the plan for the sizes of the last run; before the first run
/// the call fails with POLYCHIP_ERROR_BAD_PLAN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_plan(
    session: polychip_session_t,
    out_plan: *mut polychip_plan_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_plan, "out_plan") }?;
        let planned = SessionObject::of(session)?.session.planned();
        let planned = planned.ok_or_else(|| {
            let words = "no plan has been made yet: the model leaves sizes open until the first run";
            Failure::new(POLYCHIP_ERROR_BAD_PLAN, words)
        })?;
        place.put(PlanObject(planned.as_ref().clone()).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns the plan as JSON, in the form POLYCHIP_PLAN_*. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_plan_text(
    plan: polychip_plan_t,
    kind: u32,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let planned = PlanObject::of(plan)?;
        let file = match kind {
            POLYCHIP_PLAN_FILE => planned.0.plan_file(),
            POLYCHIP_PLAN_LOCK => planned.0.lock_file(),
            other => {
                return Err(Failure::argument(format!(
                    "kind {other} is not a POLYCHIP_PLAN_* value"
                )));
            }
        };
        place.put(Text::new(&file.to_json()).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Explains the plan in the format POLYCHIP_FORMAT_*: for each node its device and cost, and the
/// reason against every other device. Thread-safe. Blocks, possibly for seconds.
///
/// The JSON equals the output of `polychip explain --json` without the additions of `--per-op`
/// (apps/cli/schemas/explain.schema.json).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_plan_explain(
    plan: polychip_plan_t,
    format: u32,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let planned = PlanObject::of(plan)?;
        let explained = planned.0.explain()?;
        let text = formatted(format, &explained, serde_json::to_string)?;
        place.put(text.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a plan. Accepts 0. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_plan_destroy(
    plan: polychip_plan_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<PlanObject>(plan, failure) }
}

/// Compiles and loads a plan, with the policy for which it was made. Thread-safe. Blocks, possibly
/// for seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_create_planned(
    runtime: polychip_runtime_t,
    plan: polychip_plan_t,
    policy: polychip_policy_t,
    out_session: *mut polychip_session_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_session, "out_session") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let (planned, policy) = (PlanObject::of(plan)?, PolicyObject::given(policy)?);
        let session = runtime.runtime.session_of(planned.0.clone(), policy)?;
        place.put(SessionObject::new(session).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
