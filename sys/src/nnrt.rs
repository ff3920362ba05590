//! OpenHarmony's Neural Network Runtime, the interface to the NPUs of Kirin phones: its C library.
//!
//! Invariant: names, types and codes are those of API level 12, without declarations of level 9
//! that level 11 replaced.
//!
//! Not here: HiAI's options behind it, models compiled offline (`.om`). Start reading at
//! [`Library`].

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

pub use library::{FILE, LIB_DIR, Library};

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::bindings::{
        OH_NN_FLOAT32, OH_NN_OPS_CONV2D, OH_NN_OPS_SPACE_TO_DEPTH, OH_NN_REDUCE_SUM_KEEP_DIMS,
        OH_NN_UInt32Array, OH_NN_UNAVAILABLE_DEVICE,
    };

    /// The list's layout and some codes as noted, not as our header gave them.
    #[test]
    fn list_and_codes_equal_the_recorded_facts() {
        assert_eq!(size_of::<OH_NN_UInt32Array>(), 16);
        assert_eq!(offset_of!(OH_NN_UInt32Array, size), 8);
        let codes = [
            OH_NN_FLOAT32,
            OH_NN_UNAVAILABLE_DEVICE,
            OH_NN_OPS_CONV2D,
            OH_NN_OPS_SPACE_TO_DEPTH,
            OH_NN_REDUCE_SUM_KEEP_DIMS,
        ];
        assert_eq!(codes, [11, 14, 8, 104, 157]);
    }
}
