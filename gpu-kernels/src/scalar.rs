//! Element types of tensors in memory, and how WGSL declares them.
//!
//! Not here: the types in which elements are computed (`expression`).

use serde::{Deserialize, Serialize};

/// Type of the elements of a tensor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scalar {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 16-bit signed integer, two to a `u32` word.
    I16,
    /// 16-bit unsigned integer, two to a `u32` word.
    U16,
    /// Signed byte, four to a `u32` word.
    I8,
    /// Unsigned byte, four to a `u32` word.
    U8,
    /// Boolean byte, four to a `u32` word.
    Bool,
}

impl Scalar {
    /// Size of an element, in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Scalar::I64 => 8,
            Scalar::F32 | Scalar::I32 | Scalar::U32 => 4,
            Scalar::F16 | Scalar::I16 | Scalar::U16 => 2,
            Scalar::I8 | Scalar::U8 | Scalar::Bool => 1,
        }
    }

    /// Short name, as in variants of kernels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scalar::F32 => "f32",
            Scalar::F16 => "f16",
            Scalar::I32 => "i32",
            Scalar::U32 => "u32",
            Scalar::I64 => "i64",
            Scalar::I16 => "i16",
            Scalar::U16 => "u16",
            Scalar::I8 => "i8",
            Scalar::U8 => "u8",
            Scalar::Bool => "bool",
        }
    }

    /// Element type of the array declared in WGSL: bytes are packed into words.
    #[must_use]
    pub fn stored(self) -> &'static str {
        match self {
            Scalar::F32 => "f32",
            Scalar::F16 => "f16",
            Scalar::I32 => "i32",
            Scalar::U32 | Scalar::I16 | Scalar::U16 | Scalar::I8 | Scalar::U8 | Scalar::Bool => "u32",
            Scalar::I64 => "i64",
        }
    }
}
