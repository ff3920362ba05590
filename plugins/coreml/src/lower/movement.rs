//! Nodes that only move elements.

use polychip_lowering::{Node, Outcome, Refusal};
use polychip_ops::operator::{Along, Pad, PadMode, Split, Transpose};

use super::builder::{Lower, ints, place};
use crate::program::{Arg, Type};

impl Lower<'_> {
    /// The same elements with the extents of the result.
    pub(super) fn pass(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let id = self.read(input)?;
        self.settle(output, id)
    }

    pub(super) fn transpose(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let x = self.read(input)?;
        let rank = self.dims_of(x).len();
        let perm: Vec<usize> = match node.typed::<Transpose>()?.perm {
            Some(perm) if perm.len() == rank => perm.iter().map(|&axis| axis as usize).collect(),
            _ => (0..rank).rev().collect(),
        };
        let dims: Vec<usize> = perm.iter().map(|&axis| self.dims_of(x)[axis]).collect();
        let args = vec![("x", Arg::Value(x)), ("perm", Arg::Ints(ints(&perm)))];
        let ty = self.ty_of(x);
        let out = self.op("transpose", args, ty, &dims);
        self.settle(output, out)
    }

    pub(super) fn concat(&mut self, node: &Node) -> Outcome<()> {
        let output = self.output(node)?;
        let dims = self.dims(output)?;
        let axis = place(node.typed::<Along>()?.axis, dims.len())?;
        let mut ids = Vec::new();
        for tensor in node.inputs.iter().copied().flatten() {
            ids.push(self.read(tensor)?);
        }
        let ty = self.ty(output)?;
        if ids.iter().any(|&id| self.ty_of(id) != ty) {
            return Err(Refusal::dtype("pieces of two types"));
        }
        let args = vec![
            ("values", Arg::Values(ids)),
            ("axis", Arg::Int(axis as i32)),
            ("interleave", Arg::Bool(false)),
        ];
        let out = self.op("concat", args, ty, &dims);
        self.settle(output, out)
    }

    pub(super) fn split(&mut self, node: &Node) -> Outcome<()> {
        let input = self.input(node, 0)?;
        let x = self.read(input)?;
        let axis = place(node.typed::<Split>()?.axis, self.dims_of(x).len())?;
        let missing = || Refusal::attribute("a Split with an unused output");
        let outputs: Option<Vec<usize>> = node.outputs.iter().copied().collect();
        let outputs = outputs.ok_or_else(missing)?;
        if let [one] = outputs[..] {
            return self.settle(one, x);
        }
        let pieces: Vec<Vec<usize>> = outputs
            .iter()
            .map(|&output| self.dims(output))
            .collect::<Outcome<_>>()?;
        let sizes: Vec<usize> = pieces.iter().map(|dims| dims[axis]).collect();
        let args = vec![
            ("x", Arg::Value(x)),
            ("split_sizes", Arg::Ints(ints(&sizes))),
            ("axis", Arg::Int(axis as i32)),
        ];
        let ty = self.ty_of(x);
        let made = self.ops("split", args, ty, &pieces);
        for (output, id) in outputs.into_iter().zip(made) {
            self.settle(output, id)?;
        }
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let x = self.read(input)?;
        let dims = self.dims_of(x).to_vec();
        let list = |l: &Self, at: usize| node.input(at).map(|tensor| l.integers(tensor)).transpose();
        let given = || Refusal::attribute("starts or ends are left out");
        let (starts, ends) = (
            list(self, 1)?.ok_or_else(given)?,
            list(self, 2)?.ok_or_else(given)?,
        );
        let axes = list(self, 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = list(self, 4)?.unwrap_or_else(|| vec![1; starts.len()]);
        if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
            return Err(Refusal::attribute("lists of different lengths"));
        }
        let (mut begin, mut end, mut stride) = (vec![0; dims.len()], ints(&dims), vec![1; dims.len()]);
        for (number, &axis) in axes.iter().enumerate() {
            let axis = place(axis, dims.len())?;
            let size = dims[axis] as i64;
            if steps[number] < 1 {
                return Err(Refusal::attribute(format!("step {}", steps[number])));
            }
            let from_front = |value: i64| {
                if value < 0 {
                    value.saturating_add(size)
                } else {
                    value
                }
            };
            begin[axis] = from_front(starts[number]).clamp(0, size) as i32;
            end[axis] = from_front(ends[number]).clamp(0, size) as i32;
            stride[axis] = steps[number].min(size.max(1)) as i32;
        }
        let args = vec![
            ("x", Arg::Value(x)),
            ("begin", Arg::Ints(begin)),
            ("end", Arg::Ints(end)),
            ("stride", Arg::Ints(stride)),
        ];
        let (ty, dims) = (self.ty_of(x), self.dims(output)?);
        let out = self.op("slice_by_index", args, ty, &dims);
        self.settle(output, out)
    }

    pub(super) fn pad(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let ty = self.floats(input)?;
        let x = self.read(input)?;
        let rank = self.dims_of(x).len();
        let pads = self.input(node, 1)?;
        let pads = self.integers(pads)?;
        let axes = match node.input(3) {
            Some(axes) => self.integers(axes)?,
            None => (0..rank as i64).collect(),
        };
        if pads.len() != 2 * axes.len() {
            return Err(Refusal::attribute(format!(
                "{} pads for {} axes",
                pads.len(),
                axes.len()
            )));
        }
        let mut amounts = vec![0i32; 2 * rank];
        for (number, &axis) in axes.iter().enumerate() {
            let axis = place(axis, rank)?;
            for (side, &pad) in [&pads[number], &pads[number + axes.len()]]
                .into_iter()
                .enumerate()
            {
                let words = |_| Refusal::attribute(format!("pad of {pad} elements"));
                amounts[2 * axis + side] = u16::try_from(pad).map_err(words)?.into();
            }
        }
        let mode = match node.typed::<Pad>()?.mode {
            PadMode::Constant => "constant",
            PadMode::Reflect => "reflect",
            PadMode::Edge => "replicate",
            PadMode::Wrap => return Err(Refusal::attribute("mode wrap")),
        };
        if mode != "constant" {
            // other modes pad the last two axes only
            let front = 2 * rank.saturating_sub(2);
            if amounts[..front].iter().any(|&amount| amount != 0) {
                return Err(Refusal::attribute(format!(
                    "mode {mode} of more than the last two axes"
                )));
            }
            amounts.drain(..front);
        }
        let value = match node.input(2) {
            Some(value) if mode == "constant" => self.number(value)?,
            _ => 0.0,
        };
        let args = vec![
            ("x", Arg::Value(x)),
            ("pad", Arg::Ints(amounts)),
            ("mode", Arg::Text(mode)),
            ("constant_val", Arg::Real(ty, value)),
        ];
        let dims = self.dims(output)?;
        let out = self.op("pad", args, ty, &dims);
        self.settle(output, out)
    }

    /// Whole copies along axes, of a tensor or of axes of one element.
    pub(super) fn tile(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let (mut from, to) = (self.dims(input)?, self.dims(output)?);
        while from.len() < to.len() {
            from.insert(0, 1);
        }
        let fits = from.len() == to.len() && from.iter().zip(&to).all(|(&from, &to)| to.is_multiple_of(from));
        if !fits {
            return Err(Refusal::shape(format!("{from:?} repeated to {to:?}")));
        }
        let x = self.read(input)?;
        let x = self.reshaped(x, &from);
        let times: Vec<usize> = from.iter().zip(&to).map(|(&from, &to)| to / from).collect();
        if times.iter().all(|&times| times == 1) {
            return self.settle(output, x);
        }
        let args = vec![("x", Arg::Value(x)), ("reps", Arg::Ints(ints(&times)))];
        let ty = self.ty_of(x);
        let out = self.op("tile", args, ty, &to);
        self.settle(output, out)
    }

    pub(super) fn gather(&mut self, node: &Node) -> Outcome<()> {
        let (data, indices, output) = (self.input(node, 0)?, self.input(node, 1)?, self.output(node)?);
        let x = self.read(data)?;
        let dims = self.dims_of(x).to_vec();
        let axis = place(node.typed::<Along>()?.axis, dims.len())?;
        let size = dims[axis] as i64;
        let mut places = Vec::new();
        for index in self.integers(indices)? {
            let front = if index < 0 { index + size } else { index };
            if !(0..size).contains(&front) {
                return Err(Refusal::shape(format!("index {index} of an axis of {size}")));
            }
            places.push(front as i32);
        }
        let of = self.dims(indices)?;
        let mut result = dims.clone();
        result.splice(axis..=axis, of.iter().copied());
        if result.len() > super::builder::MOST_AXES {
            return Err(Refusal::shape(format!("a result of {result:?}")));
        }
        let indices = self.whole_numbers(&of, &places);
        let args = vec![
            ("x", Arg::Value(x)),
            ("indices", Arg::Value(indices)),
            ("axis", Arg::Int(axis as i32)),
            ("batch_dims", Arg::Int(0)),
            ("validate_indices", Arg::Bool(false)),
        ];
        let ty: Type = self.ty_of(x);
        let out = self.op("gather", args, ty, &result);
        self.settle(output, out)
    }
}
