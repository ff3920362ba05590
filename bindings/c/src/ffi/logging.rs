//! The library's records.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::log;
use crate::status::polychip_status_t;

/// What the app has called with each record: its level (POLYCHIP_LOG_*), the part of the library that it comes from, and what
/// it says. Both texts live during the call.
pub type polychip_log_callback_t = Option<
    unsafe extern "C" fn(user: *mut c_void, level: u32, source: *const c_char, message: *const c_char),
>;

/// Sends the library's records of a level (POLYCHIP_LOG_*) and of those below it to a callback, in the place of the one
/// before; to nobody with null. Calls come from any thread, from several at once, and one that has begun may end after this
/// has returned. The callback must not call the library. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_log_set(
    level: u32,
    callback: polychip_log_callback_t,
    user: *mut c_void,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 6 of the header.
        unsafe { log::set(level, callback, user) }
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
