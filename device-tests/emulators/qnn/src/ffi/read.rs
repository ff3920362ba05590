//! Converts the client's C structs to our own.
//!
//! Invariants:
//! 1. A null pointer is an error or an absent object; it is never dereferenced. Counts are bounded
//!    before anything is allocated for them.
//! 2. A client's buffer is read only up to its stated size; missing bytes are zero. (The vendor's
//!    library reads beyond the buffer.)

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use polychip_emulator_qnn_format::{Encoding, Kind, Linear, Param, Scalar, Tensor};
use polychip_sys::qnn as sys;

use crate::code::{Code, Result};

/// More dims, operands or parameters than any node has.
const MOST: u32 = 1 << 12;
/// More bytes than any constant has.
const MOST_BYTES: usize = 1 << 32;
/// More steps than any axis has.
const MOST_STEPS: u32 = 1 << 24;

/// A text; null is empty.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the end.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// `count` elements at a pointer; empty if it is null.
///
/// # Safety
/// `data` is null or holds `count` elements for as long as the result is used.
pub(super) unsafe fn slice<'a, T>(data: *const T, count: u32, most: u32) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() || count > most || !data.is_aligned() {
        return Err(Code::TENSOR);
    }
    // SAFETY: the caller vouches for the elements; null and alignment were checked.
    Ok(unsafe { std::slice::from_raw_parts(data, count as usize) })
}

/// The fields that both versions of a tensor share.
pub(super) fn shared(tensor: &sys::Tensor) -> Result<&sys::TensorV1> {
    match tensor.version {
        sys::POLYCHIP_QNN_TENSOR_V1 | sys::POLYCHIP_QNN_TENSOR_V2 => {
            // SAFETY: version 2 begins with the fields of version 1, all of plain data.
            Ok(unsafe { &tensor.tensor.v1 })
        }
        _ => Err(Code::TENSOR),
    }
}

/// The client's buffer, as far as it is one: pointer and bytes.
pub(super) fn buffer(v1: &sys::TensorV1) -> Result<(*mut c_void, usize)> {
    if v1.memory_type != sys::POLYCHIP_QNN_MEMORY_RAW {
        return Err(Code::NOT_SUPPORTED);
    }
    // SAFETY: for this memory type the union holds a buffer, which is plain data.
    let buffer = unsafe { v1.memory.buffer };
    Ok((buffer.data, buffer.size as usize))
}

/// `wanted` bytes of a client's buffer; missing bytes are zero.
///
/// # Safety
/// The buffer of `v1` has the size that it states.
pub(super) unsafe fn contents(v1: &sys::TensorV1, wanted: usize) -> Result<Vec<u8>> {
    let (data, size) = buffer(v1)?;
    // SAFETY: as the caller vouches.
    Ok(unsafe { bytes((data.cast(), size), wanted) })
}

/// `wanted` bytes at an address; missing bytes are zero.
///
/// # Safety
/// The address is null or holds as many bytes as stated.
pub(super) unsafe fn bytes((data, size): (*mut u8, usize), wanted: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(wanted);
    if !data.is_null() {
        // SAFETY: the caller vouches for `size` bytes.
        let given = unsafe { std::slice::from_raw_parts(data.cast_const(), size.min(wanted)) };
        bytes.extend_from_slice(given);
    }
    bytes.resize(wanted, 0);
    bytes
}

/// A tensor's description, with its values if it is constant and has them.
///
/// # Safety
/// The pointers of `tensor` hold as many elements as its counts state.
pub(super) unsafe fn tensor(tensor: &sys::Tensor) -> Result<Tensor> {
    let v1 = shared(tensor)?;
    let kind = Kind::from_code(v1.kind).ok_or(Code::TENSOR)?;
    // SAFETY: the caller vouches for the dims.
    let dims = unsafe { slice(v1.dimensions, v1.rank, MOST) }?.to_vec();
    // SAFETY: the caller vouches for the name.
    let name = unsafe { text(v1.name) };
    // SAFETY: the caller vouches for the lists of the encoding.
    let encoding = unsafe { encoding(&v1.quant) }?;
    let mut out = Tensor {
        id: v1.id,
        name,
        kind,
        format: v1.format,
        dtype: v1.data_type,
        encoding,
        dims,
        data: Arc::from([]),
    };
    if kind == Kind::Static
        && let Some(wanted) = out.byte_len()
        && let (data, 1..) = buffer(v1)?
        && !data.is_null()
    {
        if wanted > MOST_BYTES {
            return Err(Code::MEMORY);
        }
        // SAFETY: the caller vouches for the buffer.
        out.data = unsafe { contents(v1, wanted) }?.into();
    }
    Ok(out)
}

