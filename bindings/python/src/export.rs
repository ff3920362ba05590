//! Buffers (PEP 3118) over memory of the runtime.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;

use polychip::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::element;

/// Type, shape and strides of an open buffer; Python requires a size and a stride for each axis.
pub(crate) struct Form {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    sizes: Vec<isize>,
    /// In bytes.
    strides: Vec<isize>,
    item: usize,
}

impl Form {
    pub(crate) fn new(dtype: DType, shape: Vec<usize>) -> Form {
        let item = dtype.byte_len(1).unwrap_or(1);
        let sizes: Vec<isize> = shape.iter().map(|size| *size as isize).collect();
        let mut strides = vec![item as isize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(sizes[axis]);
        }
        Form {
            dtype,
            shape,
            sizes,
            strides,
            item,
        }
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> usize {
        let elements: usize = self.shape.iter().product();
        self.dtype.byte_len(elements).unwrap_or(0)
    }

    /// Fills a view of elements that `owner` holds.
    ///
    /// # Safety
    /// `view` is the one that Python asked to be filled. The form and the data stay in place as
    /// long as `owner`.
    pub(crate) unsafe fn fill(
        &self,
        owner: Bound<'_, PyAny>,
        data: *mut u8,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let refused = |words: String| {
            // SAFETY: the view is Python's, which asks for no owner in one that was refused.
            unsafe { (*view).obj = ptr::null_mut() };
            Err(PyBufferError::new_err(words))
        };
        let Some(format) = element::format(self.dtype) else {
            let name = self.dtype.name();
            return refused(format!(
                "the buffer protocol has no element type for {name}; use DLPack (__dlpack__) or .bits()"
            ));
        };
        // SAFETY: the view is Python's to be filled; what it points to lives as long as its owner.
        unsafe {
            (*view).obj = owner.into_ptr();
            (*view).buf = data.cast();
            (*view).len = self.bytes() as isize;
            (*view).readonly = 0;
            (*view).itemsize = self.item as isize;
            (*view).format = if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
                format.as_ptr().cast_mut()
            } else {
                ptr::null_mut()
            };
            (*view).ndim = self.sizes.len() as c_int;
            (*view).shape = if flags & ffi::PyBUF_ND == ffi::PyBUF_ND {
                self.sizes.as_ptr().cast_mut()
            } else {
                ptr::null_mut()
            };
            (*view).strides = if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
                self.strides.as_ptr().cast_mut()
            } else {
                ptr::null_mut()
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
        }
        Ok(())
    }
}
