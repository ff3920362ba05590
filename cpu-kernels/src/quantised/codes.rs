//! The codes that a result may have.

/// The codes that a result may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    /// The code of zero.
    pub zero: u8,
    /// The least code.
    pub low: u8,
    /// The greatest code.
    pub high: u8,
}

impl Codes {
    /// All codes.
    #[must_use]
    pub const fn all(zero: u8) -> Self {
        Self {
            zero,
            low: 0,
            high: 255,
        }
    }

    /// The limits less the zero, as floats.
    pub(crate) fn limits(self) -> (f32, f32) {
        let zero = f32::from(self.zero);
        (f32::from(self.low) - zero, f32::from(self.high) - zero)
    }
}
