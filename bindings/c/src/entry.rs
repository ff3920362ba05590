//! Common path of every call of the library.
//!
//! Invariants:
//! 1. Nothing unwinds out of an entry.
//! 2. A child of `fork` is refused before anything is locked or looked up.

#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Record, Result, polychip_failure};
use crate::fork;
use crate::status::{POLYCHIP_ERROR_INTERNAL, POLYCHIP_OK, polychip_status_t};

/// Makes a call, and says in the caller's record why it failed.
///
/// # Safety
/// `failure` is null, or points to a record whose `struct_size` is set and that nobody else uses until this has returned.
pub(crate) unsafe fn entry(
    failure: *mut polychip_failure,
    call: impl FnOnce() -> Result<()>,
) -> polychip_status_t {
    // SAFETY: the caller's promise.
    let record = match unsafe { Record::new(failure) } {
        Ok(record) => record,
        // a record of another size has no room for words
        Err(failure) => return failure.status,
    };
    match guarded(call) {
        Ok(()) => POLYCHIP_OK,
        Err(failure) => {
            record.fill(&failure);
            failure.status
        }
    }
}

/// Makes a call where the process may, and turns a panic into a failure.
fn guarded(call: impl FnOnce() -> Result<()>) -> Result<()> {
    fork::check()?;
    caught(call)?
}

/// Turns a panic into a failure.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let words = format!("a fault of the library, please report it: {}", words(&*panic));
        // what was thrown may throw again when it is dropped
        std::mem::forget(panic);
        Failure::new(POLYCHIP_ERROR_INTERNAL, words)
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (_, Some(words)) => words,
        _ => "no message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_a_status_with_its_message() {
        let place = std::mem::MaybeUninit::<polychip_failure>::zeroed();
        // SAFETY: a record is numbers and text, for which zeros are values.
        let mut record = unsafe { place.assume_init() };
        record.struct_size = size_of::<polychip_failure>() as u32;
        // SAFETY: the record is ours and its size is set.
        let status = unsafe { entry(&raw mut record, || panic!("of the test, number {}", 7)) };
        assert_eq!((status, record.status), (POLYCHIP_ERROR_INTERNAL, status));
        let message: Vec<u8> = record.message.iter().map(|byte| *byte as u8).collect();
        let message = String::from_utf8_lossy(&message[..record.message_bytes as usize]).into_owned();
        assert!(message.ends_with("of the test, number 7"), "{message}");
        // SAFETY: null is allowed.
        assert_eq!(unsafe { entry(std::ptr::null_mut(), || Ok(())) }, POLYCHIP_OK);
    }
}
