//! The functions that ONNX Runtime hands in.
//!
//! Invariants:
//! 1. Every table is one that the runtime gave for a version it has, and none is ever freed.
//! 2. A status that is no success is released once its words are read.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use polychip_sys::onnxruntime::bindings::{
    ORT_VERSION, ORT_VERSION_SHAPES, OrtApi, OrtApiBase, OrtEpApi, OrtStatus,
};

use crate::failure::{Failure, Result};

/// ONNX Runtime's functions, those for providers, and which version it has.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    ort: &'static OrtApi,
    ep: &'static OrtEpApi,
    /// Whether the two functions at the end of the table are there.
    pub(crate) has_shapes: bool,
    /// Whether a fused node is given what bodies within it alone read.
    pub(crate) hands_captures: bool,
}

// SAFETY: the tables are constant memory of the runtime's.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// The first release that was seen to hand fused nodes what only bodies within them read; 1.26 does not.
const HANDS_CAPTURES: u32 = 31;

/// The process that first used the library.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Whether this is a child that was forked since: it has none of the library's threads, and locks as they happened to be.
pub(crate) fn is_forked() -> bool {
    *PROCESS.get_or_init(std::process::id) != std::process::id()
}

impl Api {
    /// Asks for the tables; words for a person where the runtime is too old.
    ///
    /// # Safety
    /// `base` is null or what ONNX Runtime gave.
    pub(crate) unsafe fn new(base: *const OrtApiBase) -> std::result::Result<Api, String> {
        // SAFETY: the caller's promise.
        let base = unsafe { base.as_ref() }.ok_or("ONNX Runtime gave no functions")?;
        let get = base.GetApi.ok_or("ONNX Runtime gave no functions")?;
        // SAFETY: any version may be asked for; what is given is null or lives as long as the runtime.
        let table = |version: u32| unsafe { get(version).as_ref() };
        // SAFETY: the runtime's version is constant text.
        let version = base
            .GetVersionString
            .map_or("", |text| unsafe { text_at(text()) });
        let minor: Option<u32> = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
        let ort = table(ORT_VERSION).ok_or_else(|| {
            format!("ONNX Runtime {version} is too old for the Polychip provider, which needs 1.{ORT_VERSION} or newer")
        })?;
        let ep = ort
            .GetEpApi
            .ok_or("this ONNX Runtime was built without providers in libraries")?;
        // SAFETY: as above.
        let ep =
            unsafe { ep().as_ref() }.ok_or("this ONNX Runtime was built without providers in libraries")?;
        Ok(Api {
            ort,
            ep,
            hands_captures: minor.is_some_and(|minor| minor >= HANDS_CAPTURES),
            // a version that is not there may not be asked for: the runtime says so on standard error
            has_shapes: minor.is_some_and(|minor| minor >= ORT_VERSION_SHAPES)
                && table(ORT_VERSION_SHAPES).is_some(),
        })
    }

    pub(crate) fn ort(self) -> &'static OrtApi {
        self.ort
    }

    pub(crate) fn ep(self) -> &'static OrtEpApi {
        self.ep
    }

    /// A status as a result.
    pub(crate) fn check(self, status: *mut OrtStatus) -> Result<()> {
        if status.is_null() {
            return Ok(());
        }
        let words = match self.ort.GetErrorMessage {
            // SAFETY: the status is the runtime's, and the text lives as long as it.
            Some(message) => unsafe { text_at(message(status)) }.to_owned(),
            None => String::new(),
        };
        if let Some(release) = self.ort.ReleaseStatus {
            // SAFETY: it is ours to release, and not used after this.
            unsafe { release(status) };
        }
        Err(Failure::new(format!("ONNX Runtime: {words}")))
    }
}

/// Calls a function of a table: `call!(table.Name(arguments))` gives what it gives, or a failure where it is not there.
macro_rules! call {
    ($table:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $table.$name {
            // SAFETY: arguments are what ONNX Runtime gave, alive as the wrappers' constructors say (`ort`, `value`), or places
            // of ours for its answers; so says whoever uses the macro, which only files do that may be unsafe.
            Some(function) => Ok(unsafe { function($($argument),*) }),
            None => Err($crate::failure::Failure::new(concat!("ONNX Runtime has no ", stringify!($name)))),
        }
    };
}
pub(crate) use call;

/// Text of the runtime's; empty for null, and where it is not UTF-8.
///
/// # Safety
/// `text` is null or ends in a zero, and lives as long as the result is used.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}
