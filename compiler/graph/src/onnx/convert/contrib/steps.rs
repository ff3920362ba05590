//! Small steps that expansions share: one node of ONNX each, with its constants.
//!
//! Invariant: roles of one expansion differ, so that names of tensors do.

use polychip_ops::{Attr, Attributes, DType, Literal, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Constant, Error, Node, TensorId};

impl Foreign<'_, '_> {
    /// A constant vector of sizes, axes or positions.
    pub(super) fn list(&mut self, values: &[i64], role: &str) -> TensorId {
        self.0.constant(role, &Literal::i64s(values))
    }

    pub(super) fn with(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        attributes: Attributes,
        role: &str,
    ) -> Result<TensorId, Error> {
        self.0.step(op, inputs, role, attributes)
    }

    /// A node of several outputs.
    pub(super) fn several(
        &mut self,
        op: Op,
        inputs: Vec<Option<TensorId>>,
        attributes: Attributes,
        roles: &[&str],
    ) -> Result<Vec<TensorId>, Error> {
        let outputs: Vec<TensorId> = roles
            .iter()
            .map(|role| {
                let name = self.0.name(role);
                self.0.target.fresh(name)
            })
            .collect();
        let name = self.0.name(&format!("{}.node", roles[0]));
        let node = Node::new(op, inputs, outputs.iter().copied().map(Some).collect());
        self.0.target.add(node.named(name).with(attributes))?;
        Ok(outputs)
    }

    /// Gives a tensor as one of the node's outputs, where the node has it.
    pub(super) fn give_output(&mut self, slot: usize, tensor: TensorId) -> Result<(), Error> {
        let Some(output) = self.0.node.output(slot) else {
            return Ok(());
        };
        let name = self.0.name(&format!("out.{slot}"));
        self.0
            .emit(Op::Identity, &[tensor], output, &name, Attributes::new())
    }

    /// Whether the node has an output.
    pub(super) fn gives(&self, slot: usize) -> bool {
        self.0.node.output(slot).is_some()
    }

    /// A size of a tensor, where it is known.
    pub(super) fn size(&self, tensor: TensorId, axis: usize) -> Option<i64> {
        let size = self.0.target.ty(tensor)?.shape.as_ref()?.get(axis)?.known()?;
        i64::try_from(size).ok()
    }

    /// All sizes of a tensor, where they are known.
    pub(super) fn sizes(&self, tensor: TensorId) -> Option<Vec<i64>> {
        (0..self.rank(tensor)?)
            .map(|axis| self.size(tensor, axis))
            .collect()
    }

    pub(super) fn reshaped(&mut self, x: TensorId, shape: &[i64], role: &str) -> Result<TensorId, Error> {
        let shape = self.list(shape, &format!("{role}.shape"));
        self.step(Op::Reshape, &[x, shape], role)
    }

    pub(super) fn permuted(&mut self, x: TensorId, perm: &[i64], role: &str) -> Result<TensorId, Error> {
        let perm = Attributes::new().with_ints(Attr::Perm, perm);
        self.with(Op::Transpose, &[x], perm, role)
    }

    pub(super) fn as_type(&mut self, x: TensorId, to: DType, role: &str) -> Result<TensorId, Error> {
        if self.dtype(x) == Some(to) {
            return Ok(x);
        }
        let to = Attributes::new().with_int(Attr::To, to.code().into());
        self.with(Op::Cast, &[x], to, role)
    }

    pub(super) fn unsqueezed(&mut self, x: TensorId, axes: &[i64], role: &str) -> Result<TensorId, Error> {
        let axes = self.list(axes, &format!("{role}.axes"));
        self.step(Op::Unsqueeze, &[x, axes], role)
    }

    pub(super) fn squeezed(&mut self, x: TensorId, axes: &[i64], role: &str) -> Result<TensorId, Error> {
        let axes = self.list(axes, &format!("{role}.axes"));
        self.step(Op::Squeeze, &[x, axes], role)
    }

    /// Part of an axis; an end of `i64::MAX` is the axis's.
    pub(super) fn sliced(
        &mut self,
        x: TensorId,
        axis: i64,
        start: i64,
        end: i64,
        role: &str,
    ) -> Result<TensorId, Error> {
        let mut inputs = vec![x];
        for (name, value) in [("start", start), ("end", end), ("axis", axis)] {
            inputs.push(self.list(&[value], &format!("{role}.{name}")));
        }
        self.step(Op::Slice, &inputs, role)
    }

