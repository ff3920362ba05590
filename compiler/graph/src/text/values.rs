//! Elements of constants as text: lists of numbers, hexadecimal bytes, or a seed.
//!
//! Invariants:
//! 1. Numbers are written so that reading them gives the same bits; what has no such number (a NaN
//!    with a payload, types below a byte) is written as bytes.
//! 2. The seed of generated elements can be read off them: it is the low bytes of the first four.

use half::{bf16, f16};
use polychip_ops::{DType, Literal};

/// Most elements that are written out one by one.
pub(super) const INLINE: usize = 32;
/// Most bytes of one constant that are drawn from a seed.
const DRAWN_LIMIT: usize = 1 << 28;
/// Most bytes that one text draws: a short text must not fill the memory.
pub(super) const DRAWN_IN_ALL: usize = 1 << 30;

/// Whether a type's elements are written as numbers.
pub(super) fn is_plain(dtype: DType) -> bool {
    dtype == DType::Bool || dtype.is_int() && dtype.byte_width().is_some() || is_plain_float(dtype)
}

fn is_plain_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
}

/// A float so that it reads back bit by bit, or `None` where it cannot.
pub(super) fn float(value: f64, dtype: DType, bits: u64) -> Option<String> {
    let text = match dtype {
        DType::F64 => format!("{value:?}"),
        #[allow(clippy::cast_possible_truncation)] // the value came from the narrower type
        _ => format!("{:?}", value as f32),
    };
    let back = parse_float(&text)?;
    (encode_float(back, dtype)? == bits).then_some(text)
}

pub(super) fn parse_float(text: &str) -> Option<f64> {
    match text {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ => text.parse().ok(),
    }
}

/// The bits of a float in a type.
#[allow(clippy::cast_possible_truncation)] // rounding to the type is what is wanted
pub(super) fn encode_float(value: f64, dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::F64 if value.is_nan() => f64::NAN.to_bits(),
        DType::F64 => value.to_bits(),
        DType::F32 if value.is_nan() => f32::NAN.to_bits().into(),
        DType::F32 => (value as f32).to_bits().into(),
        DType::F16 if value.is_nan() => f16::NAN.to_bits().into(),
        DType::F16 => f16::from_f64(value).to_bits().into(),
        DType::BF16 if value.is_nan() => bf16::NAN.to_bits().into(),
        DType::BF16 => bf16::from_f64(value).to_bits().into(),
        _ => return None,
    })
}

/// The elements as numbers or quoted texts, or `None` where only bytes will do.
pub(super) fn list(literal: &Literal) -> Option<Vec<String>> {
    if literal.dtype == DType::String {
        return Some(literal.strings()?.into_iter().map(super::lex::quote).collect());
    }
    if is_plain_float(literal.dtype) {
        let width = literal.dtype.byte_width()?;
        let values = literal.as_f64s()?;
        let bits = literal.bytes.chunks_exact(width).map(|chunk| {
            let mut wide = [0u8; 8];
            wide[..width].copy_from_slice(chunk);
            u64::from_le_bytes(wide)
        });
        return values
            .into_iter()
            .zip(bits)
            .map(|(value, bits)| float(value, literal.dtype, bits))
            .collect();
    }
    if literal.dtype == DType::U64 {
        let chunks = literal.bytes.chunks_exact(8);
        return chunks
            .map(|c| Some(u64::from_le_bytes(c.try_into().ok()?).to_string()))
            .collect();
    }
    if literal.dtype == DType::Bool && literal.bytes.iter().any(|&byte| byte > 1) {
        return None;
    }
    is_plain(literal.dtype)
        .then(|| literal.as_i64s())?
        .map(|v| v.iter().map(i64::to_string).collect())
}

/// Numbers as the bytes of a type.
pub(super) fn bytes_of(dtype: DType, numbers: &[String]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let width = dtype.byte_width()?;
    for number in numbers {
        if is_plain_float(dtype) {
            let bits = encode_float(parse_float(number)?, dtype)?;
            bytes.extend_from_slice(&bits.to_le_bytes()[..width]);
        } else if dtype == DType::U64 {
            bytes.extend_from_slice(&number.parse::<u64>().ok()?.to_le_bytes());
        } else {
            let one = Literal::from_ints(dtype, Vec::new(), &[number.parse().ok()?])?;
            bytes.extend_from_slice(&one.bytes);
        }
    }
    Some(bytes)
}

