//! What one thread reads of a quantised block at a time: 16 weights, in four vectors, and where the values that they
//! multiply lie.
//!
//! Why 16: eight or more bytes a read keep memory busy, a scale is unpacked once for eight weights or more, and the
//! values that neighbouring threads multiply lie side by side.
//!
//! Invariant: the four vectors are in the order of [`fours`], whatever the layout of the block.

use crate::{Access, Quants, Scalar, WgslBuilder};

/// Weights that a thread reads at a time.
pub(super) const WEIGHTS: u32 = 16;

/// Offsets of the four vectors of values from [`first_four`], in vectors.
pub(super) fn fours(quants: Quants) -> [u32; 4] {
    match quants {
        Quants::Q4_K | Quants::Q5_K => [0, 1, 8, 9],
        Quants::Q6_K => [0, 8, 16, 24],
        Quants::Q4_0 | Quants::Q4_1 => [0, 1, 4, 5],
        Quants::Q8_0 => [0, 1, 2, 3],
    }
}

/// Text of the first vector of values that `part` of `block` multiplies.
pub(super) fn first_four(quants: Quants) -> &'static str {
    match quants {
        Quants::Q4_K | Quants::Q5_K => "block * 64u + part / 4u * 16u + part % 4u * 2u",
        Quants::Q6_K => "block * 64u + part / 8u * 32u + part % 8u",
        Quants::Q4_0 | Quants::Q4_1 => "block * 8u + part * 2u",
        Quants::Q8_0 => "block * 8u + part * 4u",
    }
}

/// Whether blocks are aligned to 8 bytes and read so many at a time.
fn is_wide(quants: Quants) -> bool {
    matches!(quants, Quants::Q4_K | Quants::Q5_K)
}

/// Declares the weights `[n, k]` as a binding of this name, with what reads it.
pub(super) fn declare(quants: Quants, text: &mut WgslBuilder, name: &str, n: u32, k: u32) {
    let words = (quants.bytes(k.into()) * u64::from(n)).div_ceil(4);
    let width = if is_wide(quants) { 2 } else { 1 };
    text.binding(name, Access::Constant, Scalar::U32, width, words);
    if is_wide(quants) {
        return;
    }
    // blocks start at even bytes: a word may lie in two
    text.declare(&format!(
        "fn {name}_word(at: u32) -> u32 {{
    let shift = (at & 2u) * 8u;
    let next = min((at >> 2u) + 1u, {}u);
    return ({name}[at >> 2u] >> shift) | (({name}[next] << (31u - shift)) << 1u);
}}
fn {name}_half(at: u32) -> f32 {{ return unpack2x16float({name}[at >> 2u] >> ((at & 2u) * 8u)).x; }}",
        words - 1
    ));
}

/// Declares what reads the bytes of a word.
pub(super) fn declare_functions(text: &mut WgslBuilder) {
    text.declare(
        "fn low_fours(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)); }
fn high_fours(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu)); }",
    );
}

