//! Results of `query_support`: per node, a yes or a reason.

use crate::fixed_str;
use crate::sized::sized;

/// The device runs the node.
pub const POLYCHIP_SUPPORT_YES: u32 = 0;
/// The device does not offer the op.
pub const POLYCHIP_SUPPORT_OP: u32 = 1;
/// The device does not offer a data type.
pub const POLYCHIP_SUPPORT_DTYPE: u32 = 2;
/// A shape or extent is outside the device's limits.
pub const POLYCHIP_SUPPORT_SHAPE: u32 = 3;
/// The device does not offer a rank.
pub const POLYCHIP_SUPPORT_RANK: u32 = 4;
/// The device does not offer an attribute value.
pub const POLYCHIP_SUPPORT_ATTRIBUTE: u32 = 5;
/// The device does not offer a memory layout.
pub const POLYCHIP_SUPPORT_LAYOUT: u32 = 6;
/// The device requires an input to be a constant.
pub const POLYCHIP_SUPPORT_NOT_CONSTANT: u32 = 7;
/// A shape is known only after the run.
pub const POLYCHIP_SUPPORT_DYNAMIC_SHAPE: u32 = 8;
/// The device does not offer a body graph (If, Loop, Scan).
pub const POLYCHIP_SUPPORT_BODY: u32 = 9;
/// The device does not offer a quantisation encoding.
pub const POLYCHIP_SUPPORT_ENCODING: u32 = 10;
/// The device's memory is too small.
pub const POLYCHIP_SUPPORT_MEMORY: u32 = 11;
/// The device or its driver is known to be wrong or unstable for this node.
pub const POLYCHIP_SUPPORT_QUARANTINED: u32 = 12;
/// The vendor's library refused; `detail` holds its reason.
pub const POLYCHIP_SUPPORT_VENDOR: u32 = 13;

/// Capacity of the detail in a support record, in bytes.
pub const POLYCHIP_SUPPORT_DETAIL_BYTES: usize = 1008;

/// Whether a device runs one node. The caller owns the records and sets the `struct_size` of each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_support {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// One of `POLYCHIP_SUPPORT_*`; 0: yes.
    pub reason: u32,
    /// Bytes of `detail` in use.
    pub detail_len: u32,
    /// Zero.
    pub reserved: u32,
    /// Detail in UTF-8, cut at a character boundary: the attribute, type, limit or value concerned,
    /// or the vendor's own text. The host puts a text for `reason` before it.
    pub detail: [u8; POLYCHIP_SUPPORT_DETAIL_BYTES],
}

impl Default for polychip_support {
    fn default() -> Self {
        Self {
            struct_size: 0,
            reason: 0,
            detail_len: 0,
            reserved: 0,
            detail: [0; POLYCHIP_SUPPORT_DETAIL_BYTES],
        }
    }
}

impl polychip_support {
    /// Returns the detail as text. Drops a character that is torn at the end and replaces bytes
    /// that are not UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        fixed_str::read(&self.detail, self.detail_len).into_owned()
    }

    /// Sets the detail, cut at a character boundary if it is too long.
    pub fn set_text(&mut self, text: &str) {
        self.detail_len = fixed_str::put(text, &mut self.detail);
    }
}

impl std::fmt::Debug for polychip_support {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("polychip_support")
            .field("reason", &self.reason)
            .field("detail", &self.text())
            .finish_non_exhaustive()
    }
}

sized!(polychip_support);
