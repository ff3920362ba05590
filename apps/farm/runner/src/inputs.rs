//! Inputs generated from a seed: floats from 0 to 1, integers and booleans of 0 or 1.
//!
//! Invariant: the same model gets the same bytes on every board (ChaCha8, a stream per input).

use half::{bf16, f16};
use polychip::{DType, Input, Session, TensorSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Values of all inputs, in the session's memory.
pub(crate) fn made(session: &Session) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for (place, spec) in session.inputs().enumerate() {
        let mut input = session.input(&spec.name)?;
        input.write_bytes(&bytes(spec, place as u64)?)?;
        inputs.push(input);
    }
    Ok(inputs)
}

fn bytes(spec: &TensorSpec, place: u64) -> anyhow::Result<Vec<u8>> {
    let name = &spec.name;
    anyhow::ensure!(
        !spec.packed,
        "input {name:?} is not a plain tensor: its value cannot be generated"
    );
    anyhow::ensure!(
        spec.open.is_empty(),
        "input {name:?} has open dimensions: set them with --shape {name}=1x2x3"
    );
    let mut source = ChaCha8Rng::seed_from_u64(0);
    source.set_stream(place);
    let mut bytes = vec![0; usize::try_from(spec.bytes)?];
    let unit = |source: &mut ChaCha8Rng| f64::from(source.next_u32()) / 2f64.powi(32);
    match (spec.dtype, spec.dtype.bits()) {
        (DType::F32, _) => each(&mut bytes, || (unit(&mut source) as f32).to_le_bytes()),
        (DType::F64, _) => each(&mut bytes, || unit(&mut source).to_le_bytes()),
        (DType::F16, _) => each(&mut bytes, || f16::from_f64(unit(&mut source)).to_le_bytes()),
        (DType::BF16, _) => each(&mut bytes, || bf16::from_f64(unit(&mut source)).to_le_bytes()),
        (dtype, Some(bits)) if (dtype.is_int() || dtype == DType::Bool) && bits >= 8 => {
            for element in bytes.chunks_exact_mut(bits / 8) {
                element[0] = (source.next_u32() & 1) as u8;
            }
        }
        // several values to a byte: all zero
        (dtype, Some(_)) if dtype.is_int() => {}
        (dtype, _) => anyhow::bail!(
            "input {name:?} holds {}: its value cannot be generated",
            dtype.name()
        ),
    }
    Ok(bytes)
}

fn each<const N: usize>(bytes: &mut [u8], mut value: impl FnMut() -> [u8; N]) {
    for element in bytes.chunks_exact_mut(N) {
        element.copy_from_slice(&value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(dtype: DType, bytes: u64) -> TensorSpec {
        TensorSpec {
            name: "x".into(),
            dtype,
            shape: vec![1, 4],
            open: vec![],
            any_rank: false,
            upper_bound: false,
            packed: false,
            bytes,
        }
    }

    #[test]
    fn values_are_ordinary_and_the_same_everywhere() {
        let floats = bytes(&spec(DType::F32, 16), 0).unwrap();
        assert_eq!(floats, bytes(&spec(DType::F32, 16), 0).unwrap());
        assert_ne!(floats, bytes(&spec(DType::F32, 16), 1).unwrap());
        for value in floats.chunks_exact(4) {
            let value = f32::from_le_bytes(value.try_into().unwrap());
            assert!((0.0..=1.0).contains(&value), "{value}");
        }
        let words = bytes(&spec(DType::I64, 800), 0).unwrap();
        let sum: i64 = words
            .chunks_exact(8)
            .map(|word| i64::from_le_bytes(word.try_into().unwrap()))
            .sum();
        assert!((20..=80).contains(&sum), "{sum} ones of 100");
        let error = bytes(&spec(DType::String, 1), 0).unwrap_err().to_string();
        assert!(error.contains("\"x\""), "{error}");
    }
}
