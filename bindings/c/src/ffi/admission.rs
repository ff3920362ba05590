//! Admission: sessions that share devices, with a proof before their first run that no deadline is missed.

#![allow(unsafe_code)]

use std::ffi::c_char;

use polychip::admission::{Admission, Wanted};

use crate::entry::entry;
use crate::failure::{Failure, Result, polychip_failure};
use crate::handle::Object;
use crate::model::ModelObject;
use crate::read::{Out, null, sized, text};
use crate::runtime::{PolicyObject, RuntimeObject};
use crate::session::SessionObject;
use crate::status::{POLYCHIP_ERROR_NOT_ADMITTED, polychip_status_t};
use crate::text::{Text, formatted};

use super::model::polychip_model_t;
use super::policy::polychip_policy_t;
use super::runtime::polychip_runtime_t;
use super::session::polychip_session_t;
use super::text::polychip_text_t;

/// No margin on unmeasured times.
pub const POLYCHIP_MARGIN_NONE: u32 = u32::MAX;

/// A session to be admitted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_wanted {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_wanted).
    pub struct_size: u32,
    /// Margin on the predicted times of unmeasured parts, in thousandths; 0: the default, 500;
    /// POLYCHIP_MARGIN_NONE: no margin.
    pub margin_permille: u32,
    /// Name in reports.
    pub name: *const c_char,
    /// Its model.
    pub model: polychip_model_t,
    /// Its policy. Admission uses its `priority`, `period` and `deadline`. Without a period, each
    /// run follows the previous one directly.
    pub policy: polychip_policy_t,
}

/// Reads a list of sessions.
///
/// # Safety
/// `wanted` is null, or points to `count` structs, each as long as its `struct_size` states, all of
/// one size.
unsafe fn wanted(wanted: *const polychip_wanted, count: usize) -> Result<Vec<Wanted>> {
    let mut all = Vec::with_capacity(count.min(64));
    let mut next = wanted;
    for _ in 0..count {
        // SAFETY: the caller's promise.
        let one = unsafe { sized(next, "polychip_wanted") }?;
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(one.name, "name") }?;
        let policy = PolicyObject::given(one.policy)?;
        let session = Wanted::new(name, &ModelObject::of(one.model)?.0, policy);
        all.push(match one.margin_permille {
            0 => session,
            POLYCHIP_MARGIN_NONE => session.margin_percent(0.0),
            permille => session.margin_percent(f64::from(permille) / 10.0),
        });
        next = next.wrapping_byte_add(one.struct_size as usize);
    }
    Ok(all)
}

/// Tests whether sessions of these models meet their deadlines together with all admitted sessions.
/// If they do, creates the sessions. Thread-safe. Blocks, possibly for seconds.
///
/// `out_sessions` has room for `count` sessions and receives them in order with POLYCHIP_OK.
/// POLYCHIP_ERROR_NOT_ADMITTED means that there is no proof. In both cases `out_text`, if not null,
/// receives the proof or the obstacle, in the format POLYCHIP_FORMAT_*. A session counts as
/// admitted until it is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_admit(
    runtime: polychip_runtime_t,
    wanted: *const polychip_wanted,
    count: u64,
    format: u32,
    out_sessions: *mut polychip_session_t,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let said = unsafe { Out::optional(out_text, "out_text") }?;
        if count == 0 {
            return Err(Failure::argument("no session is to be admitted: count is 0"));
        }
        if out_sessions.is_null() {
            return Err(null("out_sessions"));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let runtime = RuntimeObject::of(runtime)?;
        // SAFETY: the caller's promise, rule 4 of the header.
        let wanted = unsafe { self::wanted(wanted, count) }?;
        let say = |text: Text| -> Result<()> {
            if let Some(place) = &said {
                place.put(text.into_handle()?);
            }
            Ok(())
        };
        let admitted = match runtime.runtime.admit(wanted)? {
            Admission::Admitted(admitted) => admitted,
            Admission::Refused(refusal) => {
                say(formatted(format, &refusal, serde_json::to_string)?)?;
                return Err(Failure::new(
                    POLYCHIP_ERROR_NOT_ADMITTED,
                    refusal.to_string().trim_end(),
                ));
            }
        };
        let proof = formatted(format, admitted.certificate(), serde_json::to_string)?;
        let sessions = admitted.sessions()?.into_iter();
        let handles: Vec<u64> = sessions
            .map(|session| SessionObject::new(session).into_handle())
            .collect::<Result<_>>()?;
        for (index, handle) in handles.into_iter().enumerate() {
            // SAFETY: the caller's promise: there is a place for each.
            unsafe { Out::new(out_sessions.add(index), "out_sessions") }?.put(handle);
        }
        say(proof)
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns the proof for all sessions that are admitted now, in the format POLYCHIP_FORMAT_*; empty
/// without such sessions. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_admitted(
    runtime: polychip_runtime_t,
    format: u32,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let text = match RuntimeObject::of(runtime)?.runtime.admitted() {
            Some(certificate) => formatted(format, &certificate, serde_json::to_string)?,
            None => Text::new(""),
        };
        place.put(text.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
