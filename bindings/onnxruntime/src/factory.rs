//! The library's two exports, which ONNX Runtime calls first, and the factory that makes a provider
//! for each session.
//!
//! Invariant: a device of the system is offered if one of ours is of its kind; the CPU always is.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::{Arc, OnceLock};

use polychip::{DeviceKind, Runtime};
use polychip_sys::onnxruntime::bindings as sys;

use crate::NAME;
use crate::api::{Api, ep, is_forked, ort, text_at};
use crate::entry::{caught, entry};
use crate::failure::{Failure, Result};
use crate::identity::{Identity, Verdict};
use crate::log::Log;
use crate::options::{self, Options};
use crate::provider::Provider;

/// The factory: the part visible to ONNX Runtime first.
#[repr(C)]
struct Factory {
    seen: sys::OrtEpFactory,
    api: Api,
    /// What the devices are told of that are offered: it opens them once for all sessions without settings of their own.
    runtime: OnceLock<Arc<Runtime>>,
}

impl Factory {
    fn runtime(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let made = options::runtime(Vec::new())?;
        Ok(self.runtime.get_or_init(|| made))
    }
}

const VENDOR: &CStr = c"Polychip";

/// Makes the factory. ONNX Runtime calls it when the library is registered.
///
/// # Safety
/// The arguments are as ONNX Runtime documents for this function.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "ONNX Runtime looks for this name")]
pub unsafe extern "C" fn CreateEpFactories(
    _registered_name: *const c_char,
    base: *const sys::OrtApiBase,
    _default_logger: *const sys::OrtLogger,
    factories: *mut *mut sys::OrtEpFactory,
    most: usize,
    made: *mut usize,
) -> *mut sys::OrtStatus {
    // SAFETY: the caller's promise.
    let api = match caught(|| unsafe { Api::new(base) }) {
        Ok(Ok(api)) => api,
        Ok(Err(words)) => return too_old(base, &words),
        // without functions there is no status to give: no factory is made
        Err(_) => return ptr::null_mut(),
    };
    entry(api, || {
        if most == 0 || factories.is_null() || made.is_null() {
            return Err(Failure::argument("ONNX Runtime has no room for a factory"));
        }
        let factory = Box::new(Factory {
            seen: sys::OrtEpFactory {
                ort_version_supported: sys::ORT_VERSION,
                GetName: Some(get_name),
                GetVendor: Some(get_vendor),
                GetSupportedDevices: Some(get_supported_devices),
                CreateEp: Some(create_ep),
                ReleaseEp: Some(release_ep),
                GetVendorId: Some(get_vendor_id),
                GetVersion: Some(get_version),
                ValidateCompiledModelCompatibilityInfo: Some(validate_compiled),
                // called without a look whether they are there
                CreateAllocator: Some(create_allocator),
                ReleaseAllocator: Some(release_allocator),
                CreateDataTransfer: Some(create_data_transfer),
                IsStreamAware: Some(is_stream_aware),
                CreateSyncStreamForDevice: Some(create_sync_stream),
                SetEnvironmentOptions: None,
            },
            api,
            runtime: OnceLock::new(),
        });
        // SAFETY: there is room for one at least.
        unsafe {
            *factories = Box::into_raw(factory).cast();
            *made = 1;
        }
        Ok(())
    })
}

/// Releases a factory of [`CreateEpFactories`].
///
/// # Safety
/// The factory is one of ours, and is not used after this.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "ONNX Runtime looks for this name")]
pub unsafe extern "C" fn ReleaseEpFactory(factory: *mut sys::OrtEpFactory) -> *mut sys::OrtStatus {
    // devices cannot be closed by a child of fork, which has none of their threads
    if !factory.is_null() && !is_forked() {
        // SAFETY: the caller's promise.
        let factory = unsafe { Box::from_raw(factory.cast::<Factory>()) };
        // nobody can be told
        let _ = caught(|| drop(factory));
    }
    ptr::null_mut()
}

