//! Blocks as wider ones of the same values, for devices that have kernels of those alone.
//!
//! Invariant: no value changes by a bit, neither its sign where it is zero.

use super::BlockLayout;
use super::parts::{IQ4_NL, IQ4_VALUES, IQ4_XS, MXFP4, MXFP4_VALUES, Q3_K, Q5_0};

impl BlockLayout {
    /// The layout whose blocks can hold any block of this one: 8 bits for 5 and for the 4 of IQ4_NL, 6 bits for the 3 of Q3_K.
    /// `None` if there is none.
    #[must_use]
    pub const fn wider(self) -> Option<BlockLayout> {
        match self {
            BlockLayout::Q5_0 | BlockLayout::IQ4_NL => Some(BlockLayout::Q8_0),
            BlockLayout::Q3_K => Some(BlockLayout::Q6_K),
            _ => None,
        }
    }

    /// Appends whole blocks as those of [`BlockLayout::wider`]; nothing if there is none.
    ///
    /// ```
    /// use polychip_ops::BlockLayout;
    ///
    /// let block = [1; 22];
    /// let mut wide = Vec::new();
    /// BlockLayout::Q5_0.widen(&block, &mut wide);
    /// let (mut values, mut same) = ([0.0; 32], [1.0; 32]);
    /// BlockLayout::Q5_0.dequantize(&block, &mut values);
    /// BlockLayout::Q8_0.dequantize(&wide, &mut same);
    /// assert_eq!(values, same);
    /// ```
    pub fn widen(self, blocks: &[u8], out: &mut Vec<u8>) {
        match self {
            BlockLayout::Q5_0 | BlockLayout::IQ4_NL => {
                let mut scales = blocks.chunks_exact(self.bytes()).map(|block| &block[..2]);
                for_each_group(self, blocks, |_, values| {
                    out.extend_from_slice(scales.next().unwrap_or_default());
                    out.extend(values.map(|value| value as u8));
                });
            }
            BlockLayout::Q3_K => {
                for block in blocks.as_chunks::<110>().0 {
                    out.extend(q6_k(&Q3_K::new(block)));
                }
            }
            _ => {}
        }
    }

    /// Passes on each 32 values of whole blocks as a scale and signed bytes that it multiplies, if the layout is of such;
    /// gives whether it is.
    pub fn signed_bytes(self, blocks: &[u8], each: impl FnMut(f32, [i8; 32])) -> bool {
        for_each_group(self, blocks, each)
    }
}

/// See [`BlockLayout::signed_bytes`].
pub(super) fn for_each_group(
    layout: BlockLayout,
    blocks: &[u8],
    mut each: impl FnMut(f32, [i8; 32]),
) -> bool {
    match layout {
        BlockLayout::Q5_0 => {
            for block in blocks.as_chunks().0 {
                let block = Q5_0::new(block);
                let value = |index: usize| {
                    let low = block.values[index % 16] >> (index / 16 * 4) & 15;
                    (low | ((block.high >> index & 1) as u8) << 4) as i8 - 16
                };
                each(block.scale.to_f32(), std::array::from_fn(value));
            }
        }
        BlockLayout::IQ4_NL => {
            for block in blocks.as_chunks().0 {
                let block = IQ4_NL::new(block);
                each(block.scale.to_f32(), of_table(&IQ4_VALUES, block.values));
            }
        }
        BlockLayout::IQ4_XS => {
            for block in blocks.as_chunks().0 {
                let block = IQ4_XS::new(block);
                for (group, values) in block.values.as_chunks().0.iter().enumerate() {
                    let scale = block.scale.to_f32() * f32::from(block.factor(group));
                    each(scale, of_table(&IQ4_VALUES, values));
                }
            }
        }
        BlockLayout::MXFP4 => {
            for block in blocks.as_chunks().0 {
                let block = MXFP4::new(block);
                each(block.scale, of_table(&MXFP4_VALUES, block.values));
            }
        }
        _ => return false,
    }
    true
}

/// Values by a table: those of the low halves, then those of the high ones.
fn of_table(table: &[i8; 16], halves: &[u8; 16]) -> [i8; 32] {
    std::array::from_fn(|index| table[usize::from(halves[index % 16] >> (index / 16 * 4) & 15)])
}

/// A block of Q6_K with the values of one of Q3_K.
fn q6_k(block: &Q3_K<'_>) -> [u8; 210] {
    let mut out = [0; 210];
    for index in 0..256 {
        let value = (block.value(index) + 32) as u8;
        let (half, part, at) = (index / 128, index / 32 % 4, index % 32);
        out[half * 64 + part % 2 * 32 + at] |= (value & 15) << (part / 2 * 4);
        out[128 + half * 32 + at] |= (value >> 4) << (part * 2);
    }
    for group in 0..16 {
        out[192 + group] = block.factor(group) as u8;
    }
    out[208..].copy_from_slice(&block.scale.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_blocks_hold_the_same_bits() {
        for layout in BlockLayout::ALL {
            let mut state = 7u32;
            let mut blocks: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .take(8 * layout.bytes())
            .collect();
            let at = if layout == BlockLayout::Q3_K { 108 } else { 0 };
            for block in blocks.chunks_exact_mut(layout.bytes()) {
                // finite: neither infinity nor NaN
                block[at + 1] &= 0xbf;
            }
            let mut values = vec![f32::NAN; 8 * layout.elements()];
            layout.dequantize(&blocks, &mut values);
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let mut wide = Vec::new();
            layout.widen(&blocks, &mut wide);
            match layout.wider() {
                Some(wider) => {
                    let mut same = vec![f32::NAN; values.len()];
                    wider.dequantize(&wide, &mut same);
                    assert_eq!(bits(&same), bits(&values), "{layout}");
                }
                None => assert!(wide.is_empty()),
            }
            let mut same = Vec::new();
            if layout.signed_bytes(&blocks, |scale, bytes| {
                same.extend(bytes.map(|byte| scale * f32::from(byte)));
            }) {
                assert_eq!(bits(&same), bits(&values), "{layout}");
            }
        }
    }
}
