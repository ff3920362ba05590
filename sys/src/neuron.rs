//! MediaTek's NeuronAdapter: the C library, and its search paths.
//!
//! Invariant: names, types and codes are the library's own; they have the shape and the numbers of
//! Android's NNAPI.
//!
//! Not here: call order and lifetimes of constants, which the library barely checks; its run-time
//! library for DLA files. Start reading at [`Library`].

#[allow(
    unsafe_code,
    missing_docs,
    unused,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]
pub mod bindings;
mod library;

pub use library::{LIB_DIR, Library, NAMES};

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::bindings::{
        NEURON_BATCH_MATMUL, NEURON_CONV_2D, NEURON_DEAD_OBJECT, NEURON_PRIORITY_HIGH, NEURON_SOFTMAX,
        NEURON_TENSOR_QUANT8_ASYMM_SIGNED, NeuronOperandType, NeuronRuntimeVersion,
        NeuronSymmPerChannelQuantParams,
    };

    /// Sizes, offsets and codes that clients of others use, seen in their calls.
    #[test]
    fn layouts_and_codes_equal_those_of_other_clients() {
        assert_eq!(size_of::<NeuronOperandType>(), 24);
        let fields = [
            offset_of!(NeuronOperandType, type_),
            offset_of!(NeuronOperandType, dimensionCount),
            offset_of!(NeuronOperandType, dimensions),
            offset_of!(NeuronOperandType, scale),
            offset_of!(NeuronOperandType, zeroPoint),
        ];
        assert_eq!(fields, [0, 4, 8, 16, 20]);
        assert_eq!(size_of::<NeuronSymmPerChannelQuantParams>(), 16);
        assert_eq!(size_of::<NeuronRuntimeVersion>(), 3);
        let codes = [
            NEURON_CONV_2D,
            NEURON_SOFTMAX,
            NEURON_BATCH_MATMUL,
            NEURON_TENSOR_QUANT8_ASYMM_SIGNED,
            NEURON_PRIORITY_HIGH,
            NEURON_DEAD_OBJECT,
        ];
        assert_eq!(codes, [3, 25, 102, 14, 110, 15]);
    }
}