    /// One size of a tensor, as a vector of one.
    pub(super) fn extent(&mut self, x: TensorId, axis: i64, role: &str) -> Result<TensorId, Error> {
        let mut range = Attributes::new().with_int(Attr::Start, axis);
        if axis != -1 {
            range = range.with_int(Attr::End, axis + 1);
        }
        self.with(Op::Shape, &[x], range, role)
    }

    /// `0..count` of a count that is a vector of one.
    pub(super) fn counted(&mut self, count: TensorId, role: &str) -> Result<TensorId, Error> {
        let limit = self.squeezed(count, &[0], &format!("{role}.limit"))?;
        let zero = self.0.constant(&format!("{role}.zero"), &Literal::scalar_i64(0));
        let one = self.0.constant(&format!("{role}.one"), &Literal::scalar_i64(1));
        self.step(Op::Range, &[zero, limit, one], role)
    }

    pub(super) fn joined(&mut self, parts: &[TensorId], axis: i64, role: &str) -> Result<TensorId, Error> {
        self.with(
            Op::Concat,
            parts,
            Attributes::new().with_int(Attr::Axis, axis),
            role,
        )
    }

    /// Parts of an axis of these sizes.
    pub(super) fn split(
        &mut self,
        x: TensorId,
        axis: i64,
        sizes: &[i64],
        roles: &[&str],
    ) -> Result<Vec<TensorId>, Error> {
        let sizes = self.list(sizes, &format!("{}.sizes", roles[0]));
        let axis = Attributes::new().with_int(Attr::Axis, axis);
        self.several(Op::Split, vec![Some(x), Some(sizes)], axis, roles)
    }

    /// A sum or mean over axes.
    pub(super) fn reduced(
        &mut self,
        op: Op,
        x: TensorId,
        axes: &[i64],
        keep: bool,
        role: &str,
    ) -> Result<TensorId, Error> {
        let axes = self.list(axes, &format!("{role}.axes"));
        let keep = Attributes::new().with_int(Attr::Keepdims, keep.into());
        self.with(op, &[x, axes], keep, role)
    }

    pub(super) fn number(&mut self, value: f32, like: TensorId, role: &str) -> Result<TensorId, Error> {
        self.0.scalar_like(role, value, like)
    }

    /// `x op value`.
    pub(super) fn by(&mut self, op: Op, x: TensorId, value: f32, role: &str) -> Result<TensorId, Error> {
        let value = self.number(value, x, &format!("{role}.by"))?;
        self.step(op, &[x, value], role)
    }

    /// `x op value` of whole numbers.
    pub(super) fn by_int(
        &mut self,
        op: Op,
        x: TensorId,
        (dtype, value): (DType, i64),
        attributes: Attributes,
        role: &str,
    ) -> Result<TensorId, Error> {
        let literal = Literal::from_ints(dtype, Vec::new(), &[value]).expect("invariant: it fits its type");
        let value = self.0.constant(&format!("{role}.by"), &literal);
        self.with(op, &[x, value], attributes, role)
    }

    /// The stored bytes of a constant of a type.
    pub(super) fn stored(&self, tensor: TensorId, dtype: DType) -> Option<Constant> {
        let tensor = self.0.target.graph.tensor(tensor);
        tensor.data.clone().filter(|_| tensor.ty.dtype == dtype)
    }

    /// Channels from the last axis to the second.
    pub(super) fn channels_first(&mut self, x: TensorId, role: &str) -> Result<Option<TensorId>, Error> {
        let Some(rank) = self.rank(x).filter(|&rank| rank >= 3) else {
            return Ok(None);
        };
        let rank = rank as i64;
        let perm: Vec<i64> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        self.permuted(x, &perm, role).map(Some)
    }

    /// Adds the last node, with channels moved from the second axis to the last.
    pub(super) fn last_channels_last(&mut self, y: TensorId, rank: usize) -> Result<bool, Error> {
        let rank = rank as i64;
        let perm: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
        self.last(
            Op::Transpose,
            vec![Some(y)],
            Attributes::new().with_ints(Attr::Perm, &perm),
        )
    }
}
