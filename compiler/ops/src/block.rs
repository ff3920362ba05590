//! Blocks of weights as ggml writes them: a few scales and packed values that lie together.
//!
//! Invariants:
//! 1. A tensor in blocks is a row of whole blocks per row of its last axis, without gaps.
//! 2. [`BlockLayout::dequantize`] gives every bit that ggml's scalar code gives.
//!
//! Not here: products with such weights (`cpu-kernels`), files that hold them (`llm`).

mod dequantize;
mod parts;
mod widen;

pub use parts::{
    IQ4_NL, IQ4_VALUES, IQ4_XS, MXFP4, MXFP4_VALUES, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K,
    Q8_0, scale_and_minimum,
};

use std::fmt;

use polychip_abi::encoding as codes;

/// How a block is laid out (`ggml-common.h`); numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(non_camel_case_types)] // ggml's names
#[repr(u32)]
pub enum BlockLayout {
    /// 32 values in 18 bytes: a scale and 4 bits each around 8.
    Q4_0 = codes::POLYCHIP_BLOCKS_Q4_0,
    /// 32 values in 20 bytes: a scale, a minimum and 4 bits each.
    Q4_1 = codes::POLYCHIP_BLOCKS_Q4_1,
    /// 32 values in 34 bytes: a scale and 8 bits each, with sign.
    Q8_0 = codes::POLYCHIP_BLOCKS_Q8_0,
    /// 256 values in 144 bytes: 8 groups with scales and minima of 6 bits, 4 bits each.
    Q4_K = codes::POLYCHIP_BLOCKS_Q4_K,
    /// 256 values in 176 bytes: 8 groups with scales and minima of 6 bits, 5 bits each.
    Q5_K = codes::POLYCHIP_BLOCKS_Q5_K,
    /// 256 values in 210 bytes: 16 groups with scales of 8 bits, 6 bits each around 32.
    Q6_K = codes::POLYCHIP_BLOCKS_Q6_K,
    /// 32 values in 22 bytes: a scale and 5 bits each around 16.
    Q5_0 = codes::POLYCHIP_BLOCKS_Q5_0,
    /// 32 values in 24 bytes: a scale, a minimum and 5 bits each.
    Q5_1 = codes::POLYCHIP_BLOCKS_Q5_1,
    /// 256 values in 84 bytes: 16 groups with scales and minima of 4 bits, 2 bits each.
    Q2_K = codes::POLYCHIP_BLOCKS_Q2_K,
    /// 256 values in 110 bytes: 16 groups with scales of 6 bits, 3 bits each around 4.
    Q3_K = codes::POLYCHIP_BLOCKS_Q3_K,
    /// 32 values in 18 bytes: a scale and 4 bits each, which index a table of 16 values.
    IQ4_NL = codes::POLYCHIP_BLOCKS_IQ4_NL,
    /// 256 values in 136 bytes: 8 groups with scales of 6 bits, 4 bits each as in IQ4_NL.
    IQ4_XS = codes::POLYCHIP_BLOCKS_IQ4_XS,
    /// 32 values in 17 bytes: a power of two and floats of 4 bits each.
    MXFP4 = codes::POLYCHIP_BLOCKS_MXFP4,
}

impl BlockLayout {
    /// All of them.
    pub const ALL: [BlockLayout; 13] = [
        BlockLayout::Q4_0,
        BlockLayout::Q4_1,
        BlockLayout::Q8_0,
        BlockLayout::Q4_K,
        BlockLayout::Q5_K,
        BlockLayout::Q6_K,
        BlockLayout::Q5_0,
        BlockLayout::Q5_1,
        BlockLayout::Q2_K,
        BlockLayout::Q3_K,
        BlockLayout::IQ4_NL,
        BlockLayout::IQ4_XS,
        BlockLayout::MXFP4,
    ];

    /// The code of the plugin ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The layout with this code, or `None` where this build knows none.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.code() == code)
    }

    /// ggml's name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            BlockLayout::Q4_0 => "q4_0",
            BlockLayout::Q4_1 => "q4_1",
            BlockLayout::Q8_0 => "q8_0",
            BlockLayout::Q4_K => "q4_k",
            BlockLayout::Q5_K => "q5_k",
            BlockLayout::Q6_K => "q6_k",
            BlockLayout::Q5_0 => "q5_0",
            BlockLayout::Q5_1 => "q5_1",
            BlockLayout::Q2_K => "q2_k",
            BlockLayout::Q3_K => "q3_k",
            BlockLayout::IQ4_NL => "iq4_nl",
            BlockLayout::IQ4_XS => "iq4_xs",
            BlockLayout::MXFP4 => "mxfp4",
        }
    }

    /// Values of a block.
    pub const fn elements(self) -> usize {
        match self {
            BlockLayout::Q4_0
            | BlockLayout::Q4_1
            | BlockLayout::Q8_0
            | BlockLayout::Q5_0
            | BlockLayout::Q5_1
            | BlockLayout::IQ4_NL
            | BlockLayout::MXFP4 => 32,
            BlockLayout::Q4_K
            | BlockLayout::Q5_K
            | BlockLayout::Q6_K
            | BlockLayout::Q2_K
            | BlockLayout::Q3_K
            | BlockLayout::IQ4_XS => 256,
        }
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        match self {
            BlockLayout::Q4_0 => 18,
            BlockLayout::Q4_1 => 20,
            BlockLayout::Q8_0 => 34,
            BlockLayout::Q4_K => 144,
            BlockLayout::Q5_K => 176,
            BlockLayout::Q6_K => 210,
            BlockLayout::Q5_0 => 22,
            BlockLayout::Q5_1 => 24,
            BlockLayout::Q2_K => 84,
            BlockLayout::Q3_K => 110,
            BlockLayout::IQ4_NL => 18,
            BlockLayout::IQ4_XS => 136,
            BlockLayout::MXFP4 => 17,
        }
    }

    /// Bytes of a tensor of these extents, or `None` where its rows are no whole blocks or there are too many bytes.
    ///
    /// ```
    /// use polychip_ops::BlockLayout;
    ///
    /// assert_eq!(BlockLayout::Q4_0.byte_len(&[3, 64]), Some(3 * 2 * 18));
    /// assert_eq!(BlockLayout::Q4_0.byte_len(&[3, 40]), None);
    /// ```
    pub fn byte_len(self, dims: &[usize]) -> Option<usize> {
        let (&last, rows) = dims.split_last()?;
        if !last.is_multiple_of(self.elements()) {
            return None;
        }
        crate::axis::product(rows)?
            .checked_mul(last / self.elements())?
            .checked_mul(self.bytes())
    }
}

impl fmt::Display for BlockLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_its_code() {
        for layout in BlockLayout::ALL {
            assert_eq!(BlockLayout::from_code(layout.code()), Some(layout));
        }
        assert_eq!(BlockLayout::from_code(0), None);
    }

    #[test]
    fn a_block_is_its_scale_times_its_values() {
        // half a unit per step, values 0 to 15 in the low halves, 8 in the high ones
        let mut block = [0u8; 18];
        block[..2].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
        for (i, byte) in block[2..].iter_mut().enumerate() {
            *byte = i as u8 | 0x80;
        }
        let mut values = [f32::NAN; 32];
        BlockLayout::Q4_0.dequantize(&block, &mut values);
        let low: Vec<f32> = (0..16).map(|i| (i as f32 - 8.0) / 2.0).collect();
        assert_eq!(values[..16], low);
        assert_eq!(values[16..], [0.0; 16]);
    }
}
