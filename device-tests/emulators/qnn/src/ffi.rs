//! The C side: every call of the table, and the exported symbols.
//!
//! Invariants:
//! 1. Nothing unwinds into the client: a panic is a general error.
//! 2. Outputs are written on success only.
//! 3. Raw pointers stop here: the rest of the crate sees owned values.
//!
//! Not here: what a call means (`world`, `plan`, `support`).

#![allow(unsafe_code)]

mod context;
mod device;
mod graph;
mod log;
mod observe;
mod read;
mod table;

pub use table::{QnnInterface_getProviders, polychip_emulator_qnn_faults, polychip_emulator_qnn_live};

use std::panic::{AssertUnwindSafe, catch_unwind};

use polychip_sys::qnn as sys;

use crate::code::{Code, Result};
use crate::fault::{self, Call, Effect};

/// Runs the body of a call.
fn guard(body: impl FnOnce() -> Result<()>) -> sys::Code {
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
unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Code::ARGUMENT);
    }
    // SAFETY: the caller vouches for it; null was checked.
    unsafe { out.write(value) };
    Ok(())
}

/// The number of a handle.
fn number<T>(handle: *mut T) -> usize {
    handle.addr()
}

/// The handle of a number.
fn handle<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number)
}

/// The injected fault of a call without a graph.
fn fault(call: Call) -> Result<()> {
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
