//! Measurements on which plans are based.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::ops::ControlFlow;
use std::time::Duration;

use polychip::{Model, ProfileOptions, ProfileProgress};

use crate::entry::entry;
use crate::failure::{Failure, Result, polychip_failure};
use crate::handle::Object;
use crate::model::ModelObject;
use crate::read::{Out, array, sized};
use crate::runtime::{PolicyObject, RuntimeObject};
use crate::status::polychip_status_t;
use crate::text::{c_text, formatted};

use super::model::polychip_model_t;
use super::policy::polychip_policy_t;
use super::runtime::polychip_runtime_t;
use super::text::polychip_text_t;

/// Called before each batch of runs, on the measuring thread: `done` of `total` parts are known
/// well enough, and `part` is now being measured on `device`. Both texts are valid during the call.
/// A non-zero result ends the measurement.
pub type polychip_progress_callback_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        done: u64,
        total: u64,
        part: *const c_char,
        device: *const c_char,
    ) -> u32,
>;

/// Whole models on each device, and parts of the chosen plans.
pub const POLYCHIP_MEASURE_WHOLES: u32 = 1;
/// Components of the models: fusion groups, and single nodes.
pub const POLYCHIP_MEASURE_OPS: u32 = 2;

/// Scope and precision of a measurement. Zero in a field other than `struct_size` is its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_measure_options {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_measure_options).
    pub struct_size: u32,
    /// POLYCHIP_MEASURE_* combined; 0: POLYCHIP_MEASURE_WHOLES.
    pub what: u32,
    /// Time limit, in nanoseconds; 0: until everything is known.
    pub time_ns: u64,
    /// Precision at which the measurement of a part stops, in millionths: half the width of the
    /// median's confidence interval, divided by the median. 0: 30,000 (3 %).
    pub goal_ppm: u64,
    /// Reports progress and may end the measurement; null: no callback. It may call the library.
    pub on_progress: polychip_progress_callback_t,
    /// Passed to `on_progress`.
    pub user: *mut c_void,
}

/// Reads what is to be measured.
fn read(given: &polychip_measure_options) -> Result<ProfileOptions> {
    let usual = ProfileOptions::default();
    let what = match given.what {
        0 => POLYCHIP_MEASURE_WHOLES,
        what if what & !(POLYCHIP_MEASURE_WHOLES | POLYCHIP_MEASURE_OPS) == 0 => what,
        what => {
            return Err(Failure::argument(format!(
                "what is {what}, which is not of POLYCHIP_MEASURE_*"
            )));
        }
    };
    Ok(ProfileOptions {
        ops: what & POLYCHIP_MEASURE_OPS != 0,
        wholes: what & POLYCHIP_MEASURE_WHOLES != 0,
        time: (given.time_ns != 0).then(|| Duration::from_nanos(given.time_ns)),
        goal: match given.goal_ppm {
            0 => usual.goal,
            ppm => ppm as f64 / 1e6,
        },
    })
}

/// Measures the costs behind plans for these models: links between devices, models on each device,
/// parts of the chosen plans. Thread-safe. Blocks for seconds to minutes.
///
/// Without options, it measures until everything is known within 3 %. Later plans use the results;
/// with a `profile` in the builder, later processes use them, too. `out_text` reports the
/// measurements and the plans chosen now, in the format POLYCHIP_FORMAT_*.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_measure(
    runtime: polychip_runtime_t,
    models: *const polychip_model_t,
    count: u64,
    policy: polychip_policy_t,
    options: *const polychip_measure_options,
    format: u32,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // SAFETY: the caller's promise, rule 3 of the header.
        let models = unsafe { array(models, count, "models") }?;
        if models.is_empty() {
            return Err(Failure::argument("no model is to be measured: count is 0"));
        }
        let given = if options.is_null() {
            None
        } else {
            // SAFETY: the caller's promise, rule 4 of the header.
            Some(unsafe { sized(options, "polychip_measure_options") }?)
        };
        let runtime = RuntimeObject::of(runtime)?;
        let models = models.iter().map(|model| Ok(ModelObject::of(*model)?.0.clone()));
        let models: Vec<Model> = models.collect::<Result<_>>()?;
        let policy = PolicyObject::given(policy)?;
        let options = given.map(read).transpose()?.unwrap_or_default();
        let mut watch = |at: &ProfileProgress<'_>| {
            let Some((callback, user)) = given.and_then(|given| Some((given.on_progress?, given.user)))
            else {
                return ControlFlow::Continue(());
            };
            let (part, device): (CString, CString) = (c_text(at.part), c_text(at.device));
            // SAFETY: the caller's promise, rule 6 of the header; the texts live during the call.
            let ends = unsafe { callback(user, at.done, at.total, part.as_ptr(), device.as_ptr()) };
            match ends {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let report = runtime.runtime.measure(&models, &policy, &options, &mut watch)?;
        place.put(formatted(format, &report, serde_json::to_string)?.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
