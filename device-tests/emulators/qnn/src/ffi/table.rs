//! The exported symbols, the table that they lead to, and the calls about the library itself.
//!
//! Invariants:
//! 1. Slots 0 to 67 are non-null; slots without a named call answer "not supported".
//! 2. Loading prints one line on stdout, as the vendor's library does, so that clients that parse stdout meet it here.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::io::Write;
use std::ptr;
use std::sync::{LazyLock, Once};

use polychip_emulator_qnn_format::{CORE_VERSION, HTP_VERSION};
use polychip_sys::qnn as sys;

use super::guard::{fault as general_fault, give, guard, handle, number};
use super::{context, device, graph, log, memory, observe, read};
use crate::code::Code;
use crate::fault::{self, Call, Effect};
use crate::support;
use crate::trace;
use crate::view::{Refusal, View};
use crate::world;

/// Any call that the emulator does not implement.
unsafe extern "C" fn unsupported() -> sys::Code {
    Code::NOT_SUPPORTED.0
}

fn stub() -> *mut c_void {
    unsupported as unsafe extern "C" fn() -> sys::Code as *mut c_void
}

/// Advisory only: it claims signals and registered memory, which then fail.
unsafe extern "C" fn has_capability(_key: u32) -> sys::Code {
    0
}

unsafe extern "C" fn backend_create(
    _log: sys::Log,
    _config: *const *const sys::Config,
    out: *mut sys::Backend,
) -> sys::Code {
    guard(|| {
        general_fault(Call::BackendCreate)?;
        if out.is_null() {
            return Err(Code::ARGUMENT);
        }
        log::emit(
            sys::POLYCHIP_QNN_LOG_INFO,
            "emulated HTP library: right answers, no times",
        );
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(world::create_backend())) }
    })
}

unsafe extern "C" fn backend_free(backend: sys::Backend) -> sys::Code {
    guard(|| world::free_backend(number(backend)))
}

unsafe extern "C" fn build_id(out: *mut *const c_char) -> sys::Code {
    guard(|| {
        // SAFETY: the client gives a place for it.
        unsafe { give(out, world::BUILD.as_ptr()) }
    })
}

struct Operations(Vec<sys::OperationName>);

// SAFETY: pointers to constant texts.
unsafe impl Send for Operations {}
// SAFETY: as above.
unsafe impl Sync for Operations {}

/// The target is that of the vendor's x86 library: "CPU".
static OPERATIONS: LazyLock<Operations> = LazyLock::new(|| {
    Operations(
        support::NAMES
            .iter()
            .map(|name| sys::OperationName {
                package_name: c"qti.aisw".as_ptr(),
                name: name.as_ptr(),
                target: c"CPU".as_ptr(),
            })
            .collect(),
    )
});

unsafe extern "C" fn supported_operations(
    backend: sys::Backend,
    out_count: *mut u32,
    out: *mut *const sys::OperationName,
) -> sys::Code {
    guard(|| {
        world::backend(number(backend))?;
        // SAFETY: the client gives places for both.
        unsafe {
            give(out_count, OPERATIONS.0.len() as u32)?;
            give(out, OPERATIONS.0.as_ptr())
        }
    })
}

/// Answers for the device created last in the process, whatever the backend.
unsafe extern "C" fn validate(backend: sys::Backend, op: sys::OpConfig) -> sys::Code {
    guard(|| {
        world::backend(number(backend))?;
        // SAFETY: the client's pointers hold what its counts say.
        let op = unsafe { read::op(&op) }?;
        match fault::at(Call::Validate, |name| name == op.kind) {
            Some(Effect::Fail(code)) => return Err(code),
            Some(Effect::Restart) => return Err(Code::RESTARTED),
            Some(Effect::Wait(time)) => fault::wait(time),
            Some(Effect::WrongSize) | None => {}
        }
        let mut inputs: Vec<Option<&polychip_emulator_qnn_format::Tensor>> =
            op.inputs.iter().map(present).collect();
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let outputs: Vec<_> = op.outputs.iter().map(present).collect();
        let view = View {
            op: &op.kind,
            params: &op.params,
            inputs: &inputs,
            outputs: &outputs,
        };
        let answer = support::validate(&view, &op.package, world::selected()).map_err(|refusal| {
            let why = match refusal {
                Refusal::Unknown => format!("op {:?} is not known", op.kind),
                Refusal::Rule(why) => why,
                Refusal::NoValues => "a parameter has no values".to_owned(),
            };
            log::emit(
                sys::POLYCHIP_QNN_LOG_ERROR,
                &format!("node {:?} is rejected: {why}", op.name),
            );
            Code::REJECTED
        });
        trace::validated(&op.kind, &answer);
        answer
    })
}

fn present(tensor: &polychip_emulator_qnn_format::Tensor) -> Option<&polychip_emulator_qnn_format::Tensor> {
    (tensor.kind != polychip_emulator_qnn_format::Kind::Null).then_some(tensor)
}

unsafe extern "C" fn error_message(error: sys::Code, out: *mut *const c_char) -> sys::Code {
    guard(|| {
        // SAFETY: the client gives a place for it.
        unsafe { give(out, Code::message(error).as_ptr()) }
    })
}

