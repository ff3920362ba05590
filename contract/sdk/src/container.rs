//! A self-checking container for blobs: written for a plugin's `blob_bytes`, read by its `load`.
//!
//! Layout, little-endian: magic (8 bytes), version u32, section count u32, total bytes u64, build
//! id bytes u64, BLAKE3 hash of everything behind it (32 bytes), build id, table of sections (kind
//! u32, zero u32, offset u64, bytes u64), sections at multiples of 64.
//!
//! Invariants:
//! 1. A reader exists only for bytes with the right hash, version and build id; the error of a
//!    refusal states the reason.
//! 2. Sections lie inside the bytes, at multiples of 64 from their start.
//!
//! Not here: the contents of sections.

use crate::memory::AlignedBytes;
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"PCHIPBLB";
const VERSION: u32 = 1;
const HASHED_FROM: usize = 64;
const SECTION: usize = 24;
const ALIGN: usize = 64;
/// More sections than this are surely garbage.
const MAX_SECTIONS: usize = 1 << 20;

/// Collects the sections of a blob.
pub struct BlobWriter<'a> {
    build_id: &'a str,
    sections: Vec<(u32, &'a [u8])>,
}

impl<'a> BlobWriter<'a> {
    /// Starts a blob of this build, without sections.
    #[must_use]
    pub fn new(build_id: &'a str) -> BlobWriter<'a> {
        BlobWriter {
            build_id,
            sections: Vec::new(),
        }
    }

    /// Adds a section; several sections may have the same kind.
    #[must_use]
    pub fn section(mut self, kind: u32, bytes: &'a [u8]) -> BlobWriter<'a> {
        self.sections.push((kind, bytes));
        self
    }

    /// Returns the bytes, at a multiple of 64.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn finish(self) -> Result<AlignedBytes> {
        let table = HASHED_FROM + self.build_id.len();
        let mut end = table + SECTION * self.sections.len();
        let offsets: Vec<usize> = self
            .sections
            .iter()
            .map(|(_, bytes)| {
                let offset = end.next_multiple_of(ALIGN);
                end = offset + bytes.len();
                offset
            })
            .collect();
        let mut blob = AlignedBytes::zeroed(end, ALIGN)?;
        blob[..8].copy_from_slice(&MAGIC);
        blob[8..12].copy_from_slice(&VERSION.to_le_bytes());
        blob[12..16].copy_from_slice(&(self.sections.len() as u32).to_le_bytes());
        blob[16..24].copy_from_slice(&(end as u64).to_le_bytes());
        blob[24..32].copy_from_slice(&(self.build_id.len() as u64).to_le_bytes());
        blob[HASHED_FROM..table].copy_from_slice(self.build_id.as_bytes());
        for (index, ((kind, bytes), &offset)) in self.sections.iter().zip(&offsets).enumerate() {
            let row = table + SECTION * index;
            blob[row..row + 4].copy_from_slice(&kind.to_le_bytes());
            blob[row + 8..row + 16].copy_from_slice(&(offset as u64).to_le_bytes());
            blob[row + 16..row + 24].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            blob[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let hash = hash(&blob);
        blob[32..64].copy_from_slice(&hash);
        Ok(blob)
    }
}

/// The sizes of the header and everything behind the hash.
fn hash(blob: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&blob[..32]);
    hasher.update(&blob[HASHED_FROM..]);
    *hasher.finalize().as_bytes()
}

/// The sections of a checked blob.
#[derive(Debug, Clone)]
pub struct BlobReader<'a> {
    blob: &'a [u8],
    table: usize,
    sections: usize,
}

impl<'a> BlobReader<'a> {
    /// Checks a blob.
    ///
    /// # Errors
    /// `BadBlob` if it is torn, corrupt, of another version, or from another build.
    pub fn open(blob: &'a [u8], build_id: &str) -> Result<BlobReader<'a>> {
        let Some(header) = blob.get(..HASHED_FROM) else {
            return Err(Error::bad_blob(format!(
                "a blob of {} bytes is shorter than its header of {HASHED_FROM}",
                blob.len()
            )));
        };
        if header[..8] != MAGIC {
            return Err(Error::bad_blob("these bytes are not a blob: the magic is wrong"));
        }
        let version = u32_at(blob, 8);
        if version != VERSION {
            return Err(Error::bad_blob(format!(
                "the blob is of version {version}; this build reads {VERSION}"
            )));
        }
        let total = u64_at(blob, 16);
        if total != blob.len() as u64 {
            return Err(Error::bad_blob(format!(
                "the blob is torn: {} of {total} bytes",
                blob.len()
            )));
        }
        if hash(blob) != blob[32..64] {
            return Err(Error::bad_blob("the blob is corrupt: its hash is wrong"));
        }
        let sections = u32_at(blob, 12) as usize;
        let table = usize::try_from(u64_at(blob, 24))
            .ok()
            .and_then(|len| HASHED_FROM.checked_add(len))
            .filter(|&table| table <= blob.len());
        let Some(table) =
            table.filter(|&table| sections <= MAX_SECTIONS && table + SECTION * sections <= blob.len())
        else {
            return Err(Error::bad_blob("the blob's table exceeds the blob"));
        };
        let made_by = &blob[HASHED_FROM..table];
        if made_by != build_id.as_bytes() {
            return Err(Error::bad_blob(format!(
                "the blob was made by build {}; this is build {build_id}",
                String::from_utf8_lossy(made_by)
            )));
        }
        let reader = BlobReader {
            blob,
            table,
            sections,
        };
        for index in 0..sections {
            let row = reader.row(index);
            let (offset, bytes) = (u64_at(blob, row + 8), u64_at(blob, row + 16));
            let inside = offset.checked_add(bytes).is_some_and(|end| end <= total);
            if !inside || offset % ALIGN as u64 != 0 {
                return Err(Error::bad_blob(format!(
                    "section {index} of {bytes} bytes at {offset} is misplaced"
                )));
            }
        }
        Ok(reader)
    }

    /// The sections in order, each with its kind.
    pub fn sections(&self) -> impl ExactSizeIterator<Item = (u32, &'a [u8])> + '_ {
        (0..self.sections).map(|index| {
            let row = self.row(index);
            let offset = u64_at(self.blob, row + 8) as usize;
            let bytes = u64_at(self.blob, row + 16) as usize;
            (u32_at(self.blob, row), &self.blob[offset..offset + bytes])
        })
    }

    /// The first section of a kind.
    ///
    /// # Errors
    /// `BadBlob` if the section is missing.
    pub fn section(&self, kind: u32) -> Result<&'a [u8]> {
        self.sections()
            .find_map(|(of, bytes)| (of == kind).then_some(bytes))
            .ok_or_else(|| Error::bad_blob(format!("the blob has no section of kind {kind}")))
    }

    fn row(&self, index: usize) -> usize {
        self.table + SECTION * index
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn sections_are_read_back_aligned() {
        let blob = BlobWriter::new("null 1")
            .section(1, b"code")
            .section(2, &[7; 100])
            .section(1, b"")
            .finish()
            .unwrap();
        let reader = BlobReader::open(&blob, "null 1").unwrap();
        assert_eq!(reader.section(1).unwrap(), b"code");
        assert_eq!(reader.section(2).unwrap(), [7; 100]);
        assert_eq!(reader.sections().len(), 3);
        assert_eq!(reader.section(2).unwrap().as_ptr() as usize % 64, 0);
        assert_eq!(reader.section(3).unwrap_err().kind(), ErrorKind::BadBlob);
    }

    #[test]
    fn every_changed_byte_and_truncation_is_refused() {
        let blob = BlobWriter::new("b").section(1, &[1, 2, 3]).finish().unwrap();
        for index in 0..blob.len() {
            let mut changed = blob.to_vec();
            changed[index] ^= 1;
            let error = BlobReader::open(&changed, "b").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadBlob, "byte {index}");
            assert!(BlobReader::open(&blob[..index], "b").is_err(), "cut at {index}");
        }
        let stale = BlobReader::open(&blob, "c").unwrap_err().to_string();
        assert_eq!(stale, "the blob was made by build b; this is build c");
    }
}
