//! Reading protobuf's wire format, without a schema, which prost needs.
//!
//! Invariant: nothing is read past the end, whatever lengths say.

/// The content of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or("a number is cut off")?;
        *bytes = rest;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number is too long".to_owned())
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or("a field is cut off")?;
    *bytes = rest;
    Ok(taken)
}

/// The fields of a message, in order.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => Field::Bytes(take(&mut bytes, 8)?),
            2 => {
                let count = varint(&mut bytes)?;
                Field::Bytes(take(&mut bytes, usize::try_from(count).unwrap_or(usize::MAX))?)
            }
            5 => Field::Bytes(take(&mut bytes, 4)?),
            other => return Err(format!("wire type {other}")),
        };
        fields.push((key >> 3, field));
    }
    Ok(fields)
}

/// A message whose fields are asked for by number.
pub(super) struct Message<'a>(Vec<(u64, Field<'a>)>);

impl<'a> Message<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Message<'a>, String> {
        fields(bytes).map(Message)
    }

    /// The bytes of each field of this number.
    pub(super) fn all(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(field, content)| match content {
            Field::Bytes(bytes) if *field == number => Some(*bytes),
            _ => None,
        })
    }

    pub(super) fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        self.all(number).last()
    }

    pub(super) fn message(&self, number: u64) -> Result<Option<Message<'a>>, String> {
        self.bytes(number).map(Message::of).transpose()
    }

    pub(super) fn text(&self, number: u64) -> Result<&'a str, String> {
        let bytes = self.bytes(number).unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| format!("field {number} is no text"))
    }

    /// A number; 0 if it is omitted.
    pub(super) fn number(&self, number: u64) -> u64 {
        let found = self.0.iter().rev().find_map(|(field, content)| match content {
            Field::Number(value) if *field == number => Some(*value),
            _ => None,
        });
        found.unwrap_or(0)
    }

    /// Numbers, packed or one by one.
    pub(super) fn numbers(&self, number: u64) -> Result<Vec<u64>, String> {
        let mut numbers = Vec::new();
        for (field, content) in &self.0 {
            match content {
                _ if *field != number => {}
                Field::Number(value) => numbers.push(*value),
                Field::Bytes(bytes) => {
                    let mut bytes = *bytes;
                    while !bytes.is_empty() {
                        numbers.push(varint(&mut bytes)?);
                    }
                }
            }
        }
        Ok(numbers)
    }

    /// The entries of a map from texts to messages.
    pub(super) fn entries(&self, number: u64) -> Result<Vec<(&'a str, Message<'a>)>, String> {
        let mut entries = Vec::new();
        for entry in self.all(number) {
            let entry = Message::of(entry)?;
            let value = Message::of(entry.bytes(2).unwrap_or_default())?;
            entries.push((entry.text(1)?, value));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_fields_and_long_numbers_are_errors() {
        assert!(Message::of(&[0x0a, 5, 1]).is_err());
        assert!(Message::of(&[0x08, 0x80]).is_err());
        assert!(Message::of(&[0x08; 1]).is_err());
        assert!(Message::of(&[&[0x08][..], &[0xff; 11]].concat()).is_err());
        assert!(Message::of(&[0x0f]).is_err());
        let message = Message::of(&[0x08, 0xac, 2, 0x12, 2, b'a', b'b', 0x1a, 3, 1, 0x80, 1]).unwrap();
        assert_eq!(message.number(1), 300);
        assert_eq!(message.text(2), Ok("ab"));
        assert_eq!(message.numbers(3), Ok(vec![1, 128]));
    }
}
