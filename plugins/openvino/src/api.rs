//! The library's objects, freed once, and its statuses as errors.
//!
//! Invariants:
//! 1. Every pointer passed to the library is of an object that lives during the call. An object is
//!    freed after everything made from it, which the library itself keeps alive.
//! 2. Failure messages are the library's own. Calls that read them are serialised, because the
//!    library keeps one text for all threads.
//!
//! Not here: call order.

#![allow(unsafe_code, reason = "the library is called here")]

use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polychip_ops::DType;
use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::openvino::bindings::{self as ov, Symbols};
use polychip_sys::openvino::{Library, bindings};

/// One text of the last failure for all threads: who wants it keeps others out.
static WORDS: Mutex<()> = Mutex::new(());

/// A call that `Library` has checked to be there.
macro_rules! call {
    ($symbols:expr, $name:ident) => {
        $symbols
            .$name
            .as_ref()
            .expect(concat!("invariant: the loader requires ", stringify!($name)))
    };
}

/// Element type of the library; `None` where it has none.
pub(crate) fn element(dtype: DType) -> Option<bindings::ov_element_type_e> {
    Some(match dtype {
        DType::F32 => ov::OV_ELEMENT_F32,
        DType::F16 => ov::OV_ELEMENT_F16,
        DType::BF16 => ov::OV_ELEMENT_BF16,
        DType::F64 => ov::OV_ELEMENT_F64,
        DType::Bool => ov::OV_ELEMENT_BOOLEAN,
        DType::I8 => ov::OV_ELEMENT_I8,
        DType::I16 => ov::OV_ELEMENT_I16,
        DType::I32 => ov::OV_ELEMENT_I32,
        DType::I64 => ov::OV_ELEMENT_I64,
        DType::U8 => ov::OV_ELEMENT_U8,
        DType::U16 => ov::OV_ELEMENT_U16,
        DType::U32 => ov::OV_ELEMENT_U32,
        DType::U64 => ov::OV_ELEMENT_U64,
        _ => return None,
    })
}

fn turn() -> MutexGuard<'static, ()> {
    WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library's message for a status, on one line.
fn words(symbols: &Symbols, status: ov::ov_status_e) -> String {
    // SAFETY: gives a static text for every status.
    let general = unsafe { call!(symbols, ov_get_error_info)(status) };
    // SAFETY: gives a text of its own, or null.
    let last = unsafe { call!(symbols, ov_get_last_err_msg)() };
    let mut text = String::new();
    if !last.is_null() {
        text = borrowed(last);
        // SAFETY: given out by the library, freed once.
        unsafe { call!(symbols, ov_free)(last) };
    }
    if text.trim().is_empty() && !general.is_null() {
        text = borrowed(general);
    }
    tidy(&text)
}

/// The relevant text as one line, without source positions of the vendor's build and its frames.
fn tidy(text: &str) -> String {
    const FRAMES: [&str; 6] = [
        "Exception from ",
        "Check '",
        "FrontEnd API failed with ",
        "Model wasn't fully converted",
        "Summary:",
        "While validating ",
    ];
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling: Vec<&str> = lines()
        .filter(|line| !FRAMES.iter().any(|frame| line.starts_with(frame)))
        .map(|line| line.trim_start_matches("-- ").trim_end_matches(':'))
        .collect();
    if telling.is_empty() {
        return lines().collect::<Vec<_>>().join("; ");
    }
    telling.join("; ")
}

fn borrowed(text: *const c_char) -> String {
    // SAFETY: not null, and a C string of the library's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn kind(status: ov::ov_status_e, words: &str) -> ErrorKind {
    match status {
        ov::OV_STATUS_INFER_CANCELLED => ErrorKind::Cancelled,
        ov::OV_STATUS_REQUEST_BUSY | ov::OV_STATUS_RESULT_NOT_READY => ErrorKind::Transient,
        ov::OV_STATUS_NOT_IMPLEMENTED | ov::OV_STATUS_NOT_IMPLEMENT_C_METHOD => ErrorKind::Unsupported,
        ov::OV_STATUS_NOT_ALLOCATED => ErrorKind::OutOfMemory,
        _ if words.contains("bad_alloc") => ErrorKind::OutOfMemory,
        // what the drivers of GPU and NPU say when the chip is gone
        _ if words.contains("DEVICE_LOST") || words.contains("device lost") => ErrorKind::DeviceLost,
        _ => ErrorKind::Persistent,
    }
}

