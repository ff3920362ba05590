//! How a call of the plugin is made and its failure is read.

#![allow(unsafe_code, reason = "the plugin's results are read here")]

use polychip_abi as abi;
use polychip_abi::Sized;

use super::failure::failure;
use crate::message::FailureRecord;

/// Longest text that is read, in bytes.
const MOST_TEXT: u64 = 1 << 20;

/// Makes a call that fills an error record.
pub(super) fn checked(call: impl FnOnce(*mut abi::polychip_error) -> u32) -> Result<(), FailureRecord> {
    let mut record = abi::polychip_error::sized();
    let status = call(&raw mut record);
    if status == abi::POLYCHIP_STATUS_OK {
        return Ok(());
    }
    Err(FailureRecord {
        vendor_code: record.vendor_code,
        node: record.node,
        tensor: record.tensor,
        ..failure(status, record.text())
    })
}

/// Copies a text; bytes that are not UTF-8 are replaced.
///
/// # Safety
/// The span is valid now.
pub(super) unsafe fn text(span: abi::polychip_text) -> String {
    let bytes = abi::polychip_bytes {
        data: span.data,
        // a longer one is garbage, behind which no memory may lie
        len: if span.len > MOST_TEXT { 0 } else { span.len },
    };
    // SAFETY: by the caller's promise.
    String::from_utf8_lossy(&unsafe { self::bytes(bytes) }).into_owned()
}

/// Copies bytes.
///
/// # Safety
/// The span is valid now.
pub(super) unsafe fn bytes(span: abi::polychip_bytes) -> Vec<u8> {
    if span.data.is_null() || span.len == 0 {
        return Vec::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(span.data, usize::try_from(span.len).unwrap_or(0)) }.to_vec()
}

/// Copies `count` values; none for a null address.
///
/// # Safety
/// A non-null `at` is readable for `count` values.
pub(super) unsafe fn values<T: Copy>(at: *const T, count: u64) -> Vec<T> {
    if at.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(at, usize::try_from(count).unwrap_or(0)) }.to_vec()
}
