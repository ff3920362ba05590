//! Failures of calls: a value inside the library, a caller-owned record outside.
//!
//! Invariants:
//! 1. A record is written only if a call fails; its text ends with a zero byte.
//! 2. Text that is too long is cut between two characters.

#![allow(unsafe_code)]
#![allow(non_camel_case_types, reason = "the name is that of the C header")]

use std::ffi::c_char;
use std::fmt;

use crate::status::{self, polychip_status_t};

/// Capacity of `message`, including its zero byte.
pub const POLYCHIP_FAILURE_MESSAGE_BYTES: usize = 1936;
/// Capacity of `device`, including its zero byte.
pub const POLYCHIP_FAILURE_DEVICE_BYTES: usize = 96;

/// Failure of a call. The caller owns the record and sets `struct_size` before the call. A failing
/// call fills in the rest; a successful call leaves the record unchanged.
#[repr(C)]
pub struct polychip_failure {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_failure).
    pub struct_size: u32,
    /// Status that the call returned.
    pub status: polychip_status_t,
    /// Bytes of `message` in use, without the zero byte.
    pub message_bytes: u32,
    /// Zero.
    pub reserved: u32,
    /// Device or plugin that failed, such as `cpu:0`; empty if none did. Ends with a zero byte.
    pub device: [c_char; POLYCHIP_FAILURE_DEVICE_BYTES],
    /// Message in UTF-8 that names the subject and the problem. Ends with a zero byte; cut between
    /// two characters if it is too long.
    pub message: [c_char; POLYCHIP_FAILURE_MESSAGE_BYTES],
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: polychip_status_t,
    pub(crate) message: String,
    pub(crate) device: String,
}

/// Result with what is said to C.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: polychip_status_t, message: impl fmt::Display) -> Failure {
        Failure {
            status,
            message: message.to_string(),
            device: String::new(),
        }
    }

    /// An argument breaks the rules of the call.
    pub(crate) fn argument(message: impl fmt::Display) -> Failure {
        Failure::new(status::POLYCHIP_ERROR_BAD_ARGUMENT, message)
    }
}

impl From<polychip::Error> for Failure {
    fn from(error: polychip::Error) -> Failure {
        // each cause that the text before it does not name already
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            let words = error.to_string();
            if !message.contains(&words) {
                message.push_str(": ");
                message.push_str(&words);
            }
            cause = error.source();
        }
        Failure {
            status: status::of(error.kind()),
            message,
            device: error.device().unwrap_or_default().to_owned(),
        }
    }
}

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
pub(crate) struct Record(*mut polychip_failure);

impl Record {
    /// # Safety
    /// `record` is null, or points to a record whose `struct_size` is set and that nobody else uses until the call has
    /// returned.
    ///
    /// # Errors
    /// Its size is not one of a record.
    pub(crate) unsafe fn new(record: *mut polychip_failure) -> Result<Record> {
        if record.is_null() {
            return Ok(Record(record));
        }
        // SAFETY: the caller's promise: the size of a record that is not null is set.
        let size = unsafe { (*record).struct_size };
        crate::read::size::<polychip_failure>(size, "polychip_failure")?;
        Ok(Record(record))
    }

    /// Fills the record in.
    pub(crate) fn fill(&self, failure: &Failure) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: who made this record promised that nobody else uses it, and its size says that all fields are there.
        let record = unsafe { &mut *self.0 };
        record.status = failure.status;
        record.reserved = 0;
        put(&failure.device, &mut record.device);
        record.message_bytes = put(&failure.message, &mut record.message) as u32;
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
    fn runtime_error_keeps_its_kind_and_message() {
        let runtime = polychip::Runtime::builder().only_given_folders().build().unwrap();
        let failure = Failure::from(runtime.load("no/such.onnx").unwrap_err());
        assert_eq!(failure.status, status::POLYCHIP_ERROR_IO);
        assert!(failure.message.contains("no/such.onnx"), "{failure:?}");
    }
}
