//! NumPy's array files: reading inputs, writing outputs.
//!
//! Invariants:
//! 1. Written files read back with the same type, shape and bytes, except types without a NumPy equivalent: these are
//!    written as integers of the same size, with a note.
//! 2. A file's size is checked against its header before any allocation of that size.

mod header;

use anyhow::Context as _;
use polychip::DType;

use crate::array::{Array, count};

/// The type of a file's elements; `None` if Polychip has no such type.
fn dtype(found: &header::Kind) -> Option<DType> {
    Some(match (found.letter, found.bytes) {
        ('b', 1) => DType::Bool,
        ('i', 1) => DType::I8,
        ('i', 2) => DType::I16,
        ('i', 4) => DType::I32,
        ('i', 8) => DType::I64,
        ('u', 1) => DType::U8,
        ('u', 2) => DType::U16,
        ('u', 4) => DType::U32,
        ('u', 8) => DType::U64,
        ('f', 2) => DType::F16,
        ('f', 4) => DType::F32,
        ('f', 8) => DType::F64,
        ('c', 8) => DType::C64,
        ('c', 16) => DType::C128,
        _ => return None,
    })
}

/// How a type is written: NumPy's type, and a note where that is not the type itself.
fn written_as(dtype: DType) -> Option<(&'static str, Option<&'static str>)> {
    Some(match dtype {
        DType::Bool => ("|b1", None),
        DType::I8 => ("|i1", None),
        DType::I16 => ("<i2", None),
        DType::I32 => ("<i4", None),
        DType::I64 => ("<i8", None),
        DType::U8 => ("|u1", None),
        DType::U16 => ("<u2", None),
        DType::U32 => ("<u4", None),
        DType::U64 => ("<u8", None),
        DType::F16 => ("<f2", None),
        DType::F32 => ("<f4", None),
        DType::F64 => ("<f8", None),
        DType::C64 => ("<c8", None),
        DType::C128 => ("<c16", None),
        DType::BF16 => ("<u2", Some("written as u16 bit patterns")),
        DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E8M0 => {
            ("|u1", Some("written as u8 bit patterns"))
        }
        // packed types: several values a byte, so the shape cannot stay
        dtype if dtype.bits().is_some_and(|bits| bits < 8) => {
            ("|u1", Some("written as one row of packed u8 values"))
        }
        _ => return None,
    })
}

/// A note on how values of this type are written, where that is not as they are.
pub(crate) fn note(dtype: DType) -> Option<&'static str> {
    written_as(dtype).and_then(|(_, note)| note)
}

/// The array as a value of this type and shape, where NumPy has not the type and the file holds its
/// bits, as [`write`] writes them.
pub(crate) fn from_bits(array: Array, dtype: DType, shape: &[usize]) -> Array {
    let is_written_so = written_as(dtype).is_some_and(|(descriptor, note)| {
        let bits = if descriptor == "<u2" {
            DType::U16
        } else {
            DType::U8
        };
        note.is_some() && array.dtype == bits
    });
    let is_packed = dtype.bits().is_some_and(|bits| bits < 8);
    let has_size = count(shape).and_then(|count| dtype.byte_len(count)) == Some(array.bytes.len());
    let has_shape = if is_packed {
        array.shape == [array.bytes.len()]
    } else {
        array.shape == shape
    };
    if is_written_so && has_size && has_shape {
        Array {
            dtype,
            shape: shape.to_vec(),
            bytes: array.bytes,
        }
    } else {
        array
    }
}

