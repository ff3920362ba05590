//! One node as the rules see it: its op type, parameters by name, and the descriptions of its tensors.
//!
//! Invariant: a parameter that is absent is a default, one of the wrong kind is an error that names it.

use polychip_emulator_qnn_format::{Dtype, Param, Scalar, Tensor};
use polychip_ops::{DType, TensorType};

use crate::real;

/// Why a node is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The op type is not known.
    Unknown,
    /// A rule is broken.
    Rule(String),
    /// The values of a parameter are not known, as when only validating.
    NoValues,
}

impl Refusal {
    /// A broken rule.
    pub(crate) fn rule<T>(message: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::Rule(message.into()))
    }
}

/// One node.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) op: &'a str,
    pub(crate) params: &'a [(String, Param)],
    pub(crate) inputs: &'a [Option<&'a Tensor>],
    pub(crate) outputs: &'a [Option<&'a Tensor>],
}

impl<'a> View<'a> {
    /// In which type this node computes reals: exactly enough for fixed point, else as floats are.
    pub(crate) fn real(&self) -> DType {
        let mut tensors = self.inputs.iter().chain(self.outputs).flatten();
        if tensors.any(|tensor| tensor.known_dtype().is_some_and(Dtype::is_fixed)) {
            DType::F64
        } else {
            DType::F32
        }
    }

    /// Input `i`, which must be there.
    pub(crate) fn input(&self, i: usize) -> Result<&'a Tensor, Refusal> {
        match self.inputs.get(i).copied().flatten() {
            Some(tensor) => Ok(tensor),
            None => Refusal::rule(format!("{} has no input {i}", self.op)),
        }
    }

    /// Whether input `i` is there.
    pub(crate) fn has(&self, i: usize) -> bool {
        self.inputs.get(i).is_some_and(Option::is_some)
    }

    /// Output `i`, which must be there.
    pub(crate) fn output(&self, i: usize) -> Result<&'a Tensor, Refusal> {
        match self.outputs.get(i).copied().flatten() {
            Some(tensor) => Ok(tensor),
            None => Refusal::rule(format!("{} has no output {i}", self.op)),
        }
    }

    /// The shape of input `i`.
    pub(crate) fn shape(&self, i: usize) -> Result<Vec<usize>, Refusal> {
        Ok(self.input(i)?.shape())
    }

    /// The shape of input `i`, which must have this rank.
    pub(crate) fn ranked(&self, i: usize, rank: usize) -> Result<Vec<usize>, Refusal> {
        let shape = self.shape(i)?;
        if shape.len() != rank {
            return Refusal::rule(format!(
                "{} takes input {i} of rank {rank}, not {shape:?}",
                self.op
            ));
        }
        Ok(shape)
    }

    /// The types of the inputs for the oracle.
    pub(crate) fn types(&self) -> Vec<Option<TensorType>> {
        let real = self.real();
        self.inputs
            .iter()
            .map(|input| {
                let tensor = (*input)?;
                let dtype = real::oracle_dtype(tensor.known_dtype()?, real);
                Some(TensorType::known(dtype, &tensor.shape()))
            })
            .collect()
    }

    fn param(&self, name: &str) -> Option<&'a Param> {
        self.params
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, param)| param)
    }

    fn scalar(&self, name: &str) -> Result<Option<Scalar>, Refusal> {
        match self.param(name) {
            None => Ok(None),
            Some(Param::Scalar(scalar)) => Ok(Some(*scalar)),
            Some(Param::Tensor(_)) => {
                Refusal::rule(format!("{}: parameter {name} is a tensor, not a scalar", self.op))
            }
        }
    }

    /// A scalar parameter as it was given.
    pub(crate) fn raw_scalar(&self, name: &str) -> Result<Option<Scalar>, Refusal> {
        self.scalar(name)
    }

    /// An integer parameter or its default.
    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64, Refusal> {
        match self.scalar(name)? {
            None => Ok(default),
            Some(scalar) => match scalar.int() {
                Some(value) => Ok(value),
                None => Refusal::rule(format!("{}: parameter {name} is not an integer", self.op)),
            },
        }
    }

    /// An integer parameter that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<i64, Refusal> {
        match self.param(name) {
            None => Refusal::rule(format!("{}: parameter {name} is missing", self.op)),
            Some(_) => self.int(name, 0),
        }
    }

    /// A truth value or its default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// A real parameter or its default.
    pub(crate) fn float(&self, name: &str, default: f64) -> Result<f64, Refusal> {
        match self.scalar(name)? {
            None => Ok(default),
            Some(scalar) => match scalar.float() {
                Some(value) => Ok(value),
                None => Refusal::rule(format!("{}: parameter {name} is not a number", self.op)),
            },
        }
    }

    /// The integers of a tensor parameter, if it is there.
    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, Refusal> {
        match self.param(name) {
            None => Ok(None),
            Some(Param::Scalar(scalar)) => match scalar.int() {
                Some(value) => Ok(Some(vec![value])),
                None => Refusal::rule(format!("{}: parameter {name} is not an integer", self.op)),
            },
            Some(Param::Tensor(tensor)) => {
                if tensor.data.is_empty() && tensor.elements() != Some(0) {
                    return Err(Refusal::NoValues);
                }
                real::numbers(tensor, &tensor.data)
                    .map(Some)
                    .map_err(Refusal::Rule)
            }
        }
    }

    /// The integers of a tensor parameter that must be there, `count` of them.
    pub(crate) fn list(&self, name: &str, count: usize) -> Result<Vec<i64>, Refusal> {
        match self.ints(name)? {
            Some(values) if values.len() == count => Ok(values),
            Some(values) => Refusal::rule(format!(
                "{}: parameter {name} has {} values, takes {count}",
                self.op,
                values.len()
            )),
            None => Refusal::rule(format!("{}: parameter {name} is missing", self.op)),
        }
    }

    /// An axis of a tensor of this rank.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize, Refusal> {
        let axis = self.int(name, default)?;
        let from_front = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(from_front) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => Refusal::rule(format!(
                "{}: axis {axis} is outside a tensor of rank {rank}",
                self.op
            )),
        }
    }
}
