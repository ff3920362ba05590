//! The library's calls with checked results, and its objects, freed once.
//!
//! Invariants:
//! 1. A code other than 0 is an error that names the call, the library and the code's meaning.
//! 2. A program's constants live as long as the compilation that is made of it: larger ones are not copied.
//! 3. An execution holds the memory that is bound to it, and its compilation.
//!
//! Not here: call order (`caps`, `exec`, `plugin`).

#![allow(unsafe_code, reason = "calls of a foreign library")]

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::Arc;

use polychip_sdk::{Error, ErrorKind, HostBuffer, MemoryKind, Result};
use polychip_sys::neuron::Library;
use polychip_sys::neuron::bindings::{self as sys, Symbols};

use crate::program::Program;

/// Options of compilations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) preference: u32,
    pub(crate) priority: u32,
    pub(crate) hint: u32,
    pub(crate) options: String,
}

/// The open library.
#[derive(Clone)]
pub(crate) struct Api {
    library: &'static Library,
    settings: Arc<Settings>,
}

/// Meaning of a code, and its error kind.
fn meaning(code: c_int) -> (ErrorKind, &'static str) {
    match u32::try_from(code).unwrap_or(u32::MAX) {
        sys::NEURON_OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "out of memory"),
        sys::NEURON_INCOMPLETE => (ErrorKind::Persistent, "incomplete"),
        sys::NEURON_UNEXPECTED_NULL => (ErrorKind::Persistent, "an argument is null"),
        sys::NEURON_BAD_DATA => (ErrorKind::Unsupported, "bad data"),
        sys::NEURON_OP_FAILED => (ErrorKind::Persistent, "the operation failed"),
        sys::NEURON_UNMAPPABLE => (ErrorKind::Unsupported, "the memory cannot be mapped"),
        sys::NEURON_BAD_STATE => (ErrorKind::Persistent, "bad state"),
        sys::NEURON_BAD_VERSION => (ErrorKind::Unsupported, "another version"),
        sys::NEURON_OUTPUT_INSUFFICIENT_SIZE => (ErrorKind::Persistent, "an output is too small"),
        sys::NEURON_UNAVAILABLE_DEVICE => (ErrorKind::DeviceLost, "the device is not available"),
        sys::NEURON_MISSED_DEADLINE_TRANSIENT => (ErrorKind::Transient, "too late, in passing"),
        sys::NEURON_MISSED_DEADLINE_PERSISTENT => (ErrorKind::Persistent, "too late"),
        sys::NEURON_RESOURCE_EXHAUSTED_TRANSIENT => (ErrorKind::Transient, "short of something, in passing"),
        sys::NEURON_RESOURCE_EXHAUSTED_PERSISTENT => (ErrorKind::OutOfMemory, "short of something"),
        sys::NEURON_DEAD_OBJECT => (ErrorKind::DeviceLost, "the service behind it has died"),
        _ => (ErrorKind::Persistent, "a code that is not known"),
    }
}

/// Calls an optional function of the library, where it is there.
macro_rules! offered {
    ($api:expr, $call:ident) => {
        $api.symbols().$call.as_ref().ok()
    };
}

impl Api {
    pub(crate) fn new(library: &'static Library, settings: Settings) -> Api {
        Api {
            library,
            settings: Arc::new(settings),
        }
    }

    /// Whether the library emulates the chip.
    pub(crate) fn is_emulated(&self) -> bool {
        self.library.is_emulated()
    }

    fn symbols(&self) -> &'static Symbols {
        self.library.symbols()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether runs take boost hints.
    pub(crate) fn boosts(&self) -> bool {
        offered!(self, NeuronExecution_setBoostHint).is_some()
    }

    fn check(&self, code: c_int, call: &str) -> Result<()> {
        if code == sys::NEURON_NO_ERROR as c_int {
            return Ok(());
        }
        let (kind, words) = meaning(code);
        let path = self.library.path().display();
        let what = format!(
            "{call} of {path} {}: {words} (code {code})",
            self.library.version()
        );
        Err(Error::new(kind, what).with_vendor_code(i64::from(code)))
    }

