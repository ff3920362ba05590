//! Reads of typed attributes: the value of the node, else the default of the op's row.
//!
//! Invariants:
//! 1. A default comes from the op table and from nowhere else.
//! 2. A value that its type does not hold (a negative size, an unknown word) is an error that names the attribute.
//!
//! Not here: which attributes an op has (`table`), what they mean (the files of the classes).

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::{Attr, AttrDefault, AttrKind, Attributes, DType, ErrorKind, InferError, Literal, Op, OpSpec};

pub(crate) type Result<T> = std::result::Result<T, InferError>;

/// The attributes of one node beside the row of its op.
pub(crate) struct Reader<'a> {
    pub(super) op: Op,
    spec: &'static OpSpec,
    attributes: &'a Attributes,
    /// What was read, for the test that nothing of a row is forgotten.
    #[cfg(test)]
    pub(super) reads: std::cell::RefCell<std::collections::BTreeSet<Attr>>,
}

/// What an attribute decodes to.
pub(crate) trait Field: Sized {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Self>;
}

impl<'a> Reader<'a> {
    /// A reader of attributes that fit the row.
    pub(super) fn new(op: Op, attributes: &'a Attributes) -> Result<Reader<'a>> {
        if op != Op::Custom {
            op.spec().check(attributes)?;
        }
        Ok(Reader::partial(op, attributes))
    }

    /// A reader of some attributes of an op, others left out.
    pub(super) fn partial(op: Op, attributes: &'a Attributes) -> Reader<'a> {
        Reader {
            op,
            spec: op.spec(),
            attributes,
            #[cfg(test)]
            reads: std::cell::RefCell::default(),
        }
    }

    /// An attribute as its type.
    pub(super) fn field<T: Field>(&self, attr: Attr) -> Result<T> {
        T::read(self, attr)
    }

    /// The same where the row has the attribute; else what a node without it means.
    pub(super) fn field_or<T: Field>(&self, attr: Attr, absent: T) -> Result<T> {
        match self.spec.attribute(attr) {
            Some(_) => T::read(self, attr),
            None => Ok(absent),
        }
    }

    fn seen(&self, attr: Attr) -> Attr {
        #[cfg(test)]
        self.reads.borrow_mut().insert(attr);
        attr
    }

    fn int(&self, attr: Attr) -> Option<i64> {
        self.spec.int(self.attributes, self.seen(attr))
    }

    fn str(&self, attr: Attr) -> Option<&'a str> {
        self.spec.str(self.attributes, self.seen(attr))
    }

    pub(super) fn error(&self, message: String) -> InferError {
        InferError::new(self.op, ErrorKind::Attribute, message)
    }

    fn present<T>(&self, attr: Attr, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.error(format!("attribute '{attr}' is missing")))
    }

    /// One of these words; an integer attribute names it by its place, as `TreeEnsemble` does.
    pub(super) fn word<T: Copy>(&self, attr: Attr, words: &[(T, &str)]) -> Result<T> {
        if attr == Attr::NearestMode && self.str(Attr::Mode) != Some("nearest") {
            // it has a meaning in that mode only: exporters write anything beside another
            self.seen(attr);
            return Ok(words[0].0);
        }
        if self
            .spec
            .attribute(attr)
            .is_some_and(|spec| spec.kind == AttrKind::Int)
        {
            let code = self.present(attr, self.int(attr))?;
            let word = usize::try_from(code).ok().and_then(|code| words.get(code));
            return match word {
                Some(&(word, _)) => Ok(word),
                None => Err(self.error(format!("{attr} is {code}, not 0 to {}", words.len() - 1))),
            };
        }
        let text = self.present(attr, self.str(attr))?;
        match words.iter().find(|(_, known)| *known == text) {
            Some(&(word, _)) => Ok(word),
            None => {
                let known: Vec<&str> = words.iter().map(|&(_, known)| known).collect();
                Err(self.error(format!("{attr} is '{text}', not one of {}", known.join(", "))))
            }
        }
    }
}

impl Field for i64 {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<i64> {
        reader.present(attr, reader.int(attr))
    }
}

impl Field for Option<i64> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<i64>> {
        Ok(reader.int(attr))
    }
}

impl Field for bool {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<bool> {
        Ok(i64::read(reader, attr)? != 0)
    }
}

fn size(reader: &Reader<'_>, attr: Attr, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| reader.error(format!("{attr} is {value}, less than 0")))
}

impl Field for usize {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<usize> {
        size(reader, attr, i64::read(reader, attr)?)
    }
}

impl Field for Option<usize> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<usize>> {
        reader
            .int(attr)
            .map(|value| size(reader, attr, value))
            .transpose()
    }
}

impl Field for NonZeroUsize {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<NonZeroUsize> {
        let value = i64::read(reader, attr)?;
        let size = usize::try_from(value).ok().and_then(NonZeroUsize::new);
        size.ok_or_else(|| reader.error(format!("{attr} is {value}, less than 1")))
    }
}

impl Field for f32 {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<f32> {
        let value = reader.spec.float(reader.attributes, reader.seen(attr));
        reader.present(attr, value)
    }
}

impl Field for Option<f32> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<f32>> {
        Ok(reader.spec.float(reader.attributes, reader.seen(attr)))
    }
}

/// An element type by its code; 0, as a missing attribute, names none.
impl Field for Option<DType> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<DType>> {
        let Some(code) = reader.int(attr).filter(|&code| code != 0) else {
            return Ok(None);
        };
        match u32::try_from(code).ok().and_then(DType::from_code) {
            Some(dtype) => Ok(Some(dtype)),
            None => Err(reader.error(format!("{attr} is {code}, which is no element type"))),
        }
    }
}

impl Field for DType {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<DType> {
        let code = reader.present(attr, reader.int(attr))?;
        let dtype = u32::try_from(code)
            .ok()
            .filter(|&code| code != 0)
            .and_then(DType::from_code);
        dtype.ok_or_else(|| reader.error(format!("{attr} is {code}, which is no element type")))
    }
}

impl Field for Option<Arc<str>> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<Arc<str>>> {
        Ok(reader.str(attr).map(Arc::from))
    }
}

impl Field for Arc<str> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Arc<str>> {
        reader.present(attr, Field::read(reader, attr)?)
    }
}

/// A list where it makes a difference whether the node has it.
impl Field for Option<Vec<i64>> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<Vec<i64>>> {
        let list = reader.spec.ints(reader.attributes, reader.seen(attr));
        Ok(list.map(<[i64]>::to_vec))
    }
}

/// A list that is empty where the node has none.
impl Field for Vec<i64> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Vec<i64>> {
        Ok(Option::<Vec<i64>>::read(reader, attr)?.unwrap_or_default())
    }
}

impl Field for Vec<f32> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Vec<f32>> {
        let list = reader.attributes.floats(reader.seen(attr));
        Ok(list.unwrap_or_default().to_vec())
    }
}

impl Field for Vec<Arc<str>> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Vec<Arc<str>>> {
        if let Some(list) = reader.attributes.strings(reader.seen(attr)) {
            return Ok(list.to_vec());
        }
        let default = reader.spec.attribute(attr).and_then(|spec| spec.default);
        Ok(match default {
            Some(AttrDefault::Strings(list)) => list.iter().map(|&text| Arc::from(text)).collect(),
            _ => Vec::new(),
        })
    }
}

impl Field for Option<Literal> {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<Option<Literal>> {
        Ok(reader.attributes.tensor(reader.seen(attr)).cloned())
    }
}
