//! Nodes that only move elements.
//!
//! Invariant: moved integers keep their encoding; where the result has another one, a conversion follows.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex, layout};
use polychip_ops::{Attr, Op};

use super::builder::{Domain, Lower, axis, int, pairs, u32s};
use crate::constant;
use crate::program::{Param, Quant, Type};

impl Lower<'_> {
    pub(super) fn reshape(&mut self, node: &Node) -> Outcome<()> {
        let id = self.read(self.input(node, 0)?, Layout::RowMajor)?;
        self.settle(id, self.output(node, 0)?, Layout::RowMajor)
    }

    pub(super) fn transpose(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let rank = self.shape(input)?.len();
        let perm: Vec<usize> = match node.attributes.ints(Attr::Perm) {
            Some(perm) => perm.iter().map(|&axis| axis as usize).collect(),
            None => (0..rank).rev().collect(),
        };
        // between the two orders, names of axes change and nothing moves
        let (want_in, want_out) = super::wants::wants(node, self.infos);
        let order_of = |want| match want {
            layout::plan::Want::Fixed(layout) => layout,
            layout::plan::Want::Planned => Layout::RowMajor,
        };
        let (from, to) = (order_of(want_in), order_of(want_out));
        let id = self.read(input, from)?;
        // place `i` of the result holds the input's axis `perm[axis of i]`
        let places: Vec<usize> = to
            .permutation(rank)
            .into_iter()
            .map(|axis| from.place(perm[axis], rank))
            .collect();
        let id = self.transposed(id, &places);
        self.settle(id, output, to)
    }

    pub(super) fn concat(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let output = self.output(node, 0)?;
        let info = self.info(output)?;
        let axis = axis(node, 0, info.shape.len())?;
        let mut inputs = Vec::new();
        for input in node.inputs.iter().copied().flatten() {
            let domain = if info.ty.is_quantised() {
                Domain::Fixed(info.ty)
            } else {
                Domain::Whole
            };
            let id = self.operand(input, layout, info.shape.len(), domain)?;
            inputs.push(self.converted(id, info.ty, &info.quant));
        }
        let out = self.write(output, layout)?;
        let place = layout.place(axis, info.shape.len()) as u32;
        self.op("Concat", vec![("axis", Param::U32(place))], &inputs, &[out]);
        Ok(())
    }

    pub(super) fn split(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let input = self.input(node, 0)?;
        let shape = self.shape(input)?;
        let axis = axis(node, 0, shape.len())?;
        let from = self.read(input, layout)?;
        let place = layout.place(axis, shape.len());
        let mut indices = Vec::new();
        let mut at = 0;
        let mut outs = Vec::new();
        for (number, output) in node.outputs.iter().copied().enumerate() {
            let Some(output) = output else {
                return Err(Refusal::attribute(format!("output {number} is left out")));
            };
            let shape = self.shape(output)?;
            if number > 0 {
                indices.push(at);
            }
            at += shape[axis];
            let dims = layout.dims(&shape);
            let out = self.native("piece", self.ty_of(from), self.quant_of(from), &dims);
            outs.push((out, output));
        }
        let ids: Vec<usize> = outs.iter().map(|&(out, _)| out).collect();
        if indices.is_empty() {
            return self.settle(from, outs[0].1, layout);
        }
        let params = vec![
            ("axis", Param::U32(place as u32)),
            ("split_index", u32s(&indices)),
        ];
        self.op("Split", params, &[from], &ids);
        for (out, output) in outs {
            self.settle(out, output, layout)?;
        }
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let shape = self.shape(input)?;
        let rank = shape.len();
        let starts = self.constant_ints(self.input(node, 1)?)?;
        let ends = self.constant_ints(self.input(node, 2)?)?;
        let axes = match node.input(3) {
            Some(axes) => self.constant_ints(axes)?,
            None => (0..starts.len() as i64).collect(),
        };
        let steps = match node.input(4) {
            Some(steps) => self.constant_ints(steps)?,
            None => vec![1; starts.len()],
        };
        let axes = polychip_ops::axis::normalise_all(&axes, rank)
            .filter(|axes| {
                axes.len() == starts.len() && ends.len() == axes.len() && steps.len() == axes.len()
            })
            .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of {rank}")))?;
        let mut ranges: Vec<[i32; 3]> = shape.iter().map(|&size| [0, size as i32, 1]).collect();
        for (number, &axis) in axes.iter().enumerate() {
            let size = shape[axis] as i64;
            if steps[number] < 1 {
                return Err(Refusal::attribute(format!("step {}", steps[number])));
            }
            let clamp = |value: i64| {
                let value = if value < 0 {
                    value.saturating_add(size)
                } else {
                    value
                };
                value.clamp(0, size) as i32
            };
            let step = i32::try_from(steps[number].min(size)).unwrap_or(i32::MAX);
            ranges[axis] = [clamp(starts[number]), clamp(ends[number]), step];
        }
        let from = self.read(input, layout)?;
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        let values: Vec<i32> = layout
            .permutation(rank)
            .into_iter()
            .flat_map(|axis| ranges[axis])
            .collect();
        let ranges = Param::I32s {
            dims: vec![rank as u32, 3],
            values,
        };
        self.moved(
            "StridedSlice",
            vec![("ranges", ranges)],
            from,
            &[],
            output,
            layout,
        )
    }

    pub(super) fn pad(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let rank = self.shape(input)?.len();
        let attributes = &node.attributes;
        let scheme = match attributes.str(Attr::Mode).unwrap_or("constant") {
            "constant" => 0,
            "reflect" => 2,
            "edge" => 3,
            other => return Err(Refusal::attribute(format!("mode {other}"))),
        };
        let pads = self.constant_ints(self.input(node, 1)?)?;
        let axes = match node.input(3) {
            Some(axes) => self.constant_ints(axes)?,
            None => (0..rank as i64).collect(),
        };
        let axes = polychip_ops::axis::normalise_all(&axes, rank)
            .filter(|axes| pads.len() == 2 * axes.len())
            .ok_or_else(|| Refusal::attribute(format!("{} pads for axes {axes:?}", pads.len())))?;
        let mut amounts = vec![(0usize, 0usize); rank];
        for (number, &axis) in axes.iter().enumerate() {
            let amount = |pad: i64| {
                usize::try_from(pad).map_err(|_| Refusal::attribute(format!("pad of {pad} elements")))
            };
            amounts[axis] = (amount(pads[number])?, amount(pads[number + axes.len()])?);
        }
        let from = self.read(input, layout)?;
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        if amounts.iter().all(|&amount| amount == (0, 0)) {
            return self.settle(from, output, layout);
        }
        let amounts: Vec<(usize, usize)> = layout
            .permutation(rank)
            .into_iter()
            .map(|axis| amounts[axis])
            .collect();
        let mut params = vec![("scheme", Param::U32(scheme)), ("pad_amount", pairs(&amounts))];
        if scheme == 0 {
            let value = match node.input(2) {
                Some(value) => self.constant_reals(value)?.first().copied().unwrap_or(0.0),
                None => 0.0,
            };
            let value = match domain {
                Domain::Float(_) => Param::F32(value),
                Domain::Fixed(ty) => {
                    let quant = self.quant_of(from);
                    let stored = constant::quantise(ty, &quant, &[value]).unwrap_or_default();
                    let stored = stored.first().copied().unwrap_or(0);
                    // in the input's encoding, of 32 bits whatever the type
                    Param::I32(i32::try_from(stored).unwrap_or(0))
                }
                Domain::Whole => Param::I32(value as i32),
            };
            params.push(("pad_constant_value", value));
        }
        self.moved("Pad", params, from, &[], output, layout)
    }

    pub(super) fn tile(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let (mut from, to) = (self.shape(input)?, self.shape(output)?);
        let mut id = self.read(input, layout)?;
        if from.len() > to.len() || to.is_empty() {
            return self.settle(id, output, layout);
        }
        if from.len() < to.len() {
            while from.len() < to.len() {
                from.insert(0, 1);
            }
            id = self.reshaped(id, &from);
        }
        let rank = to.len();
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        let whole = from.iter().zip(&to).all(|(&from, &to)| to.is_multiple_of(from));
        if !whole {
            return Err(Refusal::shape(format!("{from:?} repeated to {to:?}")));
        }
        let multiples: Vec<usize> = layout
            .permutation(rank)
            .into_iter()
            .map(|axis| to[axis] / from[axis])
            .collect();
        if multiples.iter().all(|&multiple| multiple == 1) {
            return self.settle(id, output, layout);
        }
        let params = vec![("multiples", u32s(&multiples))];
        self.moved("Tile", params, id, &[], output, layout)
    }

    /// Constant indices into axes of `shape`, counted from the front: those from the end are not known to the
    /// library. With tuples, each entry is of its own axis behind `batch`; else all are of `axis`.
    fn indices(
        &mut self,
        indices: TensorIndex,
        shape: &[usize],
        tuples: bool,
        batch: usize,
        axis: usize,
    ) -> Outcome<usize> {
        let of = self.shape(indices)?;
        let mut values = self.constant_ints(indices)?;
        let tuple = of.last().copied().unwrap_or(1).max(1);
        for (number, value) in values.iter_mut().enumerate() {
            let axis = if tuples { batch + number % tuple } else { axis };
            let size = *shape
                .get(axis)
                .ok_or_else(|| Refusal::shape("an index has more entries than the data has axes"))?
                as i64;
            let from_front = if *value < 0 { *value + size } else { *value };
            if !(0..size).contains(&from_front) {
                return Err(Refusal::shape(format!("index {value} of an axis of {size}")));
            }
            *value = from_front;
        }
        let bytes = constant::store(Type::Int32, &values);
        Ok(self.fixed("indices", Type::Int32, Quant::None, &of, bytes))
    }

    pub(super) fn scatter(&mut self, node: &Node) -> Outcome<()> {
        let attributes = &node.attributes;
        let reduction = attributes.str(Attr::Reduction).unwrap_or("none");
        if reduction != "none" {
            return Err(Refusal::attribute(format!("reduction {reduction}")));
        }
        let (data, indices, updates) = (self.input(node, 0)?, self.input(node, 1)?, self.input(node, 2)?);
        let output = self.output(node, 0)?;
        let shape = self.shape(data)?;
        let tuples = node.op == Op::ScatterND;
        let axis = if tuples { 0 } else { axis(node, 0, shape.len())? };
        let places = self.indices(indices, &shape, tuples, 0, axis)?;
        let from = self.read(data, Layout::RowMajor)?;
        let updates = self.read(updates, Layout::RowMajor)?;
        let (ty, quant) = (self.ty_of(from), self.quant_of(from));
        let updates = self.converted(updates, ty, &quant);
        let mut params = vec![("reduction", Param::U32(0))];
        let kind = if tuples {
            "ScatterNd"
        } else {
            params.push(("axis", Param::U32(axis as u32)));
            "ScatterElements"
        };
        self.moved(kind, params, from, &[places, updates], output, Layout::RowMajor)
    }

    pub(super) fn gather(&mut self, node: &Node) -> Outcome<()> {
        let (data, indices) = (self.input(node, 0)?, self.input(node, 1)?);
        let output = self.output(node, 0)?;
        let shape = self.shape(data)?;
        let of = self.shape(indices)?;
        let nd = node.op == Op::GatherND;
        let batch = int(node, Attr::BatchDims, 0).max(0) as usize;
        let axis = if nd { 0 } else { axis(node, 0, shape.len())? };
        let places = self.indices(indices, &shape, nd, batch, axis)?;
        let from = self.read(data, Layout::RowMajor)?;
        let (kind, params, dims) = match node.op {
            Op::Gather => {
                let mut dims = shape.clone();
                let of = if of.is_empty() { vec![1] } else { of.clone() };
                dims.splice(axis..=axis, of);
                ("Gather", vec![("axis", Param::I32(axis as i32))], dims)
            }
            Op::GatherElements => (
                "GatherElements",
                vec![("axis", Param::U32(axis as u32))],
                of.clone(),
            ),
            Op::GatherND => (
                "GatherNd",
                vec![("batch_dims", Param::U32(batch as u32))],
                self.shape(output)?,
            ),
            _ => return Err(Refusal::op(node.op_name.clone())),
        };
        let out = self.native("gathered", self.ty_of(from), self.quant_of(from), &dims);
        self.op(kind, params, &[from, places], &[out]);
        self.settle(out, output, Layout::RowMajor)
    }
}
