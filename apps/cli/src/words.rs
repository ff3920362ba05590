//! Text files as inputs: one string or a string per line; or numbers, divided by blanks, commas or line ends.

use anyhow::Context as _;
use half::{bf16, f16};
use polychip::DType;
use polychip_ops::{Dim, Literal, TensorType};

use crate::array::Array;

/// Reads text for an input of this type. One axis may be open; the others that are have one element.
pub(crate) fn read(bytes: &[u8], ty: &TensorType) -> anyhow::Result<Array> {
    let text = std::str::from_utf8(bytes).context("the text is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let dims: Vec<Option<usize>> = match ty.shape.as_deref() {
        Some(dims) => dims.iter().map(Dim::known).collect(),
        None => vec![None],
    };
    if ty.dtype == DType::String {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let is_one = dims.iter().all(|dim| *dim == Some(1));
        let lines: Vec<&str> = if is_one {
            vec![text]
        } else {
            text.lines().collect()
        };
        let strings = Literal::from_strings(&lines).context("a line is too long")?;
        return Ok(Array {
            dtype: DType::String,
            shape: shape(&dims, lines.len()),
            bytes: strings.bytes.to_vec(),
        });
    }
    let is_gap = |c: char| c.is_whitespace() || c == ',';
    let words: Vec<&str> = text.split(is_gap).filter(|word| !word.is_empty()).collect();
    let mut bytes = Vec::new();
    for word in &words {
        let value = number(word, ty.dtype).with_context(|| {
            format!(
                "{word:?} is not a number of {}, which the input takes",
                ty.dtype.name()
            )
        })?;
        bytes.extend(value);
    }
    Ok(Array {
        dtype: ty.dtype,
        shape: shape(&dims, words.len()),
        bytes,
    })
}

/// The shape of `count` elements: the last open axis takes what the others leave; where they do not fit, they are a list.
fn shape(dims: &[Option<usize>], count: usize) -> Vec<usize> {
    let open = dims.iter().rposition(Option::is_none);
    let mut shape: Vec<usize> = dims.iter().map(|dim| dim.unwrap_or(1)).collect();
    let others = shape.iter().try_fold(1usize, |all, dim| all.checked_mul(*dim));
    match (open, others) {
        (Some(axis), Some(others)) if others > 0 && count.is_multiple_of(others) => {
            shape[axis] = count / others;
            shape
        }
        (None, Some(others)) if others == count => shape,
        _ => vec![count],
    }
}

/// The bytes of a number.
fn number(word: &str, dtype: DType) -> Option<Vec<u8>> {
    macro_rules! of {
        ($type:ty) => {
            word.parse::<$type>().ok()?.to_le_bytes().to_vec()
        };
    }
    Some(match dtype {
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::F16 => f16::from_f32(word.parse().ok()?).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(word.parse().ok()?).to_le_bytes().to_vec(),
        DType::I8 => of!(i8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        DType::U8 => of!(u8),
        DType::U16 => of!(u16),
        DType::U32 => of!(u32),
        DType::U64 => of!(u64),
        DType::Bool => match word {
            "0" | "false" => vec![0],
            "1" | "true" => vec![1],
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(dtype: DType, dims: &[Option<usize>]) -> TensorType {
        let dim = |dim: &Option<usize>| dim.map_or(Dim::Symbol("n".into()), Dim::Known);
        TensorType::new(dtype, dims.iter().map(dim).collect::<Vec<_>>())
    }

    #[test]
    fn numbers_take_the_shape_of_the_input() {
        let ids = read(b"101, 7592\n102 \n", &ty(DType::I64, &[Some(1), None])).unwrap();
        assert_eq!(ids.shape, [1, 3]);
        assert_eq!(ids.bytes, [101i64, 7592, 102].map(i64::to_le_bytes).concat());
        let rows = read(b"1 2 3\n4 5 6\n", &ty(DType::F32, &[None, Some(3)])).unwrap();
        assert_eq!(rows.shape, [2, 3]);
        assert_eq!(
            read(b"1 0 true", &ty(DType::Bool, &[Some(3)])).unwrap().bytes,
            [1, 0, 1]
        );
        // what does not fit is named as a wrong shape later
        assert_eq!(
            read(b"1 2", &ty(DType::F32, &[Some(1), Some(3)])).unwrap().shape,
            [2]
        );
        let error = read(b"1 x", &ty(DType::U8, &[None])).unwrap_err().to_string();
        assert_eq!(error, "\"x\" is not a number of u8, which the input takes");
        assert!(read(b"256", &ty(DType::U8, &[None])).is_err());
    }

    #[test]
    fn strings_are_lines_or_the_whole_text() {
        let strings = |bytes: &[u8], dims: &[Option<usize>]| {
            let array = read(bytes, &ty(DType::String, dims)).unwrap();
            let literal = Literal::new(DType::String, array.shape.clone(), array.bytes).unwrap();
            let texts: Vec<String> = literal
                .strings()
                .unwrap()
                .into_iter()
                .map(str::to_owned)
                .collect();
            (array.shape, texts)
        };
        let lines = ["one two", "three"].map(str::to_owned).to_vec();
        assert_eq!(strings(b"one two\r\nthree\n", &[None]), (vec![2], lines.clone()));
        assert_eq!(strings(b"one two\nthree", &[None, Some(1)]), (vec![2, 1], lines));
        assert_eq!(
            strings(b"one\ntwo\n", &[Some(1)]),
            (vec![1], vec!["one\ntwo".to_owned()])
        );
        assert!(read(&[0xff], &ty(DType::String, &[None])).is_err());
    }
}
