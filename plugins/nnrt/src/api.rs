//! The runtime's calls with checked results, and its objects, destroyed once.
//!
//! Invariants:
//! 1. A code other than 0 is an error that names the call and the code's meaning; an object that is none is one too.
//! 2. Lists that the runtime gives are its own: their lengths are checked, and they are copied at once.
//! 3. A model lives until what was compiled of it is gone, and its program as long as it is built.
//!
//! Not here: call order (`caps`, `exec`, `plugin`).

#![allow(unsafe_code, reason = "calls of a foreign library")]

use std::ffi::{CStr, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::nnrt::Library;
use polychip_sys::nnrt::bindings::{self as sys, Symbols};

use crate::program::{Operation, Program, Quant, Tensor};

/// Room for the bytes of a compiled part at first, beside its constants; doubled until they fit.
const EXPORT: usize = 1 << 20;
/// Upper limit of a part's bytes.
const MOST_EXPORTED: usize = 4 << 30;

/// Compilation settings. An unset one is left to the driver: a driver that lacks the setting refuses to build with
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) performance: Option<u32>,
    pub(crate) priority: Option<u32>,
}

/// A device of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) kind: u32,
}

/// The open library, and the device that calls are for.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    library: &'static Library,
    device: usize,
    settings: Settings,
}

fn meaning(code: c_int) -> (ErrorKind, &'static str) {
    match u32::try_from(code).unwrap_or(u32::MAX) {
        sys::OH_NN_FAILED => (ErrorKind::Persistent, "it failed"),
        sys::OH_NN_INVALID_PARAMETER => (ErrorKind::Unsupported, "an invalid parameter"),
        sys::OH_NN_MEMORY_ERROR => (ErrorKind::OutOfMemory, "no memory"),
        sys::OH_NN_OPERATION_FORBIDDEN => (ErrorKind::Persistent, "forbidden in this state"),
        sys::OH_NN_NULL_PTR => (ErrorKind::Persistent, "an argument is null"),
        sys::OH_NN_INVALID_FILE => (ErrorKind::Persistent, "an invalid file"),
        sys::OH_NN_INVALID_PATH => (ErrorKind::Persistent, "an invalid path"),
        sys::OH_NN_TIMEOUT => (ErrorKind::Transient, "it took too long"),
        sys::OH_NN_UNSUPPORTED => (ErrorKind::Unsupported, "unsupported"),
        sys::OH_NN_CONNECTION_EXCEPTION => (ErrorKind::DeviceLost, "the service behind it is not connected"),
        sys::OH_NN_SAVE_CACHE_EXCEPTION => (ErrorKind::Persistent, "what was compiled is not kept"),
        sys::OH_NN_DYNAMIC_SHAPE => (ErrorKind::Unsupported, "a shape that is known at the run only"),
        sys::OH_NN_UNAVAILABLE_DEVICE => (ErrorKind::DeviceLost, "the device is not available"),
        _ => (ErrorKind::Persistent, "a code that is not known"),
    }
}

fn check(code: c_int, call: &str) -> Result<()> {
    if code == sys::OH_NN_SUCCESS as c_int {
        return Ok(());
    }
    let (kind, words) = meaning(code);
    let what = format!("{call}: {words} (code {code})");
    Err(Error::new(kind, what).with_vendor_code(i64::from(code)))
}

/// The object that a call returned.
fn made<T>(raw: *mut T, call: &str) -> Result<*mut T> {
    if raw.is_null() {
        return Err(Error::new(ErrorKind::Persistent, format!("{call} gives nothing")));
    }
    Ok(raw)
}

/// A list from the runtime.
///
/// # Safety
/// `data` is null or holds `count` elements.
unsafe fn copied<T: Copy>(data: *const T, count: u32) -> Vec<T> {
    if data.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(data, count as usize) }.to_vec()
}

