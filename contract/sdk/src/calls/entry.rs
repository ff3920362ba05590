//! How every entry runs: arguments are checked, unwinds and errors become statuses, handles are made and read.
//!
//! Invariant: nothing unwinds out of an entry, and an output is written only when the call succeeds.
//!
//! # Safety
//! As `calls`.

#![allow(
    unsafe_code,
    reason = "handles become references, places of results are written"
)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::polychip_error;

use crate::raw;
use crate::{Error, ErrorKind, Result};

/// Runs an entry, returns its result as a status, and fills the error record.
pub(super) unsafe fn entry(error: *mut polychip_error, call: impl FnOnce() -> Result<()>) -> u32 {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return abi::POLYCHIP_STATUS_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => panicked(payload),
    };
    if !error.is_null() {
        // A torn record cannot be filled; the status still tells.
        // SAFETY: the caller's record, as the contract has it.
        let _ = unsafe { raw::write(error, &failure.record()) };
    }
    failure.kind().status()
}

/// Runs an entry that returns nothing.
pub(super) fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // a payload whose drop panics again must not unwind either
        std::mem::forget(payload);
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let words = match payload.downcast::<String>() {
        Ok(words) => *words,
        Err(payload) => match payload.downcast::<&str>() {
            Ok(words) => (*words).to_owned(),
            Err(payload) => {
                // dropping an unknown payload may panic again
                std::mem::forget(payload);
                "no message".to_owned()
            }
        },
    };
    Error::new(ErrorKind::Persistent, format!("the plugin panicked: {words}"))
}

/// The object behind a handle.
pub(super) unsafe fn of<'a, H, T>(handle: *mut H, what: &'static str) -> Result<&'a T> {
    if handle.is_null() {
        return Err(Error::bad_argument(format!("{what} is null")));
    }
    // SAFETY: a live handle made here.
    Ok(unsafe { &*handle.cast::<T>() })
}

/// Writes an output.
pub(super) unsafe fn out<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Error::bad_argument("the output pointer is null"));
    }
    // SAFETY: writable as the contract has it.
    unsafe { to.write(value) };
    Ok(())
}

pub(super) fn boxed<T, H>(value: T) -> *mut H {
    Box::into_raw(Box::new(value)).cast()
}

pub(super) fn shared<T, H>(value: Arc<T>) -> *mut H {
    Arc::into_raw(value).cast_mut().cast()
}

pub(super) fn refuse_null<T>(place: *mut T) -> Result<()> {
    if place.is_null() {
        return Err(Error::bad_argument("the output pointer is null"));
    }
    Ok(())
}
