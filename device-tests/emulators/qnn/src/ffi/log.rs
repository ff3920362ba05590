//! The clients' log callbacks. Stable Rust cannot make a `va_list`, so this module lays one out
//! itself.
//!
//! Invariant: every argument list holds one text, for the format `%s`.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use polychip_sys::qnn as sys;

use super::guard::{give, guard, handle, number};
use crate::code::Code;
use crate::world;

type Callback = unsafe extern "C" fn(*const c_char, u32, u64, *mut c_void);

static LOGS: LazyLock<Mutex<BTreeMap<usize, (Callback, u32)>>> = LazyLock::new(Mutex::default);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Gives a text to each log whose level lets it pass.
pub(super) fn emit(level: u32, text: &str) {
    let callbacks: Vec<Callback> = LOGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .values()
        .filter(|(_, most)| level <= *most)
        .map(|(callback, _)| *callback)
        .collect();
    let time = u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    for callback in callbacks {
        with_list(text.as_ptr(), |list| {
            // SAFETY: the client gave this callback for these arguments; all live through the call.
            unsafe { callback(c"%s".as_ptr(), level, time, list) };
        });
    }
}

/// System V x86_64: the list marks the registers as used up, so that arguments come from the overflow area.
#[cfg(target_arch = "x86_64")]
fn with_list(text: *const c_char, call: impl FnOnce(*mut c_void)) {
    #[repr(C)]
    struct List {
        gp_offset: u32,
        fp_offset: u32,
        overflow: *const c_void,
        registers: *const c_void,
    }
    let area = [text, std::ptr::null()];
    let mut list = List {
        gp_offset: 48,
        fp_offset: 176,
        overflow: area.as_ptr().cast(),
        registers: std::ptr::null(),
    };
    call((&raw mut list).cast());
}

/// AAPCS64: offsets of 0 say that registers are used up, so that arguments come from the stack area.
#[cfg(target_arch = "aarch64")]
fn with_list(text: *const c_char, call: impl FnOnce(*mut c_void)) {
    #[repr(C)]
    struct List {
        stack: *const c_void,
        general: *const c_void,
        vector: *const c_void,
        general_offset: i32,
        vector_offset: i32,
    }
    let area = [text, std::ptr::null()];
    let mut list = List {
        stack: area.as_ptr().cast(),
        general: std::ptr::null(),
        vector: std::ptr::null(),
        general_offset: 0,
        vector_offset: 0,
    };
    call((&raw mut list).cast());
}

/// Elsewhere nothing is known of argument lists: no log.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn with_list(_: *const c_char, _: impl FnOnce(*mut c_void)) {}

pub(super) unsafe extern "C" fn create(
    callback: sys::LogCallback,
    max_level: u32,
    out: *mut sys::Log,
) -> sys::Code {
    guard(|| {
        let at = world::handle();
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }?;
        if let Some(callback) = callback {
            let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
            logs.insert(at, (callback, max_level));
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn set_level(log: sys::Log, max_level: u32) -> sys::Code {
    guard(|| {
        let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
        match logs.get_mut(&number(log)) {
            Some((_, level)) => *level = max_level,
            None => return Err(Code::ARGUMENT),
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn free(log: sys::Log) -> sys::Code {
    guard(|| {
        LOGS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&number(log));
        Ok(())
    })
}