/// The devices of the runtime, in its order.
///
/// # Errors
/// It does not respond.
pub(crate) fn devices(library: &Library) -> Result<Vec<Found>> {
    let symbols = library.symbols();
    let (mut ids, mut count) = (ptr::null(), 0);
    // SAFETY: both places are ours, and the first holds null as the call asks.
    let code = unsafe { symbols.OH_NNDevice_GetAllDevicesID(&raw mut ids, &raw mut count) };
    check(code, "OH_NNDevice_GetAllDevicesID")?;
    let mut found = Vec::new();
    // SAFETY: the runtime's own list of so many.
    for id in unsafe { copied(ids, count) } {
        let (mut name, mut kind) = (ptr::null(), 0);
        // SAFETY: the places are ours.
        let codes = unsafe {
            [
                symbols.OH_NNDevice_GetName(id, &raw mut name),
                symbols.OH_NNDevice_GetType(id, &raw mut kind),
            ]
        };
        for (code, call) in codes
            .into_iter()
            .zip(["OH_NNDevice_GetName", "OH_NNDevice_GetType"])
        {
            check(code, call)?;
        }
        let name = if name.is_null() {
            String::new()
        } else {
            // SAFETY: a text of the runtime's that ends with a zero byte.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        found.push(Found {
            id,
            name,
            kind: u32::try_from(kind).unwrap_or(sys::OH_NN_OTHERS),
        });
    }
    Ok(found)
}

/// An argument of places.
fn list(ids: &mut [u32]) -> sys::OH_NN_UInt32Array {
    sys::OH_NN_UInt32Array {
        // the runtime refuses an address of no places
        data: if ids.is_empty() {
            ptr::null_mut()
        } else {
            ids.as_mut_ptr()
        },
        size: ids.len() as u32,
    }
}

fn numbers(ids: &[usize]) -> Vec<u32> {
    ids.iter().map(|&id| id as u32).collect()
}

impl Api {
    pub(crate) fn new(library: &'static Library, device: usize, settings: Settings) -> Api {
        Api {
            library,
            device,
            settings,
        }
    }

    /// Whether the library emulates the chip.
    pub(crate) fn is_emulated(&self) -> bool {
        self.library.is_emulated()
    }