    /// A finished model of a program.
    fn model(&self, program: &Program) -> Result<Model> {
        let symbols = self.symbols();
        let mut raw = ptr::null_mut();
        // SAFETY: the place for the handle is ours.
        let code = unsafe { symbols.NeuronModel_create(&raw mut raw) };
        self.check(code, "NeuronModel_create")?;
        let model = Model {
            api: self.clone(),
            raw,
        };
        for (index, operand) in program.operands.iter().enumerate() {
            let ty = sys::NeuronOperandType {
                type_: operand.code as i32,
                dimensionCount: operand.dims.len() as u32,
                dimensions: if operand.dims.is_empty() {
                    ptr::null()
                } else {
                    operand.dims.as_ptr()
                },
                scale: operand.quant.scale,
                zeroPoint: operand.quant.zero,
            };
            // SAFETY: a live model; the type and its extents live during the call.
            let code = unsafe { symbols.NeuronModel_addOperand(raw, &raw const ty) };
            self.check(code, "NeuronModel_addOperand")?;
            if let Some((axis, scales)) = &operand.channels {
                let channels = sys::NeuronSymmPerChannelQuantParams {
                    channelDim: *axis,
                    scaleCount: scales.len() as u32,
                    scales: scales.as_ptr(),
                };
                // SAFETY: a live model; the scales live during the call.
                let code = unsafe {
                    symbols.NeuronModel_setOperandSymmPerChannelQuantParams(
                        raw,
                        index as i32,
                        &raw const channels,
                    )
                };
                self.check(code, "NeuronModel_setOperandSymmPerChannelQuantParams")?;
            }
            if let Some(value) = &operand.value {
                let bytes = value.bytes();
                // SAFETY: a live model; the bytes are the program's, which outlives the compilation.
                let code = unsafe {
                    symbols.NeuronModel_setOperandValue(raw, index as i32, bytes.as_ptr().cast(), bytes.len())
                };
                self.check(code, "NeuronModel_setOperandValue")?;
            }
        }
        for operation in &program.operations {
            let list = |ids: &[usize]| ids.iter().map(|&id| id as u32).collect::<Vec<u32>>();
            let (inputs, outputs) = (list(&operation.inputs), list(&operation.outputs));
            // SAFETY: a live model; both lists live during the call.
            let code = unsafe {
                symbols.NeuronModel_addOperation(
                    raw,
                    operation.code as i32,
                    inputs.len() as u32,
                    inputs.as_ptr(),
                    outputs.len() as u32,
                    outputs.as_ptr(),
                )
            };
            self.check(
                code,
                &format!("NeuronModel_addOperation of operation {}", operation.code),
            )
            .map_err(|error| at(error, operation.node))?;
        }
        let ports = |ids: &[usize]| ids.iter().map(|&id| id as u32).collect::<Vec<u32>>();
        let (inputs, outputs) = (ports(&program.inputs), ports(&program.outputs));
        // SAFETY: a live model; both lists live during the call.
        let code = unsafe {
            symbols.NeuronModel_identifyInputsAndOutputs(
                raw,
                inputs.len() as u32,
                inputs.as_ptr(),
                outputs.len() as u32,
                outputs.as_ptr(),
            )
        };
        self.check(code, "NeuronModel_identifyInputsAndOutputs")?;
        // SAFETY: a live model.
        let code = unsafe { symbols.NeuronModel_finish(raw) };
        self.check(code, "NeuronModel_finish")?;
        // SAFETY: a finished model.
        let code = unsafe { symbols.NeuronModel_relaxComputationFloat32toFloat16(raw, program.relaxed) };
        self.check(code, "NeuronModel_relaxComputationFloat32toFloat16")?;
        Ok(model)
    }

    /// A compilation of a model, not finished, with all settings.
    fn compilation(&self, model: Model) -> Result<Compilation> {
        let symbols = self.symbols();
        let settings = &self.settings;
        let options = CString::new(settings.options.as_str())
            .map_err(|_| Error::bad_argument("the setting options holds a zero byte"))?;
        let mut raw = ptr::null_mut();
        let (code, call) = match offered!(self, NeuronCompilation_createWithOptions) {
            Some(create) if !settings.options.is_empty() => {
                // SAFETY: a finished model; the text ends with a zero byte; the place is ours.
                let code = unsafe { create(model.raw, &raw mut raw, options.as_ptr()) };
                (code, "NeuronCompilation_createWithOptions")
            }
            _ => {
                // SAFETY: a finished model; the place is ours.
                let code = unsafe { symbols.NeuronCompilation_create(model.raw, &raw mut raw) };
                (code, "NeuronCompilation_create")
            }
        };
        self.check(code, call)?;
        let compilation = Compilation { raw, model };
        if let Some(set) = offered!(self, NeuronCompilation_setPriority) {
            // SAFETY: a live compilation.
            let code = unsafe { set(raw, settings.priority as c_int) };
            self.check(code, "NeuronCompilation_setPriority")?;
        }
        // SAFETY: a live compilation.
        let code = unsafe { symbols.NeuronCompilation_setPreference(raw, settings.preference as i32) };
        self.check(code, "NeuronCompilation_setPreference")?;
        if let Some(set) = offered!(self, NeuronCompilation_setOptimizationHint) {
            // SAFETY: a live compilation.
            let code = unsafe { set(raw, settings.hint) };
            self.check(code, "NeuronCompilation_setOptimizationHint")?;
        }
        if let (Some(set), false) = (
            offered!(self, NeuronCompilation_setOptimizationString),
            settings.options.is_empty(),
        ) {
            // SAFETY: a live compilation; the text ends with a zero byte.
            let code = unsafe { set(raw, options.as_ptr()) };
            self.check(code, "NeuronCompilation_setOptimizationString")?;
        }
        Ok(compilation)
    }

