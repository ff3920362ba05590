//! Common path of every call from ONNX Runtime: a child of `fork` is refused, and no panic escapes.

#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use polychip_sys::onnxruntime::bindings::OrtStatus;

use crate::api::{Api, is_forked, ort};
use crate::failure::{Failure, Result};

const FORKED: &str = "this process was forked after the provider was loaded: its threads do not exist in the child; fork before, or start a new \
                      process (Python: multiprocessing's \"spawn\")";

/// Makes a call of an entry, and gives ONNX Runtime a status where it fails or panics.
pub(crate) fn entry(api: Api, call: impl FnOnce() -> Result<()>) -> *mut OrtStatus {
    let result = if is_forked() {
        Err(Failure::new(FORKED))
    } else {
        caught(call).and_then(|result| result)
    };
    match result {
        Ok(()) => std::ptr::null_mut(),
        Err(failure) => status(api, &failure),
    }
}

/// Turns a panic into a failure.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let words = format!("a bug in the library, please report it: {}", words(&*panic));
        // what was thrown may throw again when it is dropped
        std::mem::forget(panic);
        Failure::new(words)
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (_, Some(words)) => words,
        _ => "no message",
    }
}

fn status(api: Api, failure: &Failure) -> *mut OrtStatus {
    let words = format!("Polychip: {}", failure.words).replace('\0', " ");
    let words = CString::new(words).unwrap_or_default();
    match ort!(api, CreateStatus) {
        // SAFETY: the text ends in a zero, and the function copies it.
        Ok(create) => unsafe { create(failure.code, words.as_ptr()) },
        Err(_) => std::ptr::null_mut(),
    }
}
