//! The attributes of one node: a small map from name to value.
//!
//! Invariants:
//! 1. Keys are unique and sorted, known names first by code, then custom names by text: equal
//!    attributes have equal order.
//! 2. A float keeps its bits: equality and order of a node never depend on NaN.
//!
//! Not here: body graphs (a node of `graph` holds those), defaults (`OpSpec` has them).

use std::fmt;
use std::sync::Arc;

use crate::{Attr, Literal};

/// The name of an attribute of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AttrKey {
    /// A name of the ONNX list.
    Known(Attr),
    /// Any other name, as custom ops have.
    Custom(Arc<str>),
}

impl AttrKey {
    /// The key of this name.
    pub fn from_name(name: &str) -> AttrKey {
        match Attr::from_name(name) {
            Some(attr) => AttrKey::Known(attr),
            None => AttrKey::Custom(Arc::from(name)),
        }
    }

    /// The name as text.
    pub fn name(&self) -> &str {
        match self {
            AttrKey::Known(attr) => attr.name(),
            AttrKey::Custom(name) => name,
        }
    }
}

impl From<Attr> for AttrKey {
    fn from(attr: Attr) -> AttrKey {
        AttrKey::Known(attr)
    }
}

impl fmt::Display for AttrKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum AttrValue {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f32),
    /// A text.
    String(Arc<str>),
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f32>),
    /// Texts.
    Strings(Vec<Arc<str>>),
    /// A small tensor.
    Tensor(Literal),
}

impl PartialEq for AttrValue {
    fn eq(&self, other: &Self) -> bool {
        let bits = |floats: &[f32]| floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
        match (self, other) {
            (AttrValue::Int(a), AttrValue::Int(b)) => a == b,
            (AttrValue::Float(a), AttrValue::Float(b)) => a.to_bits() == b.to_bits(),
            (AttrValue::String(a), AttrValue::String(b)) => a == b,
            (AttrValue::Ints(a), AttrValue::Ints(b)) => a == b,
            (AttrValue::Floats(a), AttrValue::Floats(b)) => bits(a) == bits(b),
            (AttrValue::Strings(a), AttrValue::Strings(b)) => a == b,
            (AttrValue::Tensor(a), AttrValue::Tensor(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for AttrValue {}

/// The attributes of one node, sorted by key.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Attributes {
    entries: Vec<(AttrKey, AttrValue)>,
}

impl Attributes {
    /// No attributes.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// Sets a value, replacing one of the same key.
    pub fn set(&mut self, key: impl Into<AttrKey>, value: AttrValue) {
        let key = key.into();
        match self.entries.binary_search_by(|(have, _)| have.cmp(&key)) {
            Ok(index) => self.entries[index].1 = value,
            Err(index) => self.entries.insert(index, (key, value)),
        }
    }

    /// The same attributes and this one.
    #[must_use]
    pub fn with(mut self, key: impl Into<AttrKey>, value: AttrValue) -> Attributes {
        self.set(key, value);
        self
    }

    /// The same attributes and this integer.
    #[must_use]
    pub fn with_int(self, attr: Attr, value: i64) -> Attributes {
        self.with(attr, AttrValue::Int(value))
    }

    /// The same attributes and these integers.
    #[must_use]
    pub fn with_ints(self, attr: Attr, values: &[i64]) -> Attributes {
        self.with(attr, AttrValue::Ints(values.to_vec()))
    }

    /// The same attributes and this float.
    #[must_use]
    pub fn with_float(self, attr: Attr, value: f32) -> Attributes {
        self.with(attr, AttrValue::Float(value))
    }

    /// The same attributes and this text.
    #[must_use]
    pub fn with_str(self, attr: Attr, value: &str) -> Attributes {
        self.with(attr, AttrValue::String(Arc::from(value)))
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &AttrKey) -> Option<AttrValue> {
        let index = self.entries.binary_search_by(|(have, _)| have.cmp(key)).ok()?;
        Some(self.entries.remove(index).1)
    }

    /// The value of a known name.
    pub fn get(&self, attr: Attr) -> Option<&AttrValue> {
        self.get_key(&AttrKey::Known(attr))
    }

    /// The value of any name.
    pub fn get_key(&self, key: &AttrKey) -> Option<&AttrValue> {
        let index = self.entries.binary_search_by(|(have, _)| have.cmp(key)).ok()?;
        Some(&self.entries[index].1)
    }

    /// The value, if it is an integer.
    pub fn int(&self, attr: Attr) -> Option<i64> {
        match self.get(attr)? {
            AttrValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The value, if it is a float.
    pub fn float(&self, attr: Attr) -> Option<f32> {
        match self.get(attr)? {
            AttrValue::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The value, if it is a text.
    pub fn str(&self, attr: Attr) -> Option<&str> {
        match self.get(attr)? {
            AttrValue::String(value) => Some(value),
            _ => None,
        }
    }

    /// The value, if it is a list of integers.
    pub fn ints(&self, attr: Attr) -> Option<&[i64]> {
        match self.get(attr)? {
            AttrValue::Ints(values) => Some(values),
            _ => None,
        }
    }

    /// The value, if it is a list of floats.
    pub fn floats(&self, attr: Attr) -> Option<&[f32]> {
        match self.get(attr)? {
            AttrValue::Floats(values) => Some(values),
            _ => None,
        }
    }

    /// The value, if it is a list of texts.
    pub fn strings(&self, attr: Attr) -> Option<&[Arc<str>]> {
        match self.get(attr)? {
            AttrValue::Strings(values) => Some(values),
            _ => None,
        }
    }

    /// The value, if it is a tensor.
    pub fn tensor(&self, attr: Attr) -> Option<&Literal> {
        match self.get(attr)? {
            AttrValue::Tensor(value) => Some(value),
            _ => None,
        }
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&AttrKey, &AttrValue)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl FromIterator<(AttrKey, AttrValue)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (AttrKey, AttrValue)>>(entries: I) -> Attributes {
        let mut attributes = Attributes::new();
        for (key, value) in entries {
            attributes.set(key, value);
        }
        attributes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_key_whatever_was_set_first() {
        let key = AttrKey::from_name("zeta");
        let a = Attributes::new()
            .with(key.clone(), AttrValue::Int(1))
            .with_ints(Attr::Pads, &[1, 2])
            .with_int(Attr::Axis, 3);
        let b = Attributes::new()
            .with_int(Attr::Axis, 3)
            .with_ints(Attr::Pads, &[1, 2])
            .with(key, AttrValue::Int(1));
        assert_eq!(a, b);
        let names: Vec<_> = a.iter().map(|(key, _)| key.name().to_owned()).collect();
        assert_eq!(names, ["axis", "pads", "zeta"]);
        assert_eq!(a.int(Attr::Axis), Some(3));
        assert_eq!(a.ints(Attr::Axis), None);
        assert_eq!(a.ints(Attr::Pads), Some(&[1, 2][..]));
    }

    #[test]
    fn values_are_replaced_and_removed() {
        let mut a = Attributes::new()
            .with_float(Attr::Alpha, 1.0)
            .with_float(Attr::Alpha, 2.0);
        assert_eq!(a.float(Attr::Alpha), Some(2.0));
        assert_eq!(a.len(), 1);
        assert_eq!(a.remove(&Attr::Alpha.into()), Some(AttrValue::Float(2.0)));
        assert!(a.is_empty() && a.remove(&Attr::Alpha.into()).is_none());
        assert_eq!(AttrValue::Float(f32::NAN), AttrValue::Float(f32::NAN));
        assert_ne!(AttrValue::Float(0.0), AttrValue::Float(-0.0));
    }
}
