//! Status codes and the caller-owned error record.
//!
//! Invariant: `POLYCHIP_STATUS_OK` is 0. Every other status is a class that determines what the
//! host does next.

use crate::fixed_str;
use crate::sized::sized;

/// The call succeeded.
pub const POLYCHIP_STATUS_OK: u32 = 0;
/// An argument violates the contract. The same call will fail again.
pub const POLYCHIP_STATUS_BAD_ARGUMENT: u32 = 1;
/// The device cannot do this. Another device may.
pub const POLYCHIP_STATUS_UNSUPPORTED: u32 = 2;
/// A temporary fault. The same call may succeed later.
pub const POLYCHIP_STATUS_TRANSIENT: u32 = 3;
/// The device failed, and will fail again with this executable.
pub const POLYCHIP_STATUS_PERSISTENT: u32 = 4;
/// The device is unusable until it is reset or opened again.
pub const POLYCHIP_STATUS_DEVICE_LOST: u32 = 5;
/// The run was cancelled on request.
pub const POLYCHIP_STATUS_CANCELLED: u32 = 6;
/// A wait timed out. The work continues.
pub const POLYCHIP_STATUS_TIMEOUT: u32 = 7;
/// Host or device memory ran out.
pub const POLYCHIP_STATUS_OUT_OF_MEMORY: u32 = 8;
/// A blob is torn, stale or from another build.
pub const POLYCHIP_STATUS_BAD_BLOB: u32 = 9;

/// Index for "no node or tensor".
pub const POLYCHIP_NO_INDEX: u32 = u32::MAX;
/// Capacity of the message in an error record, in bytes.
pub const POLYCHIP_ERROR_MESSAGE_BYTES: usize = 992;

/// An error. The caller owns the record and sets `struct_size`; the plugin fills the rest.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_error {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// One of `POLYCHIP_STATUS_*`, equal to the call's return value.
    pub status: u32,
    /// The vendor's own error code; 0 if there is none.
    pub vendor_code: i64,
    /// Index of the node concerned in the call's graph, or `POLYCHIP_NO_INDEX`.
    pub node: u32,
    /// Index of the tensor or port concerned, or `POLYCHIP_NO_INDEX`.
    pub tensor: u32,
    /// Bytes of `message` in use.
    pub message_len: u32,
    /// Zero.
    pub reserved: u32,
    /// Message in UTF-8, cut at a character boundary; the vendor's own text if there is one.
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
    /// Returns the message as text. Drops a character that is torn at the end and replaces bytes
    /// that are not UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        fixed_str::read(&self.message, self.message_len).into_owned()
    }

    /// Sets the message, cut at a character boundary if it is too long.
    pub fn set_text(&mut self, text: &str) {
        self.message_len = fixed_str::put(text, &mut self.message);
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
    fn long_message_is_cut_at_a_character_boundary() {
        let mut error = polychip_error::sized();
        error.set_text(&"é".repeat(800));
        assert_eq!(error.text(), "é".repeat(496));
        let mut odd = String::from("x");
        odd.push_str(&"é".repeat(800));
        error.set_text(&odd);
        assert_eq!(error.text().len(), 991);
    }
}
