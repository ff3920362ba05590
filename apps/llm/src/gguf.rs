//! Reader for GGUF files, versions 2 and 3: metadata, a table of tensors, and the tensors' blocks in
//! place. A model may be split into several files.
//!
//! Invariants:
//! 1. No tensor is copied: its bytes are a slice of the file.
//! 2. A [`Gguf`] is valid: every value has been walked to its end, text is UTF-8, and every tensor
//!    lies inside the file, on its alignment, and overlaps no other.
//! 3. Allocations while reading are bounded by the bytes that exist, never by a count that the file
//!    states.
//!
//! Not here: the meaning of keys (`config`, `tokenizer`, `template`), big-endian files.
//!
//! Start with [`Gguf::open`].

mod cursor;
pub mod limits;
mod read;
mod split;
mod tensor;
mod tensor_type;
mod value;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use polychip_host::ModelFolder;

pub use tensor::{Piece, Tensor};
pub use tensor_type::TensorType;
pub use value::{Array, Value, ValueType};
pub use writer::GgufWriter;
#[cfg(any(test, feature = "testing"))]
pub(crate) use writer::Key;

use crate::{Error, Result};
use read::Contents;

/// A validated GGUF file.
///
/// ```
/// use polychip_llm::gguf::{Gguf, TensorType};
/// use polychip_llm::testing::GgufWriter;
///
/// let mut writer = GgufWriter::new();
/// writer.text("general.architecture", "llama");
/// writer.tensor("output_norm.weight", TensorType::F32, &[2], [1.0_f32, -2.0].map(f32::to_le_bytes).concat());
/// let file = Gguf::read(writer.finish().into())?;
/// assert_eq!(file.text("general.architecture")?, Some("llama"));
/// let norm = file.tensor("output_norm.weight").expect("it was written");
/// let mut values = [0.0; 2];
/// norm.dequantize(0, &mut values);
/// assert_eq!(values, [1.0, -2.0]);
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Clone)]
pub struct Gguf {
    /// The first has the keys; tensors are in any of them.
    pieces: Arc<[Piece]>,
    folder: Arc<ModelFolder>,
    contents: Arc<Contents>,
    is_checkpoint: bool,
}

/// Refuses files that another process truncated while they were read.
fn intact(folder: &ModelFolder) -> Result<()> {
    let truncated = |source| Error::file(Path::new("model files"), source);
    folder.check().map_err(truncated)
}

/// A tensor in another file than the keys.
pub(crate) struct External {
    pub(crate) name: String,
    pub(crate) kind: TensorType,
    /// Innermost first; as many weights as the range holds.
    pub(crate) dims: Vec<u64>,
    /// Index of its file among those beside the model.
    pub(crate) file: usize,
    pub(crate) range: std::ops::Range<usize>,
}

impl Gguf {
    /// Opens a file and validates it. The file must not change while it is in use. For a split model
    /// (`NAME-00001-of-00003.gguf`), `path` names the first file, and all files are mapped.
    ///
    /// # Errors
    /// The file cannot be mapped or is malformed; or the model is split and this is not its first
    /// file, or another is missing.
    pub fn open(path: &Path) -> Result<Gguf> {
        let folder = ModelFolder::open(path).map_err(|source| Error::file(path, source))?;
        Gguf::of(folder, Some(path))
    }

    /// Validates a file in memory.
    ///
    /// # Errors
    /// The bytes are not a GGUF file of version 2 or 3, are truncated or contradictory, hold a
    /// tensor of an unsupported type, or are one of a split model's files.
    pub fn read(bytes: Bytes) -> Result<Gguf> {
        Gguf::of(ModelFolder::of_bytes(bytes), None)
    }

    fn of(folder: ModelFolder, path: Option<&Path>) -> Result<Gguf> {
        let bytes = folder.bytes();
        let mut contents = read::read(&bytes).or_else(|error| intact(&folder).and(Err(error)))?;
        let name = Some(String::new());
        let mut pieces = vec![Piece { name, bytes }];
        split::add(&folder, path, &mut contents, &mut pieces)?;
        intact(&folder)?;
        Ok(Gguf {
            pieces: pieces.into(),
            folder: Arc::new(folder),
            contents: Arc::new(contents),
            is_checkpoint: false,
        })
    }

    /// Combines keys made from a folder's other files with tensors in opened files of the folder.
    pub(crate) fn of_checkpoint(
        folder: ModelFolder,
        header: Bytes,
        files: Vec<(String, Bytes)>,
        tensors: Vec<External>,
    ) -> Result<Gguf> {
        let mut contents = read::read(&header)?;
        for tensor in tensors {
            let entry = tensor::Entry {
                kind: tensor.kind,
                dims: tensor.dims,
                piece: tensor.file + 1,
                range: tensor.range,
            };
            if contents.tensors.insert(tensor.name.clone(), entry).is_some() {
                return Err(Error::malformed(format!(
                    "tensor {:?} appears twice",
                    tensor.name
                )));
            }
        }
        intact(&folder)?;
        let first = Piece {
            name: None,
            bytes: header,
        };
        let files = files.into_iter().map(|(name, bytes)| Piece {
            name: Some(name),
            bytes,
        });
        Ok(Gguf {
            pieces: std::iter::once(first).chain(files).collect(),
            folder: Arc::new(folder),
            contents: Arc::new(contents),
            is_checkpoint: true,
        })
    }

