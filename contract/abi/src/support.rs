//! The answer of `query_support`: per node, yes or a reason.

use crate::sized::sized;
use crate::words;

/// The device runs the node.
pub const POLYCHIP_SUPPORT_YES: u32 = 0;
/// The op is not offered.
pub const POLYCHIP_SUPPORT_OP: u32 = 1;
/// A data type is not offered.
pub const POLYCHIP_SUPPORT_DTYPE: u32 = 2;
/// A shape or extent is out of bounds.
pub const POLYCHIP_SUPPORT_SHAPE: u32 = 3;
/// A rank is not offered.
pub const POLYCHIP_SUPPORT_RANK: u32 = 4;
/// An attribute value is not offered.
pub const POLYCHIP_SUPPORT_ATTRIBUTE: u32 = 5;
/// A memory layout is not offered.
pub const POLYCHIP_SUPPORT_LAYOUT: u32 = 6;
/// An input would have to be a constant.
pub const POLYCHIP_SUPPORT_NOT_CONSTANT: u32 = 7;
/// A shape is known only after the run.
pub const POLYCHIP_SUPPORT_DYNAMIC_SHAPE: u32 = 8;
/// A body graph (If, Loop, Scan) is not offered.
pub const POLYCHIP_SUPPORT_BODY: u32 = 9;
/// A quantisation encoding is not offered.
pub const POLYCHIP_SUPPORT_ENCODING: u32 = 10;
/// The device's memory is too small.
pub const POLYCHIP_SUPPORT_MEMORY: u32 = 11;
/// The device or its driver is known to be wrong or unstable here.
pub const POLYCHIP_SUPPORT_QUARANTINED: u32 = 12;
/// The vendor's library refused, for the reason in `detail`.
pub const POLYCHIP_SUPPORT_VENDOR: u32 = 13;

/// Bytes of detail that a support record holds.
pub const POLYCHIP_SUPPORT_DETAIL_BYTES: usize = 1008;

/// Whether a device runs one node. The caller owns the records and sets `struct_size` of each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_support {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// One of `POLYCHIP_SUPPORT_*`; 0 is yes.
    pub reason: u32,
    /// Bytes of `detail` in use.
    pub detail_len: u32,
    /// Zero.
    pub reserved: u32,
    /// UTF-8 words: the attribute, type, limit or value concerned and no more, as the host puts the
    /// reason's own words before them; the vendor's own words where there are any. Cut at a character boundary.
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
    /// The detail as text; a character torn at the end is left off, bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        words::read(&self.detail, self.detail_len).into_owned()
    }

    /// Sets the detail, cut at a character boundary where it is too long.
    pub fn set_text(&mut self, text: &str) {
        self.detail_len = words::put(text, &mut self.detail);
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
