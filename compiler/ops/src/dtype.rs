//! The element types of tensors, and sets of them.
//!
//! Invariants:
//! 1. Codes are those of ONNX and of the plugin ABI.
//! 2. Types below a byte are packed without gaps, low bits first, the last byte padded.
//!
//! Not here: conversion of values; that is the kernels' work.

use std::fmt;

use polychip_abi::dtype as codes;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum DType {
    /// 32-bit IEEE float.
    F32 = codes::POLYCHIP_DTYPE_F32,
    /// Unsigned 8-bit integer.
    U8 = codes::POLYCHIP_DTYPE_U8,
    /// Signed 8-bit integer.
    I8 = codes::POLYCHIP_DTYPE_I8,
    /// Unsigned 16-bit integer.
    U16 = codes::POLYCHIP_DTYPE_U16,
    /// Signed 16-bit integer.
    I16 = codes::POLYCHIP_DTYPE_I16,
    /// Signed 32-bit integer.
    I32 = codes::POLYCHIP_DTYPE_I32,
    /// Signed 64-bit integer.
    I64 = codes::POLYCHIP_DTYPE_I64,
    /// UTF-8 text, one string per element.
    String = codes::POLYCHIP_DTYPE_STRING,
    /// Truth value, one byte of 0 or 1.
    Bool = codes::POLYCHIP_DTYPE_BOOL,
    /// 16-bit IEEE float.
    F16 = codes::POLYCHIP_DTYPE_F16,
    /// 64-bit IEEE float.
    F64 = codes::POLYCHIP_DTYPE_F64,
    /// Unsigned 32-bit integer.
    U32 = codes::POLYCHIP_DTYPE_U32,
    /// Unsigned 64-bit integer.
    U64 = codes::POLYCHIP_DTYPE_U64,
    /// Complex number of two 32-bit floats.
    C64 = codes::POLYCHIP_DTYPE_C64,
    /// Complex number of two 64-bit floats.
    C128 = codes::POLYCHIP_DTYPE_C128,
    /// 16-bit float with 8 exponent bits.
    BF16 = codes::POLYCHIP_DTYPE_BF16,
    /// 8-bit float, 4 exponent bits, no infinities.
    F8E4M3FN = codes::POLYCHIP_DTYPE_F8E4M3FN,
    /// 8-bit float, 4 exponent bits, no infinities, one zero.
    F8E4M3FNUZ = codes::POLYCHIP_DTYPE_F8E4M3FNUZ,
    /// 8-bit float, 5 exponent bits.
    F8E5M2 = codes::POLYCHIP_DTYPE_F8E5M2,
    /// 8-bit float, 5 exponent bits, no infinities, one zero.
    F8E5M2FNUZ = codes::POLYCHIP_DTYPE_F8E5M2FNUZ,
    /// Unsigned 4-bit integer, two per byte.
    U4 = codes::POLYCHIP_DTYPE_U4,
    /// Signed 4-bit integer, two per byte.
    I4 = codes::POLYCHIP_DTYPE_I4,
    /// 4-bit float, two per byte.
    F4E2M1 = codes::POLYCHIP_DTYPE_F4E2M1,
    /// 8-bit power-of-two scale.
    F8E8M0 = codes::POLYCHIP_DTYPE_F8E8M0,
    /// Unsigned 2-bit integer, four per byte.
    U2 = codes::POLYCHIP_DTYPE_U2,
    /// Signed 2-bit integer, four per byte.
    I2 = codes::POLYCHIP_DTYPE_I2,
    /// 6-bit float, 2 exponent bits.
    F6E2M3 = codes::POLYCHIP_DTYPE_F6E2M3,
    /// 6-bit float, 3 exponent bits.
    F6E3M2 = codes::POLYCHIP_DTYPE_F6E3M2,
}

impl DType {
    /// Every type, in the order of their codes.
    pub const ALL: [DType; 28] = [
        DType::F32,
        DType::U8,
        DType::I8,
        DType::U16,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::String,
        DType::Bool,
        DType::F16,
        DType::F64,
        DType::U32,
        DType::U64,
        DType::C64,
        DType::C128,
        DType::BF16,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
        DType::U4,
        DType::I4,
        DType::F4E2M1,
        DType::F8E8M0,
        DType::U2,
        DType::I2,
        DType::F6E2M3,
        DType::F6E3M2,
    ];

    /// The code of ONNX and of the plugin ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The type with this code, or `None` where no such type exists.
    pub fn from_code(code: u32) -> Option<Self> {
        let index = usize::try_from(code.checked_sub(1)?).ok()?;
        Self::ALL.get(index).copied()
    }

    /// Bits of one element, or `None` for strings, which have no fixed size.
    pub const fn bits(self) -> Option<usize> {
        Some(match self {
            DType::String => return None,
            DType::U2 | DType::I2 => 2,
            DType::U4 | DType::I4 | DType::F4E2M1 => 4,
            DType::F6E2M3 | DType::F6E3M2 => 6,
            DType::U8
            | DType::I8
            | DType::Bool
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0 => 8,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 16,
            DType::F32 | DType::I32 | DType::U32 => 32,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 64,
            DType::C128 => 128,
        })
    }

