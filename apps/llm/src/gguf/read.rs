//! Reads a file's header, metadata and tensor table, and checks every statement against the bytes
//! that exist.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Range;

use super::cursor::Cursor;
use super::limits::{MAX_ALIGNMENT, MAX_DIMS, MAX_KEY_BYTES, MAX_KEYS, MAX_NAME_BYTES, MAX_TENSORS};
use super::tensor::Entry;
use super::tensor_type::TensorType;
use super::value::{Span, Value};
use crate::{Error, Result};

/// Versions that are read. 3 differs from 2 only in that it may be big-endian, which is not supported; 1 counts with 4 bytes.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;
/// Alignment if `general.alignment` is missing, by the format's specification.
const DEFAULT_ALIGNMENT: u32 = 32;
/// Least bytes of a key with its value: two lengths, a type and one byte.
const LEAST_KEY: u64 = 8 + 4 + 1;
/// Least bytes of a tensor in the table: length of the name, number of dimensions, type, offset.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;

/// Content of a valid file, without its bytes.
pub(super) struct Contents {
    pub(super) alignment: u32,
    pub(super) metadata: BTreeMap<String, Span>,
    pub(super) tensors: BTreeMap<String, Entry>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Contents> {
    let mut cursor = Cursor::new(bytes);
    let (tensor_count, key_count) = header(&mut cursor)?;
    let metadata = metadata(&mut cursor, key_count)?;
    let alignment = alignment(metadata.get("general.alignment").map(|span| span.value(bytes)))?;
    let table = table(&mut cursor, tensor_count)?;
    let data = (cursor.at() as u64).next_multiple_of(alignment.into());
    let tensors = place(table, data, alignment, bytes.len() as u64)?;
    apart(&tensors)?;
    Ok(Contents {
        alignment,
        metadata,
        tensors,
    })
}

/// Reads the numbers of tensors and keys.
fn header(cursor: &mut Cursor<'_>) -> Result<(u64, u64)> {
    let what = || String::from("the header");
    let magic: [u8; 4] = cursor.array(&what)?;
    if &magic != b"GGUF" {
        return Err(Error::malformed(format!(
            "not a GGUF file: it begins with {:?} instead of \"GGUF\"",
            String::from_utf8_lossy(&magic)
        )));
    }
    let version = cursor.u32(&what)?;
    if VERSIONS.contains(&version.swap_bytes()) {
        return Err(Error::unsupported(
            "a big-endian GGUF file, which is not supported: convert the model to little-endian",
        ));
    }
    if !VERSIONS.contains(&version) {
        return Err(Error::unsupported(format!(
            "GGUF version {version} is not supported, only versions 2 and 3: convert the model again"
        )));
    }
    let tensors = cursor.u64(&what)?;
    let keys = cursor.u64(&what)?;
    for (count, most, least, what) in [
        (tensors, MAX_TENSORS, LEAST_TENSOR, "tensors"),
        (keys, MAX_KEYS, LEAST_KEY, "keys"),
    ] {
        if count > most {
            return Err(Error::malformed(format!(
                "the file states {count} {what}; the maximum is {most}"
            )));
        }
        if count > cursor.left() as u64 / least {
            return Err(Error::malformed(format!(
                "the file states {count} {what}, but has only {} bytes left",
                cursor.left()
            )));
        }
    }
    Ok((tensors, keys))
}

fn metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<BTreeMap<String, Span>> {
    let mut metadata = BTreeMap::new();
    for index in 0..count {
        let key = cursor.text(MAX_KEY_BYTES, &|| format!("the name of key {index}"))?;
        if key.is_empty() {
            return Err(Error::malformed(format!("key {index} has no name")));
        }
        let span = Span::walk(cursor, key)?;
        match metadata.entry(key.to_owned()) {
            Slot::Vacant(slot) => slot.insert(span),
            Slot::Occupied(_) => return Err(Error::malformed(format!("key {key:?} appears twice"))),
        };
    }
    Ok(metadata)
}

fn alignment(value: Option<Value<'_>>) -> Result<u32> {
    match value {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::U32(alignment))
            if alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment) =>
        {
            Ok(alignment)
        }
        Some(value) => Err(Error::malformed(format!(
            "general.alignment must be a power of two from 8 to {MAX_ALIGNMENT} (u32), and is {value}"
        ))),
    }
}

