//! Sessions that are changed while they run, and those that a governor chooses plans for.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::{Failure, polychip_failure};
use crate::handle::Object;
use crate::read::{Out, text};
use crate::session::SessionObject;
use crate::status::{POLYCHIP_ERROR_BAD_INPUT, polychip_status_t};
use crate::text::Text;

use super::session::polychip_session_t;
use super::text::polychip_text_t;

/// Changes a setting of a session, also while it runs. Thread-safe.
///
/// Settings: `learn` (`no`, `watch`, `yes`, `2%` to `20%`) and `deadline` (`33ms` or `no`). A
/// session whose policy has `governed`, or a setting that implies it, also accepts `background`,
/// `battery-saver`, `frame-period`, `max-power`, `max-temperature`, `max-surface-temperature`,
/// `thermal-headroom` and `battery`. docs/c.md lists them all, and so does the failure for an
/// unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_set(
    session: polychip_session_t,
    name: *const c_char,
    value: *const c_char,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as above.
        let value = unsafe { text(value, "value") }?;
        Ok(SessionObject::of(session)?.session.set(name, value)?)
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Reports whether the next frame should run (1), or be skipped (0) so that a limit holds; always 1
/// in a session without a governor. Each call counts one frame. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_takes_frame(
    session: polychip_session_t,
    out_takes: *mut u32,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_takes, "out_takes") }?;
        place.put(u32::from(SessionObject::of(session)?.session.takes_frame()));
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Reads the sensors, lets the governor decide now, and returns the readings as JSON. Thread-safe.
///
/// A governed session does this by itself, except on virtual time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_govern(
    session: polychip_session_t,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let session = SessionObject::of(session)?;
        let sample = session.session.govern().ok_or_else(ungoverned)?;
        place.put(Text::json(serde_json::to_string(&sample))?.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Returns the governor's observations and decisions so far as JSON, one per line. They can be
/// replayed. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_session_decisions(
    session: polychip_session_t,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let log = SessionObject::of(session)?.session.decisions();
        let lines = log.ok_or_else(ungoverned)?.to_json_lines();
        place.put(Text::new(&lines).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

fn ungoverned() -> Failure {
    let words = "no governor chooses the plans of this session; make it with the setting governed";
    Failure::new(POLYCHIP_ERROR_BAD_INPUT, words)
}
