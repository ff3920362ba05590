//! QNN's element types, by the codes that public clients of the API carry.
//!
//! Invariant: `from_code` undoes `code`.

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
#[allow(missing_docs)] // each variant says its class and its bits
pub enum Dtype {
    Int8 = 0x0008,
    Int16 = 0x0016,
    Int32 = 0x0032,
    Int64 = 0x0064,
    Uint8 = 0x0108,
    Uint16 = 0x0116,
    Uint32 = 0x0132,
    Uint64 = 0x0164,
    Float16 = 0x0216,
    Float32 = 0x0232,
    Float64 = 0x0264,
    Sfixed4 = 0x0304,
    Sfixed8 = 0x0308,
    Sfixed16 = 0x0316,
    Sfixed32 = 0x0332,
    Ufixed4 = 0x0404,
    Ufixed8 = 0x0408,
    Ufixed16 = 0x0416,
    Ufixed32 = 0x0432,
    Bool8 = 0x0508,
}

impl Dtype {
    /// Every type.
    pub const ALL: [Dtype; 20] = [
        Dtype::Int8,
        Dtype::Int16,
        Dtype::Int32,
        Dtype::Int64,
        Dtype::Uint8,
        Dtype::Uint16,
        Dtype::Uint32,
        Dtype::Uint64,
        Dtype::Float16,
        Dtype::Float32,
        Dtype::Float64,
        Dtype::Sfixed4,
        Dtype::Sfixed8,
        Dtype::Sfixed16,
        Dtype::Sfixed32,
        Dtype::Ufixed4,
        Dtype::Ufixed8,
        Dtype::Ufixed16,
        Dtype::Ufixed32,
        Dtype::Bool8,
    ];

    /// The code in the C API.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The type of this code.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.code() == code)
    }

    /// Bits of one element in memory.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Dtype::Sfixed4 | Dtype::Ufixed4 => 4,
            Dtype::Int8 | Dtype::Uint8 | Dtype::Sfixed8 | Dtype::Ufixed8 | Dtype::Bool8 => 8,
            Dtype::Int16 | Dtype::Uint16 | Dtype::Float16 | Dtype::Sfixed16 | Dtype::Ufixed16 => 16,
            Dtype::Int32 | Dtype::Uint32 | Dtype::Float32 | Dtype::Sfixed32 | Dtype::Ufixed32 => 32,
            Dtype::Int64 | Dtype::Uint64 | Dtype::Float64 => 64,
        }
    }

    /// Bytes of `elements` elements, the last byte padded.
    #[must_use]
    pub fn bytes(self, elements: usize) -> Option<usize> {
        Some(elements.checked_mul(self.bits())?.div_ceil(8))
    }

    /// Whether elements are numbers of a scale and an offset.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        matches!(
            self,
            Dtype::Sfixed4
                | Dtype::Sfixed8
                | Dtype::Sfixed16
                | Dtype::Sfixed32
                | Dtype::Ufixed4
                | Dtype::Ufixed8
                | Dtype::Ufixed16
                | Dtype::Ufixed32
        )
    }

    /// Whether elements are floats.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Dtype::Float16 | Dtype::Float32 | Dtype::Float64)
    }

    /// The least and the greatest number of a fixed or integer type.
    #[must_use]
    pub const fn range(self) -> (i64, i64) {
        match self {
            Dtype::Sfixed4 => (-8, 7),
            Dtype::Ufixed4 => (0, 15),
            Dtype::Int8 | Dtype::Sfixed8 => (-128, 127),
            Dtype::Uint8 | Dtype::Ufixed8 => (0, 255),
            Dtype::Int16 | Dtype::Sfixed16 => (-32_768, 32_767),
            Dtype::Uint16 | Dtype::Ufixed16 => (0, 65_535),
            Dtype::Int32 | Dtype::Sfixed32 => (i32::MIN as i64, i32::MAX as i64),
            Dtype::Uint32 | Dtype::Ufixed32 => (0, u32::MAX as i64),
            Dtype::Bool8 => (0, 1),
            _ => (i64::MIN, i64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_sizes_round_up() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_code(dtype.code()), Some(dtype));
        }
        assert_eq!(Dtype::from_code(0), None);
        assert_eq!(Dtype::Sfixed4.bytes(3), Some(2));
        assert_eq!(Dtype::Float32.bytes(3), Some(12));
        assert_eq!(Dtype::Int64.bytes(usize::MAX), None);
    }
}
