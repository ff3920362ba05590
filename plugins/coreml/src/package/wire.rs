//! Protobuf's wire format: what a message is as bytes.

/// A message in the making.
#[derive(Debug, Clone, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

impl Message {
    pub(super) fn new() -> Message {
        Message::default()
    }

    /// A number that is not left out, whatever it is.
    pub(super) fn number(mut self, field: u32, value: u64) -> Message {
        varint(&mut self.0, u64::from(field) << 3);
        varint(&mut self.0, value);
        self
    }

    pub(super) fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        varint(&mut self.0, u64::from(field) << 3 | 2);
        varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn text(self, field: u32, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(self, field: u32, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }

    /// Numbers in one field.
    pub(super) fn packed(self, field: u32, values: impl IntoIterator<Item = u64>) -> Message {
        let mut packed = Vec::new();
        for value in values {
            varint(&mut packed, value);
        }
        self.bytes(field, &packed)
    }

    /// An entry of a map from texts to messages.
    pub(super) fn entry(self, field: u32, key: &str, value: &Message) -> Message {
        self.message(field, &Message::new().text(1, key).message(2, value))
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