/// A status for a runtime without our table, made through its first table, which begins like ours.
fn too_old(base: *const sys::OrtApiBase, words: &str) -> *mut sys::OrtStatus {
    // SAFETY: what was given is null or ONNX Runtime's.
    let Some(get) = (unsafe { base.as_ref() }).and_then(|base| base.GetApi) else {
        return ptr::null_mut();
    };
    let words = CString::new(words).unwrap_or_default();
    for version in (1..sys::ORT_VERSION).rev() {
        // SAFETY: any version may be asked for. The first function of each table is the one that makes a status.
        let table = unsafe { get(version) };
        if table.is_null() {
            continue;
        }
        // SAFETY: only the first entry of the table is read, which each version has.
        if let Some(create) = unsafe { (&raw const (*table).CreateStatus).read() } {
            // SAFETY: the text ends in a zero, and is copied.
            return unsafe { create(sys::ORT_FAIL as i32, words.as_ptr()) };
        }
    }
    ptr::null_mut()
}

unsafe extern "C" fn get_name(_factory: *const sys::OrtEpFactory) -> *const c_char {
    NAME.as_ptr()
}

unsafe extern "C" fn get_vendor(_factory: *const sys::OrtEpFactory) -> *const c_char {
    VENDOR.as_ptr()
}

unsafe extern "C" fn get_vendor_id(_factory: *const sys::OrtEpFactory) -> u32 {
    // none of PCI's
    0
}

unsafe extern "C" fn get_version(_factory: *const sys::OrtEpFactory) -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

unsafe extern "C" fn is_stream_aware(_factory: *const sys::OrtEpFactory) -> bool {
    false
}

unsafe extern "C" fn validate_compiled(
    factory: *mut sys::OrtEpFactory,
    _hardware: *const *const sys::OrtHardwareDevice,
    _count: usize,
    info: *const c_char,
    out: *mut i32,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives back the factory that was made here.
    let own = unsafe { own(factory) };
    entry(own.api, || {
        // SAFETY: the text is ONNX Runtime's, and lives during the call.
        let told = Identity::read(unsafe { text_at(info) });
        let verdict = match told {
            None => Verdict::NotOurs,
            Some(told) => told.verdict(&Identity::of(own.runtime()?)),
        };
        let code = match verdict {
            Verdict::NotOurs => sys::ORT_COMPILED_NOT_OURS,
            Verdict::Same => sys::ORT_COMPILED_BEST,
            Verdict::Stale => sys::ORT_COMPILED_OLD,
            Verdict::Unread => sys::ORT_COMPILED_REFUSED,
        };
        // SAFETY: the place is ONNX Runtime's.
        unsafe { *out = code as i32 };
        Ok(())
    })
}

unsafe extern "C" fn create_allocator(
    _factory: *mut sys::OrtEpFactory,
    _memory: *const sys::OrtMemoryInfo,
    _options: *const sys::OrtKeyValuePairs,
    out: *mut *mut sys::OrtAllocator,
) -> *mut sys::OrtStatus {
    // SAFETY: the place is ONNX Runtime's. Null is its own allocator.
    unsafe { *out = ptr::null_mut() };
    ptr::null_mut()
}

unsafe extern "C" fn release_allocator(_factory: *mut sys::OrtEpFactory, _allocator: *mut sys::OrtAllocator) {
}

unsafe extern "C" fn create_data_transfer(
    _factory: *mut sys::OrtEpFactory,
    out: *mut *mut sys::OrtDataTransferImpl,
) -> *mut sys::OrtStatus {
    // SAFETY: the place is ONNX Runtime's. Null: all is in the processor's memory.
    unsafe { *out = ptr::null_mut() };
    ptr::null_mut()
}

unsafe extern "C" fn create_sync_stream(
    _factory: *mut sys::OrtEpFactory,
    _device: *const sys::OrtMemoryDevice,
    _options: *const sys::OrtKeyValuePairs,
    out: *mut *mut sys::OrtSyncStreamImpl,
) -> *mut sys::OrtStatus {
    // SAFETY: the place is ONNX Runtime's. Null: there are no streams.
    unsafe { *out = ptr::null_mut() };
    ptr::null_mut()
}

/// # Safety
/// The factory is one of ours, and lives during the call.
unsafe fn own<'a>(factory: *mut sys::OrtEpFactory) -> &'a Factory {
    // SAFETY: the caller's promise.
    unsafe { &*factory.cast::<Factory>() }
}

