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

/// 32 weights `(q - 16) · scale`.
#[derive(Clone, Copy, Debug)]
pub struct Q5_0<'a> {
    /// The scale.
    pub scale: f16,
    /// Bit `i` is the fifth bit of value `i`.
    pub high: u32,
    /// Low halves are the values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 16],
}

impl<'a> Q5_0<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 22]) -> Q5_0<'a> {
        Q5_0 {
            scale: f16_at(block, 0),
            high: u32::from_le_bytes(*piece(block, 2)),
            values: piece(block, 6),
        }
    }
}

/// 32 weights `q · scale + minimum`.
#[derive(Clone, Copy, Debug)]
pub struct Q5_1<'a> {
    /// The scale.
    pub scale: f16,
    /// Added to each weight.
    pub minimum: f16,
    /// Bit `i` is the fifth bit of value `i`.
    pub high: u32,
    /// Low halves are the values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 16],
}

impl<'a> Q5_1<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 24]) -> Q5_1<'a> {
        Q5_1 {
            scale: f16_at(block, 0),
            minimum: f16_at(block, 2),
            high: u32::from_le_bytes(*piece(block, 4)),
            values: piece(block, 8),
        }
    }
}

/// 256 weights in sixteen groups, `q · (scale · s) - (minimum · m)`.
#[derive(Clone, Copy, Debug)]
pub struct Q2_K<'a> {
    /// Low halves are scales, high halves minima, one for 16 values each.
    pub groups: &'a [u8; 16],
    /// 32 bytes for 128 values each: bits 2·k and 2·k+1 of byte `i` are value 32·k+i.
    pub values: &'a [u8; 64],
    /// The scale of scales.
    pub scale: f16,
    /// The scale of minima.
    pub minimum: f16,
}

impl<'a> Q2_K<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 84]) -> Q2_K<'a> {
        Q2_K {
            groups: piece(block, 0),
            values: piece(block, 16),
            scale: f16_at(block, 80),
            minimum: f16_at(block, 82),
        }
    }
}

/// 256 weights in sixteen groups, `(q - 4) · (scale · s)`.
#[derive(Clone, Copy, Debug)]
pub struct Q3_K<'a> {
    /// Bit `k` of byte `i` is the third bit of value 32·k+i.
    pub high: &'a [u8; 32],
    /// The two low bits: 32 bytes for 128 values each, of which bits 2·k and 2·k+1 of byte `i` are value 32·k+i.
    pub values: &'a [u8; 64],
    /// Scales of 6 bits, for [`Q3_K::factor`].
    pub groups: &'a [u8; 12],
    /// The scale of scales.
    pub scale: f16,
}

impl<'a> Q3_K<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 110]) -> Q3_K<'a> {
        Q3_K {
            high: piece(block, 0),
            values: piece(block, 32),
            groups: piece(block, 96),
            scale: f16_at(block, 108),
        }
    }

    /// The scale of one of sixteen groups.
    #[must_use]
    pub fn factor(&self, group: usize) -> i8 {
        let low = self.groups[group % 8] >> (group / 8 * 4) & 15;
        let high = self.groups[8 + group % 4] >> (group / 4 * 2) & 3;
        (low | high << 4) as i8 - 32
    }

    /// Value `index` of the block, from -4 to 3.
    #[must_use]
    pub fn value(&self, index: usize) -> i8 {
        let (plane, at) = (index / 32, index % 32);
        let low = self.values[index / 128 * 32 + at] >> (plane % 4 * 2) & 3;
        let high = self.high[at] >> plane & 1;
        (low | high << 2) as i8 - 4
    }
}

/// The values of IQ4_NL and IQ4_XS by their 4 bits.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// The values of MXFP4 by their 4 bits, doubled.
pub const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// 32 weights `t(q) · scale`, with [`IQ4_VALUES`] as `t`.
#[derive(Clone, Copy, Debug)]
pub struct IQ4_NL<'a> {
    /// The scale.
    pub scale: f16,
    /// Low halves are the values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 16],
}

impl<'a> IQ4_NL<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 18]) -> IQ4_NL<'a> {
        IQ4_NL {
            scale: f16_at(block, 0),
            values: piece(block, 2),
        }
    }
}

/// 256 weights in eight groups, `t(q) · (scale · s)`, with [`IQ4_VALUES`] as `t`.
#[derive(Clone, Copy, Debug)]
pub struct IQ4_XS<'a> {
    /// The scale of scales.
    pub scale: f16,
    /// The two high bits of each scale.
    pub high: u16,
    /// The low halves of scales, two a byte.
    pub low: &'a [u8; 4],
    /// 16 bytes per group: low halves are its values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 128],
}

impl<'a> IQ4_XS<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 136]) -> IQ4_XS<'a> {
        IQ4_XS {
            scale: f16_at(block, 0),
            high: u16::from_le_bytes(*piece(block, 2)),
            low: piece(block, 4),
            values: piece(block, 8),
        }
    }

    /// The scale of one of eight groups.
    #[must_use]
    pub fn factor(&self, group: usize) -> i8 {
        let low = self.low[group / 2] >> (group % 2 * 4) & 15;
        let high = (self.high >> (2 * group) & 3) as u8;
        (low | high << 4) as i8 - 32
    }
}

/// 32 weights `t(q) · scale`, with [`MXFP4_VALUES`] as `t`.
#[derive(Clone, Copy, Debug)]
pub struct MXFP4<'a> {
    /// Half the block's power of two.
    pub scale: f32,
    /// Low halves are the values 0 to 15, high halves 16 to 31.
    pub values: &'a [u8; 16],
}

impl<'a> MXFP4<'a> {
    /// A block's parts.
    #[must_use]
    pub fn new(block: &'a [u8; 17]) -> MXFP4<'a> {
        let bits = match block[0] {
            // 2^-128 and 2^-127 are subnormal
            exponent @ 0..2 => 0x0020_0000 << exponent,
            exponent => (u32::from(exponent) - 1) << 23,
        };
        MXFP4 {
            scale: f32::from_bits(bits),
            values: piece(block, 1),
        }
    }
}