/// A block of statements, left open, that names `w0` to `w3`: the weights of `part` of `block` in the row `row`.
pub(super) fn weights(quants: Quants, name: &str, row: &str, k: u32) -> String {
    let bytes = quants.block_bytes();
    let blocks = u64::from(k) / quants.elements();
    // scales and minima of 6 bits of two groups that lie beside each other, of the 12 bytes behind the first four
    let groups = "            let shift = (part / 4u & 1u) * 16u;
            let six0 = head.y >> shift;
            let six1 = next.x >> shift;
            let six2 = next.y >> shift;
            let behind = part >= 8u;
            let scales = select(six0 & 0x3f3fu, (six2 & 0x0f0fu) | ((six0 >> 2u) & 0x3030u), behind);
            let least = select(six1 & 0x3f3fu, ((six2 >> 4u) & 0x0f0fu) | ((six1 >> 2u) & 0x3030u), behind);
            let whole = unpack2x16float(head.x);
            let scale0 = whole.x * f32(scales & 255u);
            let scale1 = whole.x * f32((scales >> 8u) & 255u);
            let least0 = whole.y * f32(least & 255u);
            let least1 = whole.y * f32((least >> 8u) & 255u);\n";
    match quants {
        Quants::Q4_K => format!(
            "        {{
            let at = ({row} * {blocks}u + block) * {eights}u;
            let head = {name}[at];
            let next = {name}[at + 1u];
            let fours = {name}[at + 2u + part];
{groups}            let w0 = low_fours(fours.x) * scale0 - least0;
            let w1 = low_fours(fours.y) * scale0 - least0;
            let w2 = high_fours(fours.x) * scale1 - least1;
            let w3 = high_fours(fours.y) * scale1 - least1;\n",
            eights = bytes / 8,
        ),
        Quants::Q5_K => format!(
            "        {{
            let at = ({row} * {blocks}u + block) * {eights}u;
            let head = {name}[at];
            let next = {name}[at + 1u];
            let fours = {name}[at + 6u + part];
            let fifths = {name}[at + 2u + part % 4u] >> vec2<u32>(part / 4u * 2u);
{groups}            let low = (fours & vec2<u32>(0x0f0f0f0fu)) | ((fifths & vec2<u32>(0x01010101u)) << vec2<u32>(4u));
            let high = ((fours >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | ((fifths & vec2<u32>(0x02020202u)) << vec2<u32>(3u));
            let w0 = vec4<f32>(unpack4xU8(low.x)) * scale0 - least0;
            let w1 = vec4<f32>(unpack4xU8(low.y)) * scale0 - least0;
            let w2 = vec4<f32>(unpack4xU8(high.x)) * scale1 - least1;
            let w3 = vec4<f32>(unpack4xU8(high.y)) * scale1 - least1;\n",
            eights = bytes / 8,
        ),
        Quants::Q6_K => {
            let mut text = format!(
                "        {{
            let at = ({row} * {blocks}u + block) * {bytes}u;
            let side = part / 8u;
            let l = part % 8u;
            let low0 = {name}_word(at + side * 64u + l * 4u);
            let low1 = {name}_word(at + side * 64u + 32u + l * 4u);
            let high = {name}_word(at + 128u + side * 32u + l * 4u);
            let whole = {name}_half(at + 208u);
            let scales = vec2<u32>({name}_word(at + 192u + side * 8u), {name}_word(at + 196u + side * 8u));
            let sixteenth = l / 4u * 8u;\n"
            );
            for quarter in 0..4 {
                let low = format!("low{}", quarter % 2);
                let low = if quarter < 2 { low } else { format!("({low} >> 4u)") };
                let word = ["x", "y"][quarter / 2];
                text += &format!(
                    "            let six{quarter} = ({low} & 0x0f0f0f0fu) | (((high >> {}u) & 0x03030303u) << 4u);
            let scale{quarter} = whole * f32(extractBits(bitcast<i32>(scales.{word}), sixteenth + {}u, 8u));
            let w{quarter} = (vec4<f32>(unpack4xU8(six{quarter})) - 32.0) * scale{quarter};\n",
                    2 * quarter,
                    quarter % 2 * 16,
                );
            }
            text
        }
        Quants::Q4_0 | Quants::Q4_1 => {
            let (first, least) = if quants == Quants::Q4_0 {
                (2, "scale0 * -8.0".to_owned())
            } else {
                (4, format!("{name}_half(at + 2u)"))
            };
            format!(
                "        {{
            let at = ({row} * {blocks}u + block) * {bytes}u;
            let word0 = {name}_word(at + {first}u + part * 8u);
            let word1 = {name}_word(at + {first}u + part * 8u + 4u);
            let scale0 = {name}_half(at);
            let least0 = {least};
            let w0 = low_fours(word0) * scale0 + least0;
            let w1 = low_fours(word1) * scale0 + least0;
            let w2 = high_fours(word0) * scale0 + least0;
            let w3 = high_fours(word1) * scale0 + least0;\n"
            )
        }
        Quants::Q8_0 => {
            let mut text = format!(
                "        {{
            let at = ({row} * {blocks}u + block) * {bytes}u;
            let scale0 = {name}_half(at);\n"
            );
            for j in 0..4 {
                text += &format!(
                    "            let w{j} = vec4<f32>(unpack4xI8({name}_word(at + {}u + part * 16u))) * scale0;\n",
                    2 + 4 * j
                );
            }
            text
        }
    }
}