    fn supported(&self, compilation: &Compilation, operations: usize) -> Result<Vec<bool>> {
        let mut answers = vec![false; operations];
        // SAFETY: a live compilation that is not finished; as many places as operations.
        let code = unsafe {
            self.symbols().NeuronCompilation_getSupportedOperations(
                compilation.raw,
                operations as u32,
                answers.as_mut_ptr(),
            )
        };
        self.check(code, "NeuronCompilation_getSupportedOperations")?;
        Ok(answers)
    }

    /// The library's verdict on each operation of a program.
    ///
    /// # Errors
    /// It refuses even the query.
    pub(crate) fn ask(&self, program: &Program) -> Result<Vec<bool>> {
        let compilation = self.compilation(self.model(program)?)?;
        self.supported(&compilation, program.operations.len())
    }

    /// Compiles a program: the library's bytes of it.
    ///
    /// # Errors
    /// If it refuses one, at its node, or the whole.
    pub(crate) fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        let symbols = self.symbols();
        let compilation = self.compilation(self.model(program)?)?;
        let answers = self.supported(&compilation, program.operations.len())?;
        if let Some((operation, _)) = program.operations.iter().zip(&answers).find(|(_, yes)| !**yes) {
            let what = format!("the library says no to operation {} in this part", operation.code);
            return Err(at(Error::unsupported(what), operation.node));
        }
        // SAFETY: a live compilation; the program's constants live.
        let code = unsafe { symbols.NeuronCompilation_finish(compilation.raw) };
        self.check(code, "NeuronCompilation_finish")
            .map_err(|error| match error.kind() {
                // what it could not tell before, and would say again
                ErrorKind::Persistent => {
                    Error::unsupported(error.to_string()).with_vendor_code(error.vendor_code())
                }
                _ => error,
            })?;
        let mut size = 0usize;
        // SAFETY: a finished compilation; the place is ours.
        let code =
            unsafe { symbols.NeuronCompilation_getCompiledNetworkSize(compilation.raw, &raw mut size) };
        self.check(code, "NeuronCompilation_getCompiledNetworkSize")?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("no memory for a network of {size} bytes"),
            )
        })?;
        bytes.resize(size, 0u8);
        // SAFETY: as many bytes as the call is told.
        let code = unsafe {
            symbols.NeuronCompilation_storeCompiledNetwork(compilation.raw, bytes.as_mut_ptr().cast(), size)
        };
        self.check(code, "NeuronCompilation_storeCompiledNetwork")?;
        Ok(bytes)
    }

    /// What [`Api::compile`] gave, ready to run.
    ///
    /// # Errors
    /// `BadBlob` if the library does not take it.
    pub(crate) fn restore(&self, bytes: &[u8]) -> Result<Compilation> {
        let (mut model, mut raw) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the places are ours; the bytes live during the call.
        let code = unsafe {
            self.symbols().NeuronModel_restoreFromCompiledNetwork(
                &raw mut model,
                &raw mut raw,
                bytes.as_ptr().cast(),
                bytes.len(),
            )
        };
        let restored = self.check(code, "NeuronModel_restoreFromCompiledNetwork");
        restored.map_err(|error| match error.kind() {
            ErrorKind::Persistent | ErrorKind::Unsupported => {
                Error::bad_blob(error.to_string()).with_vendor_code(error.vendor_code())
            }
            _ => error,
        })?;
        let model = Model {
            api: self.clone(),
            raw: model,
        };
        Ok(Compilation { raw, model })
    }

    /// Memory that host and library share, behind a descriptor, which is duplicated.
    ///
    /// # Errors
    /// The library refuses it.
    #[cfg(unix)]
    pub(crate) fn memory(&self, memory: &polychip_sdk::Memory) -> Result<Memory> {
        const READ_WRITE: c_int = 3;
        if memory.kind() == MemoryKind::HardwareBuffer {
            return self.hardware_memory(memory);
        }
        let fd = memory
            .fd()
            .and_then(|fd| i32::try_from(fd).ok())
            .filter(|&fd| fd >= 0);
        let fd = fd.ok_or_else(|| Error::bad_argument("memory to import has no descriptor"))?;
        // SAFETY: the host's, open during this call by the contract.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let held = fd.try_clone_to_owned();
        let held = held.map_err(|error| Error::unsupported(format!("a descriptor is not held: {error}")))?;
        let (Ok(size), Ok(offset)) = (usize::try_from(memory.bytes()), usize::try_from(memory.offset()))
        else {
            return Err(Error::bad_argument("memory beyond the address space"));
        };
        let mut raw = ptr::null_mut();
        // SAFETY: an open descriptor; the place is ours.
        let code = unsafe {
            self.symbols().NeuronMemory_createFromFd(
                size.max(1),
                READ_WRITE,
                std::os::fd::AsRawFd::as_raw_fd(&held),
                offset,
                &raw mut raw,
            )
        };
        self.check(code, "NeuronMemory_createFromFd")?;
        Ok(Memory {
            api: self.clone(),
            raw,
            start: 0,
            _fd: Some(held),
        })
    }

    /// This system has no descriptors.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub(crate) fn memory(&self, memory: &polychip_sdk::Memory) -> Result<Memory> {
        Err(Error::unsupported(format!(
            "memory of kind {:?} on this system",
            memory.kind()
        )))
    }

    #[cfg(unix)]
    fn hardware_memory(&self, memory: &polychip_sdk::Memory) -> Result<Memory> {
        let Some(create) = offered!(self, NeuronMemory_createFromAHardwareBuffer) else {
            let error = self.library.lacks("NeuronMemory_createFromAHardwareBuffer");
            return Err(Error::unsupported(error.to_string()));
        };
        let handle = ptr::with_exposed_provenance::<sys::AHardwareBuffer>(memory.handle() as usize);
        let mut raw = ptr::null_mut();
        // SAFETY: a live buffer of Android's by the contract; the place is ours.
        let code = unsafe { create(handle, &raw mut raw) };
        self.check(code, "NeuronMemory_createFromAHardwareBuffer")?;
        Ok(Memory {
            api: self.clone(),
            raw,
            start: memory.offset() as usize,
            _fd: None,
        })
    }
}