/// # Safety
/// The lists of `quant` hold as many entries as it says.
unsafe fn encoding(quant: &sys::Quant) -> Result<Encoding> {
    if quant.definition != sys::POLYCHIP_QNN_QUANT_DEFINED {
        return Ok(Encoding::None);
    }
    let linear = |scale, offset| Linear { scale, offset };
    Ok(match quant.encoding {
        sys::POLYCHIP_QNN_ENCODING_PER_TENSOR => {
            // SAFETY: the encoding selects the union's member; all are plain data.
            let e = unsafe { quant.values.per_tensor };
            Encoding::PerTensor(linear(e.scale, e.offset))
        }
        sys::POLYCHIP_QNN_ENCODING_PER_AXIS => {
            // SAFETY: as above.
            let e = unsafe { quant.values.per_axis };
            // SAFETY: the caller vouches for the list.
            let pairs = unsafe { slice(e.pairs.cast_const(), e.count, MOST_STEPS) }?;
            Encoding::PerAxis {
                axis: e.axis,
                steps: pairs.iter().map(|pair| linear(pair.scale, pair.offset)).collect(),
            }
        }
        sys::POLYCHIP_QNN_ENCODING_BITS_PER_TENSOR => {
            // SAFETY: as above.
            let e = unsafe { quant.values.bits_per_tensor };
            Encoding::BitsPerTensor {
                bits: e.bits,
                step: linear(e.scale, e.offset),
            }
        }
        sys::POLYCHIP_QNN_ENCODING_BITS_PER_AXIS => {
            // SAFETY: as above.
            let e = unsafe { quant.values.bits_per_axis };
            // SAFETY: the caller vouches for the list.
            let scales = unsafe { slice(e.scales.cast_const(), e.count, MOST_STEPS) }?;
            let offsets = if e.offsets.is_null() {
                vec![0; scales.len()]
            } else {
                // SAFETY: the caller vouches for the list.
                unsafe { slice(e.offsets.cast_const(), e.count, MOST_STEPS) }?.to_vec()
            };
            Encoding::BitsPerAxis {
                bits: e.bits,
                axis: e.axis,
                steps: scales
                    .iter()
                    .zip(offsets)
                    .map(|(&scale, offset)| linear(scale, offset))
                    .collect(),
            }
        }
        other => Encoding::Other(other),
    })
}

/// One node as the client describes it.
pub(super) struct Op {
    pub(super) name: String,
    pub(super) package: String,
    pub(super) kind: String,
    pub(super) params: Vec<(String, Param)>,
    pub(super) inputs: Vec<Tensor>,
    pub(super) outputs: Vec<Tensor>,
}

/// # Safety
/// The pointers of `op` hold what its counts say.
pub(super) unsafe fn op(op: &sys::OpConfig) -> Result<Op> {
    if op.version != sys::POLYCHIP_QNN_OP_CONFIG_V1 {
        return Err(Code::REJECTED);
    }
    // SAFETY: for this version the union holds version 1.
    let v1 = unsafe { op.op.v1 };
    // SAFETY: the caller vouches for names, lists and what they point to.
    unsafe {
        let params = slice(v1.params.cast_const(), v1.param_count, MOST)?
            .iter()
            .map(|p| param(p))
            .collect::<Result<Vec<_>>>()?;
        let tensors = |data: *mut sys::Tensor, count| -> Result<Vec<Tensor>> {
            slice(data.cast_const(), count, MOST)?
                .iter()
                .map(|t| tensor(t))
                .collect()
        };
        Ok(Op {
            name: text(v1.name),
            package: text(v1.package_name),
            kind: text(v1.type_name),
            params,
            inputs: tensors(v1.inputs, v1.input_count)?,
            outputs: tensors(v1.outputs, v1.output_count)?,
        })
    }
}

/// # Safety
/// As for [`op`].
unsafe fn param(param: &sys::Param) -> Result<(String, Param)> {
    // SAFETY: the caller vouches for the name.
    let name = unsafe { text(param.name) };
    let value = match param.kind {
        sys::POLYCHIP_QNN_PARAM_SCALAR => {
            // SAFETY: for this kind the union holds a scalar, whose 8 bytes are plain data.
            let scalar = unsafe { param.value.scalar };
            let bits = if scalar.data_type & 0xff == 0x64 {
                // SAFETY: the type says 64 bits.
                unsafe { scalar.value.unsigned64 }
            } else {
                // SAFETY: narrower values lie in the low bytes.
                u64::from(unsafe { scalar.value.unsigned32 })
            };
            Param::Scalar(Scalar {
                dtype: scalar.data_type,
                bits,
            })
        }
        sys::POLYCHIP_QNN_PARAM_TENSOR => {
            // SAFETY: for this kind the union holds a tensor; the caller vouches for its pointers.
            Param::Tensor(unsafe { tensor(&param.value.tensor) }?)
        }
        _ => return Err(Code::REJECTED),
    };
    Ok((name, value))
}

/// The entries of a null-terminated list of pointers; a null list has none.
///
/// # Safety
/// The list ends with null, and its entries are valid.
pub(super) unsafe fn list<'a, T>(list: *const *const T) -> Vec<&'a T> {
    let mut entries = Vec::new();
    if list.is_null() {
        return entries;
    }
    for at in 0..MOST as usize {
        // SAFETY: the end was not seen before this entry.
        let entry = unsafe { *list.add(at) };
        // SAFETY: the caller vouches for the entries.
        match unsafe { entry.as_ref() } {
            Some(entry) => entries.push(entry),
            None => break,
        }
    }
    entries
}
