//! Inputs: from files, or generated from a seed (floats from 0 to 1, integers and booleans of 0 or 1).
//!
//! Invariant: the same model gets the same bytes on every board (ChaCha8, a stream per input).

use std::collections::BTreeMap;

use anyhow::Context as _;
use half::{bf16, f16};
use polychip::{DType, Input, Session, TensorSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Values of all inputs, in the session's memory; `files` are .npy files by input.
pub(crate) fn made(session: &Session, files: &BTreeMap<String, String>) -> anyhow::Result<Vec<Input>> {
    for name in files.keys() {
        anyhow::ensure!(
            session.inputs().any(|spec| spec.name == *name),
            "a file is given for input {name:?}, which the model does not have"
        );
    }
    let mut inputs = Vec::new();
    for (place, spec) in session.inputs().enumerate() {
        let mut input = session.input(&spec.name)?;
        let value = match files.get(&spec.name) {
            Some(path) => {
                let file = std::fs::read(path).with_context(|| path.clone())?;
                array(&file, spec)?.to_vec()
            }
            None => bytes(spec, place as u64)?,
        };
        input.write_bytes(&value)?;
        inputs.push(input);
    }
    Ok(inputs)
}

/// The values of a .npy file, which must be those of this input (NumPy's format 1 to 3, in C order).
fn array<'a>(file: &'a [u8], spec: &TensorSpec) -> anyhow::Result<&'a [u8]> {
    let name = &spec.name;
    let damaged = || format!("the file of input {name:?} is not a complete .npy file");
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = file.get(at..at + bytes)?.iter().rev();
        Some(bytes.fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (start, length) = match file.strip_prefix(b"\x93NUMPY").and_then(|rest| rest.first()) {
        Some(1) => (10, number(8, 2)),
        Some(2 | 3) => (12, number(8, 4)),
        _ => anyhow::bail!(damaged()),
    };
    let end = length
        .and_then(|length| length.checked_add(start))
        .with_context(damaged)?;
    let header = file.get(start..end).with_context(damaged)?;
    let header: String = String::from_utf8_lossy(header).split_whitespace().collect();
    anyhow::ensure!(
        header.contains("'fortran_order':False") && !header.contains("'descr':'>"),
        "the file of input {name:?} is not in C order and little endian: {header}"
    );
    let kind = header
        .split_once("'descr':'")
        .and_then(|(_, rest)| rest.split_once('\''))
        .map_or("records", |(kind, _)| kind);
    let kinds = numpy(spec.dtype);
    anyhow::ensure!(
        kinds.contains(&kind),
        "the file of input {name:?} holds {kind}; the model takes {}{}",
        spec.dtype.name(),
        match kinds {
            [] => ", which a file cannot give it".to_owned(),
            kinds => format!(", written as {}", kinds.join(" or ")),
        }
    );
    let values = &file[end..];
    let shape = header
        .split_once("'shape':(")
        .and_then(|(_, rest)| rest.split_once(')'));
    let shape: Option<Vec<u64>> = shape.and_then(|(sizes, _)| {
        let sizes = sizes.split(',').filter(|size| !size.is_empty());
        sizes.map(|size| size.parse().ok()).collect()
    });
    let expected: Vec<u64> = spec.shape.iter().map(|size| *size as u64).collect();
    anyhow::ensure!(
        shape.as_ref() == Some(&expected) && values.len() as u64 == spec.bytes,
        "the file of input {name:?} holds {} bytes of shape {shape:?}; the model takes {} bytes of shape {expected:?}, {}",
        values.len(),
        spec.bytes,
        spec.dtype.name()
    );
    Ok(values)
}

/// NumPy's types for the same bytes; types that it lacks are bit patterns.
fn numpy(dtype: DType) -> &'static [&'static str] {
    match dtype {
        DType::Bool => &["|b1"],
        DType::I8 => &["|i1"],
        DType::I16 => &["<i2"],
        DType::I32 => &["<i4"],
        DType::I64 => &["<i8"],
        DType::U8 => &["|u1"],
        DType::U16 => &["<u2"],
        DType::U32 => &["<u4"],
        DType::U64 => &["<u8"],
        DType::F16 => &["<f2"],
        DType::F32 => &["<f4"],
        DType::F64 => &["<f8"],
        DType::C64 => &["<c8"],
        DType::C128 => &["<c16"],
        DType::BF16 => &["<V2", "<u2"],
        dtype if dtype.bits().is_some_and(|bits| bits <= 8) => &["|u1", "|V1", "<V1"],
        _ => &[],
    }
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

    #[test]
    fn arrays_are_read_or_refused_by_name() {
        let file = |header: &str, values: &[u8]| {
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend_from_slice(&(header.len() as u16).to_le_bytes());
            file.extend_from_slice(header.as_bytes());
            file.extend_from_slice(values);
            file
        };
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }  \n";
        let [integers, halves, words] = [DType::I32, DType::BF16, DType::String].map(|dtype| spec(dtype, 16));
        let spec = spec(DType::F32, 16);
        let values: Vec<u8> = (0..16).collect();
        assert_eq!(array(&file(header, &values), &spec).unwrap(), values);
        for (bad, words) in [
            (file(header, &values[..15]), "holds 15 bytes"),
            (
                file(&header.replace("1, 4", "4, 1"), &values),
                "shape Some([4, 1])",
            ),
            (file(&header.replace("False", "True"), &values), "not in C order"),
            (file(&header.replace('<', ">"), &values), "little endian"),
            (b"\x93NUMPY\x01".to_vec(), "complete .npy file"),
            (b"words".to_vec(), "complete .npy file"),
        ] {
            let error = array(&bad, &spec).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("\"x\""), "{error}");
        }
        // as many bytes of another type
        for (spec, words) in [
            (&integers, "holds <f4; the model takes i32, written as <i4"),
            (&halves, "written as <V2 or <u2"),
            (&words, "which a file cannot give it"),
        ] {
            let error = array(&file(header, &values), spec).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("\"x\""), "{error}");
        }
        for kind in ["<V2", "<u2"] {
            let bits = TensorSpec {
                bytes: 8,
                ..halves.clone()
            };
            let file = file(&header.replace("<f4", kind), &values[..8]);
            assert_eq!(array(&file, &bits).unwrap(), &values[..8]);
        }
    }
}
