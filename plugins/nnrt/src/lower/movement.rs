//! Nodes that only move elements.

use polychip_lowering::layout::plan::Want;
use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::Attr;
use polychip_sys::nnrt::bindings as sys;

use super::builder::{Lower, Param, axis, input, of_rank, output};
use crate::program::{TensorId, Type};

impl Lower<'_> {
    /// Refuses truth values, of which the runtime's operations that move do not say that they take them.
    fn moves(&self, node: &Node, tensor: TensorIndex) -> Outcome<()> {
        match self.info(tensor)?.ty {
            Type::Bool => Err(Refusal::dtype(format!("{} of truth values", node.op_name))),
            _ => Ok(()),
        }
    }

    pub(super) fn reshape(&mut self, node: &Node) -> Outcome<()> {
        let id = self.read(input(node, 0)?, Layout::RowMajor)?;
        self.settle(id, output(node)?, Layout::RowMajor)
    }

    pub(super) fn transpose(&mut self, node: &Node) -> Outcome<()> {
        let tensor = input(node, 0)?;
        self.moves(node, tensor)?;
        let rank = self.rank(tensor)?;
        let perm: Vec<usize> = match node.attributes.ints(Attr::Perm) {
            Some(perm) => perm.iter().map(|&axis| axis as usize).collect(),
            None => (0..rank).rev().collect(),
        };
        let wanted = super::wants::wants(node, self.infos());
        let [from, to] = <[Want; 2]>::from(wanted).map(|want| match want {
            Want::Fixed(layout) => layout,
            Want::Planned => Layout::RowMajor,
        });
        let id = self.read(tensor, from)?;
        let order = to.permutation(rank).into_iter();
        let places: Vec<usize> = order.map(|axis| from.place(perm[axis], rank)).collect();
        let id = self.transposed(id, &places, to);
        self.settle(id, output(node)?, to)
    }

    pub(super) fn concat(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let to = output(node)?;
        self.moves(node, to)?;
        let rank = self.rank(to)?;
        let place = of_rank(layout, rank).place(axis(node, 0, rank)?, rank) as i64;
        let mut inputs = Vec::new();
        for tensor in node.reads() {
            inputs.push(self.read(tensor, layout)?);
        }
        let out = self.write(to, layout)?;
        let params = vec![Param::Long(sys::OH_NN_CONCAT_AXIS, place)];
        self.op(sys::OH_NN_OPS_CONCAT, &inputs, &[out], params);
        Ok(())
    }

    pub(super) fn split(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let tensor = input(node, 0)?;
        self.moves(node, tensor)?;
        let rank = self.rank(tensor)?;
        let axis = axis(node, 0, rank)?;
        let from = self.read(tensor, layout)?;
        let (mut outs, mut sizes) = (Vec::new(), Vec::new());
        for output in &node.outputs {
            let output = output.ok_or_else(|| Refusal::attribute("a Split without one of its outputs"))?;
            sizes.push(self.shape(output)?[axis] as i64);
            outs.push(self.write(output, layout)?);
        }
        let params = vec![
            Param::Long(sys::OH_NN_SPLIT_OUTPUT_NUM, outs.len() as i64),
            Param::Longs(sys::OH_NN_SPLIT_SIZE_SPLITS, sizes),
            Param::Long(
                sys::OH_NN_SPLIT_AXIS,
                of_rank(layout, rank).place(axis, rank) as i64,
            ),
        ];
        self.op(sys::OH_NN_OPS_SPLIT, &[from], &outs, params);
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        self.moves(node, tensor)?;
        let shape = self.shape(tensor)?;
        let order = of_rank(layout, shape.len());
        let starts = self.ints(input(node, 1)?)?;
        let optional = |l: &Self, place: usize| node.input(place).map(|tensor| l.ints(tensor)).transpose();
        let steps = optional(self, 4)?.unwrap_or_else(|| vec![1; starts.len()]);
        let axes = optional(self, 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let axes = polychip_ops::axis::normalise_all(&axes, shape.len())
            .ok_or_else(|| Refusal::attribute(format!("Slice of axes {axes:?}")))?;
        if steps.iter().any(|&step| step < 1) || [axes.len(), steps.len()] != [starts.len(); 2] {
            return Err(Refusal::attribute(format!("Slice by steps {steps:?}")));
        }
        let (mut begin, mut stride) = (vec![0; shape.len()], vec![1; shape.len()]);
        for ((axis, start), step) in axes.into_iter().zip(starts).zip(steps) {
            let size = shape[axis] as i64;
            let start = if start < 0 {
                start.saturating_add(size)
            } else {
                start
            };
            begin[axis] = start.clamp(0, size) as usize;
            stride[axis] = step.min(size.max(1)) as usize;
        }
        let from = self.read(tensor, order)?;
        let size = order.dims(self.shape(to)?);
        let (begin, stride) = (order.dims(&begin), order.dims(&stride));
        let out = if stride.iter().all(|&step| step == 1) {
            let lists = [self.list(&begin), self.list(&size)];
            self.like(
                sys::OH_NN_OPS_SLICE,
                from,
                &size,
                &[from, lists[0], lists[1]],
                vec![],
            )
        } else {
            let last = |axis: usize| begin[axis] + (size[axis] - 1) * stride[axis] + 1;
            let end: Vec<usize> = (0..size.len()).map(last).collect();
            let lists = [&begin, &end, &stride].map(|list| self.list(list));
            let masks = [
                sys::OH_NN_STRIDED_SLICE_BEGIN_MASK,
                sys::OH_NN_STRIDED_SLICE_END_MASK,
                sys::OH_NN_STRIDED_SLICE_ELLIPSIS_MASK,
                sys::OH_NN_STRIDED_SLICE_NEW_AXIS_MASK,
                sys::OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK,
            ];
            let masks = masks.map(|role| Param::Long(role, 0)).to_vec();
            let inputs: Vec<TensorId> = [from].into_iter().chain(lists).collect();
            self.like(sys::OH_NN_OPS_STRIDED_SLICE, from, &size, &inputs, masks)
        };
        self.settle(out, to, order)
    }

    pub(super) fn pad(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let rank = self.rank(tensor)?;
        let order = of_rank(layout, rank);
        let mode = node.attributes.str(Attr::Mode).unwrap_or("constant");
        let mode = match mode {
            "constant" => 0,
            "reflect" => 1,
            _ => return Err(Refusal::attribute(format!("Pad with mode {mode}"))),
        };
        if !self.info(tensor)?.ty.is_float() {
            return Err(Refusal::dtype("Pad of integers: the value is a float"));
        }
        let pads = self.ints(input(node, 1)?)?;
        let axes = match node.input(3) {
            Some(axes) => self.ints(axes)?,
            None => (0..rank as i64).collect(),
        };
        let axes = polychip_ops::axis::normalise_all(&axes, rank)
            .filter(|axes| pads.len() == 2 * axes.len() && pads.iter().all(|pad| (0..1 << 30).contains(pad)))
            .ok_or_else(|| Refusal::attribute(format!("pads {pads:?} of axes {axes:?}")))?;
        let mut amounts = vec![0; 2 * rank];
        for (number, &axis) in axes.iter().enumerate() {
            let place = 2 * order.place(axis, rank);
            amounts[place] = pads[number] as usize;
            amounts[place + 1] = pads[number + axes.len()] as usize;
        }
        let value = match node.input(2) {
            Some(value) => self.reals(value)?.first().copied().unwrap_or(0.0),
            None => 0.0,
        };
        let from = self.read(tensor, order)?;
        let amounts = self.list(&amounts);
        self.program.tensors[amounts].dims = vec![rank, 2];
        let params = vec![
            Param::Real(sys::OH_NN_PAD_CONSTANT_VALUE, value),
            Param::Int(sys::OH_NN_PAD_PADDING_MODE, mode),
        ];
        let dims = order.dims(self.shape(to)?);
        let out = self.like(sys::OH_NN_OPS_PAD, from, &dims, &[from, amounts], params);
        self.settle(out, to, order)
    }

    /// Tile and Expand: whole repetitions.
    pub(super) fn tile(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        self.moves(node, tensor)?;
        let wanted = self.shape(to)?;
        let rank = wanted.len();
        let order = of_rank(layout, rank);
        let shape = self.shape(tensor)?;
        if shape.len() > rank || rank == 0 {
            return Err(Refusal::shape(format!("{shape:?} repeated to {wanted:?}")));
        }
        let mut wide = vec![1; rank - shape.len()];
        wide.extend_from_slice(shape);
        let id = match shape.len() == rank {
            true => self.read(tensor, order)?,
            false => self.read(tensor, Layout::RowMajor)?,
        };
        let id = self.reshaped(id, &order.dims(&wide));
        if wide
            .iter()
            .zip(wanted)
            .any(|(&from, &to)| !to.is_multiple_of(from))
        {
            return Err(Refusal::shape(format!("{wide:?} repeated to {wanted:?}")));
        }
        let times: Vec<usize> = wanted.iter().zip(&wide).map(|(&to, &from)| to / from).collect();
        if times.iter().all(|&times| times == 1) {
            return self.settle(id, to, order);
        }
        let times = self.list(&order.dims(&times));
        let out = self.like(sys::OH_NN_OPS_TILE, id, &order.dims(wanted), &[id, times], vec![]);
        self.settle(out, to, order)
    }

    /// Places along an axis; constant ones may count from the back.
    pub(super) fn gather(&mut self, node: &Node) -> Outcome<()> {
        let (data, indices, to) = (input(node, 0)?, input(node, 1)?, output(node)?);
        self.moves(node, data)?;
        let rank = self.rank(data)?;
        let at = axis(node, 0, rank)?;
        let size = self.shape(data)?[at] as i64;
        let from = self.read(data, Layout::RowMajor)?;
        // of computed ones nobody knows the sign, which the runtime does not take
        let front = |index: i64| {
            if index < 0 {
                index.saturating_add(size)
            } else {
                index
            }
        };
        let chosen: Vec<i64> = self.ints(indices)?.into_iter().map(front).collect();
        if let Some(index) = chosen.iter().find(|index| !(0..size).contains(*index)) {
            return Err(Refusal::attribute(format!("index {index} of an axis of {size}")));
        }
        let chosen: Vec<usize> = chosen.into_iter().map(|index| index as usize).collect();
        let list = self.list(&chosen);
        let shape = self.shape(indices)?.to_vec();
        let mut dims = self.shape(to)?.to_vec();
        if shape.is_empty() {
            dims.insert(at, 1);
        } else {
            self.program.tensors[list].dims = shape;
        }
        let place = self.list(&[at]);
        let out = self.like(sys::OH_NN_OPS_GATHER, from, &dims, &[from, list, place], vec![]);
        self.settle(out, to, Layout::RowMajor)
    }
}
