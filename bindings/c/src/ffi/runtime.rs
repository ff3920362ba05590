//! Builders and runtimes.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::{Failure, polychip_failure};
use crate::handle::Object;
use crate::read::{Out, text};
use crate::runtime::{Builder, RuntimeObject};
use crate::status::polychip_status_t;
use crate::text::{Text, formatted};

use super::text::polychip_text_t;

/// Settings from which a runtime is made.
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
    /// Name in policies and reports, such as `cpu:0`.
    pub name: *const c_char,
    /// Human-readable name.
    pub description: *const c_char,
    /// `cpu`, `gpu`, `npu`, `dsp` or `other`.
    pub kind: *const c_char,
}

/// Makes a builder with the default settings. Thread-safe.
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

/// Sets a setting of the runtime. Thread-safe.
///
/// Names are the command line's options without their dashes: `plugins` (a folder, repeatable),
/// `profile` (a file, or a bundle signed by a `trust`ed key), `cache` (a folder), `set`
/// (`PLUGIN.KEY=VALUE`, repeatable), `measure-rates`, `only-given-folders`, `virtual-time` (`yes`
/// or `no`) and others. docs/c.md lists them all, and so does the failure for an unknown name.
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

/// Destroys a builder. Accepts 0. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_builder_destroy(
    builder: polychip_builder_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<Builder>(builder, failure) }
}

/// Loads plugins and opens their devices, as the builder states; 0: with the defaults. Thread-safe.
/// Blocks, possibly for seconds.
///
/// A plugin that cannot be used is not a failure; polychip_runtime_refusals lists it. The builder
/// can be reused.
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

/// Destroys a runtime. Accepts 0. Models and sessions made with it remain valid. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_destroy(
    runtime: polychip_runtime_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<RuntimeObject>(runtime, failure) }
}

/// Returns the number of open devices. Thread-safe.
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

/// Describes a device; `index` counts from 0. Thread-safe.
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

/// Lists plugins, folders and devices that are not used, one per line with the reason; empty if all
/// are used. Thread-safe.
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

/// Lists the bundles that the builder received as `profile`, one per line: family and version of a
/// loaded bundle, or the reason why it is not used; empty if there were none. Thread-safe.
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

/// Reports the memory that all sessions hold, and its limit (setting `memory-limit`), in the format POLYCHIP_FORMAT_*.
/// Thread-safe.
///
/// The JSON equals the field `memory` of a session's report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_memory(
    runtime: polychip_runtime_t,
    format: u32,
    out_text: *mut polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        let memory = RuntimeObject::of(runtime)?.runtime.memory();
        place.put(formatted(format, &memory, serde_json::to_string)?.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Frees memory when the system is short of it; call it from the app's own warning, such as Android's
/// `onTrimMemory`. `pressure` is `moderate` (sessions drop their cached specializations except the last used
/// ones) or `critical` (all idle sessions are parked, too). `out_bytes`, which may be null, receives the number
/// of bytes that were freed. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_runtime_trim_memory(
    runtime: polychip_runtime_t,
    pressure: *const c_char,
    out_bytes: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let pressure = unsafe { text(pressure, "pressure") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::optional(out_bytes, "out_bytes") }?;
        let freed = RuntimeObject::of(runtime)?.runtime.trim_memory(pressure.parse()?);
        if let Some(place) = place {
            place.put(freed);
        }
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}
