//! The C interface: each call reads its arguments, uses the objects of `world`, and returns a code
//! or an object.

#![allow(unsafe_code)]
#![allow(non_snake_case, reason = "the runtime's own names")]

mod compiled;
mod model;
mod run;

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use polychip_sys::nnrt::bindings as sys;

use crate::code::{Code, Result};
use crate::world::{self, DEVICES};

/// Runs the body of a call that returns a code.
fn guard(body: impl FnOnce() -> Result<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => sys::OH_NN_SUCCESS as c_int,
        Ok(Err(code)) => code.0,
        Err(_) => Code::FAILED.0,
    }
}

/// Runs the body of a call that returns an object, or null on failure.
fn object<T>(body: impl FnOnce() -> Result<usize>) -> *mut T {
    let made = catch_unwind(AssertUnwindSafe(body));
    std::ptr::without_provenance_mut(made.ok().and_then(Result::ok).unwrap_or(0))
}

/// Writes an output of a call.
///
/// # Safety
/// `out` is null or valid for writing.
unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: the caller vouches for it; null was checked.
    unsafe { out.write(value) };
    Ok(())
}

/// Destroys the handle that the client stores at `place`, and sets it to null.
///
/// # Safety
/// `place` is null or valid for reading and writing.
unsafe fn end<T>(place: *mut *mut T, by: impl FnOnce(usize)) -> Result<()> {
    if place.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: the caller vouches for it.
    let handle = unsafe { place.replace(std::ptr::null_mut()) };
    if handle.is_null() {
        return Err(Code::INVALID);
    }
    by(handle.addr());
    Ok(())
}

/// Reads a list of the client.
///
/// # Safety
/// `data` is null or holds `count` elements.
unsafe fn elements<'a, T>(data: *const T, count: usize) -> Result<&'a [T]> {
    match (count, data.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Code::INVALID),
        // SAFETY: the caller vouches for it.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(data, count) }),
    }
}

/// Marks this library as an emulator.
#[unsafe(no_mangle)]
extern "C" fn polychip_emulates_nnrt() {}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNDevice_GetAllDevicesID(ids: *mut *const usize, count: *mut u32) -> c_int {
    guard(|| {
        // SAFETY: the client's place or null; it must hold null.
        if ids.is_null() || !unsafe { ids.read() }.is_null() {
            return Err(Code::INVALID);
        }
        // SAFETY: as above; the list lives for ever.
        unsafe { give(count, DEVICES.len() as u32).and_then(|()| give(ids, DEVICES.as_ptr())) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNDevice_GetName(id: usize, name: *mut *const c_char) -> c_int {
    guard(|| {
        let text = match DEVICES.iter().position(|own| *own == id) {
            Some(0) => c"HiAI NPU (emulated)",
            Some(_) => c"CPU (emulated)",
            // as seen of the runtime's core
            None => return Err(Code::FAILED),
        };
        // SAFETY: the client's place or null; the text lives for ever.
        unsafe { give(name, text.as_ptr()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNDevice_GetType(id: usize, kind: *mut c_int) -> c_int {
    guard(|| {
        // what computes networks alone, and a processor
        let kinds = [3, sys::OH_NN_CPU];
        let place = DEVICES.iter().position(|own| *own == id).ok_or(Code::FAILED)?;
        // SAFETY: as above.
        unsafe { give(kind, kinds[place] as c_int) }
    })
}

/// For tests: number of live objects of a kind (descriptions, models, compilations, executors,
/// tensors, encodings).
#[unsafe(no_mangle)]
extern "C" fn polychip_nnrt_live(kind: u32) -> u64 {
    let count = match kind {
        0 => world::DESCRIPTIONS.count(),
        1 => world::MODELS.count(),
        2 => world::COMPILATIONS.count(),
        3 => world::EXECUTORS.count(),
        4 => world::TENSORS.count(),
        5 => world::QUANTS.count(),
        _ => 0,
    };
    count as u64
}

/// For tests: replaces the fault rules and returns their number, or -1 if one is malformed.
///
/// # Safety
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn polychip_nnrt_faults(text: *const c_char) -> c_int {
    // SAFETY: the caller vouches for it.
    let text = unsafe { CStr::from_ptr(text) }.to_str().ok();
    let rules = text.and_then(|text| world::FAULTS.set(text).ok());
    rules.and_then(|count| c_int::try_from(count).ok()).unwrap_or(-1)
}
