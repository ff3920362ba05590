//! Services that the host passes to a plugin at `create`.
//!
//! Invariants:
//! 1. Every call takes `user` as its first argument and may be made from any thread.
//! 2. The services live as long as the plugin instance.
//! 3. Each plugin has its own store; it never sees the keys and values of another plugin.

use crate::sized::sized;
use crate::span::{polychip_bytes, polychip_text};

/// An operation failed.
pub const POLYCHIP_LOG_ERROR: u32 = 1;
/// A condition that looks wrong, although nothing failed.
pub const POLYCHIP_LOG_WARN: u32 = 2;
/// Information for users.
pub const POLYCHIP_LOG_INFO: u32 = 3;
/// Information for plugin authors.
pub const POLYCHIP_LOG_DEBUG: u32 = 4;
/// Every step.
pub const POLYCHIP_LOG_TRACE: u32 = 5;

/// Log sink, clock, key-value store and configuration. A call that the host does not offer is null.
/// All calls are thread-safe.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_host_services {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// First argument of every call here.
    pub user: *mut core::ffi::c_void,
    /// Writes a log line at level `POLYCHIP_LOG_*`. `text` has no line end. Does not block.
    pub log: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, level: u32, text: polychip_text)>,
    /// Returns monotonic time, in nanoseconds. In tests the time is virtual and only
    /// `sleep_until_ns` advances it.
    pub now_ns: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void) -> u64>,
    /// Waits until `now_ns` reaches `until_ns`. Advances a virtual clock to that time at once.
    pub sleep_until_ns: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, until_ns: u64)>,
    /// Reads a value of the plugin's store: at most `capacity` bytes into `out_value`, and the
    /// value's full length into `out_len`. Returns `POLYCHIP_STATUS_UNSUPPORTED` if the key does
    /// not exist.
    pub store_read: Option<
        unsafe extern "C" fn(
            user: *mut core::ffi::c_void,
            key: polychip_text,
            out_value: *mut u8,
            capacity: u64,
            out_len: *mut u64,
        ) -> u32,
    >,
    /// Writes a value to the plugin's store. An empty value removes the key.
    pub store_write: Option<
        unsafe extern "C" fn(user: *mut core::ffi::c_void, key: polychip_text, value: polychip_bytes) -> u32,
    >,
    /// Reads a configuration string, which lives as long as the services. Returns
    /// `POLYCHIP_STATUS_UNSUPPORTED` if it is not set.
    pub configuration: Option<
        unsafe extern "C" fn(
            user: *mut core::ffi::c_void,
            key: polychip_text,
            out_value: *mut polychip_text,
        ) -> u32,
    >,
}

sized!(polychip_host_services);
