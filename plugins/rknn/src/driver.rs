//! The vendor's runtime: detection of a chip, meaning of codes, contexts and memory.
//!
//! Invariants:
//! 1. A context is used by one thread at a time; the lane that owns it ensures this.
//! 2. The library writes only to records and memory that outlive the call.
//!
//! Start reading at [`Driver`].

#![allow(unsafe_code, reason = "the vendor's library is called here")]

mod context;
mod memory;
mod open;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::rknn::Library;
use polychip_sys::rknn::bindings as rk;

pub(crate) use context::{Context, Copies, Seen};
pub(crate) use memory::DeviceMemory;

/// An available runtime, with a chip as far as detection works.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    library: &'static Library,
}

impl Driver {
    /// The library.
    pub(crate) fn library(self) -> &'static Library {
        self.library
    }

    /// An error for a code other than success.
    fn check(call: &'static str, code: i32) -> Result<()> {
        match code {
            rk::RKNN_OK => Ok(()),
            code => Err(failed(call, code)),
        }
    }
}

/// The error of a call: what its code means, and what follows from it.
fn failed(call: &str, code: i32) -> Error {
    let (kind, words) = match code {
        rk::RKNN_FAIL => (ErrorKind::Persistent, "it failed"),
        // the kernel's driver resets the chip, and the next run may do
        rk::RKNN_TIMEOUT => (ErrorKind::Transient, "the chip did not end in time"),
        rk::RKNN_NO_DEVICE => (
            ErrorKind::DeviceLost,
            "the chip or the connected board is not there",
        ),
        rk::RKNN_NO_MEMORY => (ErrorKind::OutOfMemory, "memory ran out"),
        rk::RKNN_BAD_PARAMETER => (ErrorKind::Unsupported, "a parameter is not taken"),
        rk::RKNN_BAD_MODEL => (
            ErrorKind::Unsupported,
            "the runtime does not read what the toolkit made: install a runtime of the toolkit's release",
        ),
        rk::RKNN_BAD_CONTEXT => (ErrorKind::DeviceLost, "the context is void"),
        rk::RKNN_BAD_INPUT => (ErrorKind::Persistent, "an input is not taken"),
        rk::RKNN_BAD_OUTPUT => (ErrorKind::Persistent, "an output is not taken"),
        rk::RKNN_OTHER_DEVICE | rk::RKNN_OTHER_PLATFORM => (
            ErrorKind::Unsupported,
            "the part was compiled for another chip: set target_platform to this one",
        ),
        rk::RKNN_OTHER_PRECOMPILE | rk::RKNN_OTHER_OPTIMISATION => (
            ErrorKind::Unsupported,
            "the part was compiled in a way that this runtime does not take: install one of the toolkit's release",
        ),
        _ => (ErrorKind::Persistent, "it failed"),
    };
    Error::new(kind, format!("{call}: {words} (code {code})")).with_vendor_code(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_a_class_and_a_message() {
        for (code, kind, words) in [
            (-1, ErrorKind::Persistent, "failed"),
            (-2, ErrorKind::Transient, "in time"),
            (-3, ErrorKind::DeviceLost, "not there"),
            (-4, ErrorKind::OutOfMemory, "memory"),
            (-6, ErrorKind::Unsupported, "release"),
            (-7, ErrorKind::DeviceLost, "void"),
            (-13, ErrorKind::Unsupported, "target_platform"),
            (-99, ErrorKind::Persistent, "-99"),
            // an unlisted code is a failure
            (7, ErrorKind::Persistent, "7"),
        ] {
            let error = Driver::check("rknn_run", code).unwrap_err();
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.vendor_code(), i64::from(code));
        }
        assert!(Driver::check("rknn_run", 0).is_ok());
    }
}
