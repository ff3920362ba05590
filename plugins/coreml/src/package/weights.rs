//! The file of weights, in its second version: entries of metadata, each with its data behind it.
//!
//! Invariant: metadata and data start at multiples of [`ALIGN`], and an entry is named by where its metadata starts.

use crate::program::Type;

/// Of the header, of each entry's metadata, and of each start.
const ALIGN: usize = 64;
const VERSION: u32 = 2;
/// First word of an entry.
const MARK: u32 = 0xDEAD_BEEF;

/// A file in the making.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    count: u32,
}

const fn code(ty: Type) -> u32 {
    match ty {
        Type::F16 => 1,
        Type::F32 => 2,
        Type::I32 => 14,
        Type::U8 => 3,
        Type::I8 => 4,
    }
}

impl Writer {
    /// Adds the elements of a constant, and says by which offset they are found.
    pub(super) fn add(&mut self, ty: Type, data: &[u8]) -> u64 {
        if self.bytes.is_empty() {
            self.bytes.resize(ALIGN, 0);
        }
        let start = self.bytes.len();
        let at = (start + ALIGN) as u64;
        self.bytes.extend(MARK.to_le_bytes());
        self.bytes.extend(code(ty).to_le_bytes());
        self.bytes.extend((data.len() as u64).to_le_bytes());
        self.bytes.extend(at.to_le_bytes());
        self.bytes.resize(start + ALIGN, 0);
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        self.count += 1;
        start as u64
    }

    /// The file; no bytes where nothing was added.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes[..4].copy_from_slice(&self.count.to_le_bytes());
            self.bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_record_their_data_offset() {
        let mut writer = Writer::default();
        assert_eq!(writer.add(Type::F32, &[1; 8]), 64);
        assert_eq!(writer.add(Type::F16, &[2; 130]), 192);
        let bytes = writer.finish();
        assert_eq!(bytes.len(), 192 + 64 + 192);
        assert_eq!(bytes[..8], [2, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[64..72], [0xef, 0xbe, 0xad, 0xde, 2, 0, 0, 0]);
        assert_eq!(bytes[80..88], 128u64.to_le_bytes());
        assert_eq!(bytes[128..136], [1; 8]);
        assert_eq!(bytes[256..256 + 130], [2; 130]);
        assert_eq!(Writer::default().finish(), []);
    }
}
