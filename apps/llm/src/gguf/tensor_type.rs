//! Types of tensors: ggml's list, split into those that are read and those that are refused by
//! name.

use std::fmt;

use polychip_ops::BlockLayout;

/// A supported tensor type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // ggml's names
pub enum TensorType {
    /// 32-bit float.
    F32,
    /// 16-bit float with a 5-bit exponent.
    F16,
    /// 16-bit float with an 8-bit exponent.
    BF16,
    /// 32 weights: a scale and 4-bit values around 8.
    Q4_0,
    /// 32 weights: a scale, a minimum and 4-bit values.
    Q4_1,
    /// 32 weights: a scale and signed 8-bit values.
    Q8_0,
    /// 256 weights: 8 groups with 6-bit scales and minima, 4-bit values.
    Q4_K,
    /// 256 weights: 8 groups with 6-bit scales and minima, 5-bit values.
    Q5_K,
    /// 256 weights: 16 groups with 8-bit scales, 6-bit values around 32.
    Q6_K,
    /// 32 weights: a scale and 5-bit values around 16.
    Q5_0,
    /// 32 weights: a scale, a minimum and 5-bit values.
    Q5_1,
    /// 256 weights: 16 groups with 4-bit scales and minima, 2-bit values.
    Q2_K,
    /// 256 weights: 16 groups with 6-bit scales, 3-bit values around 4.
    Q3_K,
    /// 32 weights: a scale and 4-bit indices into a table of 16 values.
    IQ4_NL,
    /// 256 weights: 8 groups with 6-bit scales, indices as in IQ4_NL.
    IQ4_XS,
    /// 32 weights: a power of two and 4-bit floats.
    MXFP4,
}

/// Names of ggml's types by number, without abandoned ones.
const NAMES: [(u32, &str); 34] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (8, "Q8_0"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (30, "BF16"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

impl TensorType {
    /// All supported types.
    pub const ALL: [TensorType; 16] = [
        TensorType::F32,
        TensorType::F16,
        TensorType::BF16,
        TensorType::Q4_0,
        TensorType::Q4_1,
        TensorType::Q8_0,
        TensorType::Q4_K,
        TensorType::Q5_K,
        TensorType::Q6_K,
        TensorType::Q5_0,
        TensorType::Q5_1,
        TensorType::Q2_K,
        TensorType::Q3_K,
        TensorType::IQ4_NL,
        TensorType::IQ4_XS,
        TensorType::MXFP4,
    ];

    /// Number of the type in files.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            TensorType::F32 => 0,
            TensorType::F16 => 1,
            TensorType::Q4_0 => 2,
            TensorType::Q4_1 => 3,
            TensorType::Q5_0 => 6,
            TensorType::Q5_1 => 7,
            TensorType::Q8_0 => 8,
            TensorType::Q2_K => 10,
            TensorType::Q3_K => 11,
            TensorType::Q4_K => 12,
            TensorType::Q5_K => 13,
            TensorType::Q6_K => 14,
            TensorType::IQ4_NL => 20,
            TensorType::IQ4_XS => 23,
            TensorType::BF16 => 30,
            TensorType::MXFP4 => 39,
        }
    }

    /// The type with this number.
    ///
    /// # Errors
    /// The type is not supported or does not exist; the message names it.
    pub(super) fn of_code(code: u32) -> Result<TensorType, String> {
        if let Some(found) = TensorType::ALL.iter().find(|one| one.code() == code) {
            return Ok(*found);
        }
        Err(match NAMES.iter().find(|(number, _)| *number == code) {
            Some((_, name)) => format!("{name} ({code})"),
            None => format!("{code}, which ggml does not define"),
        })
    }

    /// ggml's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let code = self.code();
        NAMES
            .iter()
            .find(|(number, _)| *number == code)
            .map_or("", |(_, name)| name)
    }

    /// Layout of its blocks; `None` where each weight is stored by itself.
    #[must_use]
    pub fn layout(self) -> Option<BlockLayout> {
        Some(match self {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => return None,
            TensorType::Q4_0 => BlockLayout::Q4_0,
            TensorType::Q4_1 => BlockLayout::Q4_1,
            TensorType::Q8_0 => BlockLayout::Q8_0,
            TensorType::Q4_K => BlockLayout::Q4_K,
            TensorType::Q5_K => BlockLayout::Q5_K,
            TensorType::Q6_K => BlockLayout::Q6_K,
            TensorType::Q5_0 => BlockLayout::Q5_0,
            TensorType::Q5_1 => BlockLayout::Q5_1,
            TensorType::Q2_K => BlockLayout::Q2_K,
            TensorType::Q3_K => BlockLayout::Q3_K,
            TensorType::IQ4_NL => BlockLayout::IQ4_NL,
            TensorType::IQ4_XS => BlockLayout::IQ4_XS,
            TensorType::MXFP4 => BlockLayout::MXFP4,
        })
    }

    /// Weights per block.
    #[must_use]
    pub fn block_len(self) -> usize {
        self.layout().map_or(1, BlockLayout::elements)
    }

    /// Bytes per block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self.layout() {
            Some(layout) => layout.bytes(),
            None if self == TensorType::F32 => 4,
            None => 2,
        }
    }

    /// Whether each weight is stored by itself.
    #[must_use]
    pub fn is_float(self) -> bool {
        self.layout().is_none()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_its_number_and_others_are_refused_by_name() {
        for one in TensorType::ALL {
            assert_eq!(TensorType::of_code(one.code()), Ok(one));
            assert!(!one.name().is_empty());
        }
        assert_eq!(TensorType::of_code(17), Err("IQ2_XS (17)".to_owned()));
        // Q4_2 was given up
        assert_eq!(
            TensorType::of_code(4),
            Err("4, which ggml does not define".to_owned())
        );
    }
}
