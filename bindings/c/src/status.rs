//! Statuses of calls, with a short name for each.
//!
//! Invariants:
//! 1. `POLYCHIP_OK` is 0, and a number never changes its meaning.
//! 2. Every error kind of the Rust library has a status of its own.

#![allow(non_camel_case_types, reason = "the name is that of the C header")]

use std::ffi::CStr;

use polychip::ErrorKind;

/// Result of a call: POLYCHIP_OK or POLYCHIP_ERROR_*.
pub type polychip_status_t = u32;

/// The call succeeded.
pub const POLYCHIP_OK: u32 = 0;
/// An argument violates the rules of the call: null, a size, a code, text that is not UTF-8.
pub const POLYCHIP_ERROR_BAD_ARGUMENT: u32 = 1;
/// A handle was destroyed, was never made, or is of another kind.
pub const POLYCHIP_ERROR_BAD_HANDLE: u32 = 2;
/// The model cannot be read, is malformed, or violates the ONNX standard.
pub const POLYCHIP_ERROR_BAD_MODEL: u32 = 3;
/// A tensor has the wrong name, shape, type or size, or a setting is unknown.
pub const POLYCHIP_ERROR_BAD_INPUT: u32 = 4;
/// No requested device can run some part of the model.
pub const POLYCHIP_ERROR_NO_DEVICE: u32 = 5;
/// A plan is malformed, or belongs to another model or device.
pub const POLYCHIP_ERROR_BAD_PLAN: u32 = 6;
/// A requested plugin or device is missing, or a library was refused.
pub const POLYCHIP_ERROR_BAD_PLUGIN: u32 = 7;
/// A device failed while compiling, loading or running.
pub const POLYCHIP_ERROR_DEVICE_FAILED: u32 = 8;
/// A device was lost, or hung.
pub const POLYCHIP_ERROR_DEVICE_LOST: u32 = 9;
/// Memory is mapped or in use by a run in flight, or the policy's limit of runs in flight is
/// reached.
pub const POLYCHIP_ERROR_IN_FLIGHT: u32 = 10;
/// The wait timed out; the run continues.
pub const POLYCHIP_ERROR_TIMEOUT: u32 = 11;
/// The run was cancelled.
pub const POLYCHIP_ERROR_CANCELLED: u32 = 12;
/// The run was late or superseded, and its policy or options drop such runs.
pub const POLYCHIP_ERROR_DROPPED: u32 = 13;
/// Admission refused the session.
pub const POLYCHIP_ERROR_NOT_ADMITTED: u32 = 14;
/// The profile was not written by Polychip, is corrupt, has another version, or cannot be written.
pub const POLYCHIP_ERROR_BAD_PROFILE: u32 = 15;
/// A file cannot be read or written.
pub const POLYCHIP_ERROR_IO: u32 = 16;
/// The process was forked after the library was first used; a child must call `exec` before it uses the library.
pub const POLYCHIP_ERROR_FORKED: u32 = 17;
/// A bug in the library; please report the message.
pub const POLYCHIP_ERROR_INTERNAL: u32 = 18;

/// The session is closed and starts no more runs.
pub const POLYCHIP_ERROR_CLOSED: u32 = 19;

/// A call that never waits would have to: as many runs are in flight as the policy allows, or a plan is
/// not ready (polychip_session_try_submit).
pub const POLYCHIP_ERROR_WOULD_BLOCK: u32 = 20;

/// The status of a kind of error.
pub(crate) fn of(kind: ErrorKind) -> polychip_status_t {
    match kind {
        ErrorKind::BadModel => POLYCHIP_ERROR_BAD_MODEL,
        ErrorKind::BadInput => POLYCHIP_ERROR_BAD_INPUT,
        ErrorKind::NoDevice => POLYCHIP_ERROR_NO_DEVICE,
        ErrorKind::BadPlan => POLYCHIP_ERROR_BAD_PLAN,
        ErrorKind::BadPlugin => POLYCHIP_ERROR_BAD_PLUGIN,
        ErrorKind::DeviceFailed => POLYCHIP_ERROR_DEVICE_FAILED,
        ErrorKind::DeviceLost => POLYCHIP_ERROR_DEVICE_LOST,
        ErrorKind::InFlight => POLYCHIP_ERROR_IN_FLIGHT,
        ErrorKind::Timeout => POLYCHIP_ERROR_TIMEOUT,
        ErrorKind::Cancelled => POLYCHIP_ERROR_CANCELLED,
        ErrorKind::Dropped => POLYCHIP_ERROR_DROPPED,
        ErrorKind::NotAdmitted => POLYCHIP_ERROR_NOT_ADMITTED,
        ErrorKind::BadProfile => POLYCHIP_ERROR_BAD_PROFILE,
        ErrorKind::Io => POLYCHIP_ERROR_IO,
        ErrorKind::Closed => POLYCHIP_ERROR_CLOSED,
        ErrorKind::WouldBlock => POLYCHIP_ERROR_WOULD_BLOCK,
        // a kind that this library does not know yet
        _ => POLYCHIP_ERROR_INTERNAL,
    }
}

/// A short name for a status.
pub(crate) fn words(status: polychip_status_t) -> &'static CStr {
    match status {
        POLYCHIP_OK => c"ok",
        POLYCHIP_ERROR_BAD_ARGUMENT => c"bad argument",
        POLYCHIP_ERROR_BAD_HANDLE => c"bad handle",
        POLYCHIP_ERROR_BAD_MODEL => c"bad model",
        POLYCHIP_ERROR_BAD_INPUT => c"bad input",
        POLYCHIP_ERROR_NO_DEVICE => c"no device",
        POLYCHIP_ERROR_BAD_PLAN => c"bad plan",
        POLYCHIP_ERROR_BAD_PLUGIN => c"bad plugin",
        POLYCHIP_ERROR_DEVICE_FAILED => c"device failed",
        POLYCHIP_ERROR_DEVICE_LOST => c"device lost",
        POLYCHIP_ERROR_IN_FLIGHT => c"in flight",
        POLYCHIP_ERROR_TIMEOUT => c"timeout",
        POLYCHIP_ERROR_CANCELLED => c"cancelled",
        POLYCHIP_ERROR_DROPPED => c"dropped",
        POLYCHIP_ERROR_NOT_ADMITTED => c"not admitted",
        POLYCHIP_ERROR_BAD_PROFILE => c"bad profile",
        POLYCHIP_ERROR_IO => c"file error",
        POLYCHIP_ERROR_FORKED => c"forked",
        POLYCHIP_ERROR_INTERNAL => c"internal fault",
        POLYCHIP_ERROR_CLOSED => c"closed",
        POLYCHIP_ERROR_WOULD_BLOCK => c"would block",
        _ => c"unknown status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own_name() {
        let all: Vec<&CStr> = (POLYCHIP_OK..=POLYCHIP_ERROR_WOULD_BLOCK).map(words).collect();
        for (index, one) in all.iter().enumerate() {
            assert_ne!(*one, c"unknown status", "{index}");
            assert!(!all[..index].contains(one), "{one:?}");
        }
        assert_eq!(words(POLYCHIP_ERROR_WOULD_BLOCK + 1), c"unknown status");
    }
}
