//! Sizes and offsets of AscendCL as noted of its API 1.x on 64-bit machines, against our declarations.
//!
//! Invariant: every number here is a noted fact; none was copied from what a compiler made of our header.

#![cfg(all(feature = "ascend", target_pointer_width = "64"))]

use std::mem::{offset_of, size_of};

use polychip_sys::ascend::bindings::*;

#[test]
fn record_has_the_documented_layout() {
    assert_eq!(size_of::<aclmdlIODims>(), 1160);
    assert_eq!(offset_of!(aclmdlIODims, count), 128);
    assert_eq!(offset_of!(aclmdlIODims, extents), 136);
}

#[test]
fn codes() {
    for (name, found, fact) in [
        ("huge pages first", ACL_MALLOC_HUGE_FIRST, 0),
        ("host to device", ACL_COPY_HOST_TO_DEVICE, 1),
        ("device to host", ACL_COPY_DEVICE_TO_HOST, 2),
        ("device to device", ACL_COPY_DEVICE_TO_DEVICE, 3),
        ("f32", ACL_TYPE_F32, 0),
        ("f16", ACL_TYPE_F16, 1),
        ("bf16", ACL_TYPE_BF16, 27),
        ("parameter", ACL_BAD_PARAMETER, 100_000),
        ("not initialised", ACL_NOT_INITIALISED, 100_001),
        ("repeated initialisation", ACL_INITIALISED_BEFORE, 100_002),
        ("model number", ACL_BAD_MODEL_ID, 100_011),
    ] {
        assert_eq!(found, fact, "{name}");
    }
}
