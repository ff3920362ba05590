//! Services that the host passes to a plugin: log sink, clock, key-value store, configuration.
//!
//! Invariants:
//! 1. The services outlive the plugin instance, which holds them.
//! 2. No call panics or unwinds into the plugin. A failing store is logged and reads as empty.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::clock::Clock;

/// Persistent storage for plugins' own values. A plugin never sees another plugin's values. Called
/// from any thread.
pub trait Store: Send + Sync {
    /// Reads a value; `None` if the key does not exist.
    fn read(&self, plugin: &str, key: &str) -> Option<Vec<u8>>;
    /// Writes a value; an empty one removes the key. Returns false if it could not be stored.
    fn write(&self, plugin: &str, key: &str, value: &[u8]) -> bool;
}

/// What plugins are created with.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) clock: Clock,
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Configuration strings by plugin.
    pub(crate) configuration: BTreeMap<String, BTreeMap<String, String>>,
    /// Strings for every plugin that has none of its own for the key.
    pub(crate) of_all: BTreeMap<String, String>,
}

impl Recipe {
    /// The configuration strings of a plugin.
    pub(crate) fn configuration_of(&self, plugin: &str) -> BTreeMap<String, String> {
        let mut configuration = self.of_all.clone();
        configuration.extend(self.configuration.get(plugin).cloned().unwrap_or_default());
        configuration
    }
}

/// The services of one plugin instance, at a fixed address.
pub(crate) struct Services {
    plugin: String,
    clock: Clock,
    store: Option<Arc<dyn Store>>,
    configuration: BTreeMap<String, String>,
    table: abi::polychip_host_services,
}

// SAFETY: the raw pointer in `table` points to this object; everything reached through it is Sync.
unsafe impl Send for Services {}
// SAFETY: as above; the calls take shared references only.
unsafe impl Sync for Services {}

impl Services {
    /// Makes services for a plugin, with its configuration strings.
    pub(crate) fn new(
        plugin: &str,
        clock: Clock,
        store: Option<Arc<dyn Store>>,
        configuration: BTreeMap<String, String>,
    ) -> Arc<Services> {
        Arc::new_cyclic(|weak: &std::sync::Weak<Services>| {
            let mut table = abi::polychip_host_services::sized();
            table.user = weak.as_ptr().cast_mut().cast::<c_void>();
            table.log = Some(log);
            table.now_ns = Some(now_ns);
            table.sleep_until_ns = Some(sleep_until_ns);
            table.store_read = Some(store_read);
            table.store_write = Some(store_write);
            table.configuration = Some(configuration_value);
            Services {
                plugin: plugin.to_owned(),
                clock,
                store,
                configuration,
                table,
            }
        })
    }

    /// The table to pass to the plugin; valid as long as the services.
    pub(crate) fn table(&self) -> *const abi::polychip_host_services {
        &raw const self.table
    }
}

/// The services behind `user`.
///
/// # Safety
/// `user` is the pointer of a table of [`Services`] that are still alive.
unsafe fn services<'a>(user: *mut c_void) -> &'a Services {
    // SAFETY: by the caller's promise.
    unsafe { &*user.cast::<Services>() }
}

/// The text behind a span; bytes that are not UTF-8 are replaced.
///
/// # Safety
/// The span is valid for the call.
unsafe fn text<'a>(span: abi::polychip_text) -> std::borrow::Cow<'a, str> {
    if span.data.is_null() || span.len == 0 {
        return "".into();
    }
    let len = usize::try_from(span.len).unwrap_or(0);
    // SAFETY: by the caller's promise.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(span.data, len) })
}

