//! Pointer and length: text and bytes that cross the contract.
//!
//! Invariant: a null `data` means `len` 0. Text is UTF-8 and not zero-terminated.

/// UTF-8 text, not zero-terminated.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_text {
    /// First byte; not followed when `len` is 0, and may be null then.
    pub data: *const u8,
    /// Bytes of text.
    pub len: u64,
}

/// Read-only bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_bytes {
    /// First byte; not followed when `len` is 0, and may be null then.
    pub data: *const u8,
    /// Number of bytes.
    pub len: u64,
}
