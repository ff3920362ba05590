//! Nodes that only move elements.
//!
//! Invariant: moved integers keep their encoding; where the result has another one, a conversion follows.

use polychip_ops::operator::{
    Along, GatherNd, Pad, ScatterElements, ScatterNd, ScatterReduction, Split, Transpose,
};
use polychip_ops::{Op, Operator};

use super::builder::{Domain, Lower, axes_of, axis, of_rank, widened};
use super::constant;
use super::program::{Kind, OperandId, Quant, Type};
use crate::layout::plan::Want;
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

impl Lower<'_> {
    pub(super) fn reshape(&mut self, node: &Node) -> Outcome<()> {
        let id = self.read(self.input(node, 0)?, Layout::RowMajor)?;
        self.settle(id, self.output(node)?, Layout::RowMajor)
    }

    pub(super) fn transpose(&mut self, node: &Node) -> Outcome<()> {
        let tensor = self.input(node, 0)?;
        let rank = self.rank(tensor)?;
        let perm: Vec<usize> = match node.typed::<Transpose>()?.perm {
            Some(perm) => perm.iter().map(|&axis| axis as usize).collect(),
            None => (0..rank).rev().collect(),
        };
        // between the two orders, names of axes change and nothing moves
        let wanted = super::layout_preference::layout_preference(node, self.infos, self.vendor);
        let [from, to] = <[Want; 2]>::from(wanted).map(|want| match want {
            Want::Fixed(order) => order,
            Want::Planned => Layout::RowMajor,
        });
        let id = self.read(tensor, from)?;
        // place `i` of the result holds the input's axis `perm[axis of i]`
        let places = to.permutation(rank).into_iter();
        let places: Vec<usize> = places.map(|axis| from.place(perm[axis], rank)).collect();
        let id = self.transposed(id, &places);
        self.settle(id, self.output(node)?, to)
    }

    pub(super) fn concat(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let to = self.output(node)?;
        let info = self.info(to)?;
        let rank = info.shape.len();
        let domain = if info.ty.is_quantised() {
            Domain::Fixed(info.ty)
        } else {
            Domain::Whole
        };
        let mut inputs = Vec::new();
        for input in node.inputs.iter().copied().flatten() {
            let id = self.operand_of(input, order, rank, domain)?;
            inputs.push(self.converted(id, info.ty, &info.quant));
        }
        let place = of_rank(order, rank).place(axis(node.typed::<Along>()?.axis, rank)?, rank);
        self.result(Kind::Concat(place), &inputs, to, order)
    }

    pub(super) fn split(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let tensor = self.input(node, 0)?;
        let rank = self.rank(tensor)?;
        let order = of_rank(order, rank);
        let axis = axis(node.typed::<Split>()?.axis, rank)?;
        let from = self.read(tensor, order)?;
        let place = order.place(axis, rank);
        let mut pieces = Vec::new();
        for number in 0..node.outputs.len() {
            let output = self.output_at(node, number)?;
            pieces.push((output, order.dims(self.shape(output)?)));
        }
        let sizes: Vec<usize> = pieces.iter().map(|(_, dims)| dims[place]).collect();
        let even = sizes.iter().all(|size| *size == sizes[0]);
        if sizes.len() == 1 {
            return self.settle(from, pieces[0].0, order);
        }
        if !even && !self.vendor.traits().splits_unevenly {
            let mut begin = vec![0; rank];
            for (output, dims) in pieces {
                let end: Vec<usize> = begin
                    .iter()
                    .zip(&dims)
                    .map(|(begin, size)| begin + size)
                    .collect();
                let next = end[place];
                self.moved(
                    Kind::Slice([begin.clone(), end, vec![1; rank]]),
                    &[from],
                    output,
                    order,
                )?;
                begin[place] = next;
            }
            return Ok(());
        }
        let (ty, quant, image) = (self.ty(from), self.quant(from), self.program.operands[from].image);
        let mut outs = Vec::new();
        for (_, dims) in &pieces {
            let out = self.inner("piece", ty, quant.clone(), dims);
            self.program.operands[out].image = image;
            outs.push(out);
        }
        self.step(Kind::Split(place, sizes), &[from], &outs);
        for (out, (output, _)) in outs.into_iter().zip(pieces) {
            self.settle(out, output, order)?;
        }
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let shape = self.shape(tensor)?;
        let rank = shape.len();
        let order = of_rank(order, rank);
        let list = |place: usize| node.input(place).map(|tensor| self.ints(tensor)).transpose();
        let starts = self.ints(self.input(node, 1)?)?;
        let ends = self.ints(self.input(node, 2)?)?;
        let steps = list(4)?.unwrap_or_else(|| vec![1; starts.len()]);
        let axes = axes_of(
            &list(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect()),
            rank,
        )?;
        if [axes.len(), steps.len(), ends.len()] != [starts.len(); 3] || steps.iter().any(|&step| step < 1) {
            return Err(Refusal::attribute(format!(
                "Slice of axes {axes:?} by steps {steps:?}"
            )));
        }
        let (mut begin, mut end, mut step) = (vec![0; rank], shape.to_vec(), vec![1; rank]);
        for (number, axis) in axes.into_iter().enumerate() {
            let size = shape[axis] as i64;
            let place = |place: i64| from_front(place, size).clamp(0, size) as usize;
            (begin[axis], end[axis]) = (place(starts[number]), place(ends[number]));
            step[axis] = steps[number].min(size.max(1)) as usize;
        }
        let from = self.read(tensor, order)?;
        let kind = Kind::Slice([begin, end, step].map(|list| order.dims(&list)));
        self.moved(kind, &[from], to, order)
    }

    pub(super) fn pad(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let rank = self.rank(tensor)?;
        let order = of_rank(order, rank);
        let mode = node.typed::<Pad>()?.mode;
        let pads = self.ints(self.input(node, 1)?)?;
        let axes = match node.input(3) {
            Some(axes) => self.ints(axes)?,
            None => (0..rank as i64).collect(),
        };
        let axes = axes_of(&axes, rank)?;
        if pads.len() != 2 * axes.len() || pads.iter().any(|pad| !(0..1 << 30).contains(pad)) {
            return Err(Refusal::attribute(format!("pads {pads:?} of axes {axes:?}")));
        }
        let mut amounts = vec![(0, 0); rank];
        for (number, &axis) in axes.iter().enumerate() {
            amounts[order.place(axis, rank)] = (pads[number] as usize, pads[number + axes.len()] as usize);
        }
        let value = match node.input(2) {
            Some(value) => self.reals(value)?.first().copied().unwrap_or(0.0),
            None => 0.0,
        };
        let from = self.read(tensor, order)?;
        if amounts.iter().all(|&amount| amount == (0, 0)) {
            return self.settle(from, to, order);
        }
        self.moved(Kind::Pad(mode, amounts, value), &[from], to, order)
    }

    /// Tile and Expand: whole repetitions.
    pub(super) fn tile(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let (shape, wanted) = (self.shape(tensor)?, self.shape(to)?);
        let rank = wanted.len();
        let order = of_rank(order, rank);
        let mut id = self.read(
            tensor,
            if shape.len() == rank {
                order
            } else {
                Layout::RowMajor
            },
        )?;
        if shape.len() > rank || rank == 0 {
            return self.settle(id, to, order);
        }
        let wide = widened(shape, rank);
        id = self.reshaped(id, &order.dims(&wide));
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
        self.moved(Kind::Tile(order.dims(&times)), &[id], to, order)
    }

    /// Constant indices into axes of `shape`, counted from the front: no chip knows those from the end. With tuples, each
    /// entry is of its own axis behind `batch`; else all are of `axis`.
    fn indices(
        &mut self,
        indices: TensorIndex,
        shape: &[usize],
        tuples: bool,
        axis: usize,
    ) -> Outcome<OperandId> {
        let of = self.shape(indices)?;
        let mut values = self.ints(indices)?;
        let tuple = of.last().copied().unwrap_or(1).max(1);
        for (number, value) in values.iter_mut().enumerate() {
            let axis = if tuples { axis + number % tuple } else { axis };
            let beyond = || Refusal::shape("an index has more entries than the data has axes");
            let size = *shape.get(axis).ok_or_else(beyond)? as i64;
            *value = from_front(*value, size);
            if !(0..size).contains(value) {
                return Err(Refusal::attribute(format!("index {value} of an axis of {size}")));
            }
        }
        let bytes = constant::store(Type::Int32, &values);
        Ok(self.fixed("indices", Type::Int32, Quant::None, of, bytes))
    }

    pub(super) fn scatter(&mut self, node: &Node) -> Outcome<()> {
        let (tuples, axis_of, reduction) = match node.operator()? {
            Operator::ScatterElements(ScatterElements { axis, reduction }) => (false, axis, reduction),
            Operator::ScatterND(ScatterNd { reduction }) => (true, 0, reduction),
            _ => return Err(Refusal::op(node.op_name.clone())),
        };
        if reduction != ScatterReduction::None {
            return Err(Refusal::attribute(format!("reduction {}", reduction.text())));
        }
        let data = self.input(node, 0)?;
        let shape = self.shape(data)?;
        let axis = if tuples { 0 } else { axis(axis_of, shape.len())? };
        let places = self.indices(self.input(node, 1)?, shape, tuples, axis)?;
        let from = self.read(data, Layout::RowMajor)?;
        let updates = self.read(self.input(node, 2)?, Layout::RowMajor)?;
        let updates = self.converted(updates, self.ty(from), &self.quant(from));
        let kind = Kind::Scatter(node.op, axis);
        self.moved(
            kind,
            &[from, places, updates],
            self.output(node)?,
            Layout::RowMajor,
        )
    }

    pub(super) fn gather(&mut self, node: &Node) -> Outcome<()> {
        let (data, indices, to) = (self.input(node, 0)?, self.input(node, 1)?, self.output(node)?);
        let shape = self.shape(data)?;
        let tuples = node.op == Op::GatherND;
        let axis = if tuples {
            node.typed::<GatherNd>()?.batch_dims
        } else {
            axis(node.typed::<Along>()?.axis, shape.len())?
        };
        let places = self.indices(indices, shape, tuples, axis)?;
        let from = self.read(data, Layout::RowMajor)?;
        let mut dims = self.shape(to)?.to_vec();
        // one index is a list of one
        if node.op == Op::Gather && self.rank(indices)? == 0 {
            dims.insert(axis, 1);
        }
        let out = self.like(Kind::Gather(node.op, axis), &[from, places], &dims);
        self.settle(out, to, Layout::RowMajor)
    }
}

/// An index, from the front.
fn from_front(index: i64, size: i64) -> i64 {
    if index < 0 {
        index.saturating_add(size)
    } else {
        index
    }
}