fn at(error: Error, node: Option<u32>) -> Error {
    match node {
        Some(node) => error.at_node(node),
        None => error,
    }
}

/// A model.
struct Model {
    api: Api,
    raw: *mut sys::NeuronModel,
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made once, freed once, behind its compilation.
        unsafe { self.api.symbols().NeuronModel_free(self.raw) }
    }
}

/// A compilation and its model.
pub(crate) struct Compilation {
    raw: *mut sys::NeuronCompilation,
    model: Model,
}

// SAFETY: the library takes calls on different objects from any thread; one on a compilation comes from one at a time.
unsafe impl Send for Compilation {}
// SAFETY: as above; shared, it is only asked for sizes and new executions.
unsafe impl Sync for Compilation {}

impl Drop for Compilation {
    fn drop(&mut self) {
        // SAFETY: made once, freed once, before its model.
        unsafe { self.model.api.symbols().NeuronCompilation_free(self.raw) }
    }
}

impl Compilation {
    /// Bytes of memory that a port takes: its elements, where the library does not say more.
    ///
    /// # Errors
    /// If the library has no such port.
    pub(crate) fn padded(&self, output: bool, place: usize, bytes: u64) -> Result<u64> {
        let api = &self.model.api;
        let mut size = 0usize;
        let code = if output {
            let Some(ask) = offered!(api, NeuronCompilation_getOutputPaddedSize) else {
                return Ok(bytes);
            };
            // SAFETY: a finished compilation; the place is ours.
            unsafe { ask(self.raw, place as i32, &raw mut size) }
        } else {
            let Some(ask) = offered!(api, NeuronCompilation_getInputPaddedSize) else {
                return Ok(bytes);
            };
            // SAFETY: as above.
            unsafe { ask(self.raw, place as i32, &raw mut size) }
        };
        api.check(code, "NeuronCompilation_get…PaddedSize")?;
        Ok(bytes.max(size as u64))
    }

