//! The element types a reference tensor can hold, numbered as ONNX numbers them.
//!
//! Invariant: `Element::from_code(e.code()) == Some(e)` for each element type.

/// One element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Element {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    String = 8,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    C64 = 14,
    C128 = 15,
    BF16 = 16,
    F8E4M3FN = 17,
    F8E4M3FNUZ = 18,
    F8E5M2 = 19,
    F8E5M2FNUZ = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
    F6E2M3 = 27,
    F6E3M2 = 28,
}

impl Element {
    /// All element types, in code order.
    pub const ALL: [Self; 28] = [
        Self::F32,
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::String,
        Self::Bool,
        Self::F16,
        Self::F64,
        Self::U32,
        Self::U64,
        Self::C64,
        Self::C128,
        Self::BF16,
        Self::F8E4M3FN,
        Self::F8E4M3FNUZ,
        Self::F8E5M2,
        Self::F8E5M2FNUZ,
        Self::U4,
        Self::I4,
        Self::F4E2M1,
        Self::F8E8M0,
        Self::U2,
        Self::I2,
        Self::F6E2M3,
        Self::F6E3M2,
    ];

    /// The ONNX number of this type.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The type with this ONNX number.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        let index = usize::try_from(code).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// Bits of one packed element; `None` for strings.
    #[must_use]
    pub const fn bits(self) -> Option<usize> {
        Some(match self {
            Self::String => return None,
            Self::U2 | Self::I2 => 2,
            Self::U4 | Self::I4 | Self::F4E2M1 => 4,
            Self::F6E2M3 | Self::F6E3M2 => 6,
            Self::Bool
            | Self::U8
            | Self::I8
            | Self::F8E4M3FN
            | Self::F8E4M3FNUZ
            | Self::F8E5M2
            | Self::F8E5M2FNUZ
            | Self::F8E8M0 => 8,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 16,
            Self::F32 | Self::I32 | Self::U32 => 32,
            Self::F64 | Self::I64 | Self::U64 | Self::C64 => 64,
            Self::C128 => 128,
        })
    }

    /// Whether values are real floating-point numbers of any width.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F32
                | Self::F64
                | Self::F16
                | Self::BF16
                | Self::F8E4M3FN
                | Self::F8E4M3FNUZ
                | Self::F8E5M2
                | Self::F8E5M2FNUZ
                | Self::F8E8M0
                | Self::F4E2M1
                | Self::F6E2M3
                | Self::F6E3M2
        )
    }

    /// Whether values are integers (bool is not).
    #[must_use]
    pub const fn is_int(self) -> bool {
        self.int_bits().is_some()
    }

    /// Width and signedness of an integer type.
    #[must_use]
    pub const fn int_bits(self) -> Option<(u32, bool)> {
        Some(match self {
            Self::U2 => (2, false),
            Self::I2 => (2, true),
            Self::U4 => (4, false),
            Self::I4 => (4, true),
            Self::U8 => (8, false),
            Self::I8 => (8, true),
            Self::U16 => (16, false),
            Self::I16 => (16, true),
            Self::U32 => (32, false),
            Self::I32 => (32, true),
            Self::U64 => (64, false),
            Self::I64 => (64, true),
            _ => return None,
        })
    }

    /// Smallest and largest value of an integer type.
    #[must_use]
    pub const fn int_range(self) -> Option<(i128, i128)> {
        match self.int_bits() {
            Some((bits, true)) => Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)),
            Some((bits, false)) => Some((0, (1i128 << bits) - 1)),
            None => None,
        }
    }

    /// The largest finite value of a float of 16 bits or more.
    #[must_use]
    pub const fn largest(self) -> Option<f64> {
        match self {
            Self::F64 => Some(f64::MAX),
            Self::F32 => Some(f32::MAX as f64),
            Self::F16 => Some(65504.0),
            // 2^127 · (2 − 2^-7)
            Self::BF16 => Some(3.389_531_389_251_535_5e38),
            _ => None,
        }
    }

    /// Whether values are complex numbers.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }
}