unsafe extern "C" fn log(user: *mut c_void, level: u32, words: abi::polychip_text) {
    // SAFETY: the contract hands `user` back as given.
    let plugin = &unsafe { services(user) }.plugin;
    // SAFETY: the plugin's text is valid for the call.
    let words = unsafe { text(words) };
    match level {
        abi::POLYCHIP_LOG_ERROR => tracing::error!(target: "polychip::plugin", plugin, "{words}"),
        abi::POLYCHIP_LOG_WARN => tracing::warn!(target: "polychip::plugin", plugin, "{words}"),
        abi::POLYCHIP_LOG_INFO => tracing::info!(target: "polychip::plugin", plugin, "{words}"),
        abi::POLYCHIP_LOG_DEBUG => tracing::debug!(target: "polychip::plugin", plugin, "{words}"),
        _ => tracing::trace!(target: "polychip::plugin", plugin, "{words}"),
    }
}

unsafe extern "C" fn now_ns(user: *mut c_void) -> u64 {
    // SAFETY: the contract hands `user` back as given.
    unsafe { services(user) }.clock.now_ns()
}

unsafe extern "C" fn sleep_until_ns(user: *mut c_void, until_ns: u64) {
    // SAFETY: the contract hands `user` back as given.
    unsafe { services(user) }.clock.sleep_until_ns(until_ns);
}

unsafe extern "C" fn store_read(
    user: *mut c_void,
    key: abi::polychip_text,
    out_value: *mut u8,
    capacity: u64,
    out_len: *mut u64,
) -> u32 {
    // SAFETY: the contract hands `user` back as given.
    let services = unsafe { services(user) };
    // SAFETY: the plugin's text is valid for the call.
    let key = unsafe { text(key) };
    let Some(value) = services
        .store
        .as_ref()
        .and_then(|store| store.read(&services.plugin, &key))
    else {
        return abi::POLYCHIP_STATUS_UNSUPPORTED;
    };
    if !out_len.is_null() {
        // SAFETY: a non-null `out_len` is writable, by the contract.
        unsafe { out_len.write(value.len() as u64) };
    }
    let count = value.len().min(usize::try_from(capacity).unwrap_or(usize::MAX));
    if count > 0 && !out_value.is_null() {
        // SAFETY: `out_value` has room for `capacity` bytes, by the contract.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), out_value, count) };
    }
    abi::POLYCHIP_STATUS_OK
}

unsafe extern "C" fn store_write(
    user: *mut c_void,
    key: abi::polychip_text,
    value: abi::polychip_bytes,
) -> u32 {
    // SAFETY: the contract hands `user` back as given.
    let services = unsafe { services(user) };
    // SAFETY: the plugin's text is valid for the call.
    let key = unsafe { text(key) };
    let Some(store) = &services.store else {
        return abi::POLYCHIP_STATUS_UNSUPPORTED;
    };
    let bytes: &[u8] = if value.data.is_null() {
        &[]
    } else {
        // SAFETY: the plugin's bytes are valid for the call.
        unsafe { std::slice::from_raw_parts(value.data, usize::try_from(value.len).unwrap_or(0)) }
    };
    if store.write(&services.plugin, &key, bytes) {
        abi::POLYCHIP_STATUS_OK
    } else {
        abi::POLYCHIP_STATUS_PERSISTENT
    }
}

unsafe extern "C" fn configuration_value(
    user: *mut c_void,
    key: abi::polychip_text,
    out_value: *mut abi::polychip_text,
) -> u32 {
    // SAFETY: the contract hands `user` back as given.
    let services = unsafe { services(user) };
    // SAFETY: the plugin's text is valid for the call.
    let key = unsafe { text(key) };
    match services.configuration.get(&*key) {
        Some(value) if !out_value.is_null() => {
            let span = abi::polychip_text {
                data: value.as_ptr(),
                len: value.len() as u64,
            };
            // SAFETY: a non-null `out_value` is writable, by the contract.
            unsafe { out_value.write(span) };
            abi::POLYCHIP_STATUS_OK
        }
        Some(_) => abi::POLYCHIP_STATUS_BAD_ARGUMENT,
        None => abi::POLYCHIP_STATUS_UNSUPPORTED,
    }
}
