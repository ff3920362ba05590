//! A forward-only position in the file; its errors name what was being read where the file ends.

use std::ops::Range;

use crate::{Error, Result};

/// Reads little-endian numbers and length-prefixed text.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Skips the next bytes and returns their range in the file.
    pub(super) fn skip(&mut self, len: u64, what: &dyn Fn() -> String) -> Result<Range<usize>> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        match end {
            Some(end) if end <= self.bytes.len() => {
                let range = self.at..end;
                self.at = end;
                Ok(range)
            }
            _ => Err(Error::malformed(format!(
                "the file ends inside {}: {len} bytes are needed from byte {}, but {} are left",
                what(),
                self.at,
                self.left()
            ))),
        }
    }

    pub(super) fn array<const N: usize>(&mut self, what: &dyn Fn() -> String) -> Result<[u8; N]> {
        let range = self.skip(N as u64, what)?;
        Ok(self.bytes[range].try_into().expect("invariant: N bytes"))
    }

    pub(super) fn u32(&mut self, what: &dyn Fn() -> String) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &dyn Fn() -> String) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Text after its length of 8 bytes.
    pub(super) fn text(&mut self, most: u64, what: &dyn Fn() -> String) -> Result<&'a str> {
        let len = self.u64(what)?;
        if len > most {
            return Err(Error::malformed(format!(
                "{} has {len} bytes; the maximum is {most}",
                what()
            )));
        }
        let at = self.at;
        let range = self.skip(len, what)?;
        std::str::from_utf8(&self.bytes[range])
            .map_err(|_| Error::malformed(format!("{} at byte {at} is not UTF-8", what())))
    }
}
