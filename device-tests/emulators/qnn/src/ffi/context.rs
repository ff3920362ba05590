//! Contexts and their binaries as C sees them.
//!
//! Invariant: a context that was created of a binary has finalized graphs only.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use polychip_emulator_qnn_format::{Binary, BinaryError};
use polychip_sys::qnn as sys;

use super::guard::{fault, give, guard, handle, number};
use super::read;
use crate::code::{Code, Result};
use crate::fault::Call;
use crate::plan::Plan;
use crate::soc::{DEFAULT, Soc};
use crate::trace;
use crate::world::{self, Graph};

pub(super) unsafe extern "C" fn create(
    backend: sys::Backend,
    device: sys::Device,
    _config: *const *const sys::Config,
    out: *mut sys::Context,
) -> sys::Code {
    guard(|| {
        fault(Call::ContextCreate)?;
        if out.is_null() {
            return Err(Code::ARGUMENT);
        }
        let (at, _) = world::create_context(number(backend), number(device), None)?;
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }
    })
}

pub(super) unsafe extern "C" fn free(context: sys::Context, _profile: sys::Profile) -> sys::Code {
    guard(|| world::free_context(number(context)))
}

pub(super) unsafe extern "C" fn binary_size(context: sys::Context, out: *mut u64) -> sys::Code {
    guard(|| {
        let bytes = world::binary(number(context))?;
        // SAFETY: the client gives a place for it.
        unsafe { give(out, bytes.len() as u64) }
    })
}

pub(super) unsafe extern "C" fn get_binary(
    context: sys::Context,
    buffer: *mut c_void,
    size: u64,
    out: *mut u64,
) -> sys::Code {
    guard(|| {
        fault(Call::GetBinary)?;
        let bytes = world::binary(number(context))?;
        if buffer.is_null() || out.is_null() {
            return Err(Code::ARGUMENT);
        }
        if size < bytes.len() as u64 {
            return Err(Code::BINARY_SIZE);
        }
        // SAFETY: the client gives `size` bytes, which are enough.
        unsafe {
            buffer
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        trace::serialised(bytes.len());
        // SAFETY: the client gives a place for it.
        unsafe { give(out, bytes.len() as u64) }
    })
}

pub(super) unsafe extern "C" fn create_from_binary(
    backend: sys::Backend,
    device: sys::Device,
    config: *const *const sys::Config,
    binary: *const c_void,
    size: u64,
    out: *mut sys::Context,
    _profile: sys::Profile,
) -> sys::Code {
    guard(|| {
        fault(Call::CreateFromBinary)?;
        if binary.is_null() || out.is_null() {
            return Err(Code::ARGUMENT);
        }
        let size = usize::try_from(size).map_err(|_| Code::MALFORMED_BINARY)?;
        // SAFETY: the client gives `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), size) };
        // SAFETY: the client's list ends with null.
        let wanted = unsafe { enabled(config) };
        let parts = Binary::read(bytes).map_err(|error| match error {
            BinaryError::NotABinary => Code::NOT_A_BINARY,
            BinaryError::Malformed => Code::MALFORMED_BINARY,
        })?;
        // any device runs what was prepared for any other
        let soc = Soc::from_id(parts.target.soc).unwrap_or(DEFAULT);
        let (at, context) = world::create_context(number(backend), number(device), Some(soc))?;
        let done = restore(at, &context, parts, wanted.as_deref());
        if done.is_err() {
            let _ = world::free_context(at);
        }
        done?;
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }
    })
}

fn restore(at: usize, context: &Arc<world::Context>, parts: Binary, wanted: Option<&[String]>) -> Result<()> {
    for description in parts.graphs {
        let plan = Plan::new(&description, context.soc).map_err(|(_, why)| {
            super::log::emit(sys::POLYCHIP_QNN_LOG_ERROR, &why);
            Code::MALFORMED_BINARY
        })?;
        let enabled = wanted.is_none_or(|names| names.contains(&description.name));
        world::count_tensors(description.tensors.len());
        let graph = Graph::new(context, at, description, enabled);
        let _ = graph.plan.set(Arc::new(plan));
        world::add_graph(graph)?;
    }
    Ok(())
}

/// The names of the graphs to enable, if the configuration names some.
///
/// # Safety
/// The list ends with null, and so does the list of names.
unsafe fn enabled(config: *const *const sys::Config) -> Option<Vec<String>> {
    // SAFETY: the caller vouches for it.
    let entries = unsafe { read::list(config) };
    let entry = entries
        .into_iter()
        .find(|entry| entry.option == sys::POLYCHIP_QNN_CONTEXT_CONFIG_ENABLE_GRAPHS)?;
    // SAFETY: with this option the union holds a list of texts, which ends with null.
    let names = unsafe { read::list(entry.value.texts) };
    Some(
        names
            .into_iter()
            // SAFETY: each text ends with a zero byte.
            .map(|name| unsafe { read::text(name) })
            .collect(),
    )
}

pub(super) unsafe extern "C" fn validate_binary(
    _backend: sys::Backend,
    _device: sys::Device,
    _config: *const *const sys::Config,
    _binary: *const c_void,
    _size: u64,
) -> sys::Code {
    Code::NOT_SUPPORTED.0
}
