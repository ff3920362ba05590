//! The element type of a product's operands, which determines its kernels and the layout of its
//! packed words.

use crate::Isa;
use crate::tile::Panels;
use half::bf16;

/// The element type of the operands of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Elements {
    /// `f32`.
    #[default]
    F32,
    /// `bf16`, summed in `f32`.
    Bf16,
}

impl Elements {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Elements::F32 => 4,
            Elements::Bf16 => 2,
        }
    }

    /// Elements in the place of a packed float.
    pub(crate) fn per_float(self) -> usize {
        4 / self.bytes()
    }

    /// What kernels of these run on, where `f32` is computed on `isa`.
    pub(crate) fn isa(self, isa: Isa) -> Isa {
        match self {
            Elements::F32 => isa,
            Elements::Bf16 => isa.for_bf16(),
        }
    }

    /// Panels of words of an operand of `depth` elements.
    pub(crate) fn panels(self, isa: Isa, depth: usize, n: usize) -> Panels {
        match self {
            Elements::F32 => Panels::of::<f32>(isa, depth, n),
            Elements::Bf16 => Panels::of::<bf16>(isa, depth, n),
        }
    }
}

/// The bits of a pair of bf16 of an operand of `depth` elements per tap, as packed weights hold them: word `word`
/// counts the words of all taps, `value` gives an element by its tap and its place there.
pub(crate) fn bf16_word(depth: usize, word: usize, value: impl Fn(usize, usize) -> f32) -> f32 {
    let words = depth.div_ceil(2);
    let (tap, first) = (word / words, word % words * 2);
    let half = |x: f32| u32::from(bf16::from_f32(x).to_bits());
    let second = if first + 1 < depth {
        half(value(tap, first + 1))
    } else {
        0
    };
    f32::from_bits(half(value(tap, first)) | second << 16)
}
