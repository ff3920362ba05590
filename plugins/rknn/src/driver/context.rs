//! A model in the runtime: its description, and its runs.
//!
//! Invariants:
//! 1. A context ends once, when it is dropped, and after everything made from it; a context made
//!    from another keeps that one alive.
//! 2. The record that a query fills is zeroed, and has the length that the runtime is told.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use polychip_sdk::{Error, Result};
use polychip_sys::rknn::bindings as rk;

use super::Driver;

/// Description of an input or output by the runtime.
#[derive(Clone, Copy)]
pub(crate) struct Seen(pub(super) rk::rknn_tensor_attr);

impl Seen {
    /// Extents in the order that the runtime has.
    pub(crate) fn dims(&self) -> &[u32] {
        &self.0.dims[..(self.0.n_dims as usize).min(self.0.dims.len())]
    }

    /// Elements, as the runtime counts them.
    pub(crate) fn elements(&self) -> usize {
        self.0.n_elems as usize
    }

    /// Whether the last axis is that of channels.
    pub(crate) fn is_channels_last(&self) -> bool {
        self.0.fmt == rk::RKNN_ORDER_NHWC as i32
    }

    /// Scale and zero point of the integers that the chip has; none where it has reals.
    pub(crate) fn scale(&self) -> Option<(f32, i32)> {
        let affine = self.0.qnt_type == rk::RKNN_QUANT_AFFINE as i32;
        let bytes = [rk::RKNN_TYPE_I8, rk::RKNN_TYPE_U8].contains(&(self.0.type_ as u32));
        (affine && bytes).then_some((self.0.scale, self.0.zp))
    }

    /// Asks for f32 in the graph's own order: the runtime converts from and to what the chip has.
    pub(crate) fn as_ours(mut self, dims: &[usize]) -> Seen {
        for (to, &from) in self.0.dims.iter_mut().zip(dims) {
            *to = from as u32;
        }
        let bytes = 4 * self.0.n_elems;
        self.0.n_dims = dims.len() as u32;
        self.0.fmt = match dims.len() {
            4 => rk::RKNN_ORDER_NCHW as i32,
            _ => rk::RKNN_ORDER_UNDEFINED as i32,
        };
        self.0.type_ = rk::RKNN_TYPE_F32 as i32;
        self.0.pass_through = 0;
        (self.0.size, self.0.size_with_stride) = (bytes, bytes);
        (self.0.w_stride, self.0.h_stride) = (0, 0);
        self
    }
}

/// A model in the runtime.
pub(crate) struct Context {
    driver: Driver,
    handle: rk::rknn_context,
    /// What it was made from, which goes after it.
    _from: Option<Arc<Context>>,
}

/// Records for tensors that the runtime copies; made once, filled at each run.
pub(crate) struct Copies {
    inputs: Vec<rk::rknn_input>,
    outputs: Vec<rk::rknn_output>,
}

// SAFETY: the addresses in it are set and read by one run, which holds what they point to.
unsafe impl Send for Copies {}

impl Context {
    /// Loads a model.
    pub(crate) fn open(driver: Driver, model: &[u8], flags: u32) -> Result<Context> {
        let size = u32::try_from(model.len())
            .map_err(|_| Error::unsupported(format!("a part of {} bytes is too long", model.len())))?;
        let mut handle = 0;
        // SAFETY: the model lives during the call, which does not write to it; no extension is handed over.
        let code = unsafe {
            driver.library.symbols().rknn_init(
                &raw mut handle,
                model.as_ptr().cast_mut().cast::<c_void>(),
                size,
                flags,
                std::ptr::null_mut(),
            )
        };
        Driver::check("rknn_init", code)?;
        Ok(Context {
            driver,
            handle,
            _from: None,
        })
    }

