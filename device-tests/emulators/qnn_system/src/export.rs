//! The exported symbol and the calls of its table.
//!
//! Invariants:
//! 1. Nothing unwinds into the client.
//! 2. A system object holds the descriptions that it returned; a handle is a number that is never given twice.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use polychip_emulator_qnn_format::{Binary, BinaryError, SYSTEM_VERSION};
use polychip_sys::qnn as sys;

use crate::metadata::Metadata;

const NOT_SUPPORTED: u64 = sys::POLYCHIP_QNN_ERROR_NOT_SUPPORTED as u64;
const GENERAL: u64 = sys::POLYCHIP_QNN_ERROR_GRAPH_NOT_ENABLED as u64;
/// A null pointer or an unknown handle; the number is ours.
const ARGUMENT: u64 = 30_003;
const NOT_A_BINARY: u64 = sys::POLYCHIP_QNN_ERROR_BINARY_ZEROED as u64;
const MALFORMED: u64 = sys::POLYCHIP_QNN_ERROR_BINARY_TRUNCATED as u64;

#[derive(Default)]
struct Objects {
    made: usize,
    live: BTreeMap<usize, Vec<Metadata>>,
}

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn guard(body: impl FnOnce() -> Result<(), u64>) -> sys::Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => GENERAL,
    }
}

unsafe extern "C" fn unsupported() -> sys::Code {
    NOT_SUPPORTED
}

unsafe extern "C" fn create(out: *mut sys::System) -> sys::Code {
    guard(|| {
        if out.is_null() {
            return Err(ARGUMENT);
        }
        let mut objects = objects();
        objects.made += 1;
        let at = 0x6000_0000 + objects.made * 16;
        objects.live.insert(at, Vec::new());
        // SAFETY: the client gives a place for the handle.
        unsafe { out.write(ptr::without_provenance_mut(at)) };
        Ok(())
    })
}

unsafe extern "C" fn free(system: sys::System) -> sys::Code {
    guard(|| objects().live.remove(&system.addr()).map(drop).ok_or(ARGUMENT))
}

/// # Safety
/// `binary` is null or holds `size` bytes.
unsafe fn describe(
    system: sys::System,
    binary: *const c_void,
    size: u64,
) -> Result<*const sys::BinaryInfo, u64> {
    if binary.is_null() {
        return Err(ARGUMENT);
    }
    let size = usize::try_from(size).map_err(|_| MALFORMED)?;
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), size) };
    let binary = Binary::read(bytes).map_err(|error| match error {
        BinaryError::NotABinary => NOT_A_BINARY,
        BinaryError::Malformed => MALFORMED,
    })?;
    let metadata = Metadata::new(&binary);
    let info = metadata.info();
    objects()
        .live
        .get_mut(&system.addr())
        .ok_or(ARGUMENT)?
        .push(metadata);
    Ok(info)
}

unsafe extern "C" fn get_binary_info(
    system: sys::System,
    binary: *mut c_void,
    size: u64,
    out: *mut *const sys::BinaryInfo,
    out_bytes: *mut u64,
) -> sys::Code {
    guard(|| {
        // SAFETY: the client gives `size` bytes.
        let info = unsafe { describe(system, binary, size) }?;
        if out.is_null() {
            return Err(ARGUMENT);
        }
        // SAFETY: the client gives a place for it.
        unsafe { out.write(info) };
        if !out_bytes.is_null() {
            // SAFETY: the client gives a place for it.
            unsafe { out_bytes.write(size_of::<sys::BinaryInfo>() as u64) };
        }
        Ok(())
    })
}

unsafe extern "C" fn get_metadata(
    system: sys::System,
    binary: *const c_void,
    size: u64,
    out: *mut *const sys::BinaryInfo,
) -> sys::Code {
    guard(|| {
        // SAFETY: the client gives `size` bytes.
        let info = unsafe { describe(system, binary, size) }?;
        if out.is_null() {
            return Err(ARGUMENT);
        }
        // SAFETY: the client gives a place for it.
        unsafe { out.write(info) };
        Ok(())
    })
}

struct Exported {
    list: [*const sys::SystemProvider; 1],
}

// SAFETY: the provider is leaked and never changes.
unsafe impl Send for Exported {}
// SAFETY: as above.
unsafe impl Sync for Exported {}

static EXPORTED: LazyLock<Exported> = LazyLock::new(|| {
    let [major, minor, patch] = SYSTEM_VERSION;
    let stub = unsupported as unsafe extern "C" fn() -> sys::Code as *mut c_void;
    let provider = Box::leak(Box::new(sys::SystemProvider {
        library_id: 0,
        name: c"SYSTEM_QTI_AISW".as_ptr(),
        system_api: sys::Version { major, minor, patch },
        table: sys::SystemTable {
            create: Some(create),
            get_binary_info: Some(get_binary_info),
            get_metadata: Some(get_metadata),
            free: Some(free),
            reserved_4: [stub; 9],
        },
    }));
    Exported {
        list: [ptr::from_ref(provider)],
    }
});

/// The vendor's export: the providers of this library.
///
/// # Safety
/// Both outputs are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QnnSystemInterface_getProviders(
    out_list: *mut *const *const sys::SystemProvider,
    out_count: *mut u32,
) -> sys::Code {
    guard(|| {
        if out_list.is_null() || out_count.is_null() {
            return Err(ARGUMENT);
        }
        // SAFETY: the caller vouches for both.
        unsafe { out_list.write(EXPORTED.list.as_ptr()) };
        // SAFETY: as above.
        unsafe { out_count.write(1) };
        Ok(())
    })
}
