//! Blocks of weights as the file has them: scales, minima and packed values, each a view of the block's bytes.
//!
//! Layouts are those of ggml (`ggml-common.h`); numbers are little-endian.

#![allow(non_camel_case_types)] // ggml's names

use half::f16;

fn f16_at(bytes: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Cuts a fixed piece out of a block.
fn piece<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..at + N]
        .first_chunk()
        .expect("invariant: N bytes of the block")
}

/// 32 weights `(q - 8) · scale`.
#[derive(Clone, Copy, Debug)]
pub struct Q4_0<'a> {
    /// The scale.
    pub scale: f16,
    /// Low halves are the values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 16],
}

impl<'a> Q4_0<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 18]) -> Q4_0<'a> {
        Q4_0 {
            scale: f16_at(block, 0),
            values: piece(block, 2),
        }
    }
}

/// 32 weights `q · scale + minimum`.
#[derive(Clone, Copy, Debug)]
pub struct Q4_1<'a> {
    /// The scale.
    pub scale: f16,
    /// What is added to each weight.
    pub minimum: f16,
    /// Low halves are the values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 16],
}

impl<'a> Q4_1<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 20]) -> Q4_1<'a> {
        Q4_1 {
            scale: f16_at(block, 0),
            minimum: f16_at(block, 2),
            values: piece(block, 4),
        }
    }
}

/// 32 weights `q · scale`.
#[derive(Clone, Copy, Debug)]
pub struct Q8_0<'a> {
    /// The scale.
    pub scale: f16,
    /// Values with sign, one a byte.
    pub values: &'a [u8; 32],
}

impl<'a> Q8_0<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 34]) -> Q8_0<'a> {
        Q8_0 {
            scale: f16_at(block, 0),
            values: piece(block, 2),
        }
    }
}

/// The scale and the minimum of one of eight groups, 6 bits each, packed in 12 bytes.
#[must_use]
pub fn scale_and_minimum(packed: &[u8; 12], group: usize) -> (u8, u8) {
    if group < 4 {
        return (packed[group] & 63, packed[group + 4] & 63);
    }
    let low = packed[group + 4];
    let scale = (low & 15) | (packed[group - 4] >> 6 << 4);
    let minimum = (low >> 4) | (packed[group] >> 6 << 4);
    (scale, minimum)
}

/// 256 weights in eight groups, `q · (scale · s) - (minimum · m)`.
#[derive(Clone, Copy, Debug)]
pub struct Q4_K<'a> {
    /// The scale of scales.
    pub scale: f16,
    /// The scale of minima.
    pub minimum: f16,
    /// For [`scale_and_minimum`].
    pub groups: &'a [u8; 12],
    /// 32 bytes for two groups each: the low halves are the first one's values, the high halves the second one's.
    pub values: &'a [u8; 128],
}

impl<'a> Q4_K<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 144]) -> Q4_K<'a> {
        Q4_K {
            scale: f16_at(block, 0),
            minimum: f16_at(block, 2),
            groups: piece(block, 4),
            values: piece(block, 16),
        }
    }
}

/// 256 weights in eight groups, `q · (scale · s) - (minimum · m)`.
#[derive(Clone, Copy, Debug)]
pub struct Q5_K<'a> {
    /// The scale of scales.
    pub scale: f16,
    /// The scale of minima.
    pub minimum: f16,
    /// For [`scale_and_minimum`].
    pub groups: &'a [u8; 12],
    /// Bit `g` of byte `i` is the fifth bit of value `i` of group `g`.
    pub high: &'a [u8; 32],
    /// 32 bytes for two groups each: the low halves are the first one's values, the high halves the second one's.
    pub values: &'a [u8; 128],
}

impl<'a> Q5_K<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 176]) -> Q5_K<'a> {
        Q5_K {
            scale: f16_at(block, 0),
            minimum: f16_at(block, 2),
            groups: piece(block, 4),
            high: piece(block, 16),
            values: piece(block, 48),
        }
    }
}

/// 256 weights in sixteen groups, `(q - 32) · (scale · s)`.
#[derive(Clone, Copy, Debug)]
pub struct Q6_K<'a> {
    /// 64 bytes for 128 values each: low halves are values 0 to 63, high halves 64 to 127.
    pub low: &'a [u8; 128],
    /// 32 bytes for 128 values each: bits 2·k and 2·k+1 of byte `i` are the upper bits of value 32·k+i.
    pub high: &'a [u8; 64],
    /// Scales with sign, one for 16 values each.
    pub scales: &'a [u8; 16],
    /// The scale of scales.
    pub scale: f16,
}

impl<'a> Q6_K<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 210]) -> Q6_K<'a> {
        Q6_K {
            low: piece(block, 0),
            high: piece(block, 128),
            scales: piece(block, 192),
            scale: f16_at(block, 208),
        }
    }
}
