//! Services that the host gives to a plugin at `create`.
//!
//! Invariants:
//! 1. Every call takes `user` as its first argument and may be made from any thread.
//! 2. The services live as long as the plugin instance.
//! 3. Keys and values of the store are the plugin's own; two plugins never see each other's.

use crate::sized::sized;
use crate::span::{polychip_bytes, polychip_text};

/// Something failed.
pub const POLYCHIP_LOG_ERROR: u32 = 1;
/// Something looks wrong.
pub const POLYCHIP_LOG_WARN: u32 = 2;
/// Worth telling a user who asks.
pub const POLYCHIP_LOG_INFO: u32 = 3;
/// Worth telling an author.
pub const POLYCHIP_LOG_DEBUG: u32 = 4;
/// Every step.
pub const POLYCHIP_LOG_TRACE: u32 = 5;

/// Log sink, clock, key-value store and configuration. An absent call is null.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_host_services {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// First argument of every call here.
    pub user: *mut core::ffi::c_void,
    /// Takes a line of log at a level `POLYCHIP_LOG_*`, without a line end. Does not block.
    pub log: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, level: u32, text: polychip_text)>,
    /// Monotonic time in nanoseconds; virtual in tests, where only `sleep_until_ns` moves it.
    pub now_ns: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void) -> u64>,
    /// Waits until `now_ns` reaches `until_ns`; on virtual time, moves the clock there at once.
    pub sleep_until_ns: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, until_ns: u64)>,
    /// Reads a value of the plugin's store into `out_value` (at most `capacity` bytes) and its full
    /// length into `out_len`. Returns `POLYCHIP_STATUS_UNSUPPORTED` where the key is not there.
    pub store_read: Option<
        unsafe extern "C" fn(
            user: *mut core::ffi::c_void,
            key: polychip_text,
            out_value: *mut u8,
            capacity: u64,
            out_len: *mut u64,
        ) -> u32,
    >,
    /// Writes a value of the plugin's store; an empty value removes the key.
    pub store_write: Option<
        unsafe extern "C" fn(user: *mut core::ffi::c_void, key: polychip_text, value: polychip_bytes) -> u32,
    >,
    /// Reads a configuration string, which lives as long as the services. Returns
    /// `POLYCHIP_STATUS_UNSUPPORTED` where it is not set.
    pub configuration: Option<
        unsafe extern "C" fn(
            user: *mut core::ffi::c_void,
            key: polychip_text,
            out_value: *mut polychip_text,
        ) -> u32,
    >,
}

sized!(polychip_host_services);
