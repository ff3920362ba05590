//! Tensors of a model as constants: raw bytes in place, typed fields packed, external data by file.
//!
//! Invariants:
//! 1. Raw and external data are slices of the owner's memory; only typed fields (`float_data` and so
//!    on), strings and sparse tensors are written anew.
//! 2. The byte count is checked against type and shape before anything is allocated.

use bytes::Bytes;
use polychip_ops::{DType, Dim, Literal, Packed, TensorType};
use prost::Message;

use super::external::{Files, NoExternalData};
use super::messages::{EXTERNAL, Optional, Sequence, SparseTensor, Tensor};
use crate::{Constant, Container, Error, FileSlice};

/// Most bytes that a sparse tensor may have when it is written out in full.
const DENSE_LIMIT: usize = 1 << 28;

/// Reads one serialised ONNX tensor, as the data sets of the ONNX test suite hold them.
///
/// # Errors
/// If the bytes are no tensor, contradict themselves, or refer to another file.
pub fn read_tensor(bytes: &[u8]) -> Result<(String, Literal), Error> {
    let bytes = Bytes::copy_from_slice(bytes);
    let tensor = Tensor::decode(bytes.clone()).map_err(Error::wire)?;
    let literal = literal(&tensor, bytes)?;
    Ok((tensor.name, literal))
}

/// Reads one serialised ONNX sequence or optional, as the data sets of the ONNX test suite hold them.
///
/// # Errors
/// As [`read_tensor`], or where the elements are no tensors.
pub fn read_packed(bytes: &[u8], container: Container) -> Result<Packed, Error> {
    let bytes = Bytes::copy_from_slice(bytes);
    let sequence = |sequence: &Sequence| {
        if sequence.elem_type > 1 {
            return Err(Error::unsupported("a sequence of other things than tensors"));
        }
        let tensors = sequence.tensor_values.iter();
        let tensors = tensors.map(|tensor| literal(tensor, bytes.clone()));
        Ok(Packed::Sequence(tensors.collect::<Result<_, _>>()?))
    };
    if container == Container::Sequence {
        return sequence(&Sequence::decode(bytes.clone()).map_err(Error::wire)?);
    }
    let optional = Optional::decode(bytes.clone()).map_err(Error::wire)?;
    match (
        optional.elem_type,
        &optional.tensor_value,
        &optional.sequence_value,
    ) {
        (0, ..) | (_, None, None) => Ok(Packed::Nothing),
        (1, Some(tensor), None) => Ok(Packed::Tensor(literal(tensor, bytes.clone())?)),
        (3, None, Some(values)) => sequence(values),
        (kind, ..) => Err(Error::malformed(format!(
            "an optional of kind {kind} holds another kind"
        ))),
    }
}

fn literal(tensor: &Tensor, whole: Bytes) -> Result<Literal, Error> {
    let mut files = Files::new(whole, &NoExternalData);
    let (ty, constant) = constant(tensor, &mut files)?;
    Ok(constant
        .to_literal(&ty)
        .expect("invariant: a constant fits its type"))
}

/// The type and elements of a tensor message.
pub(super) fn constant(tensor: &Tensor, files: &mut Files<'_>) -> Result<(TensorType, Constant), Error> {
    let name = tensor.name.as_str();
    let dtype = dtype(tensor.data_type, || format!("tensor \"{name}\""))?;
    let sizes = sizes(&tensor.dims, || format!("tensor \"{name}\""))?;
    if tensor.segment.is_some() {
        return Err(Error::unsupported(format!(
            "tensor \"{name}\" is stored in segments"
        )));
    }
    let ty = TensorType::known(dtype, &sizes);
    let too_large = || {
        Error::malformed(format!(
            "tensor \"{name}\" of type {ty} has more bytes than an address"
        ))
    };
    let elements = ty.elements().ok_or_else(too_large)?;
    if dtype == DType::String {
        return strings(tensor, elements).map(|constant| (ty, constant));
    }
    let expected = dtype.byte_len(elements).ok_or_else(too_large)?;
    let constant = if tensor.data_location == EXTERNAL {
        external(tensor, expected, files)?
    } else if let Some(raw) = tensor
        .raw_data
        .as_ref()
        .filter(|raw| !raw.is_empty() || expected == 0)
    {
        Constant {
            bytes: raw.clone(),
            file: files.place(raw),
        }
    } else {
        Constant::new(typed(tensor, dtype, elements)?)
    };
    if constant.bytes.len() != expected {
        return Err(Error::malformed(format!(
            "tensor \"{name}\" of type {ty} needs {expected} bytes, but has {}",
            constant.bytes.len()
        )));
    }
    Ok((ty, constant))
}

