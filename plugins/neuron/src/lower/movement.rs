//! Nodes that only move elements, and those between reals and integers.
//!
//! Invariant: moved integers keep their encoding; where the result has another one, a conversion follows.

use polychip_lowering::{Layout, Node, Outcome, Refusal};
use polychip_ops::{Attr, Op};
use polychip_sys::neuron::bindings as sys;

use super::builder::{Lower, axis, input, int, output};
use crate::info;
use crate::program::{OperandId, Type};

impl Lower<'_> {
    pub(super) fn reshape(&mut self, node: &Node) -> Outcome<()> {
        let id = self.read(input(node, 0)?, Layout::RowMajor)?;
        self.settle(id, output(node)?, Layout::RowMajor)
    }

    pub(super) fn transpose(&mut self, node: &Node) -> Outcome<()> {
        let tensor = input(node, 0)?;
        let rank = self.shape(tensor)?.len();
        let perm: Vec<usize> = match node.attributes.ints(Attr::Perm) {
            Some(perm) => perm.iter().map(|&axis| axis as usize).collect(),
            None => (0..rank).rev().collect(),
        };
        let fixed = |want| match want {
            polychip_lowering::layout::plan::Want::Fixed(layout) => layout,
            polychip_lowering::layout::plan::Want::Planned => Layout::RowMajor,
        };
        let (from, to) = super::wants::wants(node, self.infos);
        let (from, to) = (fixed(from), fixed(to));
        let id = self.read(tensor, from)?;
        let places: Vec<usize> = (to.permutation(rank).into_iter())
            .map(|axis| from.place(perm[axis], rank))
            .collect();
        let id = self.transposed(id, &places)?;
        self.settle(id, output(node)?, to)
    }

    /// The order in which a node of this rank computes.
    fn order(rank: usize, layout: Layout) -> Layout {
        if rank < 3 { Layout::RowMajor } else { layout }
    }

    pub(super) fn concat(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let to = output(node)?;
        let info = self.info(to)?;
        let rank = info.shape.len();
        let place = Self::order(rank, layout).place(axis(node, 0, rank)?, rank);
        if info.ty == Type::Bool {
            return Err(Refusal::dtype("Concat of truth values"));
        }
        let mut inputs = Vec::new();
        for tensor in node.inputs.iter().copied().flatten() {
            let id = self.read(tensor, layout)?;
            inputs.push(self.converted(id, info.ty, info.quant)?);
        }
        inputs.push(self.int(place));
        let out = self.write(to, layout)?;
        self.op(sys::NEURON_CONCATENATION, &inputs, &[out]);
        Ok(())
    }

    /// A box of a tensor.
    fn cut(&mut self, id: OperandId, begin: &[usize], size: &[usize]) -> OperandId {
        let (from, extents) = (self.list(begin), self.list(size));
        self.like(sys::NEURON_SLICE, id, size, &[id, from, extents])
    }

    /// Refuses types that the library moves no boxes of.
    fn movable(&self, id: OperandId, node: &Node) -> Outcome<()> {
        match self.ty(id) {
            Type::Bool => Err(Refusal::dtype(format!("{} of truth values", node.op_name))),
            _ => Ok(()),
        }
    }

    pub(super) fn split(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let tensor = input(node, 0)?;
        let rank = self.shape(tensor)?.len();
        let layout = Self::order(rank, layout);
        let place = layout.place(axis(node, 0, rank)?, rank);
        let from = self.read(tensor, layout)?;
        self.movable(from, node)?;
        let mut pieces = Vec::new();
        for output in &node.outputs {
            let output = output.ok_or_else(|| Refusal::attribute("an output of Split is left out"))?;
            pieces.push((output, layout.dims(self.shape(output)?)));
        }
        if pieces.iter().all(|(_, dims)| *dims == pieces[0].1) && pieces.len() > 1 {
            let inputs = [from, self.int(place), self.int(pieces.len())];
            let outs: Vec<OperandId> = pieces
                .iter()
                .map(|(_, dims)| self.tensor(self.ty(from), self.quant(from), dims))
                .collect();
            self.op(sys::NEURON_SPLIT, &inputs, &outs);
            for (out, (output, _)) in outs.into_iter().zip(pieces) {
                self.settle(out, output, layout)?;
            }
            return Ok(());
        }
        let mut begin = vec![0; rank];
        for (output, dims) in pieces {
            let out = self.cut(from, &begin, &dims);
            begin[place] += dims[place];
            self.settle(out, output, layout)?;
        }
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let shape = self.shape(tensor)?;
        let rank = shape.len();
        let layout = Self::order(rank, layout);
        let list = |l: &Self, place: usize| node.input(place).map(|tensor| l.ints(tensor)).transpose();
        let starts = list(self, 1)?.ok_or_else(|| Refusal::attribute("Slice without starts"))?;
        let axes = list(self, 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = list(self, 4)?.unwrap_or_else(|| vec![1; starts.len()]);
        let axes = polychip_ops::axis::normalise_all(&axes, rank).unwrap_or_default();
        if axes.len() != starts.len() || steps.len() != starts.len() || steps.iter().any(|&step| step < 1) {
            return Err(Refusal::attribute(format!(
                "Slice of axes {axes:?} by steps {steps:?}"
            )));
        }
        let (mut begin, mut step) = (vec![0usize; rank], vec![1usize; rank]);
        for (number, &axis) in axes.iter().enumerate() {
            let size = shape[axis] as i64;
            let start = if starts[number] < 0 {
                starts[number].saturating_add(size)
            } else {
                starts[number]
            };
            begin[axis] = start.clamp(0, size) as usize;
            step[axis] = steps[number].min(size.max(1)) as usize;
        }
        let from = self.read(tensor, layout)?;
        self.movable(from, node)?;
        let size = layout.dims(self.shape(to)?);
        let (begin, step) = (layout.dims(&begin), layout.dims(&step));
        let out = if step.iter().all(|&step| step == 1) {
            self.cut(from, &begin, &size)
        } else {
            let end: Vec<usize> = (0..rank)
                .map(|axis| begin[axis] + (size[axis] - 1) * step[axis] + 1)
                .collect();
            let lists = [&begin, &end, &step].map(|values| self.list(values));
            let masks = [0, 0, 0].map(|mask| self.int(mask));
            let inputs: Vec<OperandId> = [from].into_iter().chain(lists).chain(masks).collect();
            self.like(sys::NEURON_STRIDED_SLICE, from, &size, &inputs)
        };
        self.settle(out, to, layout)
    }

    pub(super) fn pad(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let rank = self.shape(tensor)?.len();
        let layout = Self::order(rank, layout);
        let mode = node.attributes.str(Attr::Mode).unwrap_or("constant");
        if mode != "constant" {
            return Err(Refusal::attribute(format!("Pad with mode {mode}")));
        }
        let pads = self.ints(input(node, 1)?)?;
        let axes = match node.input(3) {
            Some(axes) => self.ints(axes)?,
            None => (0..rank as i64).collect(),
        };
        let axes = polychip_ops::axis::normalise_all(&axes, rank).unwrap_or_default();
        if pads.len() != 2 * axes.len() || pads.iter().any(|&pad| !(0..=i64::from(i32::MAX)).contains(&pad)) {
            return Err(Refusal::attribute(format!("pads {pads:?} of axes {axes:?}")));
        }
        let mut amounts = vec![[0i32; 2]; rank];
        for (number, &axis) in axes.iter().enumerate() {
            amounts[layout.place(axis, rank)] = [pads[number] as i32, pads[number + axes.len()] as i32];
        }
        let from = self.read(tensor, layout)?;
        self.movable(from, node)?;
        let value = match node.input(2) {
            Some(value) if self.view(value).dtype.is_float() || self.view(value).encoding.is_some() => {
                self.view(value).reals()?.first().copied().unwrap_or(0.0)
            }
            Some(value) => self.ints(value)?.first().copied().unwrap_or(0) as f32,
            None => 0.0,
        };
        let amounts = self.numbers(&[rank, 2], amounts.as_flattened());
        let dims = layout.dims(self.shape(to)?);
        let mut inputs = vec![from, amounts];
        if value != 0.0 {
            let (ty, quant) = (self.ty(from), self.quant(from));
            inputs.push(match ty {
                Type::F32 | Type::F16 => self.real(ty, value),
                Type::I32 => self.signed(value as i32),
                _ => {
                    let stored = f64::from(value) / f64::from(quant.scale) + f64::from(quant.zero);
                    let (least, most) = if ty == Type::U8 {
                        (0.0, 255.0)
                    } else {
                        (-128.0, 127.0)
                    };
                    self.signed(stored.round_ties_even().clamp(least, most) as i32)
                }
            });
        }
        let code = if value == 0.0 {
            sys::NEURON_PAD
        } else {
            sys::NEURON_PAD_V2
        };
        let out = self.like(code, from, &dims, &inputs);
        self.settle(out, to, layout)
    }

    pub(super) fn tile(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let wanted = self.shape(to)?;
        let rank = wanted.len();
        let layout = Self::order(rank, layout);
        let mut shape = self.shape(tensor)?.to_vec();
        if shape.len() > rank || rank == 0 {
            return Err(Refusal::shape(format!("{shape:?} repeated to {wanted:?}")));
        }
        let id = self.read(
            tensor,
            if shape.len() < rank {
                Layout::RowMajor
            } else {
                layout
            },
        )?;
        self.movable(id, node)?;
        while shape.len() < rank {
            shape.insert(0, 1);
        }
        let id = self.reshaped(id, &layout.dims(&shape))?;
        if shape
            .iter()
            .zip(wanted)
            .any(|(&from, &to)| !to.is_multiple_of(from))
        {
            return Err(Refusal::shape(format!("{shape:?} repeated to {wanted:?}")));
        }
        let times: Vec<usize> = wanted.iter().zip(&shape).map(|(&to, &from)| to / from).collect();
        if times.iter().all(|&times| times == 1) {
            return self.settle(id, to, layout);
        }
        let times = self.list(&layout.dims(&times));
        let out = self.like(sys::NEURON_TILE, id, &layout.dims(wanted), &[id, times]);
        self.settle(out, to, layout)
    }

    pub(super) fn gather(&mut self, node: &Node) -> Outcome<()> {
        let (data, indices, to) = (input(node, 0)?, input(node, 1)?, output(node)?);
        let rank = self.shape(data)?.len();
        let at = axis(node, 0, rank)?;
        let size = self.shape(data)?[at] as i64;
        let from = self.read(data, Layout::RowMajor)?;
        self.movable(from, node)?;
        // from the front: the library knows no others
        let mut chosen = Vec::new();
        for index in self.ints(indices)? {
            let index = if index < 0 {
                index.saturating_add(size)
            } else {
                index
            };
            if !(0..size).contains(&index) {
                return Err(Refusal::attribute(format!("index {index} of an axis of {size}")));
            }
            chosen.push(index as i32);
        }
        let shape = self.shape(indices)?.to_vec();
        let list = self.numbers(if shape.is_empty() { &[1] } else { &shape }, &chosen);
        let inputs = [from, self.int(at), list];
        let mut dims = self.shape(to)?.to_vec();
        if shape.is_empty() {
            dims.insert(at, 1);
        }
        let out = self.like(sys::NEURON_GATHER, from, &dims, &inputs);
        self.settle(out, to, Layout::RowMajor)
    }

    /// QuantizeLinear and DequantizeLinear with one constant scale.
    pub(super) fn border_of_integers(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let quantises = node.op == Op::QuantizeLinear;
        let (integers, real) = if quantises { (to, tensor) } else { (tensor, to) };
        let (integers, real) = (self.info(integers)?, self.info(real)?);
        if !integers.ty.is_quantised() || !real.ty.is_float() || self.part.is_constant(tensor) {
            return Err(Refusal::encoding(format!(
                "{} from or to other types than the library's",
                node.op_name
            )));
        }
        if info::named(self.part, node) != Some(integers.quant) {
            return Err(Refusal::encoding(format!(
                "{} with another encoding than its tensor's",
                node.op_name
            )));
        }
        let id = self.read(tensor, layout)?;
        self.settle(id, to, layout)
    }

    pub(super) fn cast(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let (from, into) = (self.info(tensor)?.ty, self.info(to)?.ty);
        let plain = |ty| matches!(ty, Type::F32 | Type::F16 | Type::I32);
        if !plain(from) || !plain(into) || int(node, Attr::Saturate, 1) == 0 {
            return Err(Refusal::dtype(format!("Cast of {from:?} to {into:?}")));
        }
        let id = self.read(tensor, layout)?;
        if from == into {
            return self.settle(id, to, layout);
        }
        let out = self.write(to, layout)?;
        self.op(sys::NEURON_CAST, &[id], &[out]);
        Ok(())
    }
}
