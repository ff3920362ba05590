//! Protobuf messages, written field by field, for vendors' formats and small models.
//!
//! The one writer of the tree. Not here: models of parts, whose weights are written in place by these functions (`onnx`);
//! reading.
//! `prost::encoding` writes the same numbers, but prost hides that module from its documentation,
//! and a plugin would depend on prost for two short functions.

/// A message being written.
///
/// ```
/// use polychip_sdk::protobuf::Message;
///
/// let pair = Message::new().text(1, "key").number(2, 300);
/// assert_eq!(pair.into_bytes(), [0x0a, 3, b'k', b'e', b'y', 0x10, 0xac, 2]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message(Vec<u8>);

/// The wire types that a key holds beside its field.
pub(crate) const VARINT: u32 = 0;
pub(crate) const BYTES: u32 = 2;
pub(crate) const FIXED32: u32 = 5;

/// Writes a number, seven bits a byte.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Writes the key of a field of this wire type.
pub(crate) fn put_key(bytes: &mut Vec<u8>, field: u32, kind: u32) {
    put_varint(bytes, u64::from(field) << 3 | u64::from(kind));
}

impl Message {
    /// An empty message.
    #[must_use]
    pub fn new() -> Message {
        Message::default()
    }

    /// Adds a number, also if it is zero. A negative one, as its 64 bits, takes ten bytes.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> Message {
        put_key(&mut self.0, field, VARINT);
        put_varint(&mut self.0, value);
        self
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        put_key(&mut self.0, field, BYTES);
        put_varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds text.
    #[must_use]
    pub fn text(self, field: u32, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    /// Adds a message.
    #[must_use]
    pub fn message(self, field: u32, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }

    /// Adds numbers in one field.
    #[must_use]
    pub fn packed(self, field: u32, values: impl IntoIterator<Item = u64>) -> Message {
        let mut packed = Vec::new();
        for value in values {
            put_varint(&mut packed, value);
        }
        self.bytes(field, &packed)
    }

    /// Adds an entry of a map from texts to messages.
    #[must_use]
    pub fn entry(self, field: u32, key: &str, value: &Message) -> Message {
        self.message(field, &Message::new().text(1, key).message(2, value))
    }

    /// Adds the fields of another message to this one.
    #[must_use]
    pub fn extended(mut self, other: &Message) -> Message {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// The message as bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let bytes = Message::new().number(1, 300).text(2, "ab").packed(3, [1, 128]).0;
        assert_eq!(bytes, [8, 0xac, 2, 0x12, 2, b'a', b'b', 0x1a, 3, 1, 0x80, 1]);
        // fields from 16 on take two bytes
        assert_eq!(Message::new().number(502, 0).0, [0xb0, 0x1f, 0]);
    }

    #[test]
    fn negative_numbers_take_ten_bytes() {
        let bytes = Message::new().packed(1, [-1i64 as u64]).0;
        assert_eq!(bytes.len(), 12);
        assert_eq!(bytes[11], 1);
    }
}
