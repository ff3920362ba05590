//! One graph at two sizes of its inputs, and how each tensor of the one run relates to that of the other.
//!
//! Invariant: an axis is one only where both of its sizes are certain, and the true one is no larger.

use std::sync::Arc;

use polychip_ops::{Dim, Value};

use crate::infer::value_of;
use crate::{EncodingAxis, Graph, NodeId, TensorId, Values};

/// How a tensor at true sizes relates to that at padded sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    /// It is the same: size and elements.
    Same,
    /// Its elements are the first ones along each axis.
    Prefix {
        /// The others are zeros.
        zeros: bool,
    },
    /// Nothing is proved, because of this node.
    Apart(NodeId),
}

/// What a rule proved of the outputs of a node, as far as their sizes differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// They are the same in both runs, whatever their sizes are.
    Same,
    /// Their elements are the first ones along each axis.
    Prefix {
        /// The others are zeros.
        zeros: bool,
    },
}

/// The size of an axis in both runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Axis {
    /// Numbers.
    Known {
        /// At true sizes.
        small: usize,
        /// At padded sizes.
        large: usize,
    },
    /// A size of the inputs that neither run changes.
    Named(Arc<str>),
}

impl Axis {
    /// Whether it has positions that are padding.
    pub(super) fn is_padded(&self) -> bool {
        matches!(self, Axis::Known { small, large } if small != large)
    }

    /// Whether it has one position in both runs.
    pub(super) fn is_one(&self) -> bool {
        *self == Axis::Known { small: 1, large: 1 }
    }
}

/// The graph at both sizes.
pub(super) struct Pair<'a> {
    small: &'a (Graph, Values),
    large: &'a (Graph, Values),
    /// Names that have no size in either.
    open: &'a [Arc<str>],
    relations: Vec<Option<Relation>>,
}

impl<'a> Pair<'a> {
    pub(super) fn new(
        small: &'a (Graph, Values),
        large: &'a (Graph, Values),
        open: &'a [Arc<str>],
    ) -> Pair<'a> {
        let is_constant = large.0.tensors().map(|(_, tensor)| tensor.is_constant());
        Pair {
            small,
            large,
            open,
            relations: is_constant.map(|is| is.then_some(Relation::Same)).collect(),
        }
    }

    pub(super) fn set(&mut self, id: TensorId, relation: Relation) {
        self.relations[id.index()] = Some(relation);
    }

    /// What is proved of a tensor; nothing of one that no node before this made.
    pub(super) fn get(&self, id: TensorId) -> Relation {
        self.relations[id.index()].unwrap_or(Relation::Apart(NodeId::new(0)))
    }

    /// The graph at padded sizes.
    pub(super) fn graph(&self) -> &Graph {
        &self.large.0
    }

    /// The axes of a tensor, where both sizes of each are certain.
    pub(super) fn axes(&self, id: TensorId) -> Option<Vec<Axis>> {
        let (small, large) = (self.small.0.tensor(id), self.large.0.tensor(id));
        let certain = |tensor: &crate::Tensor| tensor.typed && tensor.is_tensor() && !tensor.upper_bound;
        if !certain(small) || !certain(large) {
            return None;
        }
        let (small, large) = (small.ty.shape.as_ref()?, large.ty.shape.as_ref()?);
        if small.len() != large.len() {
            return None;
        }
        let axis = |(small, large): (&Dim, &Dim)| match (small, large) {
            (&Dim::Known(small), &Dim::Known(large)) if small <= large => Some(Axis::Known { small, large }),
            (Dim::Symbol(small), Dim::Symbol(large)) if small == large && self.open.contains(small) => {
                Some(Axis::Named(small.clone()))
            }
            _ => None,
        };
        small.iter().zip(large).map(axis).collect()
    }

    /// The known value of a tensor at true and at padded sizes.
    pub(super) fn values(&self, id: TensorId) -> Option<[Value; 2]> {
        let (small, large) = (self.small, self.large);
        Some([
            value_of(&small.0, &small.1, id)?,
            value_of(&large.0, &large.1, id)?,
        ])
    }

    /// The known integers of a tensor, where they are the same in both runs.
    pub(super) fn integers(&self, id: TensorId) -> Option<Vec<i64>> {
        let [small, large] = self.values(id)?;
        let (small, large) = (small.as_i64s()?, large.as_i64s()?);
        (small == large).then_some(small)
    }

    /// How an input of the graph relates: it is padded with zeros.
    pub(super) fn of_input(&self, id: TensorId) -> Result<Relation, String> {
        let is_padded = |axes: &Vec<Axis>| axes.iter().any(Axis::is_padded);
        match self.axes(id) {
            Some(axes) if is_padded(&axes) => {
                self.check_padded(id)?;
                Ok(Relation::Prefix { zeros: true })
            }
            Some(_) => Ok(Relation::Same),
            // its sizes are not certain, or it is no tensor: it must have no part in what is padded
            None if self.small.0.tensor(id).ty == self.large.0.tensor(id).ty => Ok(Relation::Same),
            None => Err("has no shape that could be padded".to_owned()),
        }
    }

    /// How an output of a node relates, by what a rule said of the node.
    pub(super) fn of_output(&self, id: TensorId, node: NodeId, verdict: Result<Proof, NodeId>) -> Relation {
        let (small, large) = (self.small.0.tensor(id), self.large.0.tensor(id));
        if small.ty == large.ty && self.integers(id).is_some() {
            return Relation::Same;
        }
        let zeros = match verdict {
            Err(cause) => return Relation::Apart(cause),
            Ok(Proof::Same) => return Relation::Same,
            Ok(Proof::Prefix { zeros }) => zeros,
        };
        match self.axes(id) {
            Some(axes) if axes.iter().any(Axis::is_padded) => {
                if self.check_encoding(id, &axes) {
                    Relation::Prefix { zeros }
                } else {
                    Relation::Apart(node)
                }
            }
            Some(_) => Relation::Same,
            None => Relation::Apart(node),
        }
    }

    /// Whether no scale of a tensor's encoding belongs to a position of a padded axis.
    pub(super) fn check_encoding(&self, id: TensorId, axes: &[Axis]) -> bool {
        let padded = |axis: usize| axes.get(axis).is_some_and(Axis::is_padded);
        let encoding = self.graph().tensor(id).encoding.as_ref();
        encoding.is_none_or(|encoding| match encoding.axis {
            EncodingAxis::PerTensor => true,
            EncodingAxis::PerAxis(axis) => !padded(axis),
            // scales follow the order of the whole shape
            EncodingAxis::PerBlock { .. } | EncodingAxis::Blocks(_) => !(0..axes.len()).any(padded),
        })
    }

    /// The shape at true sizes.
    pub(super) fn true_shape(&self, id: TensorId) -> Option<Vec<usize>> {
        self.small.0.tensor(id).ty.sizes()
    }

    /// Whether an output can be cut, where it must.
    pub(super) fn check_edge(&self, id: TensorId) -> Result<(), String> {
        match self.get(id) {
            Relation::Prefix { .. } => self.check_padded(id),
            Relation::Same | Relation::Apart(_) => Ok(()),
        }
    }

    fn check_padded(&self, id: TensorId) -> Result<(), String> {
        let tensor = self.graph().tensor(id);
        if tensor.is_packed() {
            return Err("is packed, which has no elements that could be padded".to_owned());
        }
        if tensor.ty.dtype.byte_width().is_none() {
            let dtype = tensor.ty.dtype;
            return Err(format!(
                "is of {dtype}: elements of less than a byte are not padded"
            ));
        }
        Ok(())
    }
}
