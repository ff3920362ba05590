//! Outputs of runs: memory that a run wrote and Python owns.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::export::Form;
use crate::pool::{OutputMemory, Pool};
use crate::{dlpack, element};

/// Storage of the elements of a tensor.
pub(crate) enum Store {
    /// Memory that the run wrote in place; a later run may reuse it once it has no views left.
    OutputMemory(Option<OutputMemory>, Arc<Pool>),
    /// A copy, of an output whose size only the run knew. Its words of eight bytes are aligned for
    /// every element type.
    Copy(Vec<u64>),
}

impl Store {
    pub(crate) fn copy(bytes: &[u8]) -> Store {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (word, piece) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            *word = u64::from_ne_bytes(whole);
        }
        Store::Copy(words)
    }

    fn data(&self) -> *mut u8 {
        match self {
            Store::OutputMemory(place, _) => place.as_ref().map_or(std::ptr::null_mut(), OutputMemory::data),
            Store::Copy(words) => words.as_ptr().cast_mut().cast(),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Store::OutputMemory(place, pool) = self
            && let Some(place) = place.take()
        {
            pool.give_back(place);
        }
    }
}

/// An output of a run, in the memory that the run wrote.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Tensor {
    form: Form,
    store: Arc<Store>,
}

impl Tensor {
    pub(crate) fn new(form: Form, store: Store) -> Tensor {
        let store = Arc::new(store);
        Tensor { form, store }
    }

    /// Whether buffers have a word for the elements.
    pub(crate) fn has_format(&self) -> bool {
        element::format(self.form.dtype).is_some()
    }
}

#[pymethods]
impl Tensor {
    /// Shape, in ONNX order.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.form.shape)
    }

    /// Name of the element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        element::name(self.form.dtype)
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.form.bytes()
    }

    /// The same memory as unsigned integers of the same width, for types that the buffer protocol
    /// lacks, such as bfloat16.
    fn bits(&self) -> Tensor {
        Tensor {
            form: Form::new(element::bits(self.form.dtype), self.form.shape.clone()),
            store: Arc::clone(&self.store),
        }
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let owner = slf.clone().into_any();
        let this = slf.get();
        // SAFETY: the view is Python's; the form and the store live as long as the object, which the view holds.
        unsafe { this.form.fill(owner, this.store.data(), view, flags) }
    }

    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyTuple>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = stream; // a processor's memory has none
        dlpack::on_request(dl_device, copy)?;
        let this = slf.get();
        let (data, form) = (this.store.data(), &this.form);
        dlpack::give(slf.as_any(), data, form.dtype, &form.shape, max_version.as_ref())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    fn __repr__(&self) -> String {
        format!("<polychip.Tensor {} {:?}>", self.dtype(), self.form.shape)
    }
}

/// An output as an array: NumPy's if NumPy is installed and has the type, else the tensor.
pub(crate) fn array<'py>(py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    static AS_ARRAY: pyo3::sync::PyOnceLock<Option<Py<PyAny>>> = pyo3::sync::PyOnceLock::new();
    let has_format = tensor.has_format();
    let tensor = Bound::new(py, tensor)?.into_any();
    if !has_format {
        return Ok(tensor);
    }
    let as_array = AS_ARRAY.get_or_init(py, || {
        let numpy = py.import("numpy").ok()?;
        Some(numpy.getattr("asarray").ok()?.unbind())
    });
    match as_array {
        Some(as_array) => as_array.bind(py).call1((tensor,)),
        None => Ok(tensor),
    }
}
