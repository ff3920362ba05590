//! Status codes and the caller-owned error record.
//!
//! Invariant: `POLYCHIP_STATUS_OK` is 0; every other status is a class that tells the host what to do next.

use crate::sized::sized;
use crate::words;

/// The call did what was asked.
pub const POLYCHIP_STATUS_OK: u32 = 0;
/// An argument breaks the contract; the same call will fail again.
pub const POLYCHIP_STATUS_BAD_ARGUMENT: u32 = 1;
/// The device cannot do this; another device may.
pub const POLYCHIP_STATUS_UNSUPPORTED: u32 = 2;
/// A passing fault; the same call may succeed later.
pub const POLYCHIP_STATUS_TRANSIENT: u32 = 3;
/// The device failed and will fail again with this executable.
pub const POLYCHIP_STATUS_PERSISTENT: u32 = 4;
/// The device is gone until it is reset or opened anew.
pub const POLYCHIP_STATUS_DEVICE_LOST: u32 = 5;
/// The run was cancelled on request.
pub const POLYCHIP_STATUS_CANCELLED: u32 = 6;
/// A wait ran out of time; the work goes on.
pub const POLYCHIP_STATUS_TIMEOUT: u32 = 7;
/// Host or device memory ran out.
pub const POLYCHIP_STATUS_OUT_OF_MEMORY: u32 = 8;
/// A blob is torn, stale or made by another build.
pub const POLYCHIP_STATUS_BAD_BLOB: u32 = 9;

/// No node or tensor is concerned.
pub const POLYCHIP_NO_INDEX: u32 = u32::MAX;
/// Bytes of message that an error record holds.
pub const POLYCHIP_ERROR_MESSAGE_BYTES: usize = 992;

/// What went wrong. The caller owns the record and sets `struct_size`; the plugin fills the rest.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_error {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// One of `POLYCHIP_STATUS_*`, equal to the call's return value.
    pub status: u32,
    /// The vendor's own code, 0 when there is none.
    pub vendor_code: i64,
    /// Index of the node concerned in the graph of the call, or `POLYCHIP_NO_INDEX`.
    pub node: u32,
    /// Index of the tensor or port concerned, or `POLYCHIP_NO_INDEX`.
    pub tensor: u32,
    /// Bytes of `message` in use.
    pub message_len: u32,
    /// Zero.
    pub reserved: u32,
    /// UTF-8 words, the vendor's where there are any, cut at a character boundary.
    pub message: [u8; POLYCHIP_ERROR_MESSAGE_BYTES],
}

impl Default for polychip_error {
    fn default() -> Self {
        Self {
            struct_size: 0,
            status: POLYCHIP_STATUS_OK,
            vendor_code: 0,
            node: POLYCHIP_NO_INDEX,
            tensor: POLYCHIP_NO_INDEX,
            message_len: 0,
            reserved: 0,
            message: [0; POLYCHIP_ERROR_MESSAGE_BYTES],
        }
    }
}

impl polychip_error {
    /// The message as text; a character torn at the end is left off, bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        words::read(&self.message, self.message_len).into_owned()
    }

    /// Sets the message, cut at a character boundary where it is too long.
    pub fn set_text(&mut self, text: &str) {
        self.message_len = words::put(text, &mut self.message);
    }
}

impl std::fmt::Debug for polychip_error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("polychip_error")
            .field("status", &self.status)
            .field("vendor_code", &self.vendor_code)
            .field("node", &self.node)
            .field("tensor", &self.tensor)
            .field("message", &self.text())
            .finish_non_exhaustive()
    }
}

sized!(polychip_error);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sized;

    #[test]
    fn a_long_message_is_cut_at_a_character_boundary() {
        let mut error = polychip_error::sized();
        error.set_text(&"é".repeat(800));
        assert_eq!(error.text(), "é".repeat(496));
        let mut odd = String::from("x");
        odd.push_str(&"é".repeat(800));
        error.set_text(&odd);
        assert_eq!(error.text().len(), 991);
    }
}
