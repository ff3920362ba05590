//! The C interface: each call reads its arguments, uses the objects of `world`, and returns a code.

#![allow(unsafe_code)]
#![allow(non_snake_case, reason = "the vendor's own names")]

mod compilation;
mod execution;
mod model;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use polychip_sys::neuron::bindings as sys;

use crate::code::{Code, Result};
use crate::world;

/// The version that the library reports.
const VERSION: sys::NeuronRuntimeVersion = sys::NeuronRuntimeVersion {
    major: 9,
    minor: 0,
    patch: 3,
};

/// Runs the body of a call.
fn guard(body: impl FnOnce() -> Result<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::OP_FAILED.0,
    }
}

/// Writes an output of a call.
///
/// # Safety
/// `out` is null or valid for writing.
unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Code::NULL);
    }
    // SAFETY: the caller vouches for it; null was checked.
    unsafe { out.write(value) };
    Ok(())
}

/// Reads a list of the client.
///
/// # Safety
/// `data` is null or holds `count` elements.
unsafe fn list<'a, T>(data: *const T, count: usize) -> Result<&'a [T]> {
    match (data.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::NULL),
        // SAFETY: the caller vouches for it.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, count) }),
    }
}

fn number<T>(handle: *const T) -> usize {
    handle.addr()
}

fn handle<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number)
}

/// Marks this library as an emulator.
#[unsafe(no_mangle)]
extern "C" fn polychip_emulates_neuron() {}

#[unsafe(no_mangle)]
unsafe extern "C" fn Neuron_getVersion(version: *mut sys::NeuronRuntimeVersion) -> c_int {
    // SAFETY: the client gives a place or null.
    guard(|| unsafe { give(version, VERSION) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Neuron_getDeviceCount(count: *mut u32) -> c_int {
    // SAFETY: as above.
    guard(|| unsafe { give(count, 1) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Neuron_getDevice(index: u32, device: *mut *mut sys::NeuronDevice) -> c_int {
    guard(|| {
        if index != 0 {
            return Err(Code::BAD_DATA);
        }
        // SAFETY: as above.
        unsafe { give(device, handle(1)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronDevice_getName(
    device: *const sys::NeuronDevice,
    name: *mut *const c_char,
) -> c_int {
    guard(|| {
        if number(device) != 1 {
            return Err(Code::NULL);
        }
        // SAFETY: as above; the name lives for ever.
        unsafe { give(name, c"mtk-neuron (emulated)".as_ptr()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn Neuron_getL1MemorySizeKb(size: *mut u32) -> c_int {
    // SAFETY: as above.
    guard(|| unsafe { give(size, 4096) })
}

/// Generation of the system's service; a number below 300 means the older one.
#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronService_getNeuroPilotMagicNumber(value: *mut i32) -> c_int {
    // SAFETY: as above.
    guard(|| unsafe { give(value, 0) })
}

/// For tests: number of live objects of a kind (models, compilations, executions, memories).
#[unsafe(no_mangle)]
extern "C" fn polychip_neuron_live(kind: u32) -> u64 {
    let count = match kind {
        0 => world::MODELS.len(),
        1 => world::COMPILATIONS.len(),
        2 => world::EXECUTIONS.len(),
        3 => world::MEMORIES.len(),
        _ => 0,
    };
    count as u64
}

/// For tests: replaces the fault rules and returns their number, or -1 if one is malformed.
///
/// # Safety
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn polychip_neuron_faults(text: *const c_char) -> c_int {
    // SAFETY: the caller vouches for it.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    let set = text.to_str().ok().and_then(|text| world::FAULTS.set(text).ok());
    set.and_then(|count| c_int::try_from(count).ok()).unwrap_or(-1)
}
