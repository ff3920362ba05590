//! Normalisations and reductions.
//!
//! Invariant: a reduction keeps its axes, each of one element; who wants them gone reshapes.

use polychip_lowering::{Node, Outcome, Refusal, TensorIndex};
use polychip_ops::Op;
use polychip_ops::operator::{Along, BatchNorm, InstanceNorm, Norm, Reduce};

use super::builder::{Args, Lower, ints, place};
use crate::program::{Arg, ValueId};

impl Lower<'_> {
    pub(super) fn reduced(&mut self, kind: &'static str, x: ValueId, axes: &[usize]) -> ValueId {
        let mut dims = self.dims_of(x).to_vec();
        axes.iter().for_each(|&axis| dims[axis] = 1);
        let args = vec![
            ("x", Arg::Value(x)),
            ("axes", Arg::Ints(ints(axes))),
            ("keep_dims", Arg::Bool(true)),
        ];
        let ty = self.ty_of(x);
        self.op(kind, args, ty, &dims)
    }

    pub(super) fn reduce(&mut self, node: &Node) -> Outcome<()> {
        let kind = match node.op {
            Op::ReduceMax => "reduce_max",
            Op::ReduceMin => "reduce_min",
            Op::ReduceMean => "reduce_mean",
            Op::ReduceSum => "reduce_sum",
            Op::ReduceProd => "reduce_prod",
            Op::ReduceSumSquare => "reduce_sum_square",
            Op::ReduceL1 => "reduce_l1_norm",
            Op::ReduceL2 => "reduce_l2_norm",
            Op::ReduceLogSum => "reduce_log_sum",
            _ => "reduce_log_sum_exp",
        };
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        self.floats(input)?;
        let rank = self.dims(input)?.len();
        let axes = match node.input(1) {
            Some(axes) => self.integers(axes)?,
            None => Vec::new(),
        };
        let x = self.read(input)?;
        if axes.is_empty() && node.typed::<Reduce>()?.noop_with_empty_axes {
            return Err(Refusal::attribute("noop_with_empty_axes 1"));
        }
        let mut places: Vec<usize> = axes
            .iter()
            .map(|&axis| place(axis, rank))
            .collect::<Outcome<_>>()?;
        if places.is_empty() {
            places = (0..rank).collect();
        }
        places.sort_unstable();
        places.dedup();
        let out = self.reduced(kind, x, &places);
        self.settle(output, out)
    }

    pub(super) fn softmax(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        self.floats(input)?;
        let axis = place(node.typed::<Along>()?.axis, self.dims(input)?.len())?;
        let x = self.read(input)?;
        let out = if node.op == Op::Softmax {
            self.like("softmax", x, vec![("axis", Arg::Int(axis as i32))])
        } else {
            // the largest goes first: x − ln Σ exp x of 16-bit floats loses what large ones differ by
            let largest = self.reduced("reduce_max", x, &[axis]);
            let below = self.two("sub", x, largest)?;
            let sum = self.reduced("reduce_log_sum_exp", below, &[axis]);
            self.two("sub", below, sum)?
        };
        self.settle(output, out)
    }

    /// A learned factor or shift of `dims`, constant.
    fn learned(&mut self, tensor: TensorIndex, dims: &[usize]) -> Outcome<Arg> {
        let elements: usize = dims.iter().product();
        if self.view(tensor).elements() != Some(elements) {
            let (name, shape) = (&self.view(tensor).name, self.shape(tensor)?);
            return Err(Refusal::shape(format!(
                "tensor {name} of {shape:?} where {dims:?} are normalised"
            )));
        }
        Ok(Arg::Value(self.weights(tensor, dims)?))
    }

    pub(super) fn layer_norm(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let ty = self.floats(input)?;
        let dims = self.dims(input)?;
        let norm: Norm = node.typed()?;
        let axis = place(norm.axis, dims.len())?;
        let x = self.read(input)?;
        let axes: Vec<usize> = (axis..dims.len()).collect();
        let mut args: Args = vec![("axes", Arg::Ints(ints(&axes)))];
        for (name, place) in [("gamma", 1), ("beta", 2)] {
            if let Some(tensor) = node.input(place) {
                args.push((name, self.learned(tensor, &dims[axis..])?));
            }
        }
        args.push(("epsilon", Arg::Real(ty, norm.epsilon)));
        let out = self.like("layer_norm", x, args);
        self.settle(output, out)
    }

    pub(super) fn rms_norm(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let ty = self.floats(input)?;
        let dims = self.dims(input)?;
        let norm: Norm = node.typed()?;
        let axis = place(norm.axis, dims.len())?;
        let axes: Vec<usize> = (axis..dims.len()).collect();
        let x = self.read(input)?;
        let square = self.two("mul", x, x)?;
        let mean = self.reduced("reduce_mean", square, &axes);
        let epsilon = self.scalar(ty, norm.epsilon);
        let sum = self.two("add", mean, epsilon)?;
        let root = self.like("sqrt", sum, Args::new());
        let normal = self.two("real_div", x, root)?;
        let scale = self.input(node, 1)?;
        let scale = self.read(scale)?;
        let out = self.two("mul", normal, scale)?;
        self.settle(output, out)
    }

    pub(super) fn instance_norm(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let ty = self.floats(input)?;
        let dims = self.dims(input)?;
        if !(3..=4).contains(&dims.len()) {
            return Err(Refusal::shape(format!("an image of {dims:?}")));
        }
        let x = self.read(input)?;
        let (scale, shift) = (self.input(node, 1)?, self.input(node, 2)?);
        let args = vec![
            ("gamma", self.learned(scale, &dims[1..2])?),
            ("beta", self.learned(shift, &dims[1..2])?),
            ("epsilon", Arg::Real(ty, node.typed::<InstanceNorm>()?.epsilon)),
        ];
        let out = self.like("instance_norm", x, args);
        self.settle(output, out)
    }

    pub(super) fn batch_norm(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let ty = self.floats(input)?;
        let dims = self.dims(input)?;
        let norm: BatchNorm = node.typed()?;
        if !(3..=5).contains(&dims.len()) || norm.training {
            return Err(Refusal::shape(format!("an image of {dims:?}, or in training")));
        }
        let x = self.read(input)?;
        let mut args = Args::new();
        for (name, place) in [("mean", 3), ("variance", 4), ("gamma", 1), ("beta", 2)] {
            let tensor = self.input(node, place)?;
            args.push((name, self.learned(tensor, &dims[1..2])?));
        }
        args.push(("epsilon", Arg::Real(ty, norm.epsilon)));
        let out = self.like("batch_norm", x, args);
        self.settle(output, out)
    }
}