    /// Bytes of one element where it fills whole bytes; `None` for packed types and strings.
    pub const fn byte_width(self) -> Option<usize> {
        match self.bits() {
            Some(bits) if bits % 8 == 0 => Some(bits / 8),
            _ => None,
        }
    }

    /// Bytes of a packed tensor with this many elements, the last byte padded.
    ///
    /// `None` for strings, and where the size does not fit a `usize`.
    pub fn byte_len(self, elements: usize) -> Option<usize> {
        let bits = self.bits()?;
        if bits % 8 == 0 {
            elements.checked_mul(bits / 8)
        } else {
            Some(elements.checked_mul(bits)?.div_ceil(8))
        }
    }

    /// The short name, as `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::U16 => "u16",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::String => "string",
            DType::Bool => "bool",
            DType::F16 => "f16",
            DType::F64 => "f64",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::C64 => "c64",
            DType::C128 => "c128",
            DType::BF16 => "bf16",
            DType::F8E4M3FN => "f8e4m3fn",
            DType::F8E4M3FNUZ => "f8e4m3fnuz",
            DType::F8E5M2 => "f8e5m2",
            DType::F8E5M2FNUZ => "f8e5m2fnuz",
            DType::U4 => "u4",
            DType::I4 => "i4",
            DType::F4E2M1 => "f4e2m1",
            DType::F8E8M0 => "f8e8m0",
            DType::U2 => "u2",
            DType::I2 => "i2",
            DType::F6E2M3 => "f6e2m3",
            DType::F6E3M2 => "f6e3m2",
        }
    }

    /// The type with this short name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether elements are real floats of any width.
    pub const fn is_float(self) -> bool {
        DTypes::ANY_FLOAT.contains(self)
    }

    /// Whether elements are signed integers of any width.
    pub const fn is_signed_int(self) -> bool {
        DTypes::SIGNED.contains(self)
    }

    /// Whether elements are unsigned integers of any width; `bool` is not one.
    pub const fn is_unsigned_int(self) -> bool {
        DTypes::UNSIGNED.contains(self)
    }

    /// Whether elements are integers of any width; `bool` is not one.
    pub const fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    /// Whether elements are complex.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of element types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DTypes(u32);

impl DTypes {
    /// No type.
    pub const NONE: DTypes = DTypes(0);
    /// Every type.
    pub const ALL: DTypes = DTypes::of(&DType::ALL);
    /// Every real float, down to 4 bits.
    pub const ANY_FLOAT: DTypes = DTypes::of(&[
        DType::F32,
        DType::F16,
        DType::F64,
        DType::BF16,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
        DType::F4E2M1,
        DType::F8E8M0,
        DType::F6E2M3,
        DType::F6E3M2,
    ]);
    /// Signed integers of every width.
    pub const SIGNED: DTypes = DTypes::of(&[
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::I4,
        DType::I2,
    ]);
    /// Unsigned integers of every width, without `bool`.
    pub const UNSIGNED: DTypes = DTypes::of(&[
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::U4,
        DType::U2,
    ]);

    /// The set of these types.
    pub const fn of(dtypes: &[DType]) -> DTypes {
        let mut bits = 0;
        let mut i = 0;
        while i < dtypes.len() {
            bits |= 1 << (dtypes[i] as u32);
            i += 1;
        }
        DTypes(bits)
    }

    /// The types of either set.
    pub const fn with(self, other: DTypes) -> DTypes {
        DTypes(self.0 | other.0)
    }

    /// The types of this set that are not in the other.
    pub const fn without(self, other: DTypes) -> DTypes {
        DTypes(self.0 & !other.0)
    }

    /// Whether the type is in the set.
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 & (1 << (dtype as u32)) != 0
    }

    /// The types of the set in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |&dtype| self.contains(dtype))
    }
}

impl fmt::Display for DTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dtype) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(dtype.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (index, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!(dtype.code() as usize, index + 1);
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_code(0), None);
        assert_eq!(DType::from_code(29), None);
        assert_eq!(DType::BF16.code(), 16);
    }

    #[test]
    fn packed_sizes_round_up() {
        assert_eq!(DType::F32.byte_len(3), Some(12));
        assert_eq!(DType::I4.byte_len(3), Some(2));
        assert_eq!(DType::U2.byte_len(5), Some(2));
        assert_eq!(DType::F6E2M3.byte_len(3), Some(3));
        assert_eq!(DType::I4.byte_len(0), Some(0));
        assert_eq!(DType::String.byte_len(1), None);
        assert_eq!(DType::F64.byte_len(usize::MAX), None);
        assert_eq!(DType::I4.byte_width(), None);
        assert_eq!(DType::C128.byte_width(), Some(16));
    }

    #[test]
    fn classes_do_not_overlap() {
        for dtype in DType::ALL {
            let classes = [
                dtype.is_float(),
                dtype.is_signed_int(),
                dtype.is_unsigned_int(),
                dtype.is_complex(),
                matches!(dtype, DType::Bool | DType::String),
            ];
            assert_eq!(classes.iter().filter(|&&c| c).count(), 1, "{dtype}");
        }
        assert_eq!(DTypes::of(&[DType::I8, DType::F32]).to_string(), "f32, i8");
    }
}
