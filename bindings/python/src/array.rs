//! Input arrays from Python, read in place by the buffer protocol or by DLPack.
//!
//! Invariants:
//! 1. An array is held until no run reads it and the next run has received another array for the
//!    same input.
//! 2. Releasing an array does not wait for Python's lock: a reference is held, and nothing that
//!    needs a release call.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::ptr::NonNull;

use polychip::{DType, Memory};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyMemoryView};

use crate::dlpack;
use crate::element;
use crate::error::BadInputError;

/// A held Python bytes object.
pub(crate) struct OwnedBytes {
    data: NonNull<u8>,
    len: usize,
    _owner: Py<PyBytes>,
}

// SAFETY: the bytes never change, and the object is let go of from any thread.
unsafe impl Send for OwnedBytes {}
// SAFETY: as above.
unsafe impl Sync for OwnedBytes {}

impl OwnedBytes {
    pub(crate) fn of(bytes: &Bound<'_, PyBytes>) -> PyResult<OwnedBytes> {
        let slice = bytes.as_bytes();
        Ok(OwnedBytes {
            data: NonNull::from(slice).cast(),
            len: slice.len(),
            _owner: bytes.clone().unbind(),
        })
    }
}

impl AsRef<[u8]> for OwnedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `bytes` objects neither move nor change, and this holds it.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

/// Who holds the elements.
enum Owner {
    Buffer(Py<PyMemoryView>),
    Bytes(OwnedBytes),
    Tensor(Py<PyCapsule>),
}

/// An input array.
pub(crate) struct Array {
    data: *mut u8,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    owner: Owner,
}

impl Array {
    /// The elements of an object; copied if they are not in row-major order without gaps.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Array> {
        let buffer = match PyUntypedBuffer::get(object) {
            Ok(buffer) => buffer,
            Err(no_buffer) => {
                if let Some(scalar) = scalar(object) {
                    return scalar;
                }
                return match dlpack::take(object) {
                    Ok(Some(seen)) => Ok(Array {
                        data: seen.data,
                        dtype: seen.dtype,
                        shape: seen.shape,
                        owner: Owner::Tensor(seen.capsule),
                    }),
                    Ok(None) if no_buffer.is_instance_of::<PyTypeError>(object.py()) => {
                        Err(no_array(object)?)
                    }
                    Ok(None) => Err(no_buffer),
                    // it has both, and neither has a word for its elements
                    Err(error) if error.is_instance_of::<PyBufferError>(object.py()) => {
                        let (first, second) = (no_buffer.value(object.py()), error.value(object.py()));
                        Err(BadInputError::new_err(format!(
                            "the array can be read neither as a buffer ({first}) nor by DLPack ({second})"
                        )))
                    }
                    Err(error) => Err(error),
                };
            }
        };
        let dtype = element::of_format(buffer.format(), buffer.item_size());
        let dtype = dtype.ok_or_else(|| unknown(&buffer.format().to_string_lossy(), buffer.item_size()))?;
        let shape = buffer.shape().to_vec();
        let view = PyMemoryView::from(object)?;
        if buffer.is_c_contiguous() {
            return Ok(Array {
                data: buffer.buf_ptr().cast(),
                dtype,
                shape,
                owner: Owner::Buffer(view.unbind()),
            });
        }
        let bytes = view.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        let held = OwnedBytes::of(&bytes)?;
        Ok(Array {
            data: held.data.as_ptr(),
            dtype,
            shape,
            owner: Owner::Bytes(held),
        })
    }

    /// The elements, as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let elements: usize = self.shape.iter().product();
        match self.dtype.byte_len(elements) {
            Some(len) if len > 0 && !self.data.is_null() => {
                // SAFETY: the owner keeps so many bytes there, and the caller has Python's lock.
                unsafe { std::slice::from_raw_parts(self.data, len) }
            }
            _ => &[],
        }
    }

    /// The memory of the elements, which holds the array.
    pub(crate) fn into_memory(self) -> Memory {
        let elements: usize = self.shape.iter().product();
        let bytes = self.dtype.byte_len(elements).unwrap_or(0) as u64;
        let data = NonNull::new(self.data).unwrap_or(NonNull::<u128>::dangling().cast());
        let owner: Box<dyn std::any::Any + Send + Sync> = match self.owner {
            Owner::Buffer(view) => Box::new(view),
            Owner::Bytes(held) => Box::new(held),
            Owner::Tensor(capsule) => Box::new(capsule),
        };
        // SAFETY: the owner keeps the elements where they are; inputs are read only, and who writes an array while a
        // run reads it gets what a race gives, as the documentation of `run` says.
        unsafe { Memory::external(data, bytes, owner) }
    }
}

/// An array without axes, whose buffer has no shape; `None` for any other object.
fn scalar(object: &Bound<'_, PyAny>) -> Option<PyResult<Array>> {
    let view = PyMemoryView::from(object).ok()?;
    let axes: usize = view.getattr("ndim").ok()?.extract().ok()?;
    if axes != 0 {
        return None;
    }
    let read = || {
        let format: String = view.getattr("format")?.extract()?;
        let size: usize = view.getattr("itemsize")?.extract()?;
        let dtype = CString::new(format.as_str()).ok();
        let dtype = dtype.and_then(|format| element::of_format(&format, size));
        let dtype = dtype.ok_or_else(|| unknown(&format, size))?;
        let bytes = view.call_method1("cast", ("B",))?;
        Ok(Array {
            data: PyUntypedBuffer::get(&bytes)?.buf_ptr().cast(),
            dtype,
            shape: Vec::new(),
            owner: Owner::Buffer(bytes.cast_into::<PyMemoryView>()?.unbind()),
        })
    };
    Some(read())
}

fn unknown(format: &str, size: usize) -> PyErr {
    BadInputError::new_err(format!(
        "elements of format {format:?} ({size} bytes each) match no element type of models"
    ))
}

fn no_array(object: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let kind = object.get_type().name()?.to_string();
    Ok(PyTypeError::new_err(format!(
        "an input is an array (of NumPy, PyTorch or another library: the buffer protocol or DLPack), a polychip.Input or \
         a polychip.Tensor, not {kind}"
    )))
}
