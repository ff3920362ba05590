//! The fields of a protobuf message without its schema.
//!
//! It shares nothing with the encoders and the decoder (prost) under test, and keeps fields apart that they write as
//! bytes.
//!
//! Invariant: a message round-trips byte for byte; a payload that would not is kept as bytes.
//! (<https://protobuf.dev/programming-guides/encoding/>)

/// How deep messages are looked for: a graph inside a node inside a graph is five.
const DEPTH: usize = 24;

/// A field with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) value: Value,
}

/// What a field holds, by its wire type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(Vec<u8>),
    /// Bytes that are a message themselves, as far as can be seen.
    Message(Vec<Field>),
}

/// The fields of a message, where the bytes are one.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<Field>> {
    read_at(bytes, DEPTH)
}

fn read_at(bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let number = u32::try_from(key >> 3)
            .ok()
            .filter(|number| (1..4096).contains(number))?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => Value::Fixed64(*take(&mut rest, 8)?.first_chunk()?),
            5 => Value::Fixed32(*take(&mut rest, 4)?.first_chunk()?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let payload = take(&mut rest, length)?;
                let text = payload.iter().all(|byte| (b' '..=b'~').contains(byte));
                match (!text && depth > 0)
                    .then(|| read_at(payload, depth - 1))
                    .flatten()
                {
                    Some(message) if !message.is_empty() => Value::Message(message),
                    _ => Value::Bytes(payload.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { number, value });
    }
    (write(&fields) == bytes).then_some(fields)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

/// The bytes of a message.
pub(crate) fn write(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        let key = u64::from(field.number) << 3;
        match &field.value {
            Value::Varint(value) => {
                put(&mut bytes, key);
                put(&mut bytes, *value);
            }
            Value::Fixed64(value) => {
                put(&mut bytes, key | 1);
                bytes.extend_from_slice(value);
            }
            Value::Fixed32(value) => {
                put(&mut bytes, key | 5);
                bytes.extend_from_slice(value);
            }
            Value::Bytes(value) => {
                put(&mut bytes, key | 2);
                put(&mut bytes, value.len() as u64);
                bytes.extend_from_slice(value);
            }
            Value::Message(fields) => {
                put(&mut bytes, key | 2);
                let payload = write(fields);
                put(&mut bytes, payload.len() as u64);
                bytes.extend_from_slice(&payload);
            }
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn read_model_is_written_identically(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(fields) = read(&bytes) {
                prop_assert_eq!(write(&fields), bytes);
            }
        }
    }

    #[test]
    fn a_model_is_fields_down_to_its_sizes() {
        let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shapes/shapes.onnx");
        let fields = read(&std::fs::read(demo).unwrap()).unwrap();
        // ModelProto.graph, GraphProto.node
        let graph = fields.iter().find(|field| field.number == 7).unwrap();
        let Value::Message(graph) = &graph.value else {
            panic!("the graph is no message")
        };
        let nodes = graph.iter().filter(|field| field.number == 1);
        assert!(nodes.clone().count() > 5);
        assert!(nodes.clone().all(|node| matches!(node.value, Value::Message(_))));
    }
}
