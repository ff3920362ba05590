//! Measuring what plans rest on.

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

/// What the app has called before each batch of runs, from the thread that measures: so many parts of all are known well enough,
/// and this one is measured now on this device. Both texts live during the call. With anything but 0 it ends there.
pub type polychip_progress_callback_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        done: u64,
        total: u64,
        part: *const c_char,
        device: *const c_char,
    ) -> u32,
>;

/// The models as wholes on each device, and parts of the plans that are chosen.
pub const POLYCHIP_MEASURE_WHOLES: u32 = 1;
/// What the models consist of: fusion groups, and nodes by themselves.
pub const POLYCHIP_MEASURE_OPS: u32 = 2;

/// What is to be measured, and how well. All zeros but `struct_size` is what null says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_measure_options {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_measure_options).
    pub struct_size: u32,
    /// POLYCHIP_MEASURE_* together; 0 is POLYCHIP_MEASURE_WHOLES.
    pub what: u32,
    /// Ends after this time, in nanoseconds; 0 when all is known.
    pub time_ns: u64,
    /// Half the width of a median's interval over the median, in millionths, below which a part is known well enough; 0 is
    /// 30,000 (3 %).
    pub goal_ppm: u64,
    /// Says how far it is, and may end it; null calls nobody. It may call the library.
    pub on_progress: polychip_progress_callback_t,
    /// Handed to `on_progress`.
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

/// Measures what plans for these models rest on: links between devices, models on each device, parts of the plans that are
/// chosen; with null as the options, until all is known within 3 %. Plans that are made afterwards go by it, and where the
/// builder was given a `profile`, those of later processes too. `out_text` says what was measured and what is chosen now, with a
/// POLYCHIP_FORMAT_*. Takes seconds to minutes; the thread waits. Thread-safe.
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
        let given = match options.is_null() {
            true => None,
            // SAFETY: the caller's promise, rule 4 of the header.
            false => Some(unsafe { sized(options, "polychip_measure_options") }?),
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