    /// Whether the weights come from a safetensors folder. (A GGUF converter reorders the rows of
    /// queries and keys; here they have their original order.)
    #[must_use]
    pub fn is_checkpoint(&self) -> bool {
        self.is_checkpoint
    }

    /// Writes weights of a tensor as f32 from block `first` on, as many as `out` holds. Reads from
    /// the file and not from its mapping, because mapped pages that are touched stay in memory.
    ///
    /// # Errors
    /// The file cannot be read.
    ///
    /// # Panics
    /// As [`Tensor::dequantize`].
    pub fn read_weights(&self, tensor: &Tensor<'_>, first: usize, out: &mut [f32]) -> Result<()> {
        let kind = tensor.kind();
        let (len, bytes) = (kind.block_len(), kind.block_bytes());
        assert!(out.len().is_multiple_of(len), "not a whole number of blocks");
        let range = tensor.range();
        let start = range.start + first * bytes;
        let mut blocks = vec![0; out.len() / len * bytes];
        assert!(start + blocks.len() <= range.end, "past the tensor's end");
        let piece = &self.pieces[tensor.piece()];
        let read = match piece.name.as_deref() {
            None => {
                let end = start + blocks.len();
                blocks.copy_from_slice(&piece.bytes[start..end]);
                Ok(())
            }
            Some("") => self.folder.read_at(start, &mut blocks),
            Some(file) => self.folder.read_external_at(file, start, &mut blocks),
        };
        read.map_err(|source| Error::file(Path::new(&format!("tensor {}", tensor.name())), source))?;
        kind.dequantize(&blocks, out);
        Ok(())
    }

    /// The file and its folder, in the form that devices request.
    pub(crate) fn folder(&self) -> Arc<ModelFolder> {
        Arc::clone(&self.folder)
    }

    /// Alignment of tensor offsets in bytes.
    #[must_use]
    pub fn alignment(&self) -> u32 {
        self.contents.alignment
    }

    /// The keys, sorted by name.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.contents.metadata.keys().map(String::as_str)
    }

    /// The value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value<'_>> {
        self.contents
            .metadata
            .get(key)
            .map(|span| span.value(&self.pieces[0].bytes))
    }

    /// The text of a key; `None` if the file does not have it.
    ///
    /// # Errors
    /// The value is not text.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a string", |value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        })
    }

    /// The boolean of a key; `None` if the file does not have it.
    ///
    /// # Errors
    /// The value is not a boolean.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a boolean", |value| match value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        })
    }

    /// The integer of a key, whatever its integer type in the file; `None` if the file does not
    /// have it.
    ///
    /// # Errors
    /// The value is not an integer, or does not fit `u32`.
    pub fn integer(&self, key: &str) -> Result<Option<u32>> {
        self.typed(key, "an unsigned 32-bit integer", |value| {
            value.integer().and_then(|value| u32::try_from(value).ok())
        })
    }

    /// The float of a key; `None` if the file does not have it.
    ///
    /// # Errors
    /// The value is not a float, or not finite.
    pub fn float(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, "a finite float", |value| match value {
            Value::F32(float) if float.is_finite() => Some(float),
            _ => None,
        })
    }

    /// The array of a key; `None` if the file does not have it.
    ///
    /// # Errors
    /// The value is not an array of this type.
    pub fn array(&self, key: &str, item: ValueType) -> Result<Option<Array<'_>>> {
        self.typed(key, &format!("an array of {item}"), |value| match value {
            Value::Array(array) if array.item() == item => Some(array),
            _ => None,
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        what: &str,
        take: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let words = || Error::config(format!("key {key:?} must be {what}, and is {value}"));
        take(value).map(Some).ok_or_else(words)
    }

    /// The tensors, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.contents
            .tensors
            .iter()
            .map(|(name, entry)| entry.tensor(name, &self.pieces))
    }

    /// The tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let (name, entry) = self.contents.tensors.get_key_value(name)?;
        Some(entry.tensor(name, &self.pieces))
    }

    /// The files that hold tensors. For a GGUF file, the first is the file itself, followed by the
    /// other files of a split model. For a safetensors folder, the first is the metadata made from
    /// its settings, followed by its weight files.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Size of all files in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let files = self.pieces.iter().filter(|piece| piece.name.is_some());
        files.map(|piece| piece.bytes.len() as u64).sum()
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("bytes", &self.file_bytes())
            .field("keys", &self.contents.metadata.len())
            .field("tensors", &self.contents.tensors.len())
            .finish()
    }
}