    fn symbols(&self) -> &'static Symbols {
        self.library.symbols()
    }

    fn describe(&self, tensor: &Tensor) -> Result<Described> {
        let symbols = self.symbols();
        // SAFETY: no arguments.
        let raw = made(
            unsafe { symbols.OH_NNTensorDesc_Create() },
            "OH_NNTensorDesc_Create",
        )?;
        let described = Described { symbols, raw };
        let shape: Vec<i32> = tensor.dims.iter().map(|&dim| dim as i32).collect();
        let format = if tensor.image {
            sys::OH_NN_FORMAT_NHWC
        } else {
            sys::OH_NN_FORMAT_NONE
        };
        // SAFETY: a live description.
        let code = unsafe { symbols.OH_NNTensorDesc_SetDataType(raw, tensor.code as c_int) };
        check(code, "OH_NNTensorDesc_SetDataType")?;
        // a single parameter has no shape: the runtime refuses to be told of none
        if !shape.is_empty() {
            // SAFETY: as above; the list lives during the call.
            let code = unsafe { symbols.OH_NNTensorDesc_SetShape(raw, shape.as_ptr(), shape.len()) };
            check(code, "OH_NNTensorDesc_SetShape")?;
        }
        // SAFETY: as above.
        let code = unsafe { symbols.OH_NNTensorDesc_SetFormat(raw, format as c_int) };
        check(code, "OH_NNTensorDesc_SetFormat")?;
        Ok(described)
    }

    /// A finished model of a program.
    fn model(&self, program: &Program) -> Result<Model> {
        let symbols = self.symbols();
        // SAFETY: no arguments.
        let raw = made(unsafe { symbols.OH_NNModel_Construct() }, "OH_NNModel_Construct")?;
        let model = Model { symbols, raw };
        for (index, tensor) in program.tensors.iter().enumerate() {
            let index = index as u32;
            let described = self.describe(tensor)?;
            // SAFETY: live objects; the description is copied.
            let code = unsafe { symbols.OH_NNModel_AddTensorToModel(raw, described.raw) };
            check(code, "OH_NNModel_AddTensorToModel")?;
            // SAFETY: a live model that has the tensor.
            let code = unsafe { symbols.OH_NNModel_SetTensorType(raw, index, tensor.role as c_int) };
            check(code, "OH_NNModel_SetTensorType")?;
            if let Some(quant) = &tensor.quant {
                self.encode(&model, index, quant)?;
            }
            if let Some(value) = &tensor.value {
                // SAFETY: as above; the bytes are copied.
                let code = unsafe {
                    symbols.OH_NNModel_SetTensorData(raw, index, value.as_ptr().cast(), value.len())
                };
                check(code, "OH_NNModel_SetTensorData")?;
            }
        }
        for operation in &program.operations {
            self.operation(&model, operation)?;
        }
        let (mut inputs, mut outputs) = (numbers(&program.inputs), numbers(&program.outputs));
        let (inputs, outputs) = (list(&mut inputs), list(&mut outputs));
        // SAFETY: a live model; both lists live during the call.
        let code =
            unsafe { symbols.OH_NNModel_SpecifyInputsAndOutputs(raw, &raw const inputs, &raw const outputs) };
        check(code, "OH_NNModel_SpecifyInputsAndOutputs")?;
        // SAFETY: a live model.
        check(unsafe { symbols.OH_NNModel_Finish(raw) }, "OH_NNModel_Finish")?;
        Ok(model)
    }

    /// Tells the model how integers of a tensor encode reals.
    fn encode(&self, model: &Model, index: u32, quant: &Quant) -> Result<()> {
        let symbols = self.symbols();
        // SAFETY: no arguments.
        let raw = made(
            unsafe { symbols.OH_NNQuantParam_Create() },
            "OH_NNQuantParam_Create",
        )?;
        let param = QuantParam { symbols, raw };
        let count = quant.scales.len();
        let scales: Vec<f64> = quant.scales.iter().map(|&scale| scale.into()).collect();
        let bits = vec![8u32; count];
        // SAFETY: a live object; the list lives during the call and has so many elements, here and below.
        let code = unsafe { symbols.OH_NNQuantParam_SetScales(param.raw, scales.as_ptr(), count) };
        check(code, "OH_NNQuantParam_SetScales")?;
        // SAFETY: as above; there is one zero point for each scale.
        let code = unsafe { symbols.OH_NNQuantParam_SetZeroPoints(param.raw, quant.zeros.as_ptr(), count) };
        check(code, "OH_NNQuantParam_SetZeroPoints")?;
        // SAFETY: as above.
        let code = unsafe { symbols.OH_NNQuantParam_SetNumBits(param.raw, bits.as_ptr(), count) };
        check(code, "OH_NNQuantParam_SetNumBits")?;
        // SAFETY: a live model that has the tensor; the parameters are copied.
        let code = unsafe { symbols.OH_NNModel_SetTensorQuantParams(model.raw, index, param.raw) };
        check(code, "OH_NNModel_SetTensorQuantParams")
    }

    fn operation(&self, model: &Model, operation: &Operation) -> Result<()> {
        let sides = [&operation.params, &operation.inputs, &operation.outputs];
        let mut sides = sides.map(|ids| numbers(ids));
        let [params, inputs, outputs] = sides.each_mut().map(|ids| list(ids));
        // SAFETY: a live model; all lists live during the call.
        let code = unsafe {
            self.symbols().OH_NNModel_AddOperation(
                model.raw,
                operation.code as c_int,
                &raw const params,
                &raw const inputs,
                &raw const outputs,
            )
        };
        let call = format!("OH_NNModel_AddOperation of operation {}", operation.code);
        check(code, &call).map_err(|error| match operation.node {
            Some(node) => error.at_node(node),
            None => error,
        })
    }

    /// The runtime's verdicts on a model's operations; `None` if it gives none at all, as some chips' drivers do.
    fn available(&self, model: &Model, operations: usize) -> Result<Option<Vec<bool>>> {
        let (mut answers, mut count) = (ptr::null(), 0);
        // SAFETY: a finished model; both places are ours, and the first holds null as the call asks.
        let code = unsafe {
            self.symbols().OH_NNModel_GetAvailableOperations(
                model.raw,
                self.device,
                &raw mut answers,
                &raw mut count,
            )
        };
        check(code, "OH_NNModel_GetAvailableOperations")?;
        if count == 0 && operations > 0 {
            return Ok(None);
        }
        // as bytes: a truth value of another's may be any
        // SAFETY: the runtime's own list of so many.
        let answers = unsafe { copied(answers.cast::<u8>(), count) };
        if answers.len() != operations {
            let what = format!("the runtime answers {count} times about {operations} operations");
            return Err(Error::new(ErrorKind::Persistent, what));
        }
        Ok(Some(answers.into_iter().map(|answer| answer == 1).collect()))
    }

    /// The runtime's verdict on each operation of a program; `None` if it gives none at all.
    ///
    /// # Errors
    /// It refuses even the query.
    pub(crate) fn ask(&self, program: &Program) -> Result<Option<Vec<bool>>> {
        self.available(&self.model(program)?, program.operations.len())
    }

    fn set(&self, compilation: &Compilation, reduced: bool) -> Result<()> {
        let (symbols, raw) = (self.symbols(), compilation.raw);
        let Settings {
            performance,
            priority,
        } = self.settings;
        // SAFETY: a live compilation that is not built, here and below.
        let code = unsafe { symbols.OH_NNCompilation_SetDevice(raw, self.device) };
        check(code, "OH_NNCompilation_SetDevice")?;
        if let Some(mode) = performance {
            // SAFETY: as above.
            let code = unsafe { symbols.OH_NNCompilation_SetPerformanceMode(raw, mode as c_int) };
            check(code, "OH_NNCompilation_SetPerformanceMode")?;
        }
        if let Some(priority) = priority {
            // SAFETY: as above.
            let code = unsafe { symbols.OH_NNCompilation_SetPriority(raw, priority as c_int) };
            check(code, "OH_NNCompilation_SetPriority")?;
        }
        if reduced {
            // SAFETY: as above.
            let code = unsafe { symbols.OH_NNCompilation_EnableFloat16(raw, true) };
            check(code, "OH_NNCompilation_EnableFloat16")?;
        }
        Ok(())
    }

    fn build(&self, compilation: &Compilation) -> Result<()> {
        // SAFETY: a live compilation with all its settings.
        let code = unsafe { self.symbols().OH_NNCompilation_Build(compilation.raw) };
        check(code, "OH_NNCompilation_Build")
    }

    /// Builds a program.
    ///
    /// # Errors
    /// If the runtime refuses an operation, at its node, or the whole.
    pub(crate) fn compile(&self, program: &Program) -> Result<Compilation> {
        let symbols = self.symbols();
        let model = self.model(program)?;
        let answers = self
            .available(&model, program.operations.len())?
            .unwrap_or_default();
        if let Some((operation, _)) = program.operations.iter().zip(&answers).find(|(_, yes)| !**yes) {
            let what = format!("the runtime says no to operation {} in this part", operation.code);
            let error = Error::unsupported(what);
            return Err(match operation.node {
                Some(node) => error.at_node(node),
                None => error,
            });
        }
        // SAFETY: a finished model.
        let raw = unsafe { symbols.OH_NNCompilation_Construct(model.raw) };
        let compilation = Compilation {
            symbols,
            raw: made(raw, "OH_NNCompilation_Construct")?,
            _model: Some(model),
        };
        self.set(&compilation, program.reduced)?;
        self.build(&compilation).map_err(|error| match error.kind() {
            // what it could not tell before, and would say again
            ErrorKind::Persistent => {
                Error::unsupported(error.to_string()).with_vendor_code(error.vendor_code())
            }
            _ => error,
        })?;
        Ok(compilation)
    }

    /// The runtime's bytes of what was compiled; none where it, or the device's driver, exports none.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn export(&self, compilation: &Compilation, constants: usize) -> Result<Option<Vec<u8>>> {
        let Some(export) = self.symbols().OH_NNCompilation_ExportCacheToBuffer.as_ref().ok() else {
            return Ok(None);
        };
        let mut room = constants.saturating_add(EXPORT);
        while room <= MOST_EXPORTED {
            let mut bytes = Vec::new();
            let none = |_| Error::new(ErrorKind::OutOfMemory, format!("no memory for {room} bytes"));
            bytes.try_reserve_exact(room).map_err(none)?;
            bytes.resize(room, 0u8);
            let mut used = 0usize;
            // SAFETY: a built compilation; so many bytes of ours, which the call fills; the place is ours.
            let code = unsafe { export(compilation.raw, bytes.as_mut_ptr().cast(), room, &raw mut used) };
            match u32::try_from(code) {
                Ok(sys::OH_NN_SUCCESS) if used > 0 && used <= room => {
                    bytes.truncate(used);
                    return Ok(Some(bytes));
                }
                Ok(sys::OH_NN_INVALID_PARAMETER) => room *= 2,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// What [`Api::export`] gave, ready to run.
    ///
    /// # Errors
    /// `BadBlob` if the runtime does not take it.
    pub(crate) fn import(&self, bytes: &[u8], reduced: bool) -> Result<Compilation> {
        let symbols = self.symbols();
        let calls = (
            symbols.OH_NNCompilation_ConstructForCache.as_ref().ok(),
            symbols.OH_NNCompilation_ImportCacheFromBuffer.as_ref().ok(),
        );
        let (Some(construct), Some(import)) = calls else {
            return Err(Error::bad_blob("this runtime imports nothing that was compiled"));
        };
        // SAFETY: no arguments.
        let raw = made(unsafe { construct() }, "OH_NNCompilation_ConstructForCache")?;
        let compilation = Compilation {
            symbols,
            raw,
            _model: None,
        };
        // SAFETY: a live compilation; the bytes live during the call.
        let code = unsafe { import(raw, bytes.as_ptr().cast(), bytes.len()) };
        let imported = check(code, "OH_NNCompilation_ImportCacheFromBuffer")
            .and_then(|()| self.set(&compilation, reduced))
            .and_then(|()| self.build(&compilation));
        imported.map_err(|error| match error.kind() {
            ErrorKind::Persistent | ErrorKind::Unsupported => {
                Error::bad_blob(error.to_string()).with_vendor_code(error.vendor_code())
            }
            _ => error,
        })?;
        Ok(compilation)
    }

    /// A tensor of a run over a file's memory: `whole` bytes of it, in which it begins at `offset`.
    ///
    /// # Errors
    /// If the runtime does not map it.
    pub(crate) fn tensor(
        &self,
        of: &Tensor,
        file: &OwnedFd,
        offset: usize,
        whole: usize,
    ) -> Result<RunTensor> {
        let described = self.describe(of)?;
        let held = file.try_clone();
        let held = held.map_err(|error| Error::unsupported(format!("a descriptor is not held: {error}")))?;
        // SAFETY: a live description, which is copied; an open descriptor, which lives as long as the tensor.
        let raw = unsafe {
            self.symbols().OH_NNTensor_CreateWithFd(
                self.device,
                described.raw,
                held.as_raw_fd(),
                whole,
                offset,
            )
        };
        if raw.is_null() {
            let what = format!("OH_NNTensor_CreateWithFd maps no {whole} bytes of the memory's file");
            return Err(Error::unsupported(what));
        }
        Ok(RunTensor {
            symbols: self.symbols(),
            raw,
            _file: held,
        })
    }
}

/// A description of a tensor.
struct Described {
    symbols: &'static Symbols,
    raw: *mut sys::NN_TensorDesc,
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        unsafe { self.symbols.OH_NNTensorDesc_Destroy(&raw mut self.raw) };
    }
}

