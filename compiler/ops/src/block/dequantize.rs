//! Blocks as f32, in the order of operations of ggml's scalar code, so that every bit is that of other readers.
//!
//! Products and sums are rounded one by one: no fused multiply-add.

use super::BlockLayout;
use super::parts::{Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_1, Q5_K, Q6_K, Q8_0, scale_and_minimum};
use super::widen::for_each_group;

impl BlockLayout {
    /// Writes the values of whole blocks.
    ///
    /// # Panics
    /// If `blocks` are no whole blocks, or `out` has not as many values.
    pub fn dequantize(self, blocks: &[u8], out: &mut [f32]) {
        assert!(
            blocks.len().is_multiple_of(self.bytes())
                && out.len() == blocks.len() / self.bytes() * self.elements(),
            "{} bytes of {self} are not {} values",
            blocks.len(),
            out.len()
        );
        decode(self, blocks, out);
    }
}

/// Fills `out` with the values of `blocks`.
fn decode(layout: BlockLayout, blocks: &[u8], out: &mut [f32]) {
    match layout {
        BlockLayout::Q4_0 => each(blocks, out, q4_0),
        BlockLayout::Q4_1 => each(blocks, out, q4_1),
        BlockLayout::Q8_0 => each(blocks, out, q8_0),
        BlockLayout::Q4_K => each(blocks, out, q4_k),
        BlockLayout::Q5_K => each(blocks, out, q5_k),
        BlockLayout::Q6_K => each(blocks, out, q6_k),
        BlockLayout::Q5_1 => each(blocks, out, q5_1),
        BlockLayout::Q2_K => each(blocks, out, q2_k),
        BlockLayout::Q3_K => each(blocks, out, q3_k),
        BlockLayout::Q5_0 | BlockLayout::IQ4_NL | BlockLayout::IQ4_XS | BlockLayout::MXFP4 => {
            let mut groups = out.as_chunks_mut::<32>().0.iter_mut();
            for_each_group(layout, blocks, |scale, values| {
                if let Some(out) = groups.next() {
                    *out = values.map(|value| f32::from(value) * scale);
                }
            });
        }
    }
}

fn each<const B: usize, const N: usize>(
    blocks: &[u8],
    out: &mut [f32],
    one: impl Fn(&[u8; B], &mut [f32; N]),
) {
    let blocks = blocks.as_chunks::<B>().0;
    for (block, out) in blocks.iter().zip(out.as_chunks_mut::<N>().0) {
        one(block, out);
    }
}

fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let block = Q4_0::new(block);
    let scale = block.scale.to_f32();
    for (index, byte) in block.values.iter().enumerate() {
        out[index] = f32::from((byte & 15) as i8 - 8) * scale;
        out[index + 16] = f32::from((byte >> 4) as i8 - 8) * scale;
    }
}

fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let block = Q4_1::new(block);
    let (scale, minimum) = (block.scale.to_f32(), block.minimum.to_f32());
    for (index, byte) in block.values.iter().enumerate() {
        out[index] = f32::from(byte & 15) * scale + minimum;
        out[index + 16] = f32::from(byte >> 4) * scale + minimum;
    }
}

fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let block = Q8_0::new(block);
    let scale = block.scale.to_f32();
    for (out, value) in out.iter_mut().zip(block.values) {
        *out = f32::from(*value as i8) * scale;
    }
}

fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let block = Q4_K::new(block);
    let (scale, minimum) = (block.scale.to_f32(), block.minimum.to_f32());
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (s, m) = scale_and_minimum(block.groups, group);
        let (scale, minimum) = (scale * f32::from(s), minimum * f32::from(m));
        let values = &block.values[group / 2 * 32..][..32];
        for (out, byte) in out.iter_mut().zip(values) {
            let value = byte >> (group % 2 * 4) & 15;
            *out = scale * f32::from(value) - minimum;
        }
    }
}

fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let block = Q5_K::new(block);
    let (scale, minimum) = (block.scale.to_f32(), block.minimum.to_f32());
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (s, m) = scale_and_minimum(block.groups, group);
        let (scale, minimum) = (scale * f32::from(s), minimum * f32::from(m));
        let values = &block.values[group / 2 * 32..][..32];
        for ((out, byte), high) in out.iter_mut().zip(values).zip(block.high) {
            let value = (byte >> (group % 2 * 4) & 15) | ((high >> group & 1) << 4);
            *out = scale * f32::from(value) - minimum;
        }
    }
}

fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let block = Q6_K::new(block);
    let scale = block.scale.to_f32();
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (half, part) = (group / 4, group % 4);
        // values 0 to 63 of a half are low halves of its 64 bytes, the others high halves
        let low = &block.low[half * 64 + part % 2 * 32..][..32];
        let high = &block.high[half * 32..][..32];
        for (index, out) in out.iter_mut().enumerate() {
            let value = (low[index] >> (part / 2 * 4) & 15) | ((high[index] >> (2 * part) & 3) << 4);
            let scale = scale * f32::from(block.scales[group * 2 + index / 16] as i8);
            *out = scale * f32::from(value as i8 - 32);
        }
    }
}

fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let block = Q5_1::new(block);
    let (scale, minimum) = (block.scale.to_f32(), block.minimum.to_f32());
    for (index, out) in out.iter_mut().enumerate() {
        let low = block.values[index % 16] >> (index / 16 * 4) & 15;
        let value = low | ((block.high >> index & 1) as u8) << 4;
        *out = f32::from(value) * scale + minimum;
    }
}

fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let block = Q2_K::new(block);
    let (scale, minimum) = (block.scale.to_f32(), block.minimum.to_f32());
    for (index, out) in out.iter_mut().enumerate() {
        let group = block.groups[index / 16];
        let value = block.values[index / 128 * 32 + index % 32] >> (index / 32 % 4 * 2) & 3;
        *out = scale * f32::from(group & 15) * f32::from(value) - minimum * f32::from(group >> 4);
    }
}

fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let block = Q3_K::new(block);
    let scale = block.scale.to_f32();
    for (index, out) in out.iter_mut().enumerate() {
        *out = scale * f32::from(block.factor(index / 16)) * f32::from(block.value(index));
    }
}
