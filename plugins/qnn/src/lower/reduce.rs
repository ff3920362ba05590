//! Reductions, selections and running sums along axes, and softmax.
//!
//! Invariant: axes are places in memory of the order that the node was planned in.

use polychip_lowering::{Layout, Node, Outcome, Refusal};
use polychip_ops::{Attr, Op};

use super::builder::{Lower, axis, int, u32s};
use crate::program::{Param, Quant, Type};

impl Lower<'_> {
    pub(super) fn softmax(&mut self, node: &Node, _order: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let info = self.info(output)?;
        let rank = info.shape.len();
        let axis = axis(node, -1, rank)?;
        let soft = node.op == Op::Softmax;
        // a quirk of the library: it computes as if the zero point were -128
        if let (true, Type::Sfixed8, Some((_, offset))) = (soft, info.ty, info.quant.per_tensor())
            && offset != 128
        {
            return Err(Refusal::new(
                polychip_sdk::Reason::Quarantined,
                format!(
                    "Softmax of signed 8 bits with zero point {}: the library takes it for -128",
                    -offset
                ),
            ));
        }
        let layout = if axis == 1 && rank >= 3 {
            Layout::ChannelsLast
        } else {
            Layout::RowMajor
        };
        let from = self.read(input, layout)?;
        let place = layout.place(axis, rank);
        // the library computes along the last axis
        let mut swap: Vec<usize> = (0..rank).collect();
        swap.swap(place, rank - 1);
        let from = self.transposed(from, &swap);
        let dims = self.dims_of(from);
        let result = self.native("softmax", info.ty, info.quant, &dims);
        let params = vec![("axis", Param::U32((rank - 1) as u32)), ("beta", Param::F32(1.0))];
        let kind = if soft { "Softmax" } else { "LogSoftmax" };
        self.op(kind, params, &[from], &[result]);
        let back = self.transposed(result, &swap);
        self.settle(back, output, layout)
    }

    /// The axes of a reduction, from the front.
    fn axes(&self, node: &Node, rank: usize) -> Outcome<Vec<usize>> {
        let axes = match node.input(1) {
            Some(axes) => self.constant_ints(axes)?,
            None => Vec::new(),
        };
        if axes.is_empty() {
            if int(node, Attr::NoopWithEmptyAxes, 0) != 0 {
                return Err(Refusal::attribute("noop_with_empty_axes without axes"));
            }
            return Ok((0..rank).collect());
        }
        polychip_ops::axis::normalise_all(&axes, rank)
            .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of {rank}")))
    }

    pub(super) fn reduce(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let shape = self.shape(input)?;
        let rank = shape.len();
        let keep = int(node, Attr::Keepdims, 1) != 0;
        let axes = self.axes(node, rank)?;
        let mut layout = if rank < 3 { Layout::RowMajor } else { layout };
        // without the reduced axes, those left must stand in the order of the result
        let left: Vec<usize> = layout
            .permutation(rank)
            .into_iter()
            .filter(|axis| !axes.contains(axis))
            .collect();
        if !keep && !left.is_sorted() {
            layout = Layout::RowMajor;
        }
        let from = self.read(input, layout)?;
        let mut places: Vec<usize> = axes.iter().map(|&axis| layout.place(axis, rank)).collect();
        places.sort_unstable();
        let params = vec![("axes", u32s(&places)), ("keep_dims", Param::Bool(keep))];
        let (kind, moves) = match node.op {
            Op::ReduceMax => ("ReduceMax", true),
            Op::ReduceMin => ("ReduceMin", true),
            Op::ReduceMean => ("ReduceMean", false),
            Op::ReduceProd => ("ReduceProd", false),
            Op::ReduceSumSquare => ("ReduceSumSquare", false),
            _ => ("ReduceSum", false),
        };
        let to = if keep { layout } else { Layout::RowMajor };
        if moves {
            return self.moved(kind, params, from, &[], output, to);
        }
        let out = self.write(output, to)?;
        self.op(kind, params, &[from], &[out]);
        Ok(())
    }

    pub(super) fn arg(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        if int(node, Attr::SelectLastIndex, 0) != 0 {
            return Err(Refusal::attribute("select_last_index 1"));
        }
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let rank = self.shape(input)?.len();
        let axis = axis(node, 0, rank)?;
        let keep = int(node, Attr::Keepdims, 1) != 0;
        let layout = match (keep, axis) {
            (true, _) => layout,
            // without its channels, an image is the same in both orders
            (false, 1) => Layout::ChannelsLast,
            (false, _) => Layout::RowMajor,
        };
        let from = self.read(input, layout)?;
        let place = layout.place(axis, rank);
        let kind = if node.op == Op::ArgMax { "Argmax" } else { "Argmin" };
        let to = if keep { layout } else { Layout::RowMajor };
        let out = self.write(output, to)?;
        let params = vec![
            ("axis", Param::U32(place as u32)),
            ("keep_dims", Param::Bool(keep)),
        ];
        self.op(kind, params, &[from], &[out]);
        Ok(())
    }

    pub(super) fn top_k(&mut self, node: &Node) -> Outcome<()> {
        let input = self.input(node, 0)?;
        let (values, indices) = (self.output(node, 0)?, self.output(node, 1)?);
        let shape = self.shape(input)?;
        let axis = axis(node, -1, shape.len())?;
        let k = self.constant_ints(self.input(node, 1)?)?;
        let k = k.first().and_then(|&k| u32::try_from(k).ok());
        let k = k.ok_or_else(|| Refusal::attribute("k is no number of elements"))?;
        let from = self.read(input, Layout::RowMajor)?;
        // the library looks along the last axis
        let mut swap: Vec<usize> = (0..shape.len()).collect();
        swap.swap(axis, shape.len() - 1);
        let from = self.transposed(from, &swap);
        let mut dims = self.shape(values)?;
        dims.swap(axis, shape.len() - 1);
        let out = self.native("top", self.ty_of(from), self.quant_of(from), &dims);
        let places = self.native("places", Type::Int32, Quant::None, &dims);
        let largest = int(node, Attr::Largest, 1) != 0;
        let params = vec![("k", Param::U32(k)), ("largest", Param::Bool(largest))];
        self.op("TopK", params, &[from], &[out, places]);
        let (out, places) = (self.transposed(out, &swap), self.transposed(places, &swap));
        self.settle(out, values, Layout::RowMajor)?;
        self.settle(places, indices, Layout::RowMajor)
    }

    /// Division by the length of vectors along an axis.
    pub(super) fn lp_normalise(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let p = int(node, Attr::P, 2);
        if p != 2 {
            return Err(Refusal::attribute(format!("p {p}")));
        }
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let rank = self.shape(input)?.len();
        let axis = axis(node, -1, rank)?;
        let from = self.read(input, layout)?;
        let out = self.write(output, layout)?;
        let params = vec![("axis", Param::U32(layout.place(axis, rank) as u32))];
        self.op("L2Norm", params, &[from], &[out]);
        Ok(())
    }

    pub(super) fn cum_sum(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let rank = self.shape(input)?.len();
        let along = self.constant_ints(self.input(node, 1)?)?;
        let along = along.first().copied().unwrap_or(0);
        let axis = polychip_ops::axis::normalise(along, rank)
            .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of {rank}")))?;
        let from = self.read(input, layout)?;
        let out = self.write(output, layout)?;
        let params = vec![
            ("axis", Param::U32(layout.place(axis, rank) as u32)),
            ("exclusive", Param::Bool(int(node, Attr::Exclusive, 0) != 0)),
            ("reverse", Param::Bool(int(node, Attr::Reverse, 0) != 0)),
        ];
        self.op("CumulativeSum", params, &[from], &[out]);
        Ok(())
    }
}