/// Whether elements of a type can be drawn from a seed that is found in them again.
pub(super) fn is_drawn(dtype: DType, bytes: usize) -> bool {
    let width = dtype.byte_width().unwrap_or(1);
    !matches!(dtype, DType::Bool | DType::String) && bytes >= 4 * width && bytes <= DRAWN_LIMIT
}

/// Elements drawn from a seed: floats of magnitude 0.25 to 1 (or so), integers of one byte.
pub(super) fn draw(dtype: DType, bytes: usize, seed: u32) -> Option<Vec<u8>> {
    if !is_drawn(dtype, bytes) {
        return None;
    }
    let mut drawn = vec![0u8; bytes];
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"polychip constant");
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut drawn);
    let width = dtype.byte_width().unwrap_or(1);
    for (index, element) in drawn.chunks_exact_mut(width).enumerate() {
        if let Some(&byte) = seed.to_le_bytes().get(index) {
            element[0] = byte;
        }
        match dtype {
            // sign and mantissa are drawn, the exponent is that of 0.25 to 1
            DType::F32 => {
                element[2] &= 0x7f;
                element[2] |= (element[3] & 1) << 7;
                element[3] = 0x3e | (element[3] & 0x80);
            }
            DType::F64 => {
                element[6] = 0xd0 | (element[6] & 0x1f);
                element[7] = 0x3f | (element[7] & 0x80);
            }
            DType::F16 => element[1] = 0x34 | (element[1] & 0x87),
            DType::BF16 => element[1] = 0x3e | (element[1] & 0x80),
            _ if dtype.is_int() => element[1..].fill(0),
            _ => {}
        }
    }
    Some(drawn)
}

/// The seed that stands for these elements: the one they were drawn from, else one made of them.
pub(super) fn seed(dtype: DType, bytes: &[u8]) -> Option<u32> {
    let width = dtype.byte_width().unwrap_or(1);
    if !is_drawn(dtype, bytes.len()) {
        return None;
    }
    let low = |index: usize| bytes[index * width];
    let found = u32::from_le_bytes([low(0), low(1), low(2), low(3)]);
    if draw(dtype, bytes.len(), found)? == bytes {
        return Some(found);
    }
    let hash = blake3::hash(bytes);
    let [a, b, c, d, ..] = *hash.as_bytes();
    Some(u32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_found_again_and_floats_are_tame() {
        for dtype in [
            DType::F32,
            DType::F64,
            DType::F16,
            DType::BF16,
            DType::I64,
            DType::I8,
            DType::U4,
            DType::F8E5M2,
        ] {
            let bytes = draw(dtype, 4096, 0xdead_beef).unwrap();
            assert_eq!(seed(dtype, &bytes), Some(0xdead_beef), "{dtype}");
            if is_plain_float(dtype) {
                let width = dtype.byte_width().unwrap();
                let literal = Literal::new(dtype, vec![4096 / width], bytes).unwrap();
                let values = literal.as_f64s().unwrap();
                assert!(values.iter().all(|v| (0.1..=1.0).contains(&v.abs())), "{dtype}");
                assert!(
                    values.iter().any(|v| *v < 0.0) && values.iter().any(|v| *v > 0.0),
                    "{dtype}"
                );
            }
        }
        assert_eq!(draw(DType::F32, usize::MAX, 0), None);
        assert_eq!(draw(DType::Bool, 4096, 0), None);
    }

    #[test]
    fn numbers_read_back_bit_by_bit() {
        for (dtype, values) in [
            (
                DType::F32,
                [
                    0.1f32.to_bits().to_le_bytes(),
                    (-0.0f32).to_bits().to_le_bytes(),
                    1e-45f32.to_le_bytes(),
                ]
                .concat(),
            ),
            (
                DType::F64,
                [0.1f64.to_le_bytes(), f64::INFINITY.to_le_bytes()].concat(),
            ),
            (DType::F16, vec![0x01, 0x00, 0xff, 0x7b]),
            (DType::BF16, vec![0x80, 0x3f, 0x01, 0x00]),
            (DType::U64, u64::MAX.to_le_bytes().to_vec()),
            (DType::I8, vec![0x80, 0x7f]),
            (DType::Bool, vec![0, 1]),
        ] {
            let count = values.len() / dtype.byte_width().unwrap();
            let literal = Literal::new(dtype, vec![count], values.clone()).unwrap();
            assert_eq!(bytes_of(dtype, &list(&literal).unwrap()), Some(values), "{dtype}");
        }
        let payload = Literal::new(DType::F32, vec![1], 0x7fc0_0001u32.to_le_bytes().to_vec()).unwrap();
        assert_eq!(list(&payload), None);
    }
}