/// Reads the bytes of a file.
pub(crate) fn read(bytes: &[u8]) -> anyhow::Result<Array> {
    let (header, data) = header::read(bytes).context("not a .npy file")?;
    let found = &header.kind;
    if matches!(found.letter, 'U' | 'S') {
        return strings(&header, data);
    }
    anyhow::ensure!(
        found.letter != 'O',
        "holds Python objects; save texts as an array of str: numpy.save(file, array.astype(str))"
    );
    let Some(dtype) = dtype(found) else {
        anyhow::bail!("holds elements of type {found}, which is not a tensor type");
    };
    let sizes = header.shape.iter().map(|dim| usize::try_from(*dim).ok());
    let shape: Option<Vec<usize>> = sizes.collect();
    let shape = shape.context("has a shape too large for memory")?;
    let wanted = count(&shape)
        .and_then(|count| dtype.byte_len(count))
        .context("has a shape too large for memory")?;
    anyhow::ensure!(
        data.len() == wanted,
        "is truncated or too long: {} bytes of data, but shape {shape:?} of {} needs {wanted}",
        data.len(),
        dtype.name()
    );
    let mut bytes = data.to_vec();
    if found.is_big {
        // a complex value is two words
        let word = if found.letter == 'c' {
            found.bytes / 2
        } else {
            found.bytes
        };
        bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    }
    if header.is_fortran && shape.len() > 1 {
        bytes = row_major(&bytes, &shape);
    }
    Ok(Array { dtype, shape, bytes })
}

/// Texts of a fixed width, which end with zeros: of UTF-32 (`U`) or bytes of UTF-8 (`S`).
fn strings(header: &header::Header, data: &[u8]) -> anyhow::Result<Array> {
    let too_large = "has a shape too large for memory";
    let sizes = header.shape.iter().map(|dim| usize::try_from(*dim).ok());
    let shape: Vec<usize> = sizes.collect::<Option<_>>().context(too_large)?;
    let (kind, is_wide) = (&header.kind, header.kind.letter == 'U');
    let width = kind.bytes.checked_mul(if is_wide { size_of::<u32>() } else { 1 });
    let width = width.context(too_large)?;
    let elements = count(&shape).context(too_large)?;
    anyhow::ensure!(width > 0 || elements == 0, "has texts of no width");
    let wanted = elements.checked_mul(width).context(too_large)?;
    anyhow::ensure!(
        data.len() == wanted,
        "is truncated or too long: {} bytes of data, but shape {shape:?} of {kind} needs {wanted}",
        data.len()
    );
    let data = if header.is_fortran && shape.len() > 1 {
        row_major(data, &shape)
    } else {
        data.to_vec()
    };
    let texts: anyhow::Result<Vec<String>> = (0..elements)
        .map(|index| {
            let text = &data[index * width..(index + 1) * width];
            if is_wide {
                wide_text(text, kind.is_big)
            } else {
                narrow_text(text)
            }
        })
        .collect();
    Array::of_strings(shape, &texts?).context(too_large)
}

fn wide_text(bytes: &[u8], is_big: bool) -> anyhow::Result<String> {
    let codes = bytes.chunks_exact(size_of::<u32>()).map(|code| {
        let code = [code[0], code[1], code[2], code[3]];
        if is_big {
            u32::from_be_bytes(code)
        } else {
            u32::from_le_bytes(code)
        }
    });
    let text: Option<String> = codes.map(char::from_u32).collect();
    let text = text.context("holds a text that is not Unicode")?;
    Ok(text.trim_end_matches('\0').to_owned())
}

fn narrow_text(bytes: &[u8]) -> anyhow::Result<String> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let text = std::str::from_utf8(&bytes[..end]).context("holds a text that is not UTF-8")?;
    Ok(text.to_owned())
}

/// The most bytes of a file of strings.
const MOST_TEXT: usize = 1 << 31;

