//! The driver: OpenCL through a library that is opened at run time.
//!
//! Invariants:
//! 1. Nothing of OpenCL is seen above this module.
//! 2. An error carries the driver's own name of it.

pub(crate) mod discovery;
pub(crate) mod gpu;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod program;

use opencl3::error_codes::{CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, ClError};
use polychip_sdk::{Error, ErrorKind};

/// What the driver said, about what was asked of it.
pub(crate) fn said(what: &str, error: ClError) -> Error {
    let kind = match error.0 {
        CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_HOST_MEMORY => ErrorKind::OutOfMemory,
        _ => ErrorKind::Persistent,
    };
    Error::new(kind, format!("{what}: {error}")).with_vendor_code(error.0.into())
}
