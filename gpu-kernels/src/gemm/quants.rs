//! Constant weights in quantised blocks, in ggml's layout: reads four neighbours along k from the
//! bytes of the file (`ggml-common.h`; docs of GGUF).
//!
//! Invariants:
//! 1. A row of weights is whole blocks, and rows follow each other.
//! 2. A block starts at an even byte.

use std::fmt::Write as _;

use half::f16;
use serde::{Deserialize, Serialize};

use crate::{Access, Scalar, Values, WgslBuilder};

/// A layout of quantised blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(non_camel_case_types)] // ggml's names
pub enum Quants {
    /// 32 values in 18 bytes: a scale and 4 bits each around 8.
    Q4_0,
    /// 32 values in 20 bytes: a scale, a minimum and 4 bits each.
    Q4_1,
    /// 32 values in 34 bytes: a scale and 8 bits each, with sign.
    Q8_0,
    /// 256 values in 144 bytes: 8 groups with scales and minima of 6 bits, 4 bits each.
    Q4_K,
    /// 256 values in 176 bytes: 8 groups with scales and minima of 6 bits, 5 bits each.
    Q5_K,
    /// 256 values in 210 bytes: 16 groups with scales of 8 bits, 6 bits each around 32.
    Q6_K,
}

impl Quants {
    /// All of them.
    pub const ALL: [Quants; 6] = [
        Quants::Q4_0,
        Quants::Q4_1,
        Quants::Q8_0,
        Quants::Q4_K,
        Quants::Q5_K,
        Quants::Q6_K,
    ];