/// How a tensor's integers encode reals.
struct QuantParam {
    symbols: &'static Symbols,
    raw: *mut sys::NN_QuantParam,
}

impl Drop for QuantParam {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        unsafe { self.symbols.OH_NNQuantParam_Destroy(&raw mut self.raw) };
    }
}

/// A model.
struct Model {
    symbols: &'static Symbols,
    raw: *mut sys::OH_NNModel,
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, behind its compilation.
        unsafe { self.symbols.OH_NNModel_Destroy(&raw mut self.raw) }
    }
}

/// A compiled part.
pub(crate) struct Compilation {
    symbols: &'static Symbols,
    raw: *mut sys::OH_NNCompilation,
    _model: Option<Model>,
}

impl Drop for Compilation {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, before its model.
        unsafe { self.symbols.OH_NNCompilation_Destroy(&raw mut self.raw) }
    }
}

impl Compilation {
    /// What runs are made of, for so many inputs and outputs.
    ///
    /// # Errors
    /// If the runtime makes none, or one of other counts.
    pub(crate) fn executor(self, wanted: (usize, usize)) -> Result<Executor> {
        let symbols = self.symbols;
        // SAFETY: a built compilation.
        let raw = made(
            unsafe { symbols.OH_NNExecutor_Construct(self.raw) },
            "OH_NNExecutor_Construct",
        )?;
        let executor = Executor {
            raw,
            compilation: self,
        };
        let (mut inputs, mut outputs) = (0usize, 0usize);
        // SAFETY: a live executor; the places are ours.
        let codes = unsafe {
            [
                symbols.OH_NNExecutor_GetInputCount(raw, &raw mut inputs),
                symbols.OH_NNExecutor_GetOutputCount(raw, &raw mut outputs),
            ]
        };
        for code in codes {
            check(code, "OH_NNExecutor_Get…Count")?;
        }
        if (inputs, outputs) != wanted {
            let what = format!("the compiled part has {inputs} inputs and {outputs} outputs, not {wanted:?}");
            return Err(Error::bad_blob(what));
        }
        Ok(executor)
    }
}