    /// An execution.
    ///
    /// # Errors
    /// If the library makes none.
    pub(crate) fn execution(self) -> Result<Execution> {
        let api = self.model.api.clone();
        let mut raw = ptr::null_mut();
        // SAFETY: a finished compilation; the place is ours.
        let code = unsafe { api.symbols().NeuronExecution_create(self.raw, &raw mut raw) };
        api.check(code, "NeuronExecution_create")?;
        Ok(Execution {
            raw,
            api,
            _compilation: self,
        })
    }
}

/// Memory shared with the library.
pub(crate) struct Memory {
    api: Api,
    raw: *mut sys::NeuronMemory,
    /// Where the buffer starts in it.
    start: usize,
    #[cfg(unix)]
    _fd: Option<std::os::fd::OwnedFd>,
}

// SAFETY: the library takes memory from any thread; nothing changes it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; executions that it is bound to bind other memory before they run.
        unsafe { self.api.symbols().NeuronMemory_free(self.raw) }
    }
}

/// An execution, used by one run at a time.
pub(crate) struct Execution {
    raw: *mut sys::NeuronExecution,
    api: Api,
    _compilation: Compilation,
}

// SAFETY: used by one thread at a time, behind `&mut`.
unsafe impl Send for Execution {}

impl Drop for Execution {
    fn drop(&mut self) {
        // SAFETY: made once, freed once, before its compilation.
        unsafe { self.api.symbols().NeuronExecution_free(self.raw) }
    }
}

impl Execution {
    /// Binds a range of a buffer to a port: shared memory where it is, else the host's address.
    ///
    /// # Errors
    /// The library refuses it.
    ///
    /// # Safety
    /// The range lies in the buffer, and both live until the next run has ended. Nobody else uses it meanwhile where the
    /// port is an output, nobody writes to it where it is an input.
    pub(crate) unsafe fn bind(
        &mut self,
        output: bool,
        place: usize,
        (memory, host): (Option<&Memory>, &HostBuffer),
        offset: usize,
        bytes: usize,
    ) -> Result<()> {
        let symbols = self.api.symbols();
        let (run, number) = (self.raw, place as u32);
        let none = ptr::null();
        let address = host.as_ptr().wrapping_add(offset).cast();
        let (code, call) = match (memory, output) {
            (Some(memory), false) => {
                let offset = memory.start + offset;
                // SAFETY: live objects; a range of the memory.
                let code = unsafe {
                    symbols.NeuronExecution_setInputFromMemory(run, number, none, memory.raw, offset, bytes)
                };
                (code, "NeuronExecution_setInputFromMemory")
            }
            (Some(memory), true) => {
                let offset = memory.start + offset;
                // SAFETY: as above.
                let code = unsafe {
                    symbols.NeuronExecution_setOutputFromMemory(run, number, none, memory.raw, offset, bytes)
                };
                (code, "NeuronExecution_setOutputFromMemory")
            }
            (None, false) => {
                // SAFETY: a live execution; the range is as the caller promises.
                let code =
                    unsafe { symbols.NeuronExecution_setInput(run, number as i32, none, address, bytes) };
                (code, "NeuronExecution_setInput")
            }
            (None, true) => {
                // SAFETY: as above.
                let code =
                    unsafe { symbols.NeuronExecution_setOutput(run, number as i32, none, address, bytes) };
                (code, "NeuronExecution_setOutput")
            }
        };
        self.api.check(code, call)
    }

    /// Sets the boost hint of the next runs.
    ///
    /// # Errors
    /// The library refuses it.
    pub(crate) fn boost(&mut self, boost: u8) -> Result<()> {
        let Some(set) = offered!(self.api, NeuronExecution_setBoostHint) else {
            return Ok(());
        };
        // SAFETY: a live execution.
        self.api
            .check(unsafe { set(self.raw, boost) }, "NeuronExecution_setBoostHint")
    }

    /// Runs, and waits for the end.
    ///
    /// # Errors
    /// The library's error.
    ///
    /// # Safety
    /// Every port is bound, as [`Execution::bind`] asks.
    pub(crate) unsafe fn compute(&mut self) -> Result<()> {
        // SAFETY: a live execution, bound as the caller promises.
        let code = unsafe { self.api.symbols().NeuronExecution_compute(self.raw) };
        self.api.check(code, "NeuronExecution_compute")
    }
}
