//! Models, the memory that they run over, and the available compute units.
//!
//! Invariants:
//! 1. An array keeps the extents and strides that it was made with, over memory that its maker
//!    keeps alive.
//! 2. A model is used by one thread at a time; Core ML does not document concurrent use.

#![allow(unsafe_code, reason = "messages are sent here")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use super::foundation::{self as ns, Failure};
use super::library::{Id, Library, send};
use super::object::Object;

/// Compute units that a model may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(isize)]
pub enum Units {
    /// The processor and the GPU.
    Gpu = 1,
    /// The processor and the Neural Engine.
    Ane = 3,
}

/// A compute unit of the system, other than the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The units with which a model is loaded to use it.
    pub units: Units,
    /// Number of cores; 0 if the system does not report it.
    pub cores: u32,
}

/// Type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(isize)]
pub enum DataType {
    /// 16-bit floats.
    F16 = 65552,
    /// 32-bit floats.
    F32 = 65568,
    /// 32-bit integers.
    I32 = 131_104,
}

/// Strides of a dense array, in elements.
fn strides_of(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}

/// A dense array over memory of the caller's.
pub struct Array(Object);

impl Array {
    /// Makes an array over memory.
    ///
    /// # Errors
    /// Core ML refuses the extents.
    ///
    /// # Safety
    /// The memory holds a dense array of these extents. It remains valid as long as the array and
    /// everything made from it.
    pub unsafe fn over(
        library: &'static Library,
        address: *mut u8,
        dims: &[usize],
        data: DataType,
    ) -> Result<Array, Failure> {
        library.pool(|| {
            let strides = ns::numbers(library, &strides_of(dims));
            let dims = ns::numbers(library, dims);
            let class = library.classes.multi_array.0;
            let empty = send!(library, class, alloc() -> Id);
            let mut error: Id = std::ptr::null_mut();
            let made = send!(
                library,
                empty,
                array_over(
                    address.cast() => *mut c_void,
                    dims => Id,
                    data as isize => isize,
                    strides => Id,
                    std::ptr::null_mut() => Id,
                    &raw mut error => *mut Id
                ) -> Id
            );
            let failed = || Failure::of(library, error, "making an array over memory");
            Object::owned(library, made).map(Array).ok_or_else(failed)
        })
    }

    /// The address of the first element.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        let library = self.0.library();
        library
            .pool(|| send!(library, self.0.id(), data_pointer() -> *mut c_void))
            .cast()
    }

    /// Copies the array, `bytes` bytes, to memory. Returns false if it is not a dense array of this
    /// type and these extents.
    ///
    /// # Safety
    /// `to` is valid for writing `bytes` bytes, which do not overlap the array.
    #[must_use]
    pub unsafe fn copy_to(&self, to: *mut u8, dims: &[usize], data: DataType, bytes: usize) -> bool {
        let library = self.0.library();
        let list = |list: Id| -> Vec<usize> {
            let number = |&id: &Id| usize::try_from(send!(library, id, long_long() -> i64)).unwrap_or(0);
            ns::items(library, list).iter().map(number).collect()
        };
        let dense = library.pool(|| {
            send!(library, self.0.id(), data_type() -> isize) == data as isize
                && list(send!(library, self.0.id(), shape() -> Id)) == dims
                && list(send!(library, self.0.id(), strides() -> Id)) == strides_of(dims)
        });
        if dense {
            // SAFETY: dense extents of the port's hold as many bytes; the caller vouches for `to`.
            unsafe { std::ptr::copy_nonoverlapping(self.address(), to, bytes) };
        }
        dense
    }
}

/// Arrays by name: the inputs or outputs of a model.
pub struct Features(Object);

impl Features {
    /// Makes features of these arrays.
    ///
    /// # Errors
    /// Core ML refuses them.
    pub fn of(library: &'static Library, arrays: &[(&str, &Array)]) -> Result<Features, Failure> {
        library.pool(|| {
            let class = library.classes.feature_value.0;
            let values: Vec<(&str, Id)> = arrays
                .iter()
                .map(|&(name, array)| (name, send!(library, class, of_array(array.0.id() => Id) -> Id)))
                .collect();
            let pairs = ns::dictionary(library, &values)?;
            let class = library.classes.features.0;
            let empty = send!(library, class, alloc() -> Id);
            let mut error: Id = std::ptr::null_mut();
            let made = send!(library, empty, features(pairs => Id, &raw mut error => *mut Id) -> Id);
            let failed = || Failure::of(library, error, "naming the inputs");
            Object::owned(library, made).map(Features).ok_or_else(failed)
        })
    }