/// The element type with this code.
pub(super) fn dtype(code: i32, what: impl FnOnce() -> String) -> Result<DType, Error> {
    u32::try_from(code)
        .ok()
        .and_then(DType::from_code)
        .ok_or_else(|| Error::malformed(format!("{} has the unknown element type {code}", what())))
}

/// Sizes that are not negative.
fn sizes(dims: &[i64], what: impl Fn() -> String) -> Result<Vec<usize>, Error> {
    dims.iter()
        .map(|&dim| {
            usize::try_from(dim).map_err(|_| Error::malformed(format!("{} has the size {dim}", what())))
        })
        .collect()
}

fn external(tensor: &Tensor, expected: usize, files: &mut Files<'_>) -> Result<Constant, Error> {
    let name = tensor.name.as_str();
    let mut location = "";
    let mut offset = 0u64;
    let mut length = None;
    for pair in &tensor.external_data {
        let number = || {
            pair.value.parse::<u64>().map_err(|_| {
                let message = format!(
                    "tensor \"{name}\": external data has the {} \"{}\", which is no number",
                    pair.key, pair.value
                );
                Error::external(message, None)
            })
        };
        match pair.key.as_str() {
            "location" => location = &pair.value,
            "offset" => offset = number()?,
            "length" => length = Some(number()?),
            _ => {}
        }
    }
    let (file, bytes) = files.tensor(name, location, offset, length, expected as u64)?;
    Ok(Constant {
        bytes,
        file: Some(FileSlice { file, offset }),
    })
}

fn strings(tensor: &Tensor, elements: usize) -> Result<Constant, Error> {
    let name = tensor.name.as_str();
    if tensor.string_data.len() != elements {
        return Err(Error::malformed(format!(
            "tensor \"{name}\" needs {elements} strings, but has {}",
            tensor.string_data.len()
        )));
    }
    let texts: Vec<&str> = tensor
        .string_data
        .iter()
        .map(|bytes| std::str::from_utf8(bytes))
        .collect::<Result<_, _>>()
        .map_err(|_| Error::malformed(format!("tensor \"{name}\" holds a string that is not UTF-8")))?;
    let literal = Literal::from_strings(&texts)
        .ok_or_else(|| Error::malformed(format!("tensor \"{name}\" holds a string of more than 4 GiB")))?;
    Ok(Constant::from_literal(&literal))
}

