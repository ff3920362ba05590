//! The library's codes, as errors.

use polychip_sys::neuron::bindings as sys;

/// Why a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) i32);

pub(crate) type Result<T> = std::result::Result<T, Code>;

impl Code {
    pub(crate) const NULL: Code = Code(sys::NEURON_UNEXPECTED_NULL as i32);
    pub(crate) const BAD_DATA: Code = Code(sys::NEURON_BAD_DATA as i32);
    pub(crate) const OP_FAILED: Code = Code(sys::NEURON_OP_FAILED as i32);
    pub(crate) const UNMAPPABLE: Code = Code(sys::NEURON_UNMAPPABLE as i32);
    pub(crate) const BAD_STATE: Code = Code(sys::NEURON_BAD_STATE as i32);
    pub(crate) const TOO_SMALL: Code = Code(sys::NEURON_OUTPUT_INSUFFICIENT_SIZE as i32);
    pub(crate) const DEAD: Code = Code(sys::NEURON_DEAD_OBJECT as i32);
}
