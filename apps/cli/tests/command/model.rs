//! Small ONNX models, written field by field: also those that no exporter would write.

use std::path::Path;

pub(crate) use polychip_sdk::protobuf::Message;

/// Element types by ONNX's codes.
pub(crate) const F32: u64 = 1;
pub(crate) const I64: u64 = 7;
pub(crate) const BOOL: u64 = 9;
pub(crate) const BF16: u64 = 16;

/// A node of the default domain.
pub(crate) fn node(op: &str, name: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let mut message = Message::default();
    for input in inputs {
        message = message.text(1, input);
    }
    for output in outputs {
        message = message.text(2, output);
    }
    message.text(3, name).text(4, op)
}

/// An integer attribute of a node.
pub(crate) fn with_integer(node: Message, name: &str, value: u64) -> Message {
    node.message(
        5,
        &Message::default().text(1, name).number(3, value).number(20, 2),
    )
}

/// A list of integers as an attribute of a node.
pub(crate) fn with_integers(node: Message, name: &str, values: &[u64]) -> Message {
    let attribute = Message::default().text(1, name);
    let attribute = values
        .iter()
        .fold(attribute, |attribute, value| attribute.number(8, *value));
    node.message(5, &attribute.number(20, 7))
}

/// An input or output; a dimension that is no number is a name.
pub(crate) fn port(name: &str, dtype: u64, dims: &[&str]) -> Message {
    let mut shape = Message::default();
    for dim in dims {
        let dim = match dim.parse() {
            Ok(size) => Message::default().number(1, size),
            Err(_) => Message::default().text(2, dim),
        };
        shape = shape.message(1, &dim);
    }
    let tensor = Message::default().number(1, dtype).message(2, &shape);
    Message::default()
        .text(1, name)
        .message(2, &Message::default().message(1, &tensor))
}

/// A constant with its bytes in the file.
pub(crate) fn constant(name: &str, dtype: u64, dims: &[u64], bytes: &[u8]) -> Message {
    dims.iter()
        .fold(Message::default(), |message, dim| message.number(1, *dim))
        .number(2, dtype)
        .text(8, name)
        .bytes(9, bytes)
}

/// A constant with its bytes in another file.
pub(crate) fn external(name: &str, dtype: u64, dims: &[u64], location: &str) -> Message {
    let entry = Message::default().text(1, "location").text(2, location);
    dims.iter()
        .fold(Message::default(), |message, dim| message.number(1, *dim))
        .number(2, dtype)
        .text(8, name)
        .message(13, &entry)
        .number(14, 1)
}

/// A model of the default domain.
pub(crate) struct Model {
    pub(crate) opset: u64,
    pub(crate) nodes: Vec<Message>,
    pub(crate) constants: Vec<Message>,
    pub(crate) inputs: Vec<Message>,
    pub(crate) outputs: Vec<Message>,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            opset: 17,
            nodes: vec![],
            constants: vec![],
            inputs: vec![],
            outputs: vec![],
        }
    }
}

impl Model {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut graph = Message::default().text(2, "made");
        for (field, messages) in [
            (1, &self.nodes),
            (5, &self.constants),
            (11, &self.inputs),
            (12, &self.outputs),
        ] {
            for message in messages {
                graph = graph.message(field, message);
            }
        }
        let opset = Message::default().text(1, "").number(2, self.opset);
        Message::default()
            .number(1, 8)
            .message(7, &graph)
            .message(8, &opset)
            .into_bytes()
    }

    /// Writes the model into a folder, and gives its path.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, self.bytes()).unwrap();
        path.display().to_string()
    }
}

/// y = relu(x + w) over f32 `[n, 3]`, n named.
pub(crate) fn add_relu() -> Model {
    let weights: Vec<u8> = [1.0f32, -1.0, 0.5]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    Model {
        nodes: vec![
            node("Add", "add", &["x", "w"], &["s"]),
            node("Relu", "relu", &["s"], &["y/out:0"]),
        ],
        constants: vec![constant("w", F32, &[3], &weights)],
        inputs: vec![port("x", F32, &["n", "3"])],
        outputs: vec![port("y/out:0", F32, &["n", "3"])],
        ..Model::default()
    }
}

/// A file of NumPy's.
pub(crate) fn npy(descriptor: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

/// Bytes of floats.
pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Type, shape without spaces, and data of a file of NumPy's.
pub(crate) fn read_npy(path: &Path) -> (String, String, Vec<u8>) {
    let file = std::fs::read(path).unwrap();
    assert_eq!(&file[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    let header = String::from_utf8(file[10..end].to_vec())
        .unwrap()
        .replace(' ', "");
    assert!(header.contains("'fortran_order':False"), "{header}");
    let after = |key: &str, open: char, close: char| {
        let rest = &header[header.find(key).unwrap() + key.len()..];
        let rest = &rest[rest.find(open).unwrap() + 1..];
        rest[..rest.find(close).unwrap()].trim_end_matches(',').to_owned()
    };
    (
        after("'descr':", '\'', '\''),
        after("'shape':", '(', ')'),
        file[end..].to_vec(),
    )
}