/// The elements from the field that belongs to the element type.
fn typed(tensor: &Tensor, dtype: DType, elements: usize) -> Result<Vec<u8>, Error> {
    let name = tensor.name.as_str();
    let field = match dtype {
        DType::F32 | DType::C64 => tensor.float_data.len(),
        DType::F64 | DType::C128 => tensor.double_data.len(),
        DType::I64 => tensor.int64_data.len(),
        DType::U32 | DType::U64 => tensor.uint64_data.len(),
        _ => tensor.int32_data.len(),
    };
    let expected = match dtype {
        DType::C64 | DType::C128 => elements.checked_mul(2),
        DType::U4 | DType::I4 | DType::F4E2M1 => Some(elements.div_ceil(2)),
        DType::U2 | DType::I2 => Some(elements.div_ceil(4)),
        _ => Some(elements),
    };
    if expected != Some(field) {
        return Err(Error::malformed(format!(
            "tensor \"{name}\" has {elements} elements of type {dtype}, but {field} stored values"
        )));
    }
    let range = |value: String| {
        Error::malformed(format!(
            "tensor \"{name}\" of type {dtype} holds the value {value}"
        ))
    };
    let ints = &tensor.int32_data;
    Ok(match dtype {
        DType::F32 | DType::C64 => tensor.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::F64 | DType::C128 => tensor.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::I64 => tensor.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::U64 => tensor.uint64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::U32 => {
            let mut bytes = Vec::with_capacity(field * 4);
            for &value in &tensor.uint64_data {
                let value = u32::try_from(value).map_err(|_| range(value.to_string()))?;
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            bytes
        }
        DType::I32 => ints.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::U16 | DType::I16 | DType::F16 | DType::BF16 => {
            let mut bytes = Vec::with_capacity(field * 2);
            for &value in ints {
                // signed values may come sign-extended, bit patterns zero-extended
                let bits = u16::try_from(value)
                    .or_else(|_| i16::try_from(value).map(i16::cast_unsigned))
                    .map_err(|_| range(value.to_string()))?;
                bytes.extend_from_slice(&bits.to_le_bytes());
            }
            bytes
        }
        DType::F6E2M3 | DType::F6E3M2 => {
            let mut bytes = vec![0u8; (field * 6).div_ceil(8)];
            for (index, &value) in ints.iter().enumerate() {
                let bits = u16::try_from(value)
                    .ok()
                    .filter(|&v| v < 64)
                    .ok_or_else(|| range(value.to_string()))?;
                let shifted = bits << (index * 6 % 8);
                let [low, high] = shifted.to_le_bytes();
                let place = index * 6 / 8;
                bytes[place] |= low;
                if high != 0 {
                    bytes[place + 1] |= high;
                }
            }
            bytes
        }
        _ => {
            let mut bytes = Vec::with_capacity(field);
            for &value in ints {
                let bits = u8::try_from(value)
                    .or_else(|_| i8::try_from(value).map(i8::cast_unsigned))
                    .map_err(|_| range(value.to_string()))?;
                bytes.push(bits);
            }
            bytes
        }
    })
}

/// A sparse tensor written out in full.
pub(super) fn dense(
    sparse: &SparseTensor,
    files: &mut Files<'_>,
) -> Result<(String, TensorType, Constant), Error> {
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        return Err(Error::malformed("a sparse tensor has no values or no indices"));
    };
    let name = values.name.clone();
    let bad = |why: String| Error::malformed(format!("sparse tensor \"{name}\" {why}"));
    let (value_ty, value_data) = constant(values, files)?;
    let (index_ty, index_data) = constant(indices, files)?;
    let sizes = sizes(&sparse.dims, || format!("sparse tensor \"{name}\""))?;
    let ty = TensorType::known(value_ty.dtype, &sizes);
    let width = ty
        .dtype
        .byte_width()
        .ok_or_else(|| bad(format!("has the element type {}", ty.dtype)))?;
    let bytes = ty
        .elements()
        .and_then(|elements| elements.checked_mul(width))
        .filter(|&bytes| bytes <= DENSE_LIMIT)
        .ok_or_else(|| {
            bad(format!(
                "of type {ty} has more than {DENSE_LIMIT} bytes when written out"
            ))
        })?;
    let indices = index_data
        .to_literal(&index_ty)
        .filter(|literal| literal.dtype == DType::I64)
        .and_then(|literal| literal.as_i64s())
        .ok_or_else(|| bad(format!("has indices of type {index_ty} instead of i64")))?;
    let count = value_data.bytes.len() / width;
    let linear: Vec<i64> = match index_ty.shape.as_deref() {
        Some([Dim::Known(n)]) if *n == count => indices,
        Some([Dim::Known(n), Dim::Known(rank)]) if *n == count && *rank == sizes.len() => {
            let mut linear = Vec::with_capacity(count);
            for index in indices.chunks_exact((*rank).max(1)) {
                let mut place = 0i64;
                for (&i, &size) in index.iter().zip(&sizes) {
                    if usize::try_from(i).map_or(true, |i| i >= size) {
                        return Err(bad(format!("has the index {i} in a dimension of {size}")));
                    }
                    place = place * size as i64 + i;
                }
                linear.push(place);
            }
            linear
        }
        _ => return Err(bad(format!("has {count} values, but indices of type {index_ty}"))),
    };
    let mut dense = vec![0u8; bytes];
    for (value, &place) in value_data.bytes.chunks_exact(width).zip(&linear) {
        let target = usize::try_from(place)
            .ok()
            .and_then(|place| dense.chunks_exact_mut(width).nth(place));
        target
            .ok_or_else(|| bad(format!("has the index {place}, but type {ty}")))?
            .copy_from_slice(value);
    }
    Ok((name, ty, Constant::new(dense)))
}

#[cfg(test)]
mod tests {
    use super::super::messages::StringPair;
    use super::*;

    fn read(tensor: &Tensor) -> Result<(String, Literal), Error> {
        read_tensor(&tensor.encode_to_vec())
    }

    fn ints(dtype: DType, dims: &[i64], values: &[i32]) -> Tensor {
        Tensor {
            name: "w".to_owned(),
            data_type: dtype.code() as i32,
            dims: dims.to_vec(),
            int32_data: values.to_vec(),
            ..Tensor::default()
        }
    }

