//! The host's services as the plugin sees them: requests on the service socket.
//!
//! Invariants:
//! 1. Real time is read and slept here, without a request; virtual time only moves at the host's.
//! 2. A configuration string stays at its address until the process ends.

#![allow(unsafe_code, reason = "the plugin calls the functions of this table")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polychip_abi as abi;

use crate::clock;
use crate::frame::Channel;
use crate::message::{LOG_BYTES, MOST_STORED, Served, Service};

/// The host, as a client sees it.
pub(super) struct HostClient {
    clock_offset_ns: Option<i64>,
    channel: Mutex<Channel>,
    configuration: Mutex<BTreeMap<String, Option<&'static str>>>,
}

impl HostClient {
    pub(super) fn new(socket: OwnedFd, clock_offset_ns: Option<i64>) -> HostClient {
        HostClient {
            clock_offset_ns,
            channel: Mutex::new(Channel::new(socket)),
            configuration: Mutex::default(),
        }
    }

    /// The table for the plugin; valid until the process ends.
    pub(super) fn table(&'static self) -> abi::polychip_host_services {
        abi::polychip_host_services {
            user: std::ptr::from_ref(self).cast_mut().cast::<c_void>(),
            log: Some(log),
            now_ns: Some(now_ns),
            sleep_until_ns: Some(sleep_until_ns),
            store_read: Some(store_read),
            store_write: Some(store_write),
            configuration: Some(configuration),
            ..<abi::polychip_host_services as abi::Sized>::sized()
        }
    }

    fn ask(&self, request: &Service) -> Option<Served> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(request, &[]).ok()?;
        channel
            .receive::<Served>(0, None, None)
            .ok()
            .map(|(served, _)| served)
    }

    fn now_ns(&self) -> u64 {
        match self.clock_offset_ns {
            Some(offset) => clock::monotonic_ns().wrapping_add_signed(offset),
            None => match self.ask(&Service::Now) {
                Some(Served::Time(now_ns)) => now_ns,
                _ => 0,
            },
        }
    }
}

/// The host behind `user`.
///
/// # Safety
/// `user` is that of a table of [`HostClient::table`].
unsafe fn host<'a>(user: *mut c_void) -> &'a HostClient {
    // SAFETY: by the caller's promise; a client lives until the process ends.
    unsafe { &*user.cast_const().cast::<HostClient>() }
}

unsafe extern "C" fn log(user: *mut c_void, level: u32, text: abi::polychip_text) {
    // SAFETY: the contract hands `user` back as given, and the text is valid for the call.
    let (host, mut text) = unsafe { (host(user), super::calls::text(text)) };
    text.truncate(text.floor_char_boundary(LOG_BYTES));
    let mut channel = host.channel.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = channel.send(&Service::Log { level, text }, &[]);
}

unsafe extern "C" fn now_ns(user: *mut c_void) -> u64 {
    // SAFETY: the contract hands `user` back as given.
    unsafe { host(user) }.now_ns()
}

unsafe extern "C" fn sleep_until_ns(user: *mut c_void, until_ns: u64) {
    // SAFETY: the contract hands `user` back as given.
    let host = unsafe { host(user) };
    if host.clock_offset_ns.is_none() {
        host.ask(&Service::SleepUntil { until_ns });
        return;
    }
    let left_ns = until_ns.saturating_sub(host.now_ns());
    if left_ns > 0 {
        std::thread::sleep(Duration::from_nanos(left_ns));
    }
}

unsafe extern "C" fn store_read(
    user: *mut c_void,
    key: abi::polychip_text,
    out_value: *mut u8,
    capacity: u64,
    out_len: *mut u64,
) -> u32 {
    // SAFETY: the contract hands `user` back as given, and the text is valid for the call.
    let (host, key) = unsafe { (host(user), super::calls::text(key)) };
    let value = match host.ask(&Service::StoreRead { key }) {
        Some(Served::Value(Some(value))) => value,
        Some(Served::Failed(status)) => return status,
        _ => return abi::POLYCHIP_STATUS_UNSUPPORTED,
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
    // SAFETY: the contract hands `user` back as given, and text and bytes are valid for the call.
    let (host, key, value) = unsafe { (host(user), super::calls::text(key), super::calls::bytes(value)) };
    if value.len() > MOST_STORED {
        return abi::POLYCHIP_STATUS_BAD_ARGUMENT;
    }
    match host.ask(&Service::StoreWrite { key, value }) {
        Some(Served::Done) => abi::POLYCHIP_STATUS_OK,
        Some(Served::Failed(status)) => status,
        _ => abi::POLYCHIP_STATUS_PERSISTENT,
    }
}

unsafe extern "C" fn configuration(
    user: *mut c_void,
    key: abi::polychip_text,
    out_value: *mut abi::polychip_text,
) -> u32 {
    // SAFETY: the contract hands `user` back as given, and the text is valid for the call.
    let (host, key) = unsafe { (host(user), super::calls::text(key)) };
    let known = {
        let configuration = host.configuration.lock().unwrap_or_else(PoisonError::into_inner);
        configuration.get(&key).copied()
    };
    let value = known.unwrap_or_else(|| {
        let value = match host.ask(&Service::Configuration { key: key.clone() }) {
            Some(Served::Value(Some(value))) => {
                let text = String::from_utf8_lossy(&value).into_owned();
                Some(&*Box::leak(text.into_boxed_str()))
            }
            _ => None,
        };
        let mut configuration = host.configuration.lock().unwrap_or_else(PoisonError::into_inner);
        *configuration.entry(key).or_insert(value)
    });
    match value {
        Some(_) if out_value.is_null() => abi::POLYCHIP_STATUS_BAD_ARGUMENT,
        Some(value) => {
            let span = abi::polychip_text {
                data: value.as_ptr(),
                len: value.len() as u64,
            };
            // SAFETY: a non-null `out_value` is writable, by the contract.
            unsafe { out_value.write(span) };
            abi::POLYCHIP_STATUS_OK
        }
        None => abi::POLYCHIP_STATUS_UNSUPPORTED,
    }
}
