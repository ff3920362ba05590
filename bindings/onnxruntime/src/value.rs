//! Values of ONNX Runtime: constants of a model, inputs and outputs of a run.

#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use polychip::{DType, Literal};
use polychip_sys::onnxruntime::bindings::{OrtTensorTypeAndShapeInfo, OrtValue};
use smallvec::SmallVec;

use crate::api::{Api, ort};
use crate::failure::{Failure, Result};

/// Address of a tensor without elements.
pub(crate) const NOWHERE: NonNull<u8> = NonNull::<u128>::dangling().cast();

/// Sizes of a tensor, mostly without memory of their own.
pub(crate) type Sizes = SmallVec<[usize; 6]>;

/// A tensor of the runtime's.
#[derive(Clone, Copy)]
pub(crate) struct Value {
    api: Api,
    raw: *const OrtValue,
}

impl Value {
    /// # Safety
    /// It is the runtime's, holds a tensor, and lives as long as it is used: each call here rests on it.
    pub(crate) unsafe fn new(api: Api, raw: *const OrtValue) -> Value {
        Value { api, raw }
    }

    /// Type of its elements and its sizes.
    pub(crate) fn form(self) -> Result<(DType, Sizes)> {
        let api = self.api;
        if api.has_shapes {
            let (mut code, mut sizes, mut rank) = (0, ptr::null(), 0);
            let get = ort!(api, GetTensorElementTypeAndShapeDataReference)?;
            // SAFETY: the constructor's promise; the places are ours.
            unsafe { api.check(get(self.raw, &raw mut code, &raw mut sizes, &raw mut rank)) }?;
            let sizes: &[i64] = if rank == 0 {
                &[]
            } else {
                // SAFETY: so many sizes stand there, as long as the value lives.
                unsafe { std::slice::from_raw_parts(sizes, rank) }
            };
            return Ok((dtype(code)?, unsigned(sizes)?));
        }
        let mut info = ptr::null_mut();
        let get = ort!(api, GetTensorTypeAndShape)?;
        // SAFETY: as above.
        unsafe { api.check(get(self.raw, &raw mut info)) }?;
        // SAFETY: it was made for us, and lives until it is released.
        let form = unsafe { form_of(api, info) };
        if let Ok(release) = ort!(api, ReleaseTensorTypeAndShapeInfo) {
            // SAFETY: as above; it is not used after this.
            unsafe { release(info) };
        }
        form
    }

    /// Address of the elements; arbitrary if there are none.
    pub(crate) fn data(self) -> Result<NonNull<u8>> {
        let mut data = ptr::null();
        let get = ort!(self.api, GetTensorData)?;
        // SAFETY: the constructor's promise; the place is ours.
        unsafe { self.api.check(get(self.raw, &raw mut data)) }?;
        Ok(NonNull::new(data.cast_mut().cast()).unwrap_or(NOWHERE))
    }

    /// The elements of a tensor that holds no strings.
    ///
    /// # Safety
    /// The value lives as long as the result is used, and is not written meanwhile.
    pub(crate) unsafe fn bytes<'a>(self) -> Result<(DType, Sizes, &'a [u8])> {
        let (dtype, sizes) = self.form()?;
        let elements = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        let bytes = elements.and_then(|elements| dtype.byte_len(elements));
        let bytes = bytes.ok_or_else(|| Failure::new("a tensor has more bytes than an address"))?;
        let data = self.data()?;
        // SAFETY: the caller's promise; so many elements stand there.
        Ok((dtype, sizes, unsafe {
            std::slice::from_raw_parts(data.as_ptr(), bytes)
        }))
    }

    /// The strings of a tensor.
    pub(crate) fn strings(self) -> Result<Literal> {
        let (_, sizes) = self.form()?;
        let count: usize = sizes.iter().product();
        let mut bytes = 0;
        let get = ort!(self.api, GetStringTensorDataLength)?;
        // SAFETY: the constructor's promise; the place is ours.
        unsafe { self.api.check(get(self.raw, &raw mut bytes)) }?;
        let mut text = vec![0u8; bytes];
        let mut starts = vec![0usize; count];
        if count > 0 {
            let get = ort!(self.api, GetStringTensorContent)?;
            let (into, starts) = (text.as_mut_ptr().cast(), starts.as_mut_ptr());
            // SAFETY: as above; there is room for as many bytes and places.
            unsafe { self.api.check(get(self.raw, into, bytes, starts, count)) }?;
        }
        starts.push(bytes);
        let string = |pair: &[usize]| {
            let bytes = text.get(pair[0]..pair[1]).unwrap_or_default();
            std::str::from_utf8(bytes).map_err(|_| Failure::argument("a string of an input is not UTF-8"))
        };
        let strings: Vec<&str> = starts.windows(2).map(string).collect::<Result<_>>()?;
        let mut literal = Literal::from_strings(&strings)
            .ok_or_else(|| Failure::argument("a string of an input is too long"))?;
        literal.shape = sizes.to_vec();
        Ok(literal)
    }
}

/// Type and sizes of a tensor.
///
/// # Safety
/// They are the runtime's, and live.
unsafe fn form_of(api: Api, info: *const OrtTensorTypeAndShapeInfo) -> Result<(DType, Sizes)> {
    let (mut code, mut rank) = (0, 0);
    let get = ort!(api, GetTensorElementType)?;
    // SAFETY: the caller's promise; the place is ours.
    unsafe { api.check(get(info, &raw mut code)) }?;
    let get = ort!(api, GetDimensionsCount)?;
    // SAFETY: as above.
    unsafe { api.check(get(info, &raw mut rank)) }?;
    let mut sizes: SmallVec<[i64; 6]> = SmallVec::from_elem(0, rank);
    if rank > 0 {
        let get = ort!(api, GetDimensions)?;
        // SAFETY: as above; there is room for as many.
        unsafe { api.check(get(info, sizes.as_mut_ptr(), rank)) }?;
    }
    Ok((dtype(code)?, unsigned(&sizes)?))
}

/// The element type with ONNX Runtime's code, which is not ONNX's for all of them.
pub(crate) fn dtype(code: i32) -> Result<DType> {
    onnx_code(code).and_then(DType::from_code).ok_or_else(|| {
        Failure::new(format!(
            "tensors of ONNX Runtime's element type {code} are not known"
        ))
    })
}

/// ONNX's code of an element type for ONNX Runtime's: the same up to 23, then the runtime has its own order.
pub(crate) fn onnx_code(code: i32) -> Option<u32> {
    match u32::try_from(code).ok()? {
        same @ 1..=23 => Some(same),
        // unsigned, then signed, of two bits
        24 => Some(25),
        25 => Some(26),
        // scales of eight bits
        26 => Some(24),
        _ => None,
    }
}

fn unsigned(sizes: &[i64]) -> Result<Sizes> {
    let size = |size: &i64| {
        usize::try_from(*size).map_err(|_| Failure::new(format!("a tensor has the size {size}")))
    };
    sizes.iter().map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_are_those_of_the_runtime() {
        assert_eq!(dtype(1).unwrap(), DType::F32);
        assert_eq!(dtype(16).unwrap(), DType::BF16);
        assert_eq!(dtype(23).unwrap(), DType::F4E2M1);
        assert_eq!((dtype(24).unwrap(), dtype(25).unwrap()), (DType::U2, DType::I2));
        assert!(dtype(0).is_err() && dtype(99).is_err());
    }
}