    #[test]
    fn typed_fields_become_packed_bytes() {
        let bytes = |tensor: &Tensor| read(tensor).unwrap().1.bytes.to_vec();
        assert_eq!(bytes(&ints(DType::I8, &[2], &[-1, 127])), [0xff, 0x7f]);
        assert_eq!(bytes(&ints(DType::U8, &[1], &[255])), [0xff]);
        assert_eq!(bytes(&ints(DType::F16, &[1], &[0x3c00])), [0x00, 0x3c]);
        assert_eq!(bytes(&ints(DType::BF16, &[1], &[0xbf80])), [0x80, 0xbf]);
        assert_eq!(bytes(&ints(DType::I16, &[1], &[-2])), [0xfe, 0xff]);
        assert_eq!(bytes(&ints(DType::F8E5M2, &[1], &[0xc0])), [0xc0]);
        assert_eq!(bytes(&ints(DType::I4, &[3], &[0x21, 0x0f])), [0x21, 0x0f]);
        assert_eq!(bytes(&ints(DType::F4E2M1, &[2], &[0x75])), [0x75]);
        assert_eq!(bytes(&ints(DType::U2, &[5], &[0xe4, 0x01])), [0xe4, 0x01]);
        // 1, 2, 3, 63 in six bits each, low bits first
        assert_eq!(
            bytes(&ints(DType::F6E2M3, &[4], &[1, 2, 3, 63])),
            [0x81, 0x30, 0xfc]
        );
        assert_eq!(bytes(&ints(DType::Bool, &[2], &[1, 0])), [1, 0]);
        let complex = Tensor {
            data_type: DType::C64.code() as i32,
            dims: vec![1],
            float_data: vec![1.0, 2.0],
            ..Tensor::default()
        };
        assert_eq!(bytes(&complex), [0, 0, 128, 63, 0, 0, 0, 64]);
        let texts = Tensor {
            data_type: DType::String.code() as i32,
            dims: vec![2],
            string_data: vec![Bytes::from("ab"), Bytes::new()],
            ..Tensor::default()
        };
        assert_eq!(read(&texts).unwrap().1.strings(), Some(vec!["ab", ""]));
    }

    #[test]
    fn contradictions_are_named() {
        let raw = |dtype: i32, dims: &[i64], count: usize| Tensor {
            name: "w".to_owned(),
            data_type: dtype,
            dims: dims.to_vec(),
            raw_data: Some(Bytes::from(vec![0; count])),
            ..Tensor::default()
        };
        let message = |tensor: &Tensor| read(tensor).unwrap_err().to_string();
        assert_eq!(
            message(&raw(1, &[2, 3], 7)),
            "tensor \"w\" of type f32[2, 3] needs 24 bytes, but has 7"
        );
        assert_eq!(
            message(&raw(99, &[1], 4)),
            "tensor \"w\" has the unknown element type 99"
        );
        assert_eq!(message(&raw(1, &[-1], 4)), "tensor \"w\" has the size -1");
        assert!(message(&raw(1, &[i64::MAX, 4], 4)).contains("more bytes than an address"));
        assert_eq!(
            message(&ints(DType::I8, &[1], &[300])),
            "tensor \"w\" of type i8 holds the value 300"
        );
        assert_eq!(
            message(&ints(DType::I8, &[1 << 40], &[])),
            "tensor \"w\" has 1099511627776 elements of type i8, but 0 stored values"
        );
        let mut external = raw(1, &[1], 0);
        external.data_location = EXTERNAL;
        external.external_data = vec![StringPair {
            key: "offset".to_owned(),
            value: "x".to_owned(),
        }];
        assert!(message(&external).contains("the offset \"x\", which is no number"));
        external.external_data = vec![StringPair {
            key: "location".to_owned(),
            value: "w.bin".to_owned(),
        }];
        assert!(message(&external).contains("the model was given without its folder"));
    }

    #[test]
    fn sparse_tensors_are_written_out() {
        let int64 = |dims: &[i64], values: &[i64]| Tensor {
            data_type: 7,
            dims: dims.to_vec(),
            int64_data: values.to_vec(),
            ..Tensor::default()
        };
        let mut sparse = SparseTensor {
            values: Some(Tensor {
                name: "s".to_owned(),
                ..ints(DType::I8, &[2], &[5, 6])
            }),
            indices: Some(int64(&[2, 2], &[0, 1, 1, 2])),
            dims: vec![2, 3],
        };
        let mut files = Files::new(Bytes::new(), &NoExternalData);
        let (name, ty, data) = dense(&sparse, &mut files).unwrap();
        assert_eq!((name.as_str(), ty.to_string().as_str()), ("s", "i8[2, 3]"));
        assert_eq!(data.bytes[..], [0, 5, 0, 0, 0, 6]);
        sparse.indices = Some(int64(&[2], &[4, 6]));
        let error = dense(&sparse, &mut files).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sparse tensor \"s\" has the index 6, but type i8[2, 3]"
        );
        sparse.dims = vec![1 << 40];
        assert!(
            dense(&sparse, &mut files)
                .unwrap_err()
                .to_string()
                .contains("more than 268435456 bytes")
        );
    }
}