unsafe extern "C" fn signal_create(
    _backend: sys::Backend,
    _config: *const *const sys::Config,
    _out: *mut sys::Signal,
) -> sys::Code {
    Code::NOT_SUPPORTED.0
}

unsafe extern "C" fn signal_set_config(
    _signal: sys::Signal,
    _config: *const *const sys::Config,
) -> sys::Code {
    Code::NOT_SUPPORTED.0
}

unsafe extern "C" fn signal_other(_signal: sys::Signal) -> sys::Code {
    Code::NOT_SUPPORTED.0
}

struct Exported {
    list: [*const sys::Provider; 1],
}

// SAFETY: the provider is leaked and never changes.
unsafe impl Send for Exported {}
// SAFETY: as above.
unsafe impl Sync for Exported {}

static EXPORTED: LazyLock<Exported> = LazyLock::new(|| {
    let version = |[major, minor, patch]: [u32; 3]| sys::Version { major, minor, patch };
    // the release whose device configuration begins at byte 4 is an older one
    let (core, library) = if device::early_union() {
        ([2, 38, 0], [5, 49, 0])
    } else {
        (CORE_VERSION, HTP_VERSION)
    };
    let provider = Box::leak(Box::new(sys::Provider {
        library_id: sys::POLYCHIP_QNN_LIBRARY_HTP,
        name: c"HTP_QTI_AISW".as_ptr(),
        core_api: version(core),
        library_api: version(library),
        table: table(),
    }));
    Exported {
        list: [ptr::from_ref(provider)],
    }
});

fn table() -> sys::Table {
    sys::Table {
        has_capability: Some(has_capability),
        backend_create: Some(backend_create),
        reserved_2: stub(),
        reserved_3: stub(),
        build_id: Some(build_id),
        reserved_5: stub(),
        supported_operations: Some(supported_operations),
        validate_op_config: Some(validate),
        backend_free: Some(backend_free),
        context_create: Some(context::create),
        reserved_10: stub(),
        binary_size: Some(context::binary_size),
        get_binary: Some(context::get_binary),
        create_from_binary: Some(context::create_from_binary),
        context_free: Some(context::free),
        graph_create: Some(graph::create),
        reserved_16: stub(),
        reserved_17: stub(),
        add_node: Some(graph::add_node),
        finalize: Some(graph::finalize),
        retrieve: Some(graph::retrieve),
        execute: Some(graph::execute),
        execute_async: Some(graph::execute_async),
        reserved_23: stub(),
        create_graph_tensor: Some(graph::create_tensor),
        log_create: Some(log::create),
        log_set_level: Some(log::set_level),
        log_free: Some(log::free),
        profile_create: Some(observe::create),
        reserved_29: stub(),
        profile_events: Some(observe::events),
        profile_sub_events: Some(observe::sub_events),
        profile_event_data: Some(observe::event_data),
        reserved_33: stub(),
        profile_free: Some(observe::free),
        memory_register: Some(memory::register),
        memory_deregister: Some(memory::deregister),
        platform_info: Some(device::platform_info),
        platform_info_free: Some(device::platform_info_free),
        infrastructure: Some(device::infrastructure),
        device_create: Some(device::create),
        reserved_41: stub(),
        device_info: Some(device::device_info),
        device_free: Some(device::free),
        signal_create: Some(signal_create),
        signal_set_config: Some(signal_set_config),
        signal_trigger: Some(signal_other),
        signal_free: Some(signal_other),
        error_message: Some(error_message),
        reserved_49: [stub(); 5],
        validate_binary: Some(context::validate_binary),
        reserved_55: [stub(); 13],
    }
}

/// The vendor's export: the providers of this library.
///
/// # Safety
/// Both outputs are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QnnInterface_getProviders(
    out_list: *mut *const *const sys::Provider,
    out_count: *mut u32,
) -> sys::Code {
    guard(|| {
        static LINE: Once = Once::new();
        LINE.call_once(|| {
            let _ = writeln!(std::io::stdout(), "LIBNATIVE (emulated)");
        });
        // SAFETY: the caller vouches for both.
        unsafe {
            give(out_list, EXPORTED.list.as_ptr())?;
            give(out_count, 1)
        }
    })
}

/// Marks this library as an emulator.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_emulates_qnn() {}

/// Replaces the fault rules (`fault.rs` has the grammar; null or empty means none). Returns the
/// number of rules, or -1 if one is malformed, in which case nothing changes.
///
/// # Safety
/// `rules` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_emulator_qnn_faults(rules: *const c_char) -> i32 {
    // SAFETY: the caller vouches for the end.
    let text = unsafe { read::text(rules) };
    fault::set(&text).map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX))
}

/// Number of live objects: 0 backends, 1 devices, 2 contexts, 3 graphs, 4 tensors, 5 profiles, 6
/// registered memories.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_emulator_qnn_live(kind: u32) -> u64 {
    world::live(kind)
}

/// The highest clock corner that a client voted for; 0 without a vote.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_emulator_qnn_corner() -> u32 {
    device::corner()
}

/// Number of bytes passed to `execute` by address, which a chip's library copies.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_emulator_qnn_addressed() -> u64 {
    memory::addressed()
}
