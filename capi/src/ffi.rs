//! The functions and structs of the header, by what they are about.
//!
//! Invariants:
//! 1. An entry reads its arguments, calls safe code and writes its results; nothing else is decided here.
//! 2. Results are written once all else has gone well.

#![allow(unsafe_code)]
#![allow(non_camel_case_types, reason = "the names are those of the C header")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules of all calls stand once, at the head of the header; each call says what differs"
)]

pub(crate) mod dtype;
pub(crate) mod logging;
pub(crate) mod model;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod runtime;
pub(crate) mod session;
pub(crate) mod tensor;
pub(crate) mod text;
pub(crate) mod version;

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::handle::Object;
use crate::status::polychip_status_t;

/// Destroys the object of a handle; 0 is none, and allowed.
///
/// # Safety
/// As [`entry`].
unsafe fn destroy<T: Object>(handle: u64, failure: *mut polychip_failure) -> polychip_status_t {
    let call = || match handle {
        0 => Ok(()),
        // dropped here, where nothing is locked
        handle => T::take(handle).map(drop),
    };
    // SAFETY: the caller's promise.
    unsafe { entry(failure, call) }
}
