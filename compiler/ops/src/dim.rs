//! Dimensions and tensor types as shape inference sees them: sizes that may still be names or unknown.
//!
//! Invariants:
//! 1. Two equal symbols are the same size; nothing is known of two different ones.
//! 2. `Unknown` equals nothing, itself included.
//!
//! Not here: element values (`value`), strides and layouts (those belong to buffers).

use std::fmt;
use std::sync::Arc;

use crate::DType;

/// The most axes that a tensor may have: what a port of the plugin contract holds.
pub const MAX_RANK: usize = polychip_abi::port::POLYCHIP_MAX_RANK;

/// One dimension of a shape.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dim {
    /// A size.
    Known(usize),
    /// A size named by the model, bound later.
    Symbol(Arc<str>),
    /// A size of which nothing is known.
    Unknown,
}

impl Dim {
    /// A named size.
    pub fn symbol(name: &str) -> Dim {
        Dim::Symbol(Arc::from(name))
    }

    /// The size, if it is known.
    pub fn known(&self) -> Option<usize> {
        match self {
            Dim::Known(size) => Some(*size),
            Dim::Symbol(_) | Dim::Unknown => None,
        }
    }

    /// Whether both are certainly the same size: equal sizes or equal names.
    pub fn same(&self, other: &Dim) -> bool {
        !matches!(self, Dim::Unknown) && self == other
    }

    /// Whether both are certainly different sizes.
    pub fn differs(&self, other: &Dim) -> bool {
        matches!((self, other), (Dim::Known(a), Dim::Known(b)) if a != b)
    }

    /// The better known of two dimensions that must be equal: a size, else a name.
    pub fn or_known(&self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Known(_), _) | (Dim::Symbol(_), Dim::Symbol(_) | Dim::Unknown) => self.clone(),
            _ => other.clone(),
        }
    }
}

impl From<usize> for Dim {
    fn from(size: usize) -> Dim {
        Dim::Known(size)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => write!(f, "{size}"),
            Dim::Symbol(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// What is known of a tensor before it exists: element type, and the shape where its rank is known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first; `None` where not even the rank is known.
    pub shape: Option<Vec<Dim>>,
}

impl TensorType {
    /// A type with these dimensions.
    pub fn new(dtype: DType, shape: Vec<Dim>) -> TensorType {
        TensorType {
            dtype,
            shape: Some(shape),
        }
    }

    /// A type whose sizes are all known.
    pub fn known(dtype: DType, shape: &[usize]) -> TensorType {
        TensorType::new(dtype, shape.iter().map(|&size| Dim::Known(size)).collect())
    }

    /// A type whose rank is not known.
    pub fn unranked(dtype: DType) -> TensorType {
        TensorType { dtype, shape: None }
    }

    /// Number of dimensions, where known.
    pub fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    /// The sizes, if every one is known.
    pub fn sizes(&self) -> Option<Vec<usize>> {
        self.shape.as_ref()?.iter().map(Dim::known).collect()
    }

    /// The number of elements, if every size is known and the product fits.
    pub fn elements(&self) -> Option<usize> {
        let sizes = self.sizes()?;
        if sizes.contains(&0) {
            return Some(0);
        }
        sizes
            .iter()
            .try_fold(1usize, |product, &size| product.checked_mul(size))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        let Some(shape) = &self.shape else {
            return f.write_str("[..]");
        };
        f.write_str("[")?;
        for (i, dim) in shape.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_what_is_known() {
        let ty = TensorType::new(DType::F32, vec![Dim::symbol("n"), 3.into(), Dim::Unknown]);
        assert_eq!(ty.to_string(), "f32[n, 3, ?]");
        assert_eq!(TensorType::unranked(DType::I8).to_string(), "i8[..]");
        assert_eq!(TensorType::known(DType::I8, &[]).to_string(), "i8[]");
        assert_eq!(TensorType::known(DType::I8, &[]).elements(), Some(1));
        assert_eq!(
            TensorType::known(DType::I8, &[usize::MAX, 2, 0]).elements(),
            Some(0)
        );
        assert_eq!(TensorType::known(DType::I8, &[usize::MAX, 2]).elements(), None);
        assert_eq!(ty.elements(), None);
    }

    #[test]
    fn equality_of_dims_is_careful() {
        let n = Dim::symbol("n");
        assert!(n.same(&n.clone()) && !Dim::Unknown.same(&Dim::Unknown));
        assert!(Dim::Known(2).differs(&3.into()) && !n.differs(&3.into()));
        assert_eq!(n.or_known(&3.into()), Dim::Known(3));
        assert_eq!(Dim::Unknown.or_known(&n), n);
    }
}
