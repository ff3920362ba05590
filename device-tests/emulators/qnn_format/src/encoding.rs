//! How the numbers of a fixed-point tensor become real ones: `real = (q + offset) * scale`.
//!
//! Invariant: `offset` is minus the zero point.

/// One scale and its offset.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Linear {
    /// Size of one step.
    pub scale: f32,
    /// Minus the zero point.
    pub offset: i32,
}

/// The encoding of a tensor.
#[derive(Clone, PartialEq, Debug)]
pub enum Encoding {
    /// No encoding: both words of the C struct are "undefined".
    None,
    /// One scale for all.
    PerTensor(Linear),
    /// One scale for each index of an axis.
    PerAxis {
        /// The axis.
        axis: i32,
        /// One entry per index.
        steps: Vec<Linear>,
    },
    /// One scale for all and fewer bits than the type has.
    BitsPerTensor {
        /// Bits that count.
        bits: u32,
        /// The scale.
        step: Linear,
    },
    /// One scale for each index of an axis, and fewer bits than the type has.
    BitsPerAxis {
        /// Bits that count.
        bits: u32,
        /// The axis.
        axis: i32,
        /// One entry per index.
        steps: Vec<Linear>,
    },
    /// An encoding of this code, which the emulator does not compute.
    Other(u32),
}

impl Encoding {
    /// The code in the C API, `None` for no encoding.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        match self {
            Encoding::None => None,
            Encoding::PerTensor(_) => Some(0),
            Encoding::PerAxis { .. } => Some(1),
            Encoding::BitsPerTensor { .. } => Some(2),
            Encoding::BitsPerAxis { .. } => Some(3),
            Encoding::Other(code) => Some(*code),
        }
    }

    /// The axis and its steps; without an axis, one step.
    #[must_use]
    pub fn steps(&self) -> Option<(Option<usize>, &[Linear])> {
        match self {
            Encoding::PerTensor(step) | Encoding::BitsPerTensor { step, .. } => {
                Some((None, std::slice::from_ref(step)))
            }
            Encoding::PerAxis { axis, steps } | Encoding::BitsPerAxis { axis, steps, .. } => {
                Some((Some(usize::try_from(*axis).ok()?), steps))
            }
            Encoding::None | Encoding::Other(_) => None,
        }
    }

    /// The bits that count, where fewer than the type has.
    #[must_use]
    pub fn bits(&self) -> Option<u32> {
        match self {
            Encoding::BitsPerTensor { bits, .. } | Encoding::BitsPerAxis { bits, .. } => Some(*bits),
            _ => None,
        }
    }
}
