//! Failures of calls: a value inside the library, a caller-owned record outside.
//!
//! Not here: writing the record (`entry`).

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

/// A result whose failure C can read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_error_keeps_its_kind_and_message() {
        let runtime = polychip::Runtime::builder().only_given_folders().build().unwrap();
        let failure = Failure::from(runtime.load("no/such.onnx").unwrap_err());
        assert_eq!(failure.status, status::POLYCHIP_ERROR_IO);
        assert!(failure.message.contains("no/such.onnx"), "{failure:?}");
    }
}