    /// Short name, as in variants of kernels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quants::Q4_0 => "q4_0",
            Quants::Q4_1 => "q4_1",
            Quants::Q8_0 => "q8_0",
            Quants::Q4_K => "q4_k",
            Quants::Q5_K => "q5_k",
            Quants::Q6_K => "q6_k",
        }
    }

    /// Values of a block.
    #[must_use]
    pub fn elements(self) -> u64 {
        match self {
            Quants::Q4_0 | Quants::Q4_1 | Quants::Q8_0 => 32,
            Quants::Q4_K | Quants::Q5_K | Quants::Q6_K => 256,
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(self) -> u64 {
        match self {
            Quants::Q4_0 => 18,
            Quants::Q4_1 => 20,
            Quants::Q8_0 => 34,
            Quants::Q4_K => 144,
            Quants::Q5_K => 176,
            Quants::Q6_K => 210,
        }
    }

    /// Size in bytes of this number of values, which must fill whole blocks.
    #[must_use]
    pub fn bytes(self, values: u64) -> u64 {
        values / self.elements() * self.block_bytes()
    }

    /// Declares `b`, and `b4(base, outer, inner)`: four values from `inner` on of the row `outer`, zeros where `guards` leave.
    pub(super) fn declare(self, text: &mut WgslBuilder, n: u32, k: u32, guards: &str, element: &str) {
        let row = self.bytes(k.into());
        let words = (row * u64::from(n)).div_ceil(4);
        text.binding("b", Access::Constant, Scalar::U32, 1, words);
        text.declare(
            "fn b_word(at: u32) -> u32 {
    let low = b[at >> 2u];
    if (at & 2u) == 0u { return low; }
    return (low >> 16u) | (b[(at >> 2u) + 1u] << 16u);
}
fn b_byte(at: u32) -> u32 { return extractBits(b[at >> 2u], (at & 3u) * 8u, 8u); }
fn b_half(at: u32) -> f32 { return unpack2x16float(b[at >> 2u] >> ((at & 2u) * 8u)).x; }",
        );
        let nibbles = |word: &str, shift: &str| {
            format!(
                "vec4<f32>(((vec4<u32>({word}) >> (vec4<u32>(0u, 8u, 16u, 24u) + {shift})) & vec4<u32>(15u)))"
            )
        };
        let mut body = format!(
            "{guards}    let i = inner % {}u;
    let at = outer * {row}u + inner / {}u * {}u;\n",
            self.elements(),
            self.elements(),
            self.block_bytes(),
        );
        // scale and minimum of 6 bits of group `j`, in 12 bytes from `at + 4`
        let group = "    let j = i / 32u;
    var six = 0.0;
    var least = 0.0;
    if j < 4u {
        six = f32(b_byte(at + 4u + j) & 63u);
        least = f32(b_byte(at + 8u + j) & 63u);
    } else {
        let low = b_byte(at + 8u + j);
        six = f32((low & 15u) | ((b_byte(at + j) >> 6u) << 4u));
        least = f32((low >> 4u) | ((b_byte(at + 4u + j) >> 6u) << 4u));
    }
    let scale = b_half(at) * six;
    let minimum = b_half(at + 2u) * least;\n";
        let value = match self {
            Quants::Q4_0 => {
                let four = nibbles("b_word(at + 2u + i % 16u)", "i / 16u * 4u");
                format!("({four} - 8.0) * b_half(at)")
            }
            Quants::Q4_1 => {
                let four = nibbles("b_word(at + 4u + i % 16u)", "i / 16u * 4u");
                format!("{four} * b_half(at) + b_half(at + 2u)")
            }
            Quants::Q8_0 => "vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(b_word(at + 2u + i)) << \
                             vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)) * b_half(at)"
                .to_owned(),
            Quants::Q4_K => {
                body += group;
                let four = nibbles("b_word(at + 16u + i / 64u * 32u + i % 32u)", "j % 2u * 4u");
                format!("{four} * scale - minimum")
            }
            Quants::Q5_K => {
                body += group;
                let four = nibbles("b_word(at + 48u + i / 64u * 32u + i % 32u)", "j % 2u * 4u");
                body += "    let fifth = vec4<f32>((vec4<u32>(b_word(at + 16u + i % 32u)) >> \
                         (vec4<u32>(0u, 8u, 16u, 24u) + j)) & vec4<u32>(1u));\n";
                format!("({four} + fifth * 16.0) * scale - minimum")
            }
            Quants::Q6_K => {
                body += "    let side = i / 128u;
    let quarter = i % 128u / 32u;
    let l = i % 32u;
    let sixteenth = b_byte(at + 192u + side * 8u + quarter * 2u + l / 16u);
    let scale = b_half(at + 208u) * f32(bitcast<i32>(sixteenth << 24u) >> 24u);
    let high = vec4<f32>((vec4<u32>(b_word(at + 128u + side * 32u + l)) >> \
                         (vec4<u32>(0u, 8u, 16u, 24u) + quarter * 2u)) & vec4<u32>(3u));\n";
                let four = nibbles(
                    "b_word(at + side * 64u + quarter % 2u * 32u + l)",
                    "quarter / 2u * 4u",
                );
                format!("({four} + high * 16.0 - 32.0) * scale")
            }
        };
        let _ = writeln!(body, "    return vec4<{element}>({value});");
        text.declare(&format!(
            "fn b4(base: u32, outer: u32, inner: u32) -> vec4<{element}> {{\n{body}}}"
        ));
    }

    /// Blocks of so many values, and these values.
    pub(crate) fn sample(self, seed: u32, count: usize) -> (Vec<u8>, Vec<f32>) {
        let (size, elements) = (self.block_bytes() as usize, self.elements() as usize);
        let blocks = count / elements;
        let noise = Values::floats(seed, blocks * size);
        let mut bytes: Vec<u8> = noise.iter().map(|x| (x * 128.0 + 128.0) as u8).collect();
        let mut values = Vec::with_capacity(count);
        for (index, block) in bytes.chunks_exact_mut(size).enumerate() {
            // a scale, and a minimum where there is one, so that values are about 1
            let (scale, places): (f32, &[usize]) = match self {
                Quants::Q4_0 => (0.1, &[0]),
                Quants::Q4_1 => (0.1, &[0, 2]),
                Quants::Q8_0 => (0.008, &[0]),
                Quants::Q4_K | Quants::Q5_K => (0.002, &[0, 2]),
                Quants::Q6_K => (0.0003, &[208]),
            };
            for &place in places {
                let value = f16::from_f32(scale * (1.0 + (index % 7) as f32 / 7.0));
                block[place..place + 2].copy_from_slice(&value.to_le_bytes());
            }
            self.decode(block, &mut values);
        }
        (bytes, values)
    }

    /// The values of a block.
    fn decode(self, block: &[u8], values: &mut Vec<f32>) {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let nibble = |at: usize, high: bool| f32::from(if high { block[at] >> 4 } else { block[at] & 15 });
        // scale and minimum of a group, of 6 bits each in 12 bytes
        let six = |j: usize| {
            let packed = &block[4..16];
            if j < 4 {
                (packed[j] & 63, packed[j + 4] & 63)
            } else {
                let (low, above, beyond) = (packed[j + 4], packed[j - 4] >> 6, packed[j] >> 6);
                (low & 15 | above << 4, low >> 4 | beyond << 4)
            }
        };
        for i in 0..self.elements() as usize {
            values.push(match self {
                Quants::Q4_0 => (nibble(2 + i % 16, i >= 16) - 8.0) * half(0),
                Quants::Q4_1 => nibble(4 + i % 16, i >= 16) * half(0) + half(2),
                Quants::Q8_0 => f32::from(block[2 + i] as i8) * half(0),
                Quants::Q4_K | Quants::Q5_K => {
                    let j = i / 32;
                    let (scale, minimum) = six(j);
                    let first = if self == Quants::Q4_K { 16 } else { 48 };
                    let mut value = nibble(first + i / 64 * 32 + i % 32, j % 2 == 1);
                    if self == Quants::Q5_K && block[16 + i % 32] >> j & 1 == 1 {
                        value += 16.0;
                    }
                    value * half(0) * f32::from(scale) - half(2) * f32::from(minimum)
                }
                Quants::Q6_K => {
                    let (side, quarter, l) = (i / 128, i % 128 / 32, i % 32);
                    let low = nibble(side * 64 + quarter % 2 * 32 + l, quarter >= 2);
                    let high = block[128 + side * 32 + l] >> (2 * quarter) & 3;
                    let scale = block[192 + side * 8 + quarter * 2 + l / 16] as i8;
                    (low + 16.0 * f32::from(high) - 32.0) * half(208) * f32::from(scale)
                }
            });
        }
    }
}
