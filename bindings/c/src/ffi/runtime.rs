//! Builders and runtimes.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::{Failure, polychip_failure};
use crate::handle::Object;
use crate::read::{Out, text};
use crate::runtime::{Builder, RuntimeObject};
use crate::status::polychip_status_t;
use crate::text::Text;

use super::text::polychip_text_t;

/// What a runtime is made of, in words.
pub type polychip_builder_t = u64;
/// Plugins, their devices and the profile, shared by all models and sessions.
pub type polychip_runtime_t = u64;

/// A device of a runtime. The texts are valid until the runtime is destroyed.
#[repr(C)]
pub struct polychip_listed_device {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_listed_device).
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Its name in policies and reports, as `cpu:0`.
    pub name: *const c_char,
    /// Its name for people.
    pub description: *const c_char,
    /// `cpu`, `gpu`, `npu`, `dsp` or `other`.
    pub kind: *const c_char,
}

/// Makes a builder with the defaults. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_builder_create(
    out_builder: *mut polychip_builder_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_builder, "out_builder") }?;
        place.put(Builder::default().into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Sets what a runtime is made of, in the words of the command line's options, without their dashes: `plugins` (a folder,
/// several times), `profile` (a file, or a bundle of a `trust`ed key), `cache` (a folder), `set` (`PLUGIN.KEY=VALUE`, several
/// times), `measure-rates`, `only-given-folders`, `virtual-time` (`yes` or `no`) and others. docs/c.md lists them, and so does
/// the failure of a name that is none. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_builder_set(
    builder: polychip_builder_t,
    name: *const c_char,
    value: *const c_char,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as above.
        let value = unsafe { text(value, "value") }?;
        Builder::of(builder)?.set(name, value)
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a builder; 0 is none, and allowed. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_builder_destroy(
    builder: polychip_builder_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<Builder>(builder, failure) }
}

/// Loads the plugins and opens their devices: those of the builder, or with 0 the defaults. A plugin that cannot be used is
/// listed by polychip_runtime_refusals and fails nothing. The builder may be used again. May take seconds. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_create(
    builder: polychip_builder_t,
    out_runtime: *mut polychip_runtime_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_runtime, "out_runtime") }?;
        let runtime = match builder {
            0 => Builder::default().build()?,
            builder => Builder::of(builder)?.build()?,
        };
        place.put(runtime.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a runtime; 0 is none, and allowed. Models and sessions that were made with it stay. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_destroy(
    runtime: polychip_runtime_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<RuntimeObject>(runtime, failure) }
}

/// Number of devices that are open. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_device_count(
    runtime: polychip_runtime_t,
    out_count: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_count, "out_count") }?;
        place.put(RuntimeObject::of(runtime)?.devices.len() as u64);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// A device, from 0. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_device(
    runtime: polychip_runtime_t,
    index: u64,
    out_device: *mut polychip_listed_device,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_device, "out_device") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let device = usize::try_from(index)
            .ok()
            .and_then(|index| runtime.devices.get(index));
        let device = device.ok_or_else(|| {
            let count = runtime.devices.len();
            Failure::argument(format!("there is no device {index}: the runtime has {count}"))
        })?;
        let fill = |out: &mut polychip_listed_device| {
            out.reserved = 0;
            out.name = device.name.as_ptr();
            out.description = device.description.as_ptr();
            out.kind = device.kind.as_ptr();
        };
        // SAFETY: as above; the caller has set the size.
        unsafe { place.fill("polychip_listed_device", fill) }
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Plugins, folders and devices that are not used, a line each with its reason; empty where all are. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_refusals(
    runtime: polychip_runtime_t,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let refusals = RuntimeObject::of(runtime)?.refusals();
        place.put(Text::new(&refusals).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Bundles that the builder was given as `profile`, a line each: with family and version where it is loaded, else why it is not
/// used; empty where none was given. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_bundles(
    runtime: polychip_runtime_t,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let bundles = RuntimeObject::of(runtime)?.bundles();
        place.put(Text::new(&bundles).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