/// The file of an array of strings: NumPy's texts of the longest one's width.
fn write_strings(array: &Array) -> anyhow::Result<Vec<u8>> {
    let texts = array.strings().context("the strings do not fit their shape")?;
    let width = texts
        .iter()
        .map(|text| text.chars().count())
        .max()
        .unwrap_or(0)
        .max(1);
    let bytes = texts
        .len()
        .checked_mul(width)
        .and_then(|n| n.checked_mul(size_of::<u32>()));
    anyhow::ensure!(
        bytes.is_some_and(|bytes| bytes <= MOST_TEXT),
        "NumPy gives each string the room of the longest one: {} strings of {width} characters are more than {MOST_TEXT} bytes; leave out --save to have them printed",
        texts.len()
    );
    anyhow::ensure!(
        !texts.iter().any(|text| text.ends_with('\0')),
        "a string ends in a NUL, which NumPy's files do not keep; leave out --save to have the strings printed"
    );
    let shape: Vec<u64> = array.shape.iter().map(|dim| *dim as u64).collect();
    let mut file = header::write(&format!("<U{width}"), &shape);
    for text in &texts {
        let end = file.len() + width * size_of::<u32>();
        file.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
        file.resize(end, 0);
    }
    Ok(file)
}

/// Column-major bytes in row-major order.
fn row_major(bytes: &[u8], shape: &[usize]) -> Vec<u8> {
    let total: usize = shape.iter().product();
    if total == 0 {
        return Vec::new();
    }
    let size = bytes.len() / total;
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; shape.len()];
    for _ in 0..total {
        let mut at = 0;
        for (dim, place) in shape.iter().zip(&index).rev() {
            at = at * dim + place;
        }
        out.extend_from_slice(&bytes[at * size..(at + 1) * size]);
        for (place, dim) in index.iter_mut().zip(shape).rev() {
            *place += 1;
            if *place < *dim {
                break;
            }
            *place = 0;
        }
    }
    out
}

