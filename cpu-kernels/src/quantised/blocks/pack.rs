//! Blocks of a file as panels.
//!
//! 1. Codes keep their bits: nibbles and pairs of bits stay such, fifth and sixth bits stay planes of bits. Only the scales of Q4_K and
//!    Q5_K grow, from 6 bits to 8.
//! 2. Columns that fill the last panel up are zeros.
//!
//! Not here: how the panels are read ([`super::layout`]).

use super::layout::{BlockLayout, GROUP, Layout};

/// A little-endian word of `bytes`.
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..].first_chunk();
    u32::from_le_bytes(*bytes.expect("invariant: a word of the block"))
}

/// Four words of nibbles: of 32 bytes whose nibbles above `shift` are the values, in order.
fn nibbles(bytes: &[u8], shift: usize) -> [u32; 4] {
    std::array::from_fn(|w| {
        let four = |at| word(bytes, at) >> shift & 0x0f0f_0f0f;
        four(4 * w) | four(16 + 4 * w) << 4
    })
}

/// The words of a group's codes, as many as the layout has.
fn codes(layout: BlockLayout, block: &[u8], group: usize) -> [u32; 8] {
    let mut words = [0; 8];
    match layout {
        BlockLayout::Q4_0 | BlockLayout::Q4_1 | BlockLayout::U4 => {
            let values = &block[layout.bytes() - 16..];
            for (w, to) in words[..4].iter_mut().enumerate() {
                *to = word(values, 4 * w);
            }
        }
        BlockLayout::Q8_0 => {
            for (w, to) in words.iter_mut().enumerate() {
                *to = word(block, 2 + 4 * w) ^ 0x8080_8080;
            }
        }
        BlockLayout::Q5_1 => {
            words[..4].copy_from_slice(&[8, 12, 16, 20].map(|at| word(block, at)));
            let fifth = |v: usize, j: usize| (word(block, 4) >> (4 * v + j) & 1) << (8 * j + v);
            for v in 0..8 {
                words[4] |= (0..4).fold(0, |all, j| all | fifth(v, j));
            }
        }
        BlockLayout::Q2_K => {
            let values = &block[16 + group / 4 * 32..];
            for v in 0..8 {
                let bits = word(values, 4 * v) >> (group % 4 * 2) & 0x0303_0303;
                words[v / 4] |= bits << (2 * (v % 4));
            }
        }
        BlockLayout::U8 => {
            for (w, to) in words.iter_mut().enumerate() {
                *to = word(block, 5 + 4 * w);
            }
        }
        BlockLayout::Q4_K | BlockLayout::Q5_K => {
            let values = &block[layout.bytes() - 128..][group / 2 * 32..];
            words[..4].copy_from_slice(&nibbles(values, group % 2 * 4));
            if layout == BlockLayout::Q5_K {
                let bits = |v: usize| (word(&block[16..], 4 * v) >> group & 0x0101_0101) << v;
                words[4] = (0..8).fold(0, |all, v| all | bits(v));
            }
        }
        BlockLayout::Q6_K => {
            let (half, part) = (group / 4, group % 4);
            let values = &block[half * 64 + part % 2 * 32..];
            words[..4].copy_from_slice(&nibbles(values, part / 2 * 4));
            let upper = &block[128 + half * 32..];
            for v in 0..8 {
                let bits = word(upper, 4 * v) >> (2 * part) & 0x0303_0303;
                words[4 + v / 4] |= bits << (2 * (v % 4));
            }
        }
    }
    words
}

/// The scale and the minimum of one of the eight groups of Q4_K and Q5_K, of 6 bits each in twelve bytes.
fn scale_and_minimum(packed: &[u8], group: usize) -> [u8; 2] {
    if group < 4 {
        return [packed[group] & 63, packed[group + 4] & 63];
    }
    let low = packed[group + 4];
    [
        low & 15 | packed[group - 4] >> 6 << 4,
        low >> 4 | packed[group] >> 6 << 4,
    ]
}

/// Writes one column's scales and minima to its lane of the rows at `to`: `put(row, byte)` of rows of bytes, two for each
/// float of 16 bits.
fn scales(layout: BlockLayout, block: &[u8], lane: usize, lanes: usize, to: &mut [u8]) {
    let mut float = |row: usize, at: usize| {
        to[row * 2 * lanes + 2 * lane..][..2].copy_from_slice(&block[at..at + 2]);
    };
    match layout {
        BlockLayout::Q4_0 | BlockLayout::Q8_0 => float(0, 0),
        BlockLayout::Q4_1 | BlockLayout::Q5_1 => {
            float(0, 0);
            float(1, 2);
        }
        BlockLayout::Q4_K | BlockLayout::Q5_K => {
            float(0, 0);
            float(1, 2);
            for group in 0..8 {
                for (i, byte) in scale_and_minimum(&block[4..16], group).into_iter().enumerate() {
                    to[(4 + 2 * group + i) * lanes + lane] = byte;
                }
            }
        }
        BlockLayout::Q2_K => {
            float(0, 80);
            float(1, 82);
            for (i, &byte) in block[..16].iter().enumerate() {
                to[(4 + i) * lanes + lane] = byte;
            }
        }
        BlockLayout::Q6_K => {
            float(0, 208);
            for (i, &byte) in block[192..208].iter().enumerate() {
                to[(2 + i) * lanes + lane] = byte;
            }
        }
        BlockLayout::U4 | BlockLayout::U8 => {
            to[4 * lane..][..4].copy_from_slice(&block[..4]);
            to[4 * lanes + lane] = block[4];
        }
    }
}

/// Packs `[columns, blocks]` blocks into the sections of codes and of scales, which are zeros and may be longer.
pub(super) fn pack<W: Layout>(
    blocks: &[u8],
    per_column: usize,
    lanes: usize,
    all_codes: &mut [u8],
    all_scales: &mut [u8],
) {
    let layout = W::LAYOUT;
    let groups = layout.elements() / GROUP;
    let code_bytes = groups * W::WORDS * 4 * lanes;
    let scale_bytes = W::SCALES * lanes;
    let bytes = layout.bytes();
    let panels = all_codes
        .chunks_exact_mut(code_bytes * per_column)
        .zip(all_scales.chunks_exact_mut(scale_bytes * per_column));
    let of_panels = blocks.chunks(lanes * per_column * bytes);
    for ((panel_codes, panel_scales), columns) in panels.zip(of_panels) {
        let rows = panel_codes
            .chunks_exact_mut(code_bytes)
            .zip(panel_scales.chunks_exact_mut(scale_bytes));
        for (index, (to_codes, to_scales)) in rows.enumerate() {
            for (lane, column) in columns.chunks_exact(per_column * bytes).enumerate() {
                let block = &column[index * bytes..][..bytes];
                scales(layout, block, lane, lanes, to_scales);
                for group in 0..groups {
                    let words = codes(layout, block, group);
                    for (w, word) in words[..W::WORDS].iter().enumerate() {
                        let at = ((group * W::WORDS + w) * lanes + lane) * 4;
                        to_codes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                    }
                }
            }
        }
    }
}
