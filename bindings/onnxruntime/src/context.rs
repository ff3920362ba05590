//! One call of a fused node: the inputs from ONNX Runtime, and the memory for its outputs.
//!
//! Invariant: the inputs live as long as the call. Not here: the computation (`fused`).

#![allow(unsafe_code)]

use std::ffi::CString;
use std::ptr::{self, NonNull};

use polychip_sys::onnxruntime::bindings as sys;

use crate::api::{Api, ort};
use crate::failure::{Failure, Result};
use crate::value::{NOWHERE, Value};

/// Arguments of a call of a fused node.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    api: Api,
    raw: *mut sys::OrtKernelContext,
}

/// An output of the call, with the requested sizes.
#[derive(Clone, Copy)]
pub(crate) struct OutputTensor {
    api: Api,
    raw: *mut sys::OrtValue,
}

impl Context {
    /// # Safety
    /// It is what ONNX Runtime gave the call, nodes at whose edge are only tensors (`sets`), and is used until the call ends.
    pub(crate) unsafe fn new(api: Api, raw: *mut sys::OrtKernelContext) -> Context {
        Context { api, raw }
    }

    /// The node's input at this index, valid until the call ends; `None` if it is omitted.
    pub(crate) fn input(self, place: usize) -> Result<Option<Value>> {
        let mut raw = ptr::null();
        let get = ort!(self.api, KernelContext_GetInput)?;
        // SAFETY: the constructor's promise; the place is ours.
        unsafe { self.api.check(get(self.raw, place, &raw mut raw)) }?;
        // SAFETY: as above.
        Ok((!raw.is_null()).then(|| unsafe { Value::new(self.api, raw) }))
    }

    /// A tensor of these sizes for the node's output at this index; `None` if it is unused.
    pub(crate) fn output(self, place: usize, sizes: &[i64]) -> Result<Option<OutputTensor>> {
        let mut raw = ptr::null_mut();
        let get = ort!(self.api, KernelContext_GetOutput)?;
        // SAFETY: the constructor's promise; so many sizes stand there, and the place is ours.
        unsafe {
            self.api
                .check(get(self.raw, place, sizes.as_ptr(), sizes.len(), &raw mut raw))
        }?;
        Ok((!raw.is_null()).then_some(OutputTensor { api: self.api, raw }))
    }
}

impl OutputTensor {
    /// Address of its elements, valid until the call ends.
    pub(crate) fn data(self) -> Result<NonNull<u8>> {
        let mut data = ptr::null_mut();
        let get = ort!(self.api, GetTensorMutableData)?;
        // SAFETY: the value lives until the call ends, and so does `self`; the place is ours.
        unsafe { self.api.check(get(self.raw, &raw mut data)) }?;
        Ok(NonNull::new(data.cast()).unwrap_or(NOWHERE))
    }

    /// Writes the strings of a tensor of strings.
    pub(crate) fn set_strings(self, strings: &[&str]) -> Result<()> {
        let ended: std::result::Result<Vec<CString>, _> =
            strings.iter().map(|text| CString::new(*text)).collect();
        let ended = ended.map_err(|_| Failure::new("a string of an output holds a zero"))?;
        let pointers: Vec<_> = ended.iter().map(|text| text.as_ptr()).collect();
        let fill = ort!(self.api, FillStringTensor)?;
        // SAFETY: as above; so many texts stand there, each ends in a zero, and they are copied.
        unsafe { self.api.check(fill(self.raw, pointers.as_ptr(), pointers.len())) }
    }
}
