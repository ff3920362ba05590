//! An access that a plugin opened is closed, even one of no bytes at no address.

#![allow(unsafe_code, reason = "the calls of a plugin that differs in one answer")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use polychip_abi as abi;
use polychip_host::{Access, Host};

/// Accesses begun and not ended.
static OPEN: AtomicI64 = AtomicI64::new(0);

unsafe extern "C" fn begin(
    buffer: *mut abi::polychip_buffer,
    access: u32,
    offset: u64,
    bytes: u64,
    out_data: *mut *mut u8,
    error: *mut abi::polychip_error,
) -> u32 {
    OPEN.fetch_add(1, Ordering::AcqRel);
    if bytes > 0 {
        let call = polychip_null::table().buffer_begin_access.unwrap();
        // SAFETY: the arguments are handed on as they came.
        return unsafe { call(buffer, access, offset, bytes, out_data, error) };
    }
    // SAFETY: the host's place for the address.
    unsafe { out_data.write(std::ptr::null_mut()) };
    abi::POLYCHIP_STATUS_OK
}

unsafe extern "C" fn end(_: *mut abi::polychip_buffer, _: *mut abi::polychip_error) -> u32 {
    OPEN.fetch_sub(1, Ordering::AcqRel);
    abi::POLYCHIP_STATUS_OK
}

unsafe extern "C" fn query(_: u32, _: u32) -> *const abi::polychip_plugin_table {
    static TABLE: OnceLock<abi::polychip_plugin_table> = OnceLock::new();
    TABLE.get_or_init(|| abi::polychip_plugin_table {
        buffer_begin_access: Some(begin),
        buffer_end_access: Some(end),
        ..*polychip_null::table()
    })
}

#[test]
fn empty_access_without_an_address_is_closed() {
    let host = Host::builder()
        .linked(query)
        .configure("null", "script", "[[device]]")
        .build();
    let buffer = host.devices()[0].create_buffer(16, 0).unwrap();
    for access in [Access::Read, Access::Write] {
        drop(buffer.access(access, 0, 16).unwrap());
        assert_eq!(OPEN.load(Ordering::Acquire), 0);
        assert!(buffer.access(access, 16, 0).unwrap().is_empty());
        assert_eq!(OPEN.load(Ordering::Acquire), 0);
    }
}
