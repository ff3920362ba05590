//! One node as an op class sees it: its inputs and attributes, read with the op's defaults.
//!
//! Invariant: an absent required input or attribute is an error that names it.

use polychip_cpu_kernels::reference::{Error, Result, Tensor};
use polychip_ops::{Attr, AttrValue, Attributes, DType, Op};

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

    /// An integer attribute or its default.
    pub(crate) fn int(&self, attr: Attr, default: i64) -> i64 {
        self.attributes.int(attr).unwrap_or(default)
    }

    /// An attribute that is off at 0 and on otherwise.
    pub(crate) fn flag(&self, attr: Attr, default: bool) -> bool {
        self.int(attr, i64::from(default)) != 0
    }

    /// An integer attribute that must be there.
    pub(crate) fn required_int(&self, attr: Attr) -> Result<i64> {
        match self.attributes.int(attr) {
            Some(value) => Ok(value),
            None => bad(format!("attribute {} is missing", attr.name())),
        }
    }

    /// A size attribute that must be there.
    pub(crate) fn required_size(&self, attr: Attr) -> Result<usize> {
        let value = self.required_int(attr)?;
        usize::try_from(value).or_else(|_| bad(format!("attribute {} is {value}", attr.name())))
    }

    /// A float attribute or its default.
    pub(crate) fn float(&self, attr: Attr, default: f32) -> f64 {
        f64::from(self.attributes.float(attr).unwrap_or(default))
    }

    /// A text attribute or its default.
    pub(crate) fn text(&self, attr: Attr, default: &'static str) -> &'a str {
        self.attributes.str(attr).unwrap_or(default)
    }

    /// An integer list attribute as sizes, if it is there.
    pub(crate) fn sizes(&self, attr: Attr) -> Result<Option<Vec<usize>>> {
        match self.attributes.ints(attr) {
            None => Ok(None),
            Some(v) => sizes(v).map(Some),
        }
    }

    /// An element type named by its code in an attribute, if it is there.
    pub(crate) fn dtype(&self, attr: Attr) -> Result<Option<DType>> {
        match self.attributes.int(attr) {
            None => Ok(None),
            Some(code) => match u32::try_from(code).ok().and_then(DType::from_code) {
                Some(dtype) => Ok(Some(dtype)),
                None => bad(format!("attribute {} names no element type: {code}", attr.name())),
            },
        }
    }

    /// The text list of an attribute, empty if it is absent.
    pub(crate) fn texts(&self, attr: Attr) -> Vec<String> {
        self.attributes
            .strings(attr)
            .map(|v| v.iter().map(|s| s.to_string()).collect())
            .unwrap_or_default()
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