    /// The array of this name.
    #[must_use]
    pub fn array(&self, name: &str) -> Option<Array> {
        let library = self.0.library();
        library.pool(|| {
            let name = ns::text(library, name).ok()?;
            let value = send!(library, self.0.id(), feature(name => Id) -> Id);
            if value.is_null() {
                return None;
            }
            let array = send!(library, value, array_value() -> Id);
            Object::held(library, array).map(Array)
        })
    }
}

/// Options of a run: the memory of its outputs.
pub struct Options(Object);

impl Options {
    /// Makes options by which Core ML writes the outputs to these arrays.
    ///
    /// # Errors
    /// The objects cannot be made.
    pub fn into(library: &'static Library, backings: &[(&str, &Array)]) -> Result<Options, Failure> {
        library.pool(|| {
            let options = ns::new(library, library.classes.options.0)?;
            let pairs: Vec<(&str, Id)> = backings
                .iter()
                .map(|(name, array)| (*name, array.0.id()))
                .collect();
            let pairs = ns::dictionary(library, &pairs)?;
            send!(library, options.id(), set_backings(pairs => Id) -> ());
            Ok(Options(options))
        })
    }
}

/// A loaded model.
pub struct Model(Object);

impl Model {
    /// Compiles a package into a folder that the system chooses. The caller removes the folder.
    ///
    /// # Errors
    /// Core ML refuses the package.
    pub fn compile(library: &'static Library, package: &Path) -> Result<PathBuf, Failure> {
        library.pool(|| {
            let address = ns::address(library, package)?;
            let mut error: Id = std::ptr::null_mut();
            let class = library.classes.model.0;
            let compiled = send!(library, class, compile(address => Id, &raw mut error => *mut Id) -> Id);
            ns::path(library, compiled).ok_or_else(|| Failure::of(library, error, "compiling the model"))
        })
    }

    /// Loads a compiled model for these units.
    ///
    /// # Errors
    /// Core ML refuses the model.
    pub fn load(library: &'static Library, compiled: &Path, units: Units) -> Result<Model, Failure> {
        library.pool(|| {
            let address = ns::address(library, compiled)?;
            let configuration = configuration(library, units)?;
            let mut error: Id = std::ptr::null_mut();
            let class = library.classes.model.0;
            let model = send!(
                library,
                class,
                load(address => Id, configuration.id() => Id, &raw mut error => *mut Id) -> Id
            );
            let failed = || Failure::of(library, error, "loading the model");
            Object::held(library, model).map(Model).ok_or_else(failed)
        })
    }

    /// Runs the model.
    ///
    /// # Errors
    /// The run fails, with Core ML's message.
    ///
    /// # Safety
    /// Until this returns, no other code uses the memory of the outputs' backings or writes to that
    /// of the inputs.
    pub unsafe fn predict(&self, inputs: &Features, options: &Options) -> Result<Features, Failure> {
        let library = self.0.library();
        library.pool(|| {
            let mut error: Id = std::ptr::null_mut();
            let outputs = send!(
                library,
                self.0.id(),
                predict(inputs.0.id() => Id, options.0.id() => Id, &raw mut error => *mut Id) -> Id
            );
            let failed = || Failure::of(library, error, "the run");
            Object::held(library, outputs).map(Features).ok_or_else(failed)
        })
    }
}

/// Makes a configuration for these units.
pub(super) fn configuration(library: &'static Library, units: Units) -> Result<Object, Failure> {
    let configuration = ns::new(library, library.classes.configuration.0)?;
    send!(library, configuration.id(), set_units(units as isize => isize) -> ());
    Ok(configuration)
}

/// The units of a compute device; `None` for the CPU and for unknown kinds.
pub(super) fn units_of(library: &'static Library, device: Id) -> Option<Units> {
    if device.is_null() {
        return None;
    }
    let is = |class: Id| send!(library, device, is_kind_of(class => Id) -> u8) != 0;
    if is(library.classes.ane.0) {
        Some(Units::Ane)
    } else if is(library.classes.gpu.0) {
        Some(Units::Gpu)
    } else {
        None
    }
}

impl Library {
    /// The compute units other than the CPU, each kind once, the Neural Engine first.
    #[must_use]
    pub fn units(&'static self) -> Vec<Found> {
        self.pool(|| {
            let class = self.classes.model.0;
            let devices = ns::items(self, send!(self, class, devices() -> Id));
            let mut found: Vec<Found> = Vec::new();
            for wanted in [Units::Ane, Units::Gpu] {
                let device = devices
                    .iter()
                    .find(|&&device| units_of(self, device) == Some(wanted));
                let Some(&device) = device else { continue };
                let cores = match wanted {
                    Units::Ane => send!(self, device, cores() -> isize),
                    Units::Gpu => 0,
                };
                found.push(Found {
                    units: wanted,
                    cores: u32::try_from(cores).unwrap_or(0),
                });
            }
            found
        })
    }
}
