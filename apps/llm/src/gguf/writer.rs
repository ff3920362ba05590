//! Writes GGUF files for tests, valid or not: nothing is checked.

use super::{TensorType, ValueType};

/// A key with the bytes of its value.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) code: u32,
    pub(crate) value: Vec<u8>,
}

/// A tensor with its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) code: u32,
    pub(crate) dims: Vec<u64>,
    pub(crate) data: Vec<u8>,
    /// Stated offset; `None` for the end of the previous tensor.
    pub(crate) offset: Option<u64>,
}

/// A GGUF file under construction.
#[derive(Clone, Debug)]
pub struct GgufWriter {
    /// Version stated in the header.
    pub version: u32,
    /// Alignment of tensors in bytes.
    pub alignment: u64,
    pub(crate) keys: Vec<Key>,
    pub(crate) tensors: Vec<Written>,
}

impl Default for GgufWriter {
    fn default() -> GgufWriter {
        GgufWriter {
            version: 3,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
        }
    }
}

impl GgufWriter {
    /// Creates an empty file.
    #[must_use]
    pub fn new() -> GgufWriter {
        GgufWriter::default()
    }

    /// Adds a key with arbitrary value bytes.
    pub fn raw(&mut self, key: &str, code: u32, value: Vec<u8>) {
        self.keys.push(Key {
            name: key.to_owned(),
            code,
            value,
        });
    }

    /// Adds a text.
    pub fn text(&mut self, key: &str, text: &str) {
        self.raw(key, ValueType::Text.code(), counted(text));
    }

    /// Adds an integer.
    pub fn u32(&mut self, key: &str, value: u32) {
        self.raw(key, ValueType::U32.code(), value.to_le_bytes().to_vec());
    }

    /// Adds a float.
    pub fn f32(&mut self, key: &str, value: f32) {
        self.raw(key, ValueType::F32.code(), value.to_le_bytes().to_vec());
    }

    /// Adds a boolean.
    pub fn flag(&mut self, key: &str, value: bool) {
        self.raw(key, ValueType::Bool.code(), vec![value.into()]);
    }

    /// Adds an array of texts.
    pub fn texts<T: AsRef<str>>(&mut self, key: &str, texts: &[T]) {
        let items = texts.iter().flat_map(|text| counted(text.as_ref())).collect();
        self.array(key, ValueType::Text, texts.len(), items);
    }

    /// Adds an array of floats.
    pub fn f32s(&mut self, key: &str, values: &[f32]) {
        let items = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(key, ValueType::F32, values.len(), items);
    }

    /// Adds an array of integers.
    pub fn i32s(&mut self, key: &str, values: &[i32]) {
        let items = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.array(key, ValueType::I32, values.len(), items);
    }

    fn array(&mut self, key: &str, item: ValueType, len: usize, items: Vec<u8>) {
        let mut value = item.code().to_le_bytes().to_vec();
        value.extend((len as u64).to_le_bytes());
        value.extend(items);
        self.raw(key, ValueType::Array.code(), value);
    }

    /// Removes a key.
    pub fn remove_key(&mut self, key: &str) {
        self.keys.retain(|one| one.name != key);
    }

    /// Removes a tensor.
    pub fn remove_tensor(&mut self, name: &str) {
        self.tensors.retain(|one| one.name != name);
    }

    /// Adds a tensor; `dims` are innermost first.
    pub fn tensor(&mut self, name: &str, kind: TensorType, dims: &[u64], data: Vec<u8>) {
        self.raw_tensor(name, kind.code(), dims, data, None);
    }

    /// Adds a tensor with any type number, at any offset.
    pub fn raw_tensor(&mut self, name: &str, code: u32, dims: &[u64], data: Vec<u8>, offset: Option<u64>) {
        self.tensors.push(Written {
            name: name.to_owned(),
            code,
            dims: dims.to_vec(),
            data,
            offset,
        });
    }

    /// Returns the file's bytes.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for key in &self.keys {
            out.extend(counted(&key.name));
            out.extend(key.code.to_le_bytes());
            out.extend(&key.value);
        }
        let mut end = 0;
        for tensor in &self.tensors {
            let start = u64::next_multiple_of(end, self.alignment);
            end = start + tensor.data.len() as u64;
            out.extend(counted(&tensor.name));
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            for dim in &tensor.dims {
                out.extend(dim.to_le_bytes());
            }
            out.extend(tensor.code.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(start).to_le_bytes());
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(self.alignment as usize), 0);
            out.extend(&tensor.data);
        }
        out
    }
}

/// Text, preceded by its length.
fn counted(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}