/// A row of the tensor table.
struct Row {
    name: String,
    kind: TensorType,
    dims: Vec<u64>,
    bytes: u64,
    offset: u64,
}

fn table(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<Row>> {
    (0..count).map(|index| row(cursor, index)).collect()
}

fn row(cursor: &mut Cursor<'_>, index: u64) -> Result<Row> {
    let name = cursor.text(MAX_NAME_BYTES, &|| format!("the name of tensor {index}"))?;
    if name.is_empty() {
        return Err(Error::malformed(format!("tensor {index} has no name")));
    }
    let what = || format!("the description of tensor {name:?}");
    let dim_count = cursor.u32(&what)?;
    if dim_count == 0 || dim_count > MAX_DIMS {
        return Err(Error::malformed(format!(
            "tensor {name:?} has {dim_count} dimensions; 1 to {MAX_DIMS} are allowed"
        )));
    }
    let dims = (0..dim_count)
        .map(|_| cursor.u64(&what))
        .collect::<Result<Vec<u64>>>()?;
    let code = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    let kind = TensorType::of_code(code).map_err(|words| {
        let known = TensorType::ALL.map(TensorType::name).join(", ");
        Error::unsupported(format!(
            "tensor {name:?} has type {words}, which is not supported; supported types are {known}"
        ))
    })?;
    let bytes = size(name, kind, &dims)?;
    Ok(Row {
        name: name.to_owned(),
        kind,
        dims,
        bytes,
        offset,
    })
}

/// Bytes of a tensor.
fn size(name: &str, kind: TensorType, dims: &[u64]) -> Result<u64> {
    if dims.contains(&0) {
        return Err(Error::malformed(format!(
            "tensor {name:?} is empty: its dimensions are {dims:?}"
        )));
    }
    let block = kind.block_len() as u64;
    if !dims[0].is_multiple_of(block) {
        return Err(Error::malformed(format!(
            "tensor {name:?} has type {kind} and row length {}, which is not a multiple of {block}",
            dims[0]
        )));
    }
    let blocks = dims[1..]
        .iter()
        .try_fold(dims[0] / block, |product, dim| product.checked_mul(*dim));
    blocks
        .and_then(|blocks| blocks.checked_mul(kind.block_bytes() as u64))
        .ok_or_else(|| Error::malformed(format!("tensor {name:?} of dimensions {dims:?} is too large")))
}

/// Locates each tensor in the file.
fn place(table: Vec<Row>, data: u64, alignment: u32, file: u64) -> Result<BTreeMap<String, Entry>> {
    let mut tensors = BTreeMap::new();
    for row in table {
        let Row {
            name, offset, bytes, ..
        } = &row;
        if !offset.is_multiple_of(alignment.into()) {
            return Err(Error::malformed(format!(
                "tensor {name:?} is at offset {offset}, which is not a multiple of the alignment {alignment}"
            )));
        }
        let start = data.checked_add(*offset);
        let end = start.and_then(|start| start.checked_add(*bytes));
        let range = match (start, end) {
            (Some(start), Some(end)) if end <= file => range(start, end),
            _ => None,
        };
        let Some(range) = range else {
            return Err(Error::malformed(format!(
                "tensor {name:?} exceeds the file: {bytes} bytes at offset {offset} of the data, which begins at byte {data} of {file}"
            )));
        };
        let entry = Entry {
            kind: row.kind,
            dims: row.dims,
            piece: 0,
            range,
        };
        match tensors.entry(row.name) {
            Slot::Vacant(slot) => slot.insert(entry),
            Slot::Occupied(slot) => {
                return Err(Error::malformed(format!("tensor {:?} appears twice", slot.key())));
            }
        };
    }
    Ok(tensors)
}

fn range(start: u64, end: u64) -> Option<Range<usize>> {
    Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

/// Checks that no byte belongs to two tensors.
fn apart(tensors: &BTreeMap<String, Entry>) -> Result<()> {
    let mut places: Vec<_> = tensors.iter().map(|(name, entry)| (&entry.range, name)).collect();
    places.sort_by_key(|(range, _)| range.start);
    for pair in places.windows(2) {
        let [(before, first), (after, second)] = pair else {
            continue;
        };
        if before.end > after.start {
            return Err(Error::malformed(format!(
                "tensors {first:?} and {second:?} overlap"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
