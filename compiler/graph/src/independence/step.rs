//! One node as a rule sees it: what is proved of its inputs, and the axes of its tensors.
//!
//! Invariant: an input that is asked for is proved, or the rule ends with whose fault it is.

use polychip_ops::axis;
use polychip_ops::operator::OperatorAttributes;

use crate::independence::pair::{Axis, Pair, Proof, Relation};
use crate::{Node, NodeId, TensorId};

/// Why nothing is proved: this node, or the one that spoilt an input.
pub(super) type Verdict = Result<Proof, NodeId>;

/// The outputs are prefixes whose padding may be anything.
pub(super) const PREFIX: Verdict = Ok(Proof::Prefix { zeros: false });

/// A node in both runs.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pair: &'a Pair<'a>,
    id: NodeId,
    pub(super) node: &'a Node,
}

impl<'a> Step<'a> {
    pub(super) fn new(pair: &'a Pair<'a>, id: NodeId, node: &'a Node) -> Step<'a> {
        Step { pair, id, node }
    }

    /// The verdict that this node mixes positions.
    pub(super) fn mixes<T>(&self) -> Result<T, NodeId> {
        Err(self.id)
    }

    /// The verdict that this node mixes positions unless `holds`.
    pub(super) fn must(&self, holds: bool) -> Result<(), NodeId> {
        if holds { Ok(()) } else { Err(self.id) }
    }

    /// What a rule needs to know, or the verdict that this node mixes positions.
    pub(super) fn some<T>(&self, known: Option<T>) -> Result<T, NodeId> {
        known.ok_or(self.id)
    }

    fn input(&self, input: usize) -> Result<TensorId, NodeId> {
        self.some(self.node.input(input))
    }

    /// Whether an input is there.
    pub(super) fn has(&self, input: usize) -> bool {
        self.node.input(input).is_some()
    }

    /// The axes of an input, whatever is proved of its elements.
    fn shape(&self, input: usize) -> Result<Vec<Axis>, NodeId> {
        let id = self.input(input)?;
        let axes = self.some(self.pair.axes(id))?;
        self.must(self.pair.check_encoding(id, &axes))?;
        Ok(axes)
    }

    /// The axes of an input that is a prefix.
    pub(super) fn prefix(&self, input: usize) -> Result<Vec<Axis>, NodeId> {
        match self.pair.get(self.input(input)?) {
            Relation::Apart(cause) => Err(cause),
            Relation::Same | Relation::Prefix { .. } => self.shape(input),
        }
    }

    /// The axes of an input that is a prefix and has padding along these axes only.
    pub(super) fn prefix_along(&self, input: usize, allowed: &[usize]) -> Result<Vec<Axis>, NodeId> {
        let axes = self.prefix(input)?;
        let mut padded = (0..axes.len()).filter(|&axis| axes[axis].is_padded());
        self.must(padded.all(|axis| allowed.contains(&axis)))?;
        Ok(axes)
    }

    /// The axes of an input that is a prefix and has no padding along these axes.
    pub(super) fn prefix_but(&self, input: usize, whole: &[usize]) -> Result<Vec<Axis>, NodeId> {
        let axes = self.prefix(input)?;
        self.must(
            whole
                .iter()
                .all(|&axis| axes.get(axis).is_some_and(|axis| !axis.is_padded())),
        )?;
        Ok(axes)
    }

    /// An input is the same in both runs, or is not there.
    pub(super) fn same(&self, input: usize) -> Result<(), NodeId> {
        let Some(id) = self.node.input(input) else {
            return Ok(());
        };
        match self.pair.get(id) {
            Relation::Same => Ok(()),
            Relation::Prefix { .. } => self.mixes(),
            Relation::Apart(cause) => Err(cause),
        }
    }

    /// As [`Step::same`], of the inputs from this one on.
    pub(super) fn same_from(&self, first: usize) -> Result<(), NodeId> {
        (first..self.node.inputs.len()).try_for_each(|input| self.same(input))
    }

    /// Whether an input is the same in both runs, or what is padding in it is zeros: an index in range, of no string.
    pub(super) fn pads_zeros(&self, input: usize) -> bool {
        let relation = self.node.input(input).map(|id| self.pair.get(id));
        matches!(relation, Some(Relation::Same | Relation::Prefix { zeros: true }))
    }

    /// The integers of an input, known and the same in both runs; `None` where the input is not there.
    pub(super) fn integers(&self, input: usize) -> Result<Option<Vec<i64>>, NodeId> {
        match self.node.input(input) {
            None => Ok(None),
            Some(id) => self.some(self.pair.integers(id)).map(Some),
        }
    }

    /// Whether an input is a known number in both runs, and which.
    pub(super) fn floats(&self, input: usize) -> Option<Vec<f64>> {
        let [small, large] = self.pair.values(self.node.input(input)?)?;
        let (small, large) = (small.as_f64s()?, large.as_f64s()?);
        (small == large).then_some(small)
    }

    /// The axes of an output.
    pub(super) fn output(&self, output: usize) -> Result<Vec<Axis>, NodeId> {
        self.some(self.node.output(output).and_then(|id| self.pair.axes(id)))
    }

    /// Whether an input holds integers.
    pub(super) fn is_int(&self, input: usize) -> bool {
        let tensor = self.node.input(input).map(|id| self.pair.graph().tensor(id));
        tensor.is_some_and(|tensor| tensor.ty.dtype.is_int())
    }

    /// The typed attributes, where the op is known to have these.
    pub(super) fn typed<T: OperatorAttributes>(&self) -> Result<T, NodeId> {
        self.some(self.node.typed().ok())
    }

    /// An axis, counted from the front.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize, NodeId> {
        self.some(axis::normalise(axis, rank))
    }
}

/// Whether tensors of these axes are broadcast into others position by position.
pub(super) fn broadcasts(axes: &[Axis], into: &[Axis]) -> bool {
    let places = axes.iter().rev().zip(into.iter().rev());
    axes.len() <= into.len()
        && places
            .into_iter()
            .all(|(axis, into)| axis == into || axis.is_one())
}