/// The bytes of a file.
///
/// # Errors
/// NumPy has no way to hold the type.
pub(crate) fn write(array: &Array) -> anyhow::Result<Vec<u8>> {
    if array.dtype == DType::String {
        return write_strings(array);
    }
    let Some((descriptor, _)) = written_as(array.dtype) else {
        anyhow::bail!(
            "tensors of {} cannot be written to a .npy file",
            array.dtype.name()
        );
    };
    let is_packed = array.dtype.bits().is_some_and(|bits| bits < 8);
    let shape: Vec<u64> = if is_packed {
        vec![array.bytes.len() as u64]
    } else {
        array.shape.iter().map(|dim| *dim as u64).collect()
    };
    let mut file = header::write(descriptor, &shape);
    file.extend_from_slice(&array.bytes);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: DType, shape: &[usize]) -> Array {
        let bytes = dtype.byte_len(shape.iter().product()).unwrap();
        let bytes = (0..bytes).map(|index| {
            if dtype == DType::Bool {
                (index % 2) as u8
            } else {
                index as u8
            }
        });
        Array {
            dtype,
            shape: shape.to_vec(),
            bytes: bytes.collect(),
        }
    }

    #[test]
    fn numpy_types_round_trip() {
        use DType::*;
        for dtype in [
            Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, C64, C128,
        ] {
            for shape in [&[][..], &[0], &[3], &[2, 3], &[1, 2, 0, 4]] {
                let array = array(dtype, shape);
                assert_eq!(
                    read(&write(&array).unwrap()).unwrap(),
                    array,
                    "{dtype:?} {shape:?}"
                );
            }
        }
    }

    #[test]
    fn types_without_numpy_equivalent_are_written_as_bits() {
        let read_back = read(&write(&array(DType::BF16, &[2, 3])).unwrap()).unwrap();
        assert_eq!((read_back.dtype, &*read_back.shape), (DType::U16, &[2, 3][..]));
        assert_eq!(note(DType::BF16), Some("written as u16 bit patterns"));
        let packed = read(&write(&array(DType::I4, &[3])).unwrap()).unwrap();
        assert_eq!((packed.dtype, &*packed.shape), (DType::U8, &[2][..]));
        for dtype in [DType::BF16, DType::F8E5M2, DType::I4, DType::U2] {
            let array = array(dtype, &[3, 5]);
            let bits = read(&write(&array).unwrap()).unwrap();
            assert_eq!(from_bits(bits.clone(), dtype, &[3, 5]), array);
            // anything else stays what it is, to be named in an error
            assert_eq!(from_bits(bits.clone(), dtype, &[5, 5]), bits);
            assert_eq!(from_bits(bits.clone(), DType::F32, &[3, 5]), bits);
        }
    }

    #[test]
    fn strings_are_written_as_numpy_texts() {
        for (shape, texts) in [
            (vec![3, 1], &["red", "größer", ""][..]),
            (vec![], &["a\nb"]),
            (vec![0], &[]),
        ] {
            let array = Array::of_strings(shape, texts).unwrap();
            assert_eq!(read(&write(&array).unwrap()).unwrap(), array);
        }
        let file = write(&Array::of_strings(vec![2], &["é", "abc"]).unwrap()).unwrap();
        let expected = npyz::NpyFile::new(&*file).unwrap();
        assert_eq!(expected.dtype(), npyz::DType::new_scalar("<U3".parse().unwrap()));
        let texts: Vec<String> = expected.into_vec().unwrap();
        assert_eq!(texts, ["é", "abc"]);
    }

    #[test]
    fn texts_of_numpy_are_strings() {
        let file = |kind: &str, shape: &[u64], data: &[u8]| {
            let mut file = header::write(kind, shape);
            file.extend_from_slice(data);
            read(&file)
        };
        let strings = |array: Array| (array.shape.clone(), array.strings().unwrap());
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        // numpy.array([b"red", b"blue"])
        let array = file("|S4", &[2], b"red\0blue").unwrap();
        assert_eq!(strings(array), (vec![2], texts(&["red", "blue"])));
        // numpy.array([["ab", "c"]], dtype=">U2")
        let wide = "ab"
            .chars()
            .chain("c\0".chars())
            .flat_map(|c| u32::from(c).to_be_bytes());
        let array = file(">U2", &[1, 2], &wide.collect::<Vec<u8>>()).unwrap();
        assert_eq!(strings(array), (vec![1, 2], texts(&["ab", "c"])));
        for (kind, shape, data, said) in [
            ("|S2", &[1][..], &b"\xff\xfe"[..], "not UTF-8"),
            ("<U1", &[1], b"\xff\xff\xff\xff", "not Unicode"),
            (
                "<U1",
                &[2],
                b"a\0\0\0",
                "4 bytes of data, but shape [2] of <U1 needs 8",
            ),
            ("<U0", &[9_000_000_000], b"", "texts of no width"),
            ("|O", &[1], b"", "array.astype(str)"),
        ] {
            let error = file(kind, shape, data).unwrap_err().to_string();
            assert!(error.contains(said), "{kind}: {error}");
        }
    }

    #[test]
    fn other_byte_and_axis_orders_are_converted() {
        // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]], dtype='>i2')
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend([0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]);
        let array = read(&file).unwrap();
        assert_eq!(array.shape, [2, 3]);
        assert_eq!(array.bytes, [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
    }

    #[test]
    fn bad_files_are_errors() {
        let good = write(&array(DType::F32, &[2, 3])).unwrap();
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "{end}");
        }
        assert!(read(b"not an array").is_err());
        // sizes that overflow, also before a zero
        for shape in [
            "(99999999999, 99999999999)",
            "(18446744073709551615, 2, 0)",
            "(99999999999999999999999,)",
        ] {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, \"shape\": {shape}, }}\n");
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend((header.len() as u16).to_le_bytes());
            file.extend(header.as_bytes());
            assert!(read(&file).is_err(), "{shape}");
        }
        let torn = read(&good[..good.len() - 1]).unwrap_err().to_string();
        assert!(
            torn.contains("23 bytes of data, but shape [2, 3] of f32 needs 24"),
            "{torn}"
        );
    }
}
