//! Common path of every call of the library.
//!
//! Invariants:
//! 1. Nothing unwinds out of an entry.
//! 2. A child of `fork` is refused before anything is locked or looked up.
//! 3. A record is written only if a call fails; its text ends with a zero byte, and text that is too
//!    long is cut between two characters.

#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Result, polychip_failure};
use crate::status::{POLYCHIP_ERROR_INTERNAL, POLYCHIP_OK, polychip_status_t};
use crate::{fork, read};

/// Writes text and a zero byte, cut between two characters where it does not fit. The bytes written, without the zero.
fn put(text: &str, place: &mut [c_char]) -> usize {
    let room = place.len().saturating_sub(1);
    let len = text.floor_char_boundary(room.min(text.len()));
    // a zero inside would end the text for C
    let bytes = text.as_bytes()[..len].iter().map(|byte| match byte {
        0 => b' ',
        byte => *byte,
    });
    for (to, byte) in place.iter_mut().zip(bytes.chain([0])) {
        *to = byte as c_char;
    }
    len
}

/// The caller's record, where it gave one.
struct Record(*mut polychip_failure);

impl Record {
    /// # Safety
    /// `record` is null, or points to a record whose `struct_size` is set, and which no other
    /// thread uses until the call has returned.
    ///
    /// # Errors
    /// Its size is not one of a record.
    unsafe fn new(record: *mut polychip_failure) -> Result<Record> {
        if record.is_null() {
            return Ok(Record(record));
        }
        // SAFETY: the caller's promise: the size of a record that is not null is set.
        let size = unsafe { (*record).struct_size };
        read::size::<polychip_failure>(size, "polychip_failure")?;
        Ok(Record(record))
    }

    /// Fills the record in.
    fn fill(&self, failure: &Failure) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: the caller of `new` promised exclusive use, and the record's size covers all
        // fields.
        let record = unsafe { &mut *self.0 };
        record.status = failure.status;
        record.reserved = 0;
        put(&failure.device, &mut record.device);
        record.message_bytes = put(&failure.message, &mut record.message) as u32;
    }
}

/// Makes a call, and writes a failure into the caller's record.
///
/// # Safety
/// `failure` is null, or points to a record whose `struct_size` is set, and which no other thread
/// uses until this has returned.
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

    fn text(place: &[c_char]) -> String {
        let bytes: Vec<u8> = place.iter().map(|byte| *byte as u8).collect();
        let end = bytes.iter().position(|byte| *byte == 0).expect("a zero byte");
        String::from_utf8(bytes[..end].to_vec()).expect("UTF-8")
    }

    #[test]
    fn text_is_cut_between_characters_and_zero_terminated() {
        let mut place = [1; 8];
        assert_eq!(put("kurz", &mut place), 4);
        assert_eq!(text(&place), "kurz");
        assert_eq!(put("äöüäöü", &mut place), 6);
        assert_eq!(text(&place), "äöü");
        assert_eq!(put("a\0b", &mut place), 3);
        assert_eq!(text(&place), "a b");
    }

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