fn error(symbols: &Symbols, what: &str, status: ov::ov_status_e) -> Error {
    let words = words(symbols, status);
    Error::new(kind(status, &words), format!("{what}: {words}")).with_vendor_code(i64::from(status))
}

/// Why the library refused a model or a part of one: another device may take it.
fn refusal(symbols: &Symbols, what: &str, status: ov::ov_status_e) -> Error {
    let found = error(symbols, what, status);
    match found.kind() {
        ErrorKind::Persistent => Error::unsupported(found.to_string()).with_vendor_code(i64::from(status)),
        _ => found,
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::bad_argument("a text for the library holds a zero"))
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) element: ov::ov_element_type_e,
    /// Extents; `None` where the library does not know them.
    pub(crate) dims: Option<Vec<i64>>,
}

/// Takes ports of a model or compiled model; each pair is a call that counts and one that gives.
macro_rules! ports {
    ($self:expr, $count:ident, $get:ident) => {{
        let mut count = 0;
        // SAFETY: the object lives, the call writes the count.
        let status = unsafe { call!($self.symbols, $count)($self.raw.as_ptr(), &raw mut count) };
        if status != ov::OV_STATUS_OK {
            return Err(error($self.symbols, "counting ports", status));
        }
        let mut ports = Vec::with_capacity(count);
        for index in 0..count {
            let mut port = std::ptr::null_mut();
            // SAFETY: the object lives, the call writes the port.
            let status = unsafe { call!($self.symbols, $get)($self.raw.as_ptr(), index, &raw mut port) };
            if status != ov::OV_STATUS_OK || port.is_null() {
                return Err(error($self.symbols, "reading a port", status));
            }
            ports.push(describe($self.symbols, port));
            // SAFETY: made above, freed once.
            unsafe { call!($self.symbols, ov_output_const_port_free)(port) };
        }
        Ok(ports)
    }};
}

fn describe(symbols: &Symbols, port: *mut ov::ov_output_const_port_t) -> Port {
    let mut element = ov::OV_ELEMENT_DYNAMIC;
    // SAFETY: the port lives, the call writes the type.
    if unsafe { call!(symbols, ov_port_get_element_type)(port, &raw mut element) } != ov::OV_STATUS_OK {
        element = ov::OV_ELEMENT_DYNAMIC;
    }
    let mut shape = ov::ov_shape_t {
        rank: 0,
        dims: std::ptr::null_mut(),
    };
    // SAFETY: the port lives, the call writes the shape; it fails where the shape is not known.
    let status = unsafe { call!(symbols, ov_const_port_get_shape)(port, &raw mut shape) };
    let dims = (status == ov::OV_STATUS_OK).then(|| {
        let rank = usize::try_from(shape.rank).unwrap_or(0);
        if rank == 0 || shape.dims.is_null() {
            return Vec::new();
        }
        // SAFETY: the library wrote as many extents as the rank says.
        unsafe { std::slice::from_raw_parts(shape.dims, rank) }.to_vec()
    });
    if status == ov::OV_STATUS_OK {
        // SAFETY: made above, freed once.
        unsafe { call!(symbols, ov_shape_free)(&raw mut shape) };
    }
    Port { element, dims }
}

/// The library's root object.
pub(crate) struct Core {
    symbols: &'static Symbols,
    raw: NonNull<ov::ov_core_t>,
}

