//! What is known of a tensor's values while shapes are inferred: all of it, or element by element.
//!
//! Invariants:
//! 1. The values stand in row-major order; their shape is that of the tensor's type.
//! 2. An element that is a symbol is the size of that name; `Unknown` is any number.
//!
//! Not here: arithmetic over them (`infer::arithmetic`).

use std::sync::Arc;

use crate::{DType, Dim, Literal};

/// One integer of a partly known tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Element {
    /// A number, which may be negative.
    Int(i64),
    /// The size of a named dimension.
    Symbol(Arc<str>),
    /// Nothing is known.
    Unknown,
}

impl Element {
    /// The number, if it is known.
    pub fn int(&self) -> Option<i64> {
        match self {
            Element::Int(value) => Some(*value),
            Element::Symbol(_) | Element::Unknown => None,
        }
    }

    /// The element as a dimension; a negative or too large number is `None`.
    pub fn dim(&self) -> Option<Dim> {
        match self {
            Element::Int(value) => usize::try_from(*value).ok().map(Dim::Known),
            Element::Symbol(name) => Some(Dim::Symbol(name.clone())),
            Element::Unknown => Some(Dim::Unknown),
        }
    }
}

impl From<&Dim> for Element {
    fn from(dim: &Dim) -> Element {
        match dim {
            Dim::Known(size) => i64::try_from(*size).map_or(Element::Unknown, Element::Int),
            Dim::Symbol(name) => Element::Symbol(name.clone()),
            Dim::Unknown => Element::Unknown,
        }
    }
}

/// The known part of a tensor's values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// Every value.
    Literal(Literal),
    /// Integers of this type of which some may be symbols or unknown; the tensor's type has their
    /// shape (rank 0 with one element, or rank 1).
    Dims(Vec<Element>, DType),
}

impl Value {
    /// The elements, if this is a tensor of integers; `None` for floats, strings and the like.
    pub fn elements(&self) -> Option<Vec<Element>> {
        match self {
            Value::Literal(literal) => Some(literal.as_i64s()?.into_iter().map(Element::Int).collect()),
            Value::Dims(elements, _) => Some(elements.clone()),
        }
    }

    /// The elements as numbers, if every one is known.
    pub fn as_i64s(&self) -> Option<Vec<i64>> {
        match self {
            Value::Literal(literal) => literal.as_i64s(),
            Value::Dims(elements, _) => elements.iter().map(Element::int).collect(),
        }
    }

    /// The elements as floats, if every one is known.
    pub fn as_f64s(&self) -> Option<Vec<f64>> {
        match self {
            Value::Literal(literal) => literal.as_f64s(),
            Value::Dims(..) => Some(self.as_i64s()?.into_iter().map(|value| value as f64).collect()),
        }
    }

    /// The only element as a number; `None` where it is unknown or there is another count.
    pub fn scalar(&self) -> Option<i64> {
        match self.as_i64s()?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The literal, if every value is known; `shape` is that of the tensor.
    pub fn to_literal(&self, shape: &[usize]) -> Option<Literal> {
        match self {
            Value::Literal(literal) => Some(literal.clone()),
            Value::Dims(_, dtype) => Literal::from_ints(*dtype, shape.to_vec(), &self.as_i64s()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partly_known_values_give_what_they_have() {
        let value = Value::Dims(
            vec![Element::Int(-1), Element::from(&Dim::symbol("n"))],
            DType::I64,
        );
        assert_eq!(value.as_i64s(), None);
        let elements = value.elements().unwrap();
        assert_eq!(elements[0].dim(), None);
        assert_eq!(elements[1].dim(), Some(Dim::symbol("n")));
        let known = Value::Dims(vec![Element::Int(3)], DType::I32);
        assert_eq!(known.scalar(), Some(3));
        let literal = known.to_literal(&[]).unwrap();
        assert_eq!((literal.dtype, literal.shape.len()), (DType::I32, 0));
        assert_eq!(Value::Literal(Literal::f32s(&[0.5])).elements(), None);
    }
}
