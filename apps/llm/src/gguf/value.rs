//! Metadata values, decoded in place.

use std::fmt;
use std::ops::Range;

use super::cursor::Cursor;
use crate::{Error, Result};

/// Type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named after what they hold
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::Text,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    pub(super) fn of_code(code: u32) -> Option<ValueType> {
        ValueType::ALL.get(code as usize).copied()
    }

    /// The type's code in GGUF files.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Bytes of one value, if all values of the type have the same size.
    fn size(self) -> Option<u64> {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => Some(1),
            ValueType::U16 | ValueType::I16 => Some(2),
            ValueType::U32 | ValueType::I32 | ValueType::F32 => Some(4),
            ValueType::U64 | ValueType::I64 | ValueType::F64 => Some(8),
            ValueType::Text | ValueType::Array => None,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "booleans",
            ValueType::Text => "strings",
            ValueType::Array => "arrays",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        })
    }
}

/// A metadata value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // named after what they hold
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(&'a str),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value<'_> {
    /// The number, if the value is an integer.
    #[must_use]
    pub fn integer(&self) -> Option<i128> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::Text(_) | Value::Array(_) => None,
        }
    }
}

/// Formats the value for error messages: the type, and the value if it is short.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(value) => write!(f, "{value} (u8)"),
            Value::I8(value) => write!(f, "{value} (i8)"),
            Value::U16(value) => write!(f, "{value} (u16)"),
            Value::I16(value) => write!(f, "{value} (i16)"),
            Value::U32(value) => write!(f, "{value} (u32)"),
            Value::I32(value) => write!(f, "{value} (i32)"),
            Value::F32(value) => write!(f, "{value} (f32)"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Text(text) => write!(f, "a string of {} bytes", text.len()),
            Value::Array(array) => write!(f, "an array of {} {}", array.len(), array.item()),
            Value::U64(value) => write!(f, "{value} (u64)"),
            Value::I64(value) => write!(f, "{value} (i64)"),
            Value::F64(value) => write!(f, "{value} (f64)"),
        }
    }
}

/// Values of one type, still encoded as in the file.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    item: ValueType,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Type of all items; never an array.
    #[must_use]
    pub fn item(&self) -> ValueType {
        self.item
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The items in order.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        let item = self.item;
        (0..self.len)
            .map(move |_| decode(item, &mut cursor).expect("invariant: walked when the file was read"))
    }

    /// The items in order if they are text; otherwise none.
    pub fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.values().filter_map(|value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        })
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} {}]", self.len, self.item)
    }
}

/// Position and type of a value that has been walked.
#[derive(Clone, Debug)]
pub(super) struct Span {
    kind: ValueType,
    range: Range<usize>,
}

impl Span {
    pub(super) fn value<'a>(&self, file: &'a [u8]) -> Value<'a> {
        let mut cursor = Cursor::new(&file[self.range.clone()]);
        match self.kind {
            ValueType::Array => array(&mut cursor, file, &self.range),
            kind => decode(kind, &mut cursor),
        }
        .expect("invariant: walked when the file was read")
    }

    /// Walks the value after the cursor to its end.
    pub(super) fn walk(cursor: &mut Cursor<'_>, key: &str) -> Result<Span> {
        let what = || format!("the value of key {key:?}");
        let kind = kind(cursor, &what)?;
        let start = cursor.at();
        match kind {
            ValueType::Array => walk_array(cursor, &what)?,
            ValueType::Text => {
                cursor.text(u64::MAX, &what)?;
            }
            kind => walk_bool_or_skip(kind, 1, cursor, &what)?,
        }
        Ok(Span {
            kind,
            range: start..cursor.at(),
        })
    }
}

fn kind(cursor: &mut Cursor<'_>, what: &dyn Fn() -> String) -> Result<ValueType> {
    let code = cursor.u32(what)?;
    ValueType::of_code(code)
        .ok_or_else(|| Error::malformed(format!("{} has type {code}; types range from 0 to 12", what())))
}

fn walk_array(cursor: &mut Cursor<'_>, what: &dyn Fn() -> String) -> Result<()> {
    let item = kind(cursor, what)?;
    let len = cursor.u64(what)?;
    let least = match item {
        ValueType::Array => {
            return Err(Error::unsupported(format!(
                "{} is an array of arrays, which is not supported",
                what()
            )));
        }
        // a text's length alone
        ValueType::Text => 8,
        item => item.size().unwrap_or(1),
    };
    if len > cursor.left() as u64 / least {
        return Err(Error::malformed(format!(
            "{} states {len} {item}, but the file has only {} bytes left",
            what(),
            cursor.left()
        )));
    }
    if item == ValueType::Text {
        for index in 0..len {
            cursor.text(u64::MAX, &|| format!("item {index} of {}", what()))?;
        }
        return Ok(());
    }
    walk_bool_or_skip(item, len, cursor, what)
}

fn walk_bool_or_skip(
    item: ValueType,
    len: u64,
    cursor: &mut Cursor<'_>,
    what: &dyn Fn() -> String,
) -> Result<()> {
    if item != ValueType::Bool {
        let size = item.size().unwrap_or(1);
        cursor.skip(len.saturating_mul(size), what)?;
        return Ok(());
    }
    for _ in 0..len {
        let [byte] = cursor.array(what)?;
        if byte > 1 {
            return Err(Error::malformed(format!(
                "{} is a boolean with value {byte}; only 0 and 1 are allowed",
                what()
            )));
        }
    }
    Ok(())
}

fn array<'a>(cursor: &mut Cursor<'_>, file: &'a [u8], range: &Range<usize>) -> Result<Value<'a>> {
    let what = || String::from("an array");
    let item = kind(cursor, &what)?;
    let len = cursor.u64(&what)?;
    Ok(Value::Array(Array {
        item,
        len: usize::try_from(len).map_err(|_| Error::malformed(what()))?,
        bytes: &file[range.start + cursor.at()..range.end],
    }))
}

fn decode<'a>(kind: ValueType, cursor: &mut Cursor<'a>) -> Result<Value<'a>> {
    let what = || String::from("a value");
    Ok(match kind {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(&what)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(&what)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(&what)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(&what)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(&what)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(&what)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(&what)?)),
        ValueType::Bool => Value::Bool(cursor.array::<1>(&what)? == [1]),
        ValueType::Text => Value::Text(cursor.text(u64::MAX, &what)?),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(&what)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(&what)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(&what)?)),
        ValueType::Array => return Err(Error::malformed("an array inside an array")),
    })
}
