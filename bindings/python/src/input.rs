//! Inputs in memory of the session, which Python fills in place.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polychip::AccessGuard;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::array::Array;
use crate::error::{self, BadInputError, InFlightError};
use crate::export::Form;
use crate::{dlpack, element};

/// Memory of an input, which devices read in place. Fill it with `write`, or through an array
/// (`numpy.asarray(input)`). Delete the array before the input is passed to a run.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Input(Mutex<State>);

/// The input, and views of it that are open.
pub(crate) struct State {
    pub(crate) input: polychip::Input,
    form: Box<Form>,
    guard: Option<AccessGuard<'static>>,
    views: usize,
}

impl State {
    /// The input, for a run.
    pub(crate) fn closed(&self) -> PyResult<&polychip::Input> {
        if self.views == 0 {
            return Ok(&self.input);
        }
        Err(InFlightError::new_err(format!(
            "input {:?} is open as an array; delete the array first (del array)",
            self.input.name()
        )))
    }

    /// Address of the elements, open until every view is closed.
    fn open(&mut self) -> PyResult<*mut u8> {
        if self.guard.is_none() {
            self.guard = Some(self.input.open().map_err(error::of)?);
        }
        self.views += 1;
        let guard = self.guard.as_mut().expect("invariant: it was opened just now");
        Ok(guard.as_mut_ptr())
    }

    fn close(&mut self) {
        self.views -= 1;
        if self.views == 0 {
            self.guard = None;
        }
    }
}

impl Input {
    pub(crate) fn new(input: polychip::Input) -> Input {
        let form = Box::new(Form::new(input.dtype(), input.shape().to_vec()));
        Input(Mutex::new(State {
            input,
            form,
            guard: None,
            views: 0,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Input {
    /// Name in the model.
    #[getter]
    fn name(&self) -> String {
        self.lock().input.name().to_owned()
    }

    /// Shape, in ONNX order.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let shape = self.lock().form.shape.clone();
        PyTuple::new(py, shape)
    }

    /// Name of the element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        element::name(self.lock().form.dtype)
    }

    /// Copies an array into the memory.
    fn write(&self, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = Array::of(array)?;
        let mut state = self.lock();
        let form = &state.form;
        if !element::fits(array.dtype, form.dtype) || array.shape != form.shape {
            return Err(BadInputError::new_err(format!(
                "input {:?} holds {} {:?}, not {} {:?}",
                state.input.name(),
                element::name(form.dtype),
                form.shape,
                element::name(array.dtype),
                array.shape
            )));
        }
        state.closed()?;
        state.input.write_bytes(array.bytes()).map_err(error::of)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let owner = slf.clone().into_any();
        let mut state = slf.get().lock();
        let data = state.open().map_err(|error| {
            // SAFETY: the view is Python's, which asks for no owner in one that was refused.
            unsafe { (*view).obj = std::ptr::null_mut() };
            PyBufferError::new_err(error.value(slf.py()).to_string())
        })?;
        // SAFETY: the view is Python's; the form is boxed and never changed, and the memory open until it is released.
        let filled = unsafe { state.form.fill(owner, data, view, flags) };
        if filled.is_err() {
            state.close();
        }
        filled
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.lock().close();
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
        // a view of it is open as long as the reader has the tensor
        let view = pyo3::types::PyMemoryView::from(slf.as_any())?;
        let data = pyo3::buffer::PyUntypedBuffer::get(view.as_any())?
            .buf_ptr()
            .cast();
        let (dtype, shape) = {
            let state = slf.get().lock();
            (state.form.dtype, state.form.shape.clone())
        };
        dlpack::give(view.as_any(), data, dtype, &shape, max_version.as_ref())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    fn __repr__(&self) -> String {
        let state = self.lock();
        format!(
            "<polychip.Input {:?} {} {:?}>",
            state.input.name(),
            element::name(state.form.dtype),
            state.form.shape
        )
    }
}
