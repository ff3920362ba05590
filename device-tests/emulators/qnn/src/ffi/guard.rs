//! Common code of all C calls: no unwinding, outputs only on success, handles as numbers, injected
//! faults.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use polychip_sys::qnn as sys;

use crate::code::{Code, Result};
use crate::fault::{self, Call, Effect};

/// Runs the body of a call.
pub(super) fn guard(body: impl FnOnce() -> Result<()>) -> sys::Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::GENERAL.0,
    }
}

/// Writes an output of a call.
///
/// # Safety
/// `out` is null or valid for writing.
pub(super) unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Code::ARGUMENT);
    }
    // SAFETY: the caller vouches for it; null was checked.
    unsafe { out.write(value) };
    Ok(())
}

/// The number of a handle.
pub(super) fn number<T>(handle: *mut T) -> usize {
    handle.addr()
}

/// The handle of a number.
pub(super) fn handle<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number)
}

/// The injected fault of a call without a graph.
pub(super) fn fault(call: Call) -> Result<()> {
    match fault::at(call, |_| false) {
        None | Some(Effect::WrongSize) => Ok(()),
        Some(Effect::Fail(code)) => Err(code),
        Some(Effect::Restart) => Err(Code::RESTARTED),
        Some(Effect::Wait(time)) => {
            fault::wait(time);
            Ok(())
        }
    }
}
