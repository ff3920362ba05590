//! The library's log records.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::log;
use crate::status::polychip_status_t;

/// Called with each log record: its level (POLYCHIP_LOG_*), the part of the library that it comes
/// from, and its message. Both texts are valid during the call.
pub type polychip_log_callback_t = Option<
    unsafe extern "C" fn(user: *mut c_void, level: u32, source: *const c_char, message: *const c_char),
>;

/// Sends log records of `level` (POLYCHIP_LOG_*) and of more severe levels to a callback, which
/// replaces the previous one; null: to none. Thread-safe.
///
/// The callback is called from any thread, also from several at once. A previous callback that is
/// being called may still run after this function has returned. The callback must not call the
/// library.
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
