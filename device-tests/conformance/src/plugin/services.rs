//! Services for an instance: a clock, a log that keeps the last lines, configuration.
//!
//! Invariants:
//! 1. The services outlive the instance, which holds them.
//! 2. Time is the machine's monotonic clock from one origin per process.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use polychip_abi as abi;
use polychip_abi::Sized;

/// Configuration strings by key.
pub type Configuration = BTreeMap<String, String>;

/// Lines of log that are kept.
const LINES: usize = 32;

/// The services of one instance, at a fixed address.
pub struct Services {
    configuration: Configuration,
    log: Mutex<VecDeque<String>>,
    store: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    table: abi::polychip_host_services,
}

// SAFETY: the raw pointer in `table` points to this object, whose other fields are Sync.
unsafe impl Send for Services {}
// SAFETY: as above.
unsafe impl Sync for Services {}

/// Nanoseconds since the suite first asked.
#[must_use]
pub fn now_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = ORIGIN.get_or_init(Instant::now);
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Services {
    pub(crate) fn new(configuration: Configuration) -> Arc<Services> {
        Arc::new_cyclic(|weak: &std::sync::Weak<Services>| {
            let mut table = abi::polychip_host_services::sized();
            table.user = weak.as_ptr().cast_mut().cast::<c_void>();
            table.log = Some(log);
            table.now_ns = Some(now);
            table.sleep_until_ns = Some(sleep_until);
            table.store_read = Some(store_read);
            table.store_write = Some(store_write);
            table.configuration = Some(configuration_value);
            Services {
                configuration,
                log: Mutex::default(),
                store: Mutex::default(),
                table,
            }
        })
    }

    /// The table to hand over; valid as long as the services.
    #[must_use]
    pub fn table(&self) -> *const abi::polychip_host_services {
        &raw const self.table
    }

    /// The last lines that the plugin logged.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }
}

/// # Safety
/// `user` is the pointer of a table of [`Services`] that are still alive.
unsafe fn services<'a>(user: *mut c_void) -> &'a Services {
    // SAFETY: by the caller's promise.
    unsafe { &*user.cast::<Services>() }
}

/// # Safety
/// The span is valid for the call.
unsafe fn bytes<'a>(data: *const u8, len: u64) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(data, usize::try_from(len).unwrap_or(0)) }
}

unsafe extern "C" fn log(user: *mut c_void, _level: u32, words: abi::polychip_text) {
    // SAFETY: the contract hands `user` back as given, and the text is valid for the call.
    let (services, words) = unsafe { (services(user), bytes(words.data, words.len)) };
    let mut lines = services.log.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() == LINES {
        lines.pop_front();
    }
    lines.push_back(String::from_utf8_lossy(words).into_owned());
}

unsafe extern "C" fn now(_user: *mut c_void) -> u64 {
    now_ns()
}

unsafe extern "C" fn sleep_until(_user: *mut c_void, until_ns: u64) {
    let now = now_ns();
    if until_ns > now {
        std::thread::sleep(Duration::from_nanos(until_ns - now));
    }
}

unsafe extern "C" fn store_read(
    user: *mut c_void,
    key: abi::polychip_text,
    out_value: *mut u8,
    capacity: u64,
    out_len: *mut u64,
) -> u32 {
    // SAFETY: the contract hands `user` back as given, and the key is valid for the call.
    let (services, key) = unsafe { (services(user), bytes(key.data, key.len)) };
    let store = services.store.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(value) = store.get(key) else {
        return abi::POLYCHIP_STATUS_UNSUPPORTED;
    };
    let count = value.len().min(usize::try_from(capacity).unwrap_or(0));
    if !out_value.is_null() {
        // SAFETY: a non-null `out_value` has room for `capacity` bytes.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), out_value, count) };
    }
    if !out_len.is_null() {
        // SAFETY: a non-null `out_len` is writable.
        unsafe { out_len.write(value.len() as u64) };
    }
    abi::POLYCHIP_STATUS_OK
}

unsafe extern "C" fn store_write(
    user: *mut c_void,
    key: abi::polychip_text,
    value: abi::polychip_bytes,
) -> u32 {
    // SAFETY: the contract hands `user` back as given; key and value are valid for the call.
    let (services, key, value) = unsafe {
        (
            services(user),
            bytes(key.data, key.len),
            bytes(value.data, value.len),
        )
    };
    let mut store = services.store.lock().unwrap_or_else(PoisonError::into_inner);
    if value.is_empty() {
        store.remove(key);
    } else {
        store.insert(key.to_vec(), value.to_vec());
    }
    abi::POLYCHIP_STATUS_OK
}

unsafe extern "C" fn configuration_value(
    user: *mut c_void,
    key: abi::polychip_text,
    out_value: *mut abi::polychip_text,
) -> u32 {
    // SAFETY: the contract hands `user` back as given, and the key is valid for the call.
    let (services, key) = unsafe { (services(user), bytes(key.data, key.len)) };
    let found = std::str::from_utf8(key)
        .ok()
        .and_then(|key| services.configuration.get(key));
    match found {
        Some(value) if !out_value.is_null() => {
            let span = abi::polychip_text {
                data: value.as_ptr(),
                len: value.len() as u64,
            };
            // SAFETY: a non-null `out_value` is writable.
            unsafe { out_value.write(span) };
            abi::POLYCHIP_STATUS_OK
        }
        Some(_) => abi::POLYCHIP_STATUS_BAD_ARGUMENT,
        None => abi::POLYCHIP_STATUS_UNSUPPORTED,
    }
}
