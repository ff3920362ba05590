//! The runtime's codes, as errors.

use polychip_sys::nnrt::bindings as sys;

/// Why a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) i32);

pub(crate) type Result<T> = std::result::Result<T, Code>;

impl Code {
    pub(crate) const FAILED: Code = Code(sys::OH_NN_FAILED as i32);
    pub(crate) const INVALID: Code = Code(sys::OH_NN_INVALID_PARAMETER as i32);
    pub(crate) const FORBIDDEN: Code = Code(sys::OH_NN_OPERATION_FORBIDDEN as i32);
    pub(crate) const LOST: Code = Code(sys::OH_NN_UNAVAILABLE_DEVICE as i32);
}
