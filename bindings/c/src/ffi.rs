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

pub(crate) mod admission;
pub(crate) mod dtype;
pub(crate) mod governed;
pub(crate) mod logging;
pub(crate) mod measure;
pub(crate) mod model;
pub(crate) mod plan;
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

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::admission::polychip_wanted as wanted;
    use super::measure::polychip_measure_options as measure;
    use super::run::polychip_run_options as options;
    use super::runtime::polychip_listed_device as device;
    use super::tensor::{
        polychip_import as import, polychip_tensor_desc as desc, polychip_tensor_info as info,
    };
    use crate::failure::polychip_failure as failure;

    /// What programs were compiled with: fields are appended, and none ever moves. `tests/c/check.h` says the same sizes.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn struct_layouts_equal_those_of_version_0_1() {
        let sizes = [
            size_of::<failure>(),
            size_of::<options>(),
            size_of::<device>(),
            size_of::<desc>(),
            size_of::<info>(),
            size_of::<import>(),
            size_of::<wanted>(),
            size_of::<measure>(),
        ];
        assert_eq!(sizes, [2048, 40, 32, 32, 168, 24, 32, 40]);
        assert_eq!([offset_of!(wanted, name), offset_of!(wanted, policy)], [8, 24]);
        assert_eq!([offset_of!(measure, time_ns), offset_of!(measure, user)], [8, 32]);
        let of_failure = [offset_of!(failure, device), offset_of!(failure, message)];
        assert_eq!(of_failure, [16, 112]);
        let of_options = [
            offset_of!(options, deadline_ns),
            offset_of!(options, queue_timeout_ns),
            offset_of!(options, on_done),
            offset_of!(options, user),
        ];
        assert_eq!(of_options, [8, 16, 24, 32]);
        let of_device = [
            offset_of!(device, name),
            offset_of!(device, description),
            offset_of!(device, kind),
        ];
        assert_eq!(of_device, [8, 16, 24]);
        assert_eq!([offset_of!(desc, shape), offset_of!(desc, strides)], [16, 24]);
        let of_info = [
            offset_of!(info, bytes),
            offset_of!(info, name),
            offset_of!(info, shape),
        ];
        assert_eq!(of_info, [24, 32, 40]);
        assert_eq!(offset_of!(import, offset), 16);
    }
}
