//! Little-endian words and texts, written and read with checks.
//!
//! Invariant: a count that the rest of the bytes cannot hold is an error before anything is allocated.

/// Bytes being written.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A count; more than `u32` holds cannot be in memory.
    pub(crate) fn count(&mut self, value: usize) {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX));
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.count(value.len());
        self.0.extend_from_slice(value.as_bytes());
    }
}

/// Bytes being read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        Some(self.u32()? as i32)
    }

    pub(crate) fn f32(&mut self) -> Option<f32> {
        Some(f32::from_bits(self.u32()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A count of things of at least `least` bytes each.
    pub(crate) fn count(&mut self, least: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count.checked_mul(least)? <= self.0.len()).then_some(count)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let count = self.count(1)?;
        String::from_utf8(self.bytes(count)?.to_vec()).ok()
    }
}
