//! One node as an op class sees it: its inputs and attributes, read with the op's defaults.
//!
//! Invariant: an absent required input or attribute is an error that names it.

use polychip_cpu_kernels::reference::{Error, Result, Tensor};
use polychip_ops::operator::OperatorAttributes;
use polychip_ops::{Attr, AttrValue, Attributes, Op, Operator};

use crate::literal;

/// One node to compute.
pub(crate) struct Call<'a> {
    pub(crate) op: Op,
    pub(crate) attributes: &'a Attributes,
    pub(crate) inputs: &'a [Option<&'a Tensor>],
    /// Which inputs are sequences or optionals, packed into bytes; none beyond its end.
    pub(crate) packed: &'a [bool],
    pub(crate) outputs: usize,
}

/// The outputs of a node, or the error that prevented them.
pub(crate) type Outputs = Result<Vec<Tensor>>;

/// A single output.
pub(crate) fn one(tensor: Result<Tensor>) -> Outputs {
    Ok(vec![tensor?])
}

/// An error from a message.
pub(crate) fn bad<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(message))
}

impl<'a> Call<'a> {
    /// Input `i`, which must be there.
    pub(crate) fn input(&self, i: usize) -> Result<&'a Tensor> {
        match self.optional(i) {
            Some(tensor) => Ok(tensor),
            None => bad(format!("input {i} is missing")),
        }
    }

    /// Input `i`, if it is there.
    pub(crate) fn optional(&self, i: usize) -> Option<&'a Tensor> {
        self.inputs.get(i).copied().flatten()
    }

    /// Whether input `i` is a sequence or optional, packed into bytes.
    pub(crate) fn is_packed(&self, i: usize) -> bool {
        self.packed.get(i).copied().unwrap_or(false)
    }

    /// All inputs from `first` on, none of which may be absent.
    pub(crate) fn list(&self, first: usize) -> Result<Vec<&'a Tensor>> {
        (first..self.inputs.len()).map(|i| self.input(i)).collect()
    }

    /// The op with its typed attributes.
    pub(crate) fn operator(&self) -> Result<Operator> {
        Operator::decode(self.op, self.attributes).map_err(|why| Error::new(why.to_string()))
    }

    /// The typed attributes, where the op is known to have these.
    pub(crate) fn typed<T: OperatorAttributes>(&self) -> Result<T> {
        Operator::attributes(self.op, self.attributes).map_err(|why| Error::new(why.to_string()))
    }

    /// The tensor of an attribute, if it is there.
    pub(crate) fn tensor(&self, attr: Attr) -> Result<Option<Tensor>> {
        match self.attributes.get(attr) {
            Some(AttrValue::Tensor(value)) => literal::tensor_from_literal(value).map(Some),
            _ => Ok(None),
        }
    }

    /// The integers of input `i`, which must be there.
    pub(crate) fn ints(&self, i: usize) -> Result<Vec<i64>> {
        self.input(i)?.to_i64s()
    }

    /// The integers of input `i`, if it is there.
    pub(crate) fn optional_ints(&self, i: usize) -> Result<Option<Vec<i64>>> {
        self.optional(i).map(Tensor::to_i64s).transpose()
    }

    /// The one integer of input `i`, which must be there.
    pub(crate) fn scalar(&self, i: usize) -> Result<i64> {
        match self.ints(i)?.as_slice() {
            [value] => Ok(*value),
            other => bad(format!(
                "input {i} is not a scalar: it has {} elements",
                other.len()
            )),
        }
    }
}

/// Integers as sizes.
pub(crate) fn sizes(values: &[i64]) -> Result<Vec<usize>> {
    values
        .iter()
        .map(|&v| usize::try_from(v).or_else(|_| bad(format!("{v} is not a size"))))
        .collect()
}