    /// Another context of the same model.
    pub(crate) fn another(self: &Arc<Context>) -> Result<Context> {
        let (mut from, mut handle) = (self.handle, 0);
        // SAFETY: the context is open; both are ours.
        let code = unsafe {
            self.driver
                .library
                .symbols()
                .rknn_dup_context(&raw mut from, &raw mut handle)
        };
        Driver::check("rknn_dup_context", code)?;
        Ok(Context {
            driver: self.driver,
            handle,
            _from: Some(Arc::clone(self)),
        })
    }

    /// Restricts it to one core.
    pub(crate) fn set_core(&self, core: usize) -> Result<()> {
        // SAFETY: the context is open.
        let code = unsafe {
            self.driver
                .library
                .symbols()
                .rknn_set_core_mask(self.handle, 1 << core)
        };
        Driver::check("rknn_set_core_mask", code)
    }

    /// # Safety
    /// `T` is the record of the command, good for any bits.
    unsafe fn ask<T>(&self, command: u32, record: &mut T) -> i32 {
        // SAFETY: the context is open, and the record as long as the call is told.
        unsafe {
            self.driver.library.symbols().rknn_query(
                self.handle,
                command as i32,
                std::ptr::from_mut(record).cast::<c_void>(),
                size_of::<T>() as u32,
            )
        }
    }

    /// How many inputs and outputs the model has.
    pub(crate) fn counts(&self) -> Result<(usize, usize)> {
        let mut counts = rk::rknn_counts {
            n_input: 0,
            n_output: 0,
        };
        // SAFETY: the command's record.
        let code = unsafe { self.ask(rk::RKNN_ASK_COUNTS, &mut counts) };
        Driver::check("rknn_query of counts", code)?;
        Ok((counts.n_input as usize, counts.n_output as usize))
    }

    /// Description of an input or output by the runtime.
    pub(crate) fn port(&self, output: bool, index: usize) -> Result<Seen> {
        let command = if output {
            rk::RKNN_ASK_OUTPUT
        } else {
            rk::RKNN_ASK_INPUT
        };
        // SAFETY: plain numbers and bytes.
        let mut attr: rk::rknn_tensor_attr = unsafe { std::mem::zeroed() };
        attr.index = index as u32;
        // SAFETY: the command's record.
        let code = unsafe { self.ask(command, &mut attr) };
        Driver::check("rknn_query of a tensor", code)?;
        Ok(Seen(attr))
    }

    /// What the compiler was told to write into the model; none where the runtime does not say.
    pub(crate) fn mark(&self) -> Option<String> {
        let mut text = rk::rknn_custom_string { text: [0; 1024] };
        // SAFETY: the command's record.
        let code = unsafe { self.ask(rk::RKNN_ASK_CUSTOM_STRING, &mut text) };
        (code == rk::RKNN_OK).then(|| words(&text.text))
    }

    /// Versions of the runtime and the kernel's driver.
    pub(crate) fn versions(&self) -> Option<(String, String)> {
        let mut found = rk::rknn_versions {
            api: [0; 256],
            driver: [0; 256],
        };
        // SAFETY: the command's record.
        let code = unsafe { self.ask(rk::RKNN_ASK_VERSIONS, &mut found) };
        (code == rk::RKNN_OK).then(|| (words(&found.api), words(&found.driver)))
    }

    /// Bytes of weights and of tensors in between.
    pub(crate) fn memory(&self) -> Option<(u64, u64)> {
        // SAFETY: plain numbers.
        let mut sizes: rk::rknn_memory_sizes = unsafe { std::mem::zeroed() };
        // SAFETY: the command's record.
        let code = unsafe { self.ask(rk::RKNN_ASK_MEMORY, &mut sizes) };
        (code == rk::RKNN_OK).then(|| (sizes.weight_bytes.into(), sizes.internal_bytes.into()))
    }

    /// How long the chip worked on the last run, in nanoseconds; none where the runtime does not say.
    pub(crate) fn run_time_ns(&self) -> Option<u64> {
        let mut time = rk::rknn_run_time { microseconds: 0 };
        // SAFETY: the command's record.
        let code = unsafe { self.ask(rk::RKNN_ASK_RUN_TIME, &mut time) };
        let microseconds = u64::try_from(time.microseconds).ok().filter(|&time| time > 0)?;
        (code == rk::RKNN_OK).then(|| microseconds.saturating_mul(1000))
    }

