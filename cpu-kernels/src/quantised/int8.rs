//! The range of 8-bit codes that a result may take.

/// The range of codes that a result may take, and the code that encodes zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRange {
    /// The code of zero.
    pub zero: u8,
    /// The smallest allowed code.
    pub low: u8,
    /// The largest allowed code.
    pub high: u8,
}

impl CodeRange {
    /// All codes.
    #[must_use]
    pub const fn all(zero: u8) -> Self {
        Self {
            zero,
            low: 0,
            high: 255,
        }
    }

    /// The limits minus the zero point, as floats.
    #[must_use]
    pub fn limits(self) -> (f32, f32) {
        let zero = f32::from(self.zero);
        (f32::from(self.low) - zero, f32::from(self.high) - zero)
    }
}
