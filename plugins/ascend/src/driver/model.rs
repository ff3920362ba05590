//! A model on a board: its memory, its ports, and its runs.
//!
//! Invariants:
//! 1. It is unloaded once, before its memory and its opening; the lists of a run's memory are
//!    released after it.
//! 2. A port is read only if its index is below the library's count.

use std::ffi::c_void;
use std::sync::Arc;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::ascend::bindings as acl;

use super::{Opening, Piece};

/// The library's description of an input or output.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    /// Extents; below zero where only a run knows.
    pub(crate) extents: Vec<i64>,
    pub(crate) is_f32: bool,
    pub(crate) bytes: usize,
}

/// The memory of one side of a run, in the order of ports.
struct Dataset {
    opening: Arc<Opening>,
    raw: *mut acl::aclmdlDataset,
    buffers: Vec<*mut acl::aclDataBuffer>,
}

/// A model that is loaded.
pub(crate) struct Model {
    opening: Arc<Opening>,
    id: u32,
    description: *mut acl::aclmdlDesc,
    inputs: Dataset,
    outputs: Dataset,
    /// Of work and of weights.
    _memory: [Piece; 2],
    bytes: [usize; 2],
}

// SAFETY: handles of the library's, used by one run at a time, with the context set.
unsafe impl Send for Model {}

/// The error of a record that the library does not make.
fn none(call: &str) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{call} gives nothing"))
}

impl Dataset {
    /// A list of `ports` entries, which name no memory yet.
    fn new(opening: &Arc<Opening>, ports: usize, somewhere: *mut c_void) -> Result<Dataset> {
        let symbols = opening.driver.library.symbols();
        // SAFETY: the call has no arguments.
        let raw = unsafe { symbols.aclmdlCreateDataset() };
        if raw.is_null() {
            return Err(none("aclmdlCreateDataset"));
        }
        let mut dataset = Dataset {
            opening: Arc::clone(opening),
            raw,
            buffers: Vec::with_capacity(ports),
        };
        for _ in 0..ports {
            // SAFETY: an address of the board's, which no run uses: each binds its own first.
            let buffer = unsafe { symbols.aclCreateDataBuffer(somewhere, 1) };
            if buffer.is_null() {
                return Err(none("aclCreateDataBuffer"));
            }
            dataset.buffers.push(buffer);
            // SAFETY: both are alive, and the list names the entry until both go.
            let code = unsafe { symbols.aclmdlAddDatasetBuffer(raw, buffer) };
            opening.driver.check("aclmdlAddDatasetBuffer", code)?;
        }
        Ok(dataset)
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        let symbols = self.opening.driver.library.symbols();
        // SAFETY: made by us, and let go of once; the list does not own its entries.
        unsafe { symbols.aclmdlDestroyDataset(self.raw) };
        for &buffer in &self.buffers {
            // SAFETY: as above.
            unsafe { symbols.aclDestroyDataBuffer(buffer) };
        }
    }
}

impl Model {
    /// Loads a compiled part into memory of its own.
    pub(crate) fn open(opening: &Arc<Opening>, om: &[u8]) -> Result<Model> {
        opening.alive()?;
        opening.enter()?;
        let (driver, symbols) = (opening.driver, opening.driver.library.symbols());
        let [mut work, mut weights] = [0usize; 2];
        let from = om.as_ptr().cast::<c_void>();
        // SAFETY: the bytes are readable, both numbers writable.
        let code = unsafe { symbols.aclmdlQuerySizeFromMem(from, om.len(), &raw mut work, &raw mut weights) };
        driver.check("aclmdlQuerySizeFromMem", code)?;
        let memory = [Piece::new(opening, work)?, Piece::new(opening, weights)?];
        let [at_work, at_weights] = [memory[0].address(0, work)?, memory[1].address(0, weights)?];
        let mut id = 0u32;
        // SAFETY: the bytes are readable, the number writable, and the memory outlives the model.
        let code = unsafe {
            symbols.aclmdlLoadFromMemWithMem(from, om.len(), &raw mut id, at_work, work, at_weights, weights)
        };
        driver.check("aclmdlLoadFromMemWithMem", code)?;
        // what follows fails only where memory ran out or the library contradicts itself; the model goes then
        let unload = |error: Error| {
            // SAFETY: loaded above, and unloaded once.
            unsafe { symbols.aclmdlUnload(id) };
            error
        };
        // SAFETY: the call has no arguments.
        let description = unsafe { symbols.aclmdlCreateDesc() };
        if description.is_null() {
            return Err(unload(none("aclmdlCreateDesc")));
        }
        let made = || -> Result<(Dataset, Dataset)> {
            // SAFETY: the record is alive, and the model loaded.
            let code = unsafe { symbols.aclmdlGetDesc(description, id) };
            driver.check("aclmdlGetDesc", code)?;
            // SAFETY: the record is alive.
            let inputs = unsafe { symbols.aclmdlGetNumInputs(description) };
            // SAFETY: as above.
            let outputs = unsafe { symbols.aclmdlGetNumOutputs(description) };
            Ok((
                Dataset::new(opening, inputs, at_work)?,
                Dataset::new(opening, outputs, at_work)?,
            ))
        };
        let (inputs, outputs) = made().map_err(|error| {
            // SAFETY: made above, and let go of once.
            unsafe { symbols.aclmdlDestroyDesc(description) };
            unload(error)
        })?;
        Ok(Model {
            opening: Arc::clone(opening),
            id,
            description,
            inputs,
            outputs,
            _memory: memory,
            bytes: [work, weights],
        })
    }