    /// The runtime's text on the layers of the last run; none where it was not told to keep it.
    pub(crate) fn times(&self) -> Option<String> {
        let mut times = rk::rknn_times {
            data: std::ptr::null_mut(),
            length: 0,
        };
        // SAFETY: the command's record.
        let code = unsafe { self.ask(rk::RKNN_ASK_TIMES, &mut times) };
        let length = usize::try_from(times.length)
            .ok()
            .filter(|&length| length <= 1 << 24)?;
        if code != rk::RKNN_OK || times.data.is_null() {
            return None;
        }
        // SAFETY: the runtime's own text of this length, which stays until the context's next call.
        let bytes = unsafe { std::slice::from_raw_parts(times.data.cast::<u8>(), length) };
        Some(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned())
    }

    /// Computes a run over the memory that was bound.
    pub(crate) fn run(&self) -> Result<()> {
        // SAFETY: the context is open; who calls holds all memory that was bound.
        let code = unsafe {
            self.driver
                .library
                .symbols()
                .rknn_run(self.handle, std::ptr::null_mut())
        };
        Driver::check("rknn_run", code)
    }

    /// Computes a run whose tensors the runtime copies. `place` gives the address of so many bytes that the run holds at a
    /// port.
    pub(crate) fn run_copied(
        &self,
        copies: &mut Copies,
        mut place: impl FnMut(usize, usize) -> Result<*mut u8>,
    ) -> Result<()> {
        let symbols = self.driver.library.symbols();
        let count = copies.inputs.len();
        for (port, input) in copies.inputs.iter_mut().enumerate() {
            input.buf = place(port, input.size as usize)?.cast();
        }
        for (port, output) in copies.outputs.iter_mut().enumerate() {
            output.buf = place(count + port, output.size as usize)?.cast();
        }
        let (inputs, outputs) = (copies.inputs.as_mut_ptr(), copies.outputs.as_mut_ptr());
        let made = copies.outputs.len() as u32;
        // SAFETY: the records point to memory of at least their size, which the run holds.
        let code = unsafe { symbols.rknn_inputs_set(self.handle, count as u32, inputs) };
        Driver::check("rknn_inputs_set", code)?;
        self.run()?;
        // SAFETY: as above; the outputs' memory is ours, and the runtime writes to it.
        let code = unsafe { symbols.rknn_outputs_get(self.handle, made, outputs, std::ptr::null_mut()) };
        Driver::check("rknn_outputs_get", code)?;
        // SAFETY: they were got just now.
        let code = unsafe { symbols.rknn_outputs_release(self.handle, made, outputs) };
        Driver::check("rknn_outputs_release", code)
    }

    pub(super) fn handle(&self) -> rk::rknn_context {
        self.handle
    }

    pub(crate) fn driver(&self) -> Driver {
        self.driver
    }
}

impl Copies {
    /// Records for these ports, all of f32 in the graph's own order.
    pub(crate) fn new(inputs: &[Seen], outputs: &[Seen]) -> Copies {
        let input = |(index, seen): (usize, &Seen)| rk::rknn_input {
            index: index as u32,
            buf: std::ptr::null_mut(),
            size: seen.0.size,
            pass_through: 0,
            type_: seen.0.type_,
            fmt: seen.0.fmt,
        };
        let output = |(index, seen): (usize, &Seen)| rk::rknn_output {
            want_float: 1,
            is_prealloc: 1,
            index: index as u32,
            buf: std::ptr::null_mut(),
            size: seen.0.size,
        };
        Copies {
            inputs: inputs.iter().enumerate().map(input).collect(),
            outputs: outputs.iter().enumerate().map(output).collect(),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: open until now; nothing made of it is left, as that holds it.
        unsafe { self.driver.library.symbols().rknn_destroy(self.handle) };
    }
}

/// A C text in a record; what has no end is cut.
fn words(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}