/// A tensor of a run.
pub(crate) struct RunTensor {
    symbols: &'static Symbols,
    raw: *mut sys::NN_Tensor,
    _file: OwnedFd,
}

// SAFETY: made and used by one thread at a time, behind the executable's lock.
unsafe impl Send for RunTensor {}

impl Drop for RunTensor {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, while no run has it.
        unsafe { self.symbols.OH_NNTensor_Destroy(&raw mut self.raw) };
    }
}

/// An execution, used by one run at a time.
pub(crate) struct Executor {
    raw: *mut sys::OH_NNExecutor,
    compilation: Compilation,
}

// SAFETY: used by one thread at a time, behind the executable's lock; the runtime takes calls from any.
unsafe impl Send for Executor {}

impl Drop for Executor {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, before its compilation.
        unsafe { self.compilation.symbols.OH_NNExecutor_Destroy(&raw mut self.raw) }
    }
}

impl Executor {
    /// Runs, and waits for the end.
    ///
    /// # Errors
    /// The runtime's error.
    pub(crate) fn run(&mut self, inputs: &[&RunTensor], outputs: &[&RunTensor]) -> Result<()> {
        let handles = |tensors: &[&RunTensor]| tensors.iter().map(|tensor| tensor.raw).collect();
        let (mut from, mut to): (Vec<_>, Vec<_>) = (handles(inputs), handles(outputs));
        // SAFETY: live objects; both lists hold as many tensors as is said. The host binds memory to no two runs of which one
        // writes.
        let code = unsafe {
            self.compilation.symbols.OH_NNExecutor_RunSync(
                self.raw,
                from.as_mut_ptr(),
                from.len(),
                to.as_mut_ptr(),
                to.len(),
            )
        };
        check(code, "OH_NNExecutor_RunSync")
    }
}