    /// How many inputs and outputs the library counts.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.inputs.buffers.len(), self.outputs.buffers.len())
    }

    /// Bytes of memory for work and for weights.
    pub(crate) fn bytes(&self) -> [usize; 2] {
        self.bytes
    }

    /// The library's description of an input or output.
    pub(crate) fn port(&self, output: bool, index: usize) -> Result<Seen> {
        let (driver, symbols) = (self.opening.driver, self.opening.driver.library.symbols());
        let side = if output { &self.outputs } else { &self.inputs };
        if index >= side.buffers.len() {
            return Err(Error::bad_argument(format!(
                "port {index} of {}",
                side.buffers.len()
            )));
        }
        // SAFETY: a record of numbers, for which zeros are values.
        let mut dims: acl::aclmdlIODims = unsafe { std::mem::zeroed() };
        let raw = self.description;
        let (code, dtype, bytes) = if output {
            // SAFETY: as above.
            unsafe {
                (
                    symbols.aclmdlGetOutputDims(raw, index, &raw mut dims),
                    symbols.aclmdlGetOutputDataType(raw, index),
                    symbols.aclmdlGetOutputSizeByIndex(raw, index),
                )
            }
        } else {
            // SAFETY: the description is alive, the port is one that it counts, and the record writable.
            unsafe {
                (
                    symbols.aclmdlGetInputDims(raw, index, &raw mut dims),
                    symbols.aclmdlGetInputDataType(raw, index),
                    symbols.aclmdlGetInputSizeByIndex(raw, index),
                )
            }
        };
        driver.check("aclmdlGetInputDims or aclmdlGetOutputDims", code)?;
        let count = dims.count;
        let extents = dims
            .extents
            .get(..count)
            .ok_or_else(|| Error::unsupported(format!("the library reports a port with {count} axes")))?;
        Ok(Seen {
            extents: extents.to_vec(),
            is_f32: dtype == acl::ACL_TYPE_F32 as i32,
            bytes,
        })
    }

    /// Names the memory of a port for the next run.
    pub(crate) fn bind(&self, output: bool, index: usize, at: *mut c_void, bytes: usize) -> Result<()> {
        let side = if output { &self.outputs } else { &self.inputs };
        let buffer = side
            .buffers
            .get(index)
            .ok_or_else(|| Error::bad_argument("no such port"))?;
        let symbols = self.opening.driver.library.symbols();
        // SAFETY: the entry is alive; the run holds the memory until the stream was waited for.
        let code = unsafe { symbols.aclUpdateDataBuffer(*buffer, at, bytes) };
        self.opening.driver.check("aclUpdateDataBuffer", code)
    }

    /// Enqueues a run over the memory that is bound.
    pub(crate) fn enqueue(&self) -> Result<()> {
        let symbols = self.opening.driver.library.symbols();
        let stream = self.opening.stream();
        // SAFETY: model, lists and stream are alive, and all ports are bound.
        let code = unsafe { symbols.aclmdlExecuteAsync(self.id, self.inputs.raw, self.outputs.raw, stream) };
        self.opening.driver.check("aclmdlExecuteAsync", code)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let symbols = self.opening.driver.library.symbols();
        // a lost board has let go of the model
        if self.opening.enter().is_ok() {
            // SAFETY: loaded once, and unloaded once; its memory goes after this.
            unsafe { symbols.aclmdlUnload(self.id) };
        }
        // SAFETY: made once, and let go of once.
        unsafe { symbols.aclmdlDestroyDesc(self.description) };
    }
}
