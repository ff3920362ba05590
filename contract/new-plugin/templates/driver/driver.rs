//! The driver's library: opening it, and what its results mean.
//!
//! Invariants:
//! 1. The library is opened once per plugin instance and never closed.
//! 2. A missing library, another version and a missing function are errors that name the file and the
//!    remedy.
//!
//! Not here: records and functions as the header declares them (`api`), objects of the driver
//! (`session`), what is passed to its compiler (`graph`).

#![allow(unsafe_code, reason = "the vendor's library is opened and called here")]

mod api;
mod graph;
mod session;

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use libloading::Library;
use polychip_sdk::{Error, ErrorKind, Result};

use api::Api;
pub(crate) use graph::{Graph, MAX_RANK, Operation, Pool, Tensor};
pub(crate) use session::{Binding, DeviceInfo, MemoryBlock, Program, Session};

/// Major version of the header, and the first minor version with all functions that this plugin calls.
const VERSION: (u32, u32) = (1, 0);

/// An open driver.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    api: &'static Api,
    version: (u32, u32),
}

impl Driver {
    /// Opens the library in `folder`, or where the system looks for libraries.
    pub(crate) fn open(folder: Option<&str>) -> Result<Driver> {
        let name = libloading::library_filename("xyz_driver");
        let file = folder.map_or_else(|| PathBuf::from(&name), |folder| Path::new(folder).join(&name));
        let (major, minor) = VERSION;
        let remedy = format!("install the xyz driver {major}.{minor} or later, or set xyz.lib_dir to its folder");
        if let Some(folder) = folder.filter(|_| !file.is_file()) {
            let text = format!("lib_dir {folder} has no {}; {remedy}", name.display());
            return Err(Error::new(ErrorKind::Persistent, text));
        }
        let failed = |what: &str| Error::new(ErrorKind::Persistent, format!("{}: {what}; {remedy}", file.display()));
        // SAFETY: the library's initialisers run here; the user chose the library.
        let library = unsafe { Library::new(&file) }.map_err(|error| failed(&cause(&error)))?;
        let library: &'static Library = Box::leak(Box::new(library));
        // first, because another version may lack any other function
        let version = api::version(library).map_err(|symbol| failed(&format!("it has no function {symbol}")))?;
        if version.0 != major || version.1 < minor {
            return Err(failed(&format!("it is version {}.{}", version.0, version.1)));
        }
        let api = Api::of(library).map_err(|symbol| {
            failed(&format!("it has no function {symbol}, although it is version {}.{}", version.0, version.1))
        })?;
        Ok(Driver {
            api: Box::leak(Box::new(api)),
            version,
        })
    }

    /// The driver's version, for the device's description and for blobs.
    pub(crate) fn version(self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Number of chips.
    pub(crate) fn device_count(self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the number lives during the call.
        let code = unsafe { (self.api.device_count)(&raw mut count) };
        self.api.check("xyz_device_count", code).map(|()| count)
    }

    /// Opens a chip.
    pub(crate) fn open_session(self, index: u32) -> Result<Session> {
        Session::open(self.api, index)
    }
}

impl Api {
    /// The error of a call that did not return success: the driver's code decides what the host does
    /// next, and its text says why.
    fn check(&self, call: &str, code: i32) -> Result<()> {
        if code == api::OK {
            return Ok(());
        }
        // SAFETY: the header keeps the text until this thread's next call.
        let text = unsafe { CStr::from_ptr((self.last_error)()) }.to_string_lossy();
        Err(Error::new(kind(code), format!("{call}: {text} (code {code})")).with_vendor_code(code.into()))
    }
}

/// What the system's loader complains about: `libloading` itself only names its call.
fn cause(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| source.to_string())
}

/// What a code of the driver means to the host.
fn kind(code: i32) -> ErrorKind {
    match code {
        api::BAD_ARGUMENT => ErrorKind::BadArgument,
        api::UNSUPPORTED => ErrorKind::Unsupported,
        api::OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        api::BAD_PROGRAM => ErrorKind::BadBlob,
        api::INTERRUPTED => ErrorKind::Cancelled,
        api::DEVICE_LOST => ErrorKind::DeviceLost,
        // a code of a later version
        _ => ErrorKind::Persistent,
    }
}
