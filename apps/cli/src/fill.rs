//! Inputs generated from a seed: normally distributed floats, integers and booleans of 0 or 1.
//!
//! Invariants:
//! 1. The same seed gives the same bytes on every host (ChaCha8).
//! 2. Each input has its own stream, chosen by its index among the sorted input names, so that giving one input as a
//!    file does not change the others.

use half::{bf16, f16};
use polychip::DType;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};

use crate::array::{Array, count};

/// Values for the input at this place in the order of names.
pub(crate) fn fill(seed: u64, place: u64, dtype: DType, shape: &[usize]) -> anyhow::Result<Array> {
    let is_float = matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
    let is_bit = dtype == DType::Bool || dtype.is_int();
    let Some(bits) = dtype.bits().filter(|_| is_float || is_bit) else {
        anyhow::bail!(
            "cannot be generated from a seed, because it holds {}; give a file with --input",
            dtype.name()
        );
    };
    let size = count(shape)
        .and_then(|count| dtype.byte_len(count))
        .filter(|size| *size < isize::MAX as usize);
    let (Some(count), Some(size)) = (count(shape), size) else {
        anyhow::bail!("has a shape too large for memory: {shape:?}");
    };
    let mut source = ChaCha8Rng::seed_from_u64(seed);
    source.set_stream(place);
    let mut bytes = Vec::new();
    if is_float {
        for _ in 0..count {
            let value: f64 = StandardNormal.sample(&mut source);
            match dtype {
                DType::F32 => bytes.extend((value as f32).to_le_bytes()),
                DType::F64 => bytes.extend(value.to_le_bytes()),
                DType::F16 => bytes.extend(f16::from_f64(value).to_le_bytes()),
                _ => bytes.extend(bf16::from_f64(value).to_le_bytes()),
            }
        }
    } else {
        bytes.resize(size, 0);
        for index in 0..count {
            // the least bit of each element; those of less than a byte are packed from the low end
            bytes[index * bits / 8] |= ((source.next_u32() & 1) as u8) << (index * bits % 8);
        }
    }
    Ok(Array {
        dtype,
        shape: shape.to_vec(),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::numbers;

    fn values(seed: u64, place: u64, dtype: DType) -> Vec<f64> {
        let array = fill(seed, place, dtype, &[50, 20]).unwrap();
        numbers(dtype, &array.bytes).unwrap()
    }

    #[test]
    fn floats_are_normal() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let values = values(7, 0, dtype);
            let mean = values.iter().sum::<f64>() / 1000.0;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1000.0;
            assert!(
                mean.abs() < 0.1 && (variance - 1.0).abs() < 0.2,
                "{dtype:?}: {mean} {variance}"
            );
        }
    }

    #[test]
    fn integers_and_booleans_are_0_or_1() {
        use DType::*;
        for dtype in [Bool, I8, I16, I32, I64, U8, U16, U32, U64] {
            let values = values(7, 0, dtype);
            assert!(values.iter().all(|value| *value == 0.0 || *value == 1.0));
            let ones = values.iter().sum::<f64>();
            assert!((400.0..600.0).contains(&ones), "{dtype:?}: {ones} of 1000");
        }
    }

    #[test]
    fn packed_integers_match_unpacked_bits() {
        let whole: Vec<u8> = values(7, 0, DType::U8).iter().map(|value| *value as u8).collect();
        for (dtype, each) in [(DType::I4, 2), (DType::U2, 4)] {
            let packed = fill(7, 0, dtype, &[50, 20]).unwrap().bytes;
            let bits = 8 / each;
            let expected = whole.chunks(each).map(|chunk| {
                chunk
                    .iter()
                    .enumerate()
                    .fold(0, |byte, (place, bit)| byte | bit << (place * bits))
            });
            assert!(packed.iter().copied().eq(expected), "{dtype:?}");
        }
    }

    #[test]
    fn seed_and_index_determine_values() {
        assert_eq!(values(7, 0, DType::F32), values(7, 0, DType::F32));
        assert_ne!(values(7, 0, DType::F32), values(8, 0, DType::F32));
        assert_ne!(values(7, 0, DType::F32), values(7, 1, DType::F32));
        // pinned: scripts compare runs of different builds
        let first = fill(7, 0, DType::I32, &[8]).unwrap();
        assert_eq!(
            numbers(DType::I32, &first.bytes).unwrap(),
            [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
        );
    }

    #[test]
    fn strings_cannot_be_generated() {
        let error = fill(7, 0, DType::String, &[1]).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot be generated from a seed, because it holds string; give a file with --input"
        );
        assert!(fill(7, 0, DType::F32, &[usize::MAX, 2]).is_err());
    }
}
