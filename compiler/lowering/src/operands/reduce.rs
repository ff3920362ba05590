//! Reductions, selections and running sums along axes, and softmax.

use polychip_ops::Op;
use polychip_ops::operator::{Along, ArgReduce, Cumulative, LpNorm, Reduce, TopK};

use super::builder::{Domain, Lower, axes_of, axis, of_rank};
use super::program::{Kind, OperandId, Quant, Type};
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

impl Lower<'_> {
    pub(super) fn softmax(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let rank = self.rank(tensor)?;
        let axis = axis(node.typed::<Along>()?.axis, rank)?;
        let last = self.vendor.traits().softmax_last;
        let order = match last {
            true if axis == 1 => of_rank(Layout::ChannelsLast, rank),
            true => Layout::RowMajor,
            false => of_rank(order, rank),
        };
        let from = self.read(tensor, order)?;
        let place = order.place(axis, rank);
        if !last || place + 1 == rank {
            return self.computed(Kind::Softmax(node.op, place), node.op, from, to, order);
        }
        let mut swap: Vec<usize> = (0..rank).collect();
        swap.swap(place, rank - 1);
        let from = self.transposed(from, &swap);
        let info = self.info(to)?;
        let out = self.inner("softmax", info.ty, info.quant.clone(), &self.dims(from));
        self.step(Kind::Softmax(node.op, rank - 1), &[from], &[out]);
        let back = self.transposed(out, &swap);
        self.settle(back, to, order)
    }

    /// What a mean is made of, where a chip stores it in its operand's encoding: what was rounded to that would be off in
    /// another one. Reals are not.
    pub(super) fn averaged(&mut self, id: OperandId, to: TensorIndex) -> Outcome<OperandId> {
        let same = self.quant(id) == self.info(to)?.quant;
        if same || !self.vendor.traits().means_keep_encoding || !self.ty(id).is_quantised() {
            return Ok(id);
        }
        Ok(self.converted(id, Type::Float32, &Quant::None))
    }

    pub(super) fn reduce(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let rank = self.rank(tensor)?;
        let attributes: Reduce = node.typed()?;
        let keep = attributes.keepdims;
        let axes = match node.input(1) {
            Some(axes) => self.ints(axes)?,
            None => Vec::new(),
        };
        let none = rank == 0 && !self.vendor.traits().drops_axes;
        if none || axes.is_empty() && attributes.noop_with_empty_axes {
            return Err(Refusal::attribute("a reduction of no axes"));
        }
        let axes = match axes[..] {
            [] => (0..rank).collect(),
            _ => axes_of(&axes, rank)?,
        };
        let mut order = of_rank(order, rank);
        // without the reduced axes, the remaining ones must be in the result's order
        let left = order
            .permutation(rank)
            .into_iter()
            .filter(|axis| !axes.contains(axis));
        if !keep && !left.is_sorted() {
            order = Layout::RowMajor;
        }
        let mut from = self.read(tensor, order)?;
        let moves = match node.op {
            Op::ReduceMax | Op::ReduceMin => true,
            Op::ReduceMean => self.vendor.traits().means_keep_encoding,
            _ if matches!(domain, Domain::Fixed(_)) && !self.vendor.traits().requantises => {
                return Err(Refusal::encoding("sums of integers"));
            }
            _ => false,
        };
        if node.op == Op::ReduceMean {
            from = self.averaged(from, to)?;
        }
        let mut places: Vec<usize> = axes.iter().map(|&axis| order.place(axis, rank)).collect();
        places.sort_unstable();
        // where the chip keeps extents of 1, they go by another shape behind
        let stay = keep || !self.vendor.traits().drops_axes;
        let dims = self.dims(from).into_iter().enumerate();
        let dims: Vec<usize> = dims
            .filter(|(place, _)| stay || !places.contains(place))
            .map(|(place, dim)| if places.contains(&place) { 1 } else { dim })
            .collect();
        let kind = Kind::Reduce(node.op, places, stay);
        let to_order = if keep { order } else { Layout::RowMajor };
        if moves {
            let out = self.like(kind, &[from], &dims);
            self.settle(out, to, to_order)
        } else {
            self.result_of(kind, &[from], &dims, to, to_order)
        }
    }

    pub(super) fn arg(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let arg: ArgReduce = node.typed()?;
        if arg.last {
            return Err(Refusal::attribute("select_last_index 1"));
        }
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let rank = self.rank(tensor)?;
        let axis = axis(arg.axis, rank)?;
        let keep = arg.keepdims;
        let order = match (keep, axis) {
            (true, _) => of_rank(order, rank),
            (false, 1) => of_rank(Layout::ChannelsLast, rank),
            (false, _) => Layout::RowMajor,
        };
        let from = self.read(tensor, order)?;
        let kind = Kind::Arg(node.op, order.place(axis, rank), keep);
        self.result(kind, &[from], to, if keep { order } else { Layout::RowMajor })
    }

    pub(super) fn top_k(&mut self, node: &Node) -> Outcome<()> {
        let (tensor, values, indices) = (
            self.input(node, 0)?,
            self.output_at(node, 0)?,
            self.output_at(node, 1)?,
        );
        let rank = self.rank(tensor)?;
        let top: TopK = node.typed()?;
        let axis = axis(top.axis, rank)?;
        let k = self.ints(self.input(node, 1)?)?;
        let k = k.first().and_then(|&k| u32::try_from(k).ok());
        let k = k.ok_or_else(|| Refusal::attribute("k is no number of elements"))?;
        let from = self.read(tensor, Layout::RowMajor)?;
        // chips look along the last axis
        let mut swap: Vec<usize> = (0..rank).collect();
        swap.swap(axis, rank - 1);
        let from = self.transposed(from, &swap);
        let mut dims = self.shape(values)?.to_vec();
        dims.swap(axis, rank - 1);
        let out = self.inner("top", self.ty(from), self.quant(from), &dims);
        let places = self.inner("places", Type::Int32, Quant::None, &dims);
        let kind = Kind::TopK(k, top.largest);
        self.step(kind, &[from], &[out, places]);
        let (out, places) = (self.transposed(out, &swap), self.transposed(places, &swap));
        self.settle(out, values, Layout::RowMajor)?;
        self.settle(places, indices, Layout::RowMajor)
    }

    /// Division by the length of vectors along an axis.
    pub(super) fn lp_normalise(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let norm: LpNorm = node.typed()?;
        if norm.p != 2 {
            return Err(Refusal::attribute(format!("p {}", norm.p)));
        }
        let tensor = self.input(node, 0)?;
        let rank = self.rank(tensor)?;
        let order = of_rank(order, rank);
        let place = order.place(axis(norm.axis, rank)?, rank);
        let from = self.read(tensor, order)?;
        self.result(Kind::Unit(place), &[from], self.output(node)?, order)
    }

    pub(super) fn cum_sum(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let tensor = self.input(node, 0)?;
        let rank = self.rank(tensor)?;
        let order = of_rank(order, rank);
        let along = self.ints(self.input(node, 1)?)?;
        let axis = axes_of(&along[..along.len().min(1)], rank)?;
        let place = order.place(axis.first().copied().unwrap_or(0), rank);
        let sum: Cumulative = node.typed()?;
        let kind = Kind::CumSum(place, sum.exclusive, sum.reverse);
        let from = self.read(tensor, order)?;
        self.result(kind, &[from], self.output(node)?, order)
    }
}