unsafe extern "C" fn get_supported_devices(
    factory: *mut sys::OrtEpFactory,
    hardware: *const *const sys::OrtHardwareDevice,
    count: usize,
    devices: *mut *mut sys::OrtEpDevice,
    most: usize,
    made: *mut usize,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives back the factory that was made here.
    let own = unsafe { own(factory) };
    entry(own.api, || {
        let hardware = if count == 0 {
            &[]
        } else {
            // SAFETY: so many devices stand there.
            unsafe { std::slice::from_raw_parts(hardware, count) }
        };
        let runtime = own.runtime()?;
        let kind_of = ort!(own.api, HardwareDevice_Type)?;
        let mut number = 0;
        for one in hardware {
            // SAFETY: the device is the system's that ONNX Runtime found, and lives during the call.
            let kind = unsafe { kind_of(*one) };
            let ours = of_kind(runtime, kind);
            if number == most || (ours.is_empty() && kind as u32 != sys::ORT_HARDWARE_CPU) {
                continue;
            }
            // SAFETY: as above; the factory is that of this call.
            let device = unsafe { device(own.api, factory, *one, runtime) }?;
            // SAFETY: there is room for `most`.
            unsafe { *devices.add(number) = device };
            number += 1;
        }
        // SAFETY: the place is ONNX Runtime's.
        unsafe { *made = number };
        Ok(())
    })
}

/// Names of our devices of a kind of hardware.
fn of_kind(runtime: &Runtime, kind: i32) -> Vec<&str> {
    let is_of = |device: &&polychip::Device| {
        let wanted = match device.info().kind {
            DeviceKind::Cpu => sys::ORT_HARDWARE_CPU,
            DeviceKind::Gpu => sys::ORT_HARDWARE_GPU,
            _ => sys::ORT_HARDWARE_NPU,
        };
        wanted as i32 == kind
    };
    runtime
        .devices()
        .iter()
        .filter(is_of)
        .map(polychip::Device::name)
        .collect()
}

/// An offer to ONNX Runtime: a device of the system, with the names of ours.
///
/// # Safety
/// Factory and hardware are ONNX Runtime's, and live.
unsafe fn device(
    api: Api,
    factory: *mut sys::OrtEpFactory,
    hardware: *const sys::OrtHardwareDevice,
    runtime: &Runtime,
) -> Result<*mut sys::OrtEpDevice> {
    let names: Vec<&str> = runtime.devices().iter().map(polychip::Device::name).collect();
    let names = CString::new(names.join(",")).unwrap_or_default();
    let (create_pairs, add) = (ort!(api, CreateKeyValuePairs)?, ort!(api, AddKeyValuePair)?);
    let (release, create) = (ort!(api, ReleaseKeyValuePairs)?, ep!(api, CreateEpDevice)?);
    let mut metadata = ptr::null_mut();
    // SAFETY: the place is ours.
    unsafe { create_pairs(&raw mut metadata) };
    // SAFETY: the pairs were made for us; the texts end in zeros, and are copied.
    unsafe { add(metadata, c"polychip_devices".as_ptr(), names.as_ptr()) };
    let mut device = ptr::null_mut();
    // SAFETY: the caller's promise; the pairs are copied, and the place is ours.
    let made = unsafe { api.check(create(factory, hardware, metadata, ptr::null(), &raw mut device)) };
    // SAFETY: as above; they are not used after this.
    unsafe { release(metadata) };
    made.map(|()| device)
}

unsafe extern "C" fn create_ep(
    factory: *mut sys::OrtEpFactory,
    _hardware: *const *const sys::OrtHardwareDevice,
    _metadata: *const *const sys::OrtKeyValuePairs,
    _count: usize,
    options: *const sys::OrtSessionOptions,
    logger: *const sys::OrtLogger,
    out: *mut *mut sys::OrtEp,
) -> *mut sys::OrtStatus {
    // SAFETY: as above.
    let api = unsafe { own(factory) }.api;
    entry(api, || {
        // SAFETY: the options are ONNX Runtime's and live during the call, the session's logger as long as its providers.
        let (options, log) = unsafe { (Options::read(api, options)?, Log::new(api, logger)) };
        let provider = Provider::new(api, log, options);
        // SAFETY: the place is ONNX Runtime's.
        unsafe { *out = Box::into_raw(Box::new(provider)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn release_ep(_factory: *mut sys::OrtEpFactory, ep: *mut sys::OrtEp) {
    if !ep.is_null() {
        // SAFETY: it was made in `create_ep`, and is not used after this.
        let provider = unsafe { Box::from_raw(ep.cast::<Provider>()) };
        // nobody can be told
        let _ = caught(|| provider.release());
    }
}
