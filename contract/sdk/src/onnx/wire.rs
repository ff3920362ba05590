//! Protobuf, written into one buffer.
//!
//! Invariants:
//! 1. A nested message is written in place. Its length is filled in afterwards, always in five
//!    bytes, so that weights are never moved.
//! 2. A message of more than 2 GiB is an error, because readers refuse it.
//!
//! Not here: the meaning of the fields.

use crate::protobuf::{BYTES, FIXED32, VARINT, put_key, put_varint};
use crate::{Error, ErrorKind, Result};

/// What readers of protobuf take at most, in bytes.
const LIMIT: usize = i32::MAX as usize;
/// Bytes kept free for a length.
const LENGTH: usize = 5;

/// A message being written.
#[derive(Default)]
pub(super) struct Wire {
    bytes: Vec<u8>,
}

impl Wire {
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        check(self.bytes.len())?;
        Ok(self.bytes)
    }

    fn key(&mut self, field: u32, kind: u32) {
        put_key(&mut self.bytes, field, kind);
    }

    fn length(&mut self, length: usize) {
        put_varint(&mut self.bytes, length as u64);
    }

    /// An integer; negative ones take ten bytes, as protobuf has it.
    pub(super) fn int(&mut self, field: u32, value: i64) {
        self.key(field, VARINT);
        put_varint(&mut self.bytes, value as u64);
    }

    pub(super) fn float(&mut self, field: u32, value: f32) {
        self.key(field, FIXED32);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.key(field, BYTES);
        self.length(text.len());
        self.bytes.extend(text.as_bytes());
    }

    /// Bytes.
    ///
    /// # Errors
    /// If memory runs out or the message grows too long.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) -> Result<()> {
        check(self.bytes.len().saturating_add(bytes.len()))?;
        self.bytes.try_reserve(bytes.len() + 16).map_err(|_| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("no memory for {} bytes of a model", bytes.len()),
            )
        })?;
        self.key(field, BYTES);
        self.length(bytes.len());
        self.bytes.extend(bytes);
        Ok(())
    }

    /// A message inside this one.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Wire) -> Result<()>) -> Result<()> {
        self.key(field, BYTES);
        let start = self.bytes.len() + LENGTH;
        self.bytes.resize(start, 0);
        write(self)?;
        let length = self.bytes.len() - start;
        check(length)?;
        for place in 0..LENGTH {
            let more = if place + 1 < LENGTH { 0x80 } else { 0 };
            self.bytes[start - LENGTH + place] = (length >> (7 * place)) as u8 & 0x7f | more;
        }
        Ok(())
    }
}

fn check(length: usize) -> Result<()> {
    if length <= LIMIT {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "the part takes {length} bytes as an ONNX model; protobuf takes {LIMIT}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_match_the_protobuf_encoding() {
        let mut wire = Wire::default();
        wire.int(1, 300);
        wire.int(2, -1);
        wire.float(3, 1.0);
        wire.text(4, "ab");
        wire.message(16, |inner| {
            inner.int(1, 5);
            Ok(())
        })
        .unwrap();
        wire.bytes(5, &[9]).unwrap();
        let mut expected = vec![0x08, 0xac, 0x02, 0x10];
        expected.extend([0xff; 9]);
        expected.extend([0x01, 0x1d, 0, 0, 0x80, 0x3f, 0x22, 2, b'a', b'b']);
        // the length 2 in five bytes
        expected.extend([0x82, 0x01, 0x82, 0x80, 0x80, 0x80, 0x00, 0x08, 5]);
        expected.extend([0x2a, 1, 9]);
        assert_eq!(wire.finish().unwrap(), expected);
    }
}
