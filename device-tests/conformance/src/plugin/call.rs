//! One call of a plugin's table: its name, its status, and its failure message.
//!
//! Invariant: a call that fails gives the status, the record and the name of the call.

#![allow(unsafe_code)]

use std::fmt;

use polychip_abi as abi;
use polychip_abi::Sized;

/// A call that did not succeed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Name of the call in the table.
    pub call: &'static str,
    /// What it returned.
    pub status: u32,
    /// The status in the error record.
    pub record_status: u32,
    /// The words in the error record.
    pub words: String,
    /// The node in the error record.
    pub node: Option<u32>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, status_name(self.status))?;
        if !self.words.is_empty() {
            write!(f, ": {}", self.words)?;
        }
        Ok(())
    }
}

/// The result of a call.
pub type Call<T> = std::result::Result<T, Failure>;

/// The name of a status code.
#[must_use]
pub fn status_name(status: u32) -> String {
    match status {
        abi::POLYCHIP_STATUS_OK => "OK".into(),
        abi::POLYCHIP_STATUS_BAD_ARGUMENT => "BAD_ARGUMENT".into(),
        abi::POLYCHIP_STATUS_UNSUPPORTED => "UNSUPPORTED".into(),
        abi::POLYCHIP_STATUS_TRANSIENT => "TRANSIENT".into(),
        abi::POLYCHIP_STATUS_PERSISTENT => "PERSISTENT".into(),
        abi::POLYCHIP_STATUS_DEVICE_LOST => "DEVICE_LOST".into(),
        abi::POLYCHIP_STATUS_CANCELLED => "CANCELLED".into(),
        abi::POLYCHIP_STATUS_TIMEOUT => "TIMEOUT".into(),
        abi::POLYCHIP_STATUS_OUT_OF_MEMORY => "OUT_OF_MEMORY".into(),
        abi::POLYCHIP_STATUS_BAD_BLOB => "BAD_BLOB".into(),
        other => format!("unknown status {other}"),
    }
}

/// Makes a call and turns its status into a result.
pub(crate) fn checked(call: &'static str, make: impl FnOnce(*mut abi::polychip_error) -> u32) -> Call<()> {
    let mut record = abi::polychip_error::sized();
    let status = make(&raw mut record);
    if status == abi::POLYCHIP_STATUS_OK {
        return Ok(());
    }
    Err(Failure {
        call,
        status,
        record_status: record.status,
        words: record.text(),
        node: (record.node != abi::POLYCHIP_NO_INDEX).then_some(record.node),
    })
}

/// A breach of the contract that the call's status does not tell.
pub(crate) fn breach(call: &'static str, words: impl Into<String>) -> Failure {
    Failure {
        call,
        status: abi::POLYCHIP_STATUS_OK,
        record_status: abi::POLYCHIP_STATUS_OK,
        words: words.into(),
        node: None,
    }
}

/// The text behind a span, copied.
///
/// # Safety
/// The span is valid now, or null.
pub(crate) unsafe fn text(call: &'static str, span: abi::polychip_text) -> Call<String> {
    if span.len == 0 {
        return Ok(String::new());
    }
    if span.data.is_null() || span.len > 1 << 20 {
        return Err(breach(
            call,
            format!("a text of {} bytes at {:?}", span.len, span.data),
        ));
    }
    // SAFETY: by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(span.data, span.len as usize) };
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| breach(call, "a text is not UTF-8"))
}