// SAFETY: the library documents its core as safe to call from any thread.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl Core {
    pub(crate) fn new(library: &'static Library) -> Result<Core> {
        let symbols = library.symbols();
        let mut raw = std::ptr::null_mut();
        let _turn = turn();
        // SAFETY: the call writes the pointer.
        let status = unsafe { call!(symbols, ov_core_create)(&raw mut raw) };
        match NonNull::new(raw) {
            Some(raw) if status == ov::OV_STATUS_OK => Ok(Core { symbols, raw }),
            _ => Err(error(symbols, "starting OpenVINO", status)),
        }
    }

    /// Names of devices, as `CPU` or `GPU.0`.
    pub(crate) fn devices(&self) -> Result<Vec<String>> {
        let mut list = ov::ov_available_devices_t {
            devices: std::ptr::null_mut(),
            size: 0,
        };
        let _turn = turn();
        // SAFETY: the call fills the list.
        let status =
            unsafe { call!(self.symbols, ov_core_get_available_devices)(self.raw.as_ptr(), &raw mut list) };
        if status != ov::OV_STATUS_OK {
            return Err(error(self.symbols, "looking for devices", status));
        }
        let mut names = Vec::with_capacity(list.size);
        for index in 0..list.size {
            // SAFETY: the list holds `size` texts.
            names.push(borrowed(unsafe { *list.devices.add(index) }));
        }
        // SAFETY: filled above, freed once.
        unsafe { call!(self.symbols, ov_available_devices_free)(&raw mut list) };
        Ok(names)
    }

    /// A property of a device as text; `None` where it has none of that name.
    pub(crate) fn property(&self, device: &str, key: &str) -> Option<String> {
        let (device, key) = (c_text(device).ok()?, c_text(key).ok()?);
        let mut value = std::ptr::null_mut();
        let _turn = turn();
        // SAFETY: the texts live during the call, which writes the pointer.
        let status = unsafe {
            call!(self.symbols, ov_core_get_property)(
                self.raw.as_ptr(),
                device.as_ptr(),
                key.as_ptr(),
                &raw mut value,
            )
        };
        if status != ov::OV_STATUS_OK || value.is_null() {
            return None;
        }
        let text = borrowed(value);
        // SAFETY: given out by the library, freed once.
        unsafe { call!(self.symbols, ov_free)(value) };
        Some(text)
    }

    /// Reads an ONNX model. Constants that it names by address must live as long as all that is made of it.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Model> {
        let mut raw = std::ptr::null_mut();
        let _turn = turn();
        // SAFETY: the bytes live during the call, which copies them and writes the pointer.
        let status = unsafe {
            call!(self.symbols, ov_core_read_model_from_memory_buffer)(
                self.raw.as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len(),
                std::ptr::null(),
                &raw mut raw,
            )
        };
        match NonNull::new(raw) {
            Some(raw) if status == ov::OV_STATUS_OK => Ok(Model {
                symbols: self.symbols,
                raw,
            }),
            _ => Err(refusal(self.symbols, "OpenVINO does not read it", status)),
        }
    }

    /// Compiles a model for a device with at most six properties.
    pub(crate) fn compile(
        &self,
        model: &Model,
        device: &str,
        properties: &[(&'static CStr, CString)],
    ) -> Result<CompiledModel> {
        const MOST: usize = 7;
        if properties.len() > MOST {
            return Err(Error::bad_argument(format!(
                "{} properties; the limit is {MOST}",
                properties.len()
            )));
        }
        let device = c_text(device)?;
        let mut texts = [std::ptr::null::<c_char>(); 2 * MOST];
        for (pair, (key, value)) in texts.as_chunks_mut::<2>().0.iter_mut().zip(properties) {
            *pair = [key.as_ptr(), value.as_ptr()];
        }
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = texts;
        let mut raw = std::ptr::null_mut();
        let _turn = turn();
        // SAFETY: objects and texts live during the call, which reads `2 * properties.len()` of the last arguments
        // and writes the pointer.
        let status = unsafe {
            call!(self.symbols, ov_core_compile_model)(
                self.raw.as_ptr(),
                model.raw.as_ptr(),
                device.as_ptr(),
                2 * properties.len(),
                &raw mut raw,
                a,
                b,
                c,
                d,
                e,
                f,
                g,
                h,
                i,
                j,
                k,
                l,
                m,
                n,
            )
        };
        match NonNull::new(raw) {
            Some(raw) if status == ov::OV_STATUS_OK => Ok(CompiledModel {
                symbols: self.symbols,
                raw,
            }),
            _ => Err(refusal(self.symbols, "OpenVINO does not compile it", status)),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; compiled models keep what they need.
        unsafe { call!(self.symbols, ov_core_free)(self.raw.as_ptr()) }
    }
}

/// A model as the library read it.
pub(crate) struct Model {
    symbols: &'static Symbols,
    raw: NonNull<ov::ov_model_t>,
}

impl Model {
    pub(crate) fn outputs(&self) -> Result<Vec<Port>> {
        ports!(self, ov_model_outputs_size, ov_model_const_output_by_index)
    }

    pub(crate) fn inputs(&self) -> Result<Vec<Port>> {
        ports!(self, ov_model_inputs_size, ov_model_const_input_by_index)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { call!(self.symbols, ov_model_free)(self.raw.as_ptr()) }
    }
}

/// A model compiled for a device.
pub(crate) struct CompiledModel {
    symbols: &'static Symbols,
    raw: NonNull<ov::ov_compiled_model_t>,
}

// SAFETY: the library documents compiled models as safe to call from any thread.
unsafe impl Send for CompiledModel {}
// SAFETY: as above.
unsafe impl Sync for CompiledModel {}

impl CompiledModel {
    pub(crate) fn inputs(&self) -> Result<Vec<Port>> {
        ports!(
            self,
            ov_compiled_model_inputs_size,
            ov_compiled_model_input_by_index
        )
    }

    pub(crate) fn outputs(&self) -> Result<Vec<Port>> {
        ports!(
            self,
            ov_compiled_model_outputs_size,
            ov_compiled_model_output_by_index
        )
    }

    /// A property as text; `None` if no property has that name.
    pub(crate) fn property(&self, key: &str) -> Option<String> {
        let key = c_text(key).ok()?;
        let mut value = std::ptr::null_mut();
        let _turn = turn();
        // SAFETY: the text lives during the call, which writes the pointer.
        let status = unsafe {
            call!(self.symbols, ov_compiled_model_get_property)(
                self.raw.as_ptr(),
                key.as_ptr(),
                &raw mut value,
            )
        };
        if status != ov::OV_STATUS_OK || value.is_null() {
            return None;
        }
        let text = borrowed(value);
        // SAFETY: given out by the library, freed once.
        unsafe { call!(self.symbols, ov_free)(value) };
        Some(text)
    }

    pub(crate) fn request(&self) -> Result<Request> {
        let mut raw = std::ptr::null_mut();
        let _turn = turn();
        // SAFETY: the compiled model lives, the call writes the pointer.
        let status = unsafe {
            call!(self.symbols, ov_compiled_model_create_infer_request)(self.raw.as_ptr(), &raw mut raw)
        };
        match NonNull::new(raw) {
            Some(raw) if status == ov::OV_STATUS_OK => Ok(Request {
                symbols: self.symbols,
                raw,
            }),
            _ => Err(error(self.symbols, "making a request", status)),
        }
    }
}

impl Drop for CompiledModel {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; requests keep what they need.
        unsafe { call!(self.symbols, ov_compiled_model_free)(self.raw.as_ptr()) }
    }
}

/// An inference request of a compiled model. Its owner starts one run at a time.
pub(crate) struct Request {
    symbols: &'static Symbols,
    raw: NonNull<ov::ov_infer_request_t>,
}

// SAFETY: a request may be used by any thread, by one at a time except for `cancel`; its owner ensures that.
unsafe impl Send for Request {}
// SAFETY: as above.
unsafe impl Sync for Request {}

impl Request {
    /// Makes input `index` read from a tensor.
    pub(crate) fn set_input(&self, index: usize, tensor: &HostTensor) -> Result<()> {
        // SAFETY: both live; the request keeps the memory's address, which the run's binding keeps valid.
        let status = unsafe {
            call!(self.symbols, ov_infer_request_set_input_tensor_by_index)(
                self.raw.as_ptr(),
                index,
                tensor.raw.as_ptr(),
            )
        };
        self.done("binding an input", status)
    }

    /// Makes output `index` be written to a tensor.
    pub(crate) fn set_output(&self, index: usize, tensor: &HostTensor) -> Result<()> {
        // SAFETY: as for inputs.
        let status = unsafe {
            call!(self.symbols, ov_infer_request_set_output_tensor_by_index)(
                self.raw.as_ptr(),
                index,
                tensor.raw.as_ptr(),
            )
        };
        self.done("binding an output", status)
    }

    /// Runs, in this thread and those that the model was compiled for.
    pub(crate) fn infer(&self) -> Result<()> {
        // SAFETY: the request lives, and no other thread runs it.
        let status = unsafe { call!(self.symbols, ov_infer_request_infer)(self.raw.as_ptr()) };
        self.done("running", status)
    }

    /// Asks a run of another thread to end early.
    pub(crate) fn cancel(&self) -> Result<()> {
        // SAFETY: the request lives; the library lets any thread cancel.
        let status = unsafe { call!(self.symbols, ov_infer_request_cancel)(self.raw.as_ptr()) };
        self.done("cancelling", status)
    }

    fn done(&self, what: &str, status: ov::ov_status_e) -> Result<()> {
        if status == ov::OV_STATUS_OK {
            return Ok(());
        }
        let _turn = turn();
        Err(error(self.symbols, what, status))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { call!(self.symbols, ov_infer_request_free)(self.raw.as_ptr()) }
    }
}

/// Host memory as the library sees it. It does not keep the memory alive: the run does.
pub(crate) struct HostTensor {
    symbols: &'static Symbols,
    raw: NonNull<ov::ov_tensor_t>,
}

// SAFETY: an address and a shape, read only.
unsafe impl Send for HostTensor {}
// SAFETY: as above.
unsafe impl Sync for HostTensor {}

impl HostTensor {
    /// A view of memory, which is read or written in runs only.
    pub(crate) fn new(
        library: &'static Library,
        element: ov::ov_element_type_e,
        dims: &[i64],
        data: *mut u8,
    ) -> Result<HostTensor> {
        let symbols = library.symbols();
        let mut dims = dims.to_vec();
        let shape = ov::ov_shape_t {
            rank: dims.len() as i64,
            dims: dims.as_mut_ptr(),
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the extents live during the call, which copies them, keeps the address and writes the pointer.
        let status = unsafe {
            call!(symbols, ov_tensor_create_from_host_ptr)(element, shape, data.cast(), &raw mut raw)
        };
        match NonNull::new(raw) {
            Some(raw) if status == ov::OV_STATUS_OK => Ok(HostTensor { symbols, raw }),
            _ => {
                let _turn = turn();
                Err(error(symbols, "viewing host memory", status))
            }
        }
    }
}

impl Drop for HostTensor {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; a request keeps its own view.
        unsafe { call!(self.symbols, ov_tensor_free)(self.raw.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_messages_become_one_line() {
        let text = "Exception from src/inference/src/cpp/core.cpp:84:\nCheck 'false' failed at src/frontends/x.cpp:151:\n\
                    FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted.\nSummary:\n\
                    -- No conversion rule found for operations: BitCast-26\n\n";
        assert_eq!(tidy(text), "No conversion rule found for operations: BitCast-26");
        let bare = "Exception from a.cpp:1:\nCheck 'x > 0' failed at b.cpp:2\n";
        assert_eq!(
            tidy(bare),
            "Exception from a.cpp:1:; Check 'x > 0' failed at b.cpp:2"
        );
    }
}
