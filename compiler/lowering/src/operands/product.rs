//! Convolutions and matrix products: by constants as fully connected layers, else as products of two tensors.
//!
//! Invariants:
//! 1. Images are channels last; the axes of filters stand as the chip wants them.
//! 2. Weights of a fully connected layer are `[units, in]`; its input and output have two axes.

use polychip_ops::Op;
use polychip_ops::operator::{Conv, ConvTranspose, Gemm};
use polychip_sdk::{Encoding, Reason};

use super::builder::{Domain, Lower, widened};
use super::image::{place, two};
use super::program::{Kind, OperandId};
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

/// The transposition from ONNX's axes of a filter to a chip's, both as letters.
fn filter(from: &str, to: &str) -> Vec<usize> {
    to.chars().filter_map(|axis| from.find(axis)).collect()
}

impl Lower<'_> {
    pub(super) fn conv(&mut self, node: &Node) -> Outcome<()> {
        let weights = self.input(node, 1)?;
        let encoding = self.view(weights).encoding.as_ref();
        self.conv_of(node, weights, encoding, node.input(2))
    }

    /// A convolution by a filter of this encoding.
    pub(super) fn conv_of(
        &mut self,
        node: &Node,
        weights: TensorIndex,
        encoding: Option<&Encoding>,
        bias: Option<TensorIndex>,
    ) -> Outcome<()> {
        let to = self.output(node)?;
        let (image, shape) = self.image(node)?;
        let image = self.vendor.widened(self, image, self.info(to)?.ty)?;
        let kernel = self.filter_shape(node, weights)?;
        let conv: Conv = node.typed()?;
        let window = conv.window.over(&self.shape(weights)?[2..])?;
        let placed = window.resolve(&shape[2..])?;
        let group = conv.groups.get();
        let depthwise = group == shape[1] && kernel[1] == 1 && group > 1;
        let order = filter("oihw", self.vendor.traits().filters[usize::from(depthwise)]);
        let weights = self.weights(weights, &kernel, &order, 0, self.ty(image), encoding, 1.0)?;
        let mut inputs = vec![image, weights.id];
        inputs.extend(self.bias(bias, kernel[0], image, &weights, 1.0)?);
        let kind = Kind::Conv(place(&window, &placed)?, group, depthwise);
        self.image_result(kind, &inputs, to)
    }

    /// The shape of a filter, one along one axis as one of height 1.
    fn filter_shape(&self, node: &Node, weights: TensorIndex) -> Outcome<[usize; 4]> {
        match *self.shape(weights)? {
            [o, i, w] => Ok([o, i, 1, w]),
            [o, i, h, w] => Ok([o, i, h, w]),
            ref other => Err(Refusal::new(
                Reason::Rank,
                format!("{} with a filter of {} axes", node.op_name, other.len()),
            )),
        }
    }

    pub(super) fn conv_transpose(&mut self, node: &Node) -> Outcome<()> {
        let to = self.output(node)?;
        let (image, shape) = self.image(node)?;
        let image = self.vendor.widened(self, image, self.info(to)?.ty)?;
        let weights = self.input(node, 1)?;
        let kernel = self.filter_shape(node, weights)?;
        let spatial = &self.shape(weights)?[2..];
        let conv: ConvTranspose = node.typed()?;
        let window = conv.window.over(spatial)?;
        let placed = window.resolve(&shape[2..])?;
        let group = conv.groups.get();
        if window.window.dilations.iter().any(|&dilation| dilation != 1) {
            return Err(Refusal::attribute("dilations of a transposed convolution"));
        }
        let encoding = self.view(weights).encoding.as_ref();
        if group > 1 && encoding.is_some_and(|encoding| encoding.scales.len() > 1) {
            return Err(Refusal::encoding(
                "a grouped transposed convolution has one scale per channel of a group",
            ));
        }
        // what the output has beyond stride, kernel and pads
        let mut more = Vec::new();
        for (axis, &extent) in spatial.iter().enumerate() {
            let reach = (shape[2 + axis] - 1) * window.window.strides[axis] + extent;
            let cut = placed.begin[axis] + placed.end[axis];
            let beyond = || {
                Refusal::attribute(format!(
                    "pads of a transposed convolution beyond its reach of {reach}"
                ))
            };
            more.push(
                (self.shape(to)?[2 + axis] + cut)
                    .checked_sub(reach)
                    .ok_or_else(beyond)?,
            );
        }
        let order = filter("iohw", self.vendor.traits().filters[2]);
        let weights = self.weights(weights, &kernel, &order, 1, self.ty(image), encoding, 1.0)?;
        let mut inputs = vec![image, weights.id];
        inputs.extend(self.bias(node.input(2), kernel[1] * group, image, &weights, 1.0)?);
        let kind = Kind::ConvTranspose(place(&window.window, &placed)?, group, two(&more, 0)?);
        self.image_result(kind, &inputs, to)
    }

    /// `[rows, in] × weights`, with a bias.
    pub(super) fn connected(
        &mut self,
        input: OperandId,
        (weights, encoding): (TensorIndex, Option<&Encoding>),
        transposed: bool,
        bias: Option<TensorIndex>,
        (alpha, beta): (f32, f32),
        to: TensorIndex,
    ) -> Outcome<()> {
        let shape = self.shape(weights)?;
        let (order, axis) = if transposed { ([0, 1], 0) } else { ([1, 0], 1) };
        let (units, inner) = (shape[axis], shape[1 - axis]);
        let rows = self.dims(input).iter().product::<usize>() / inner.max(1);
        let input = self.reshaped(input, &[rows, inner]);
        let input = self.vendor.widened(self, input, self.info(to)?.ty)?;
        let weights = self.weights(weights, shape, &order, axis, self.ty(input), encoding, alpha)?;
        let mut inputs = vec![input, weights.id];
        inputs.extend(self.bias(bias, units, input, &weights, beta)?);
        self.result_of(Kind::Connected, &inputs, &[rows, units], to, Layout::RowMajor)
    }

    pub(super) fn gemm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let gemm: Gemm = node.typed()?;
        let (factors, flags) = ((gemm.alpha, gemm.beta), [gemm.trans_a, gemm.trans_b]);
        let sum = node.input(2);
        let (left, right, to) = (self.input(node, 0)?, self.input(node, 1)?, self.output(node)?);
        let units = self.shape(to)?[1];
        // a bias has one element per unit
        let is_bias = |tensor: &TensorIndex| {
            let shape = self.shape(*tensor).unwrap_or_default();
            let row = matches!(*shape, [n] | [1, n] if n == units) || shape.iter().product::<usize>() == 1;
            self.part.is_constant(*tensor) && row
        };
        let bias = sum.filter(is_bias);
        if domain == Domain::Whole {
            return Err(Refusal::dtype("a product of plain integers"));
        }
        if self.part.is_constant(right) && sum == bias && factors.0 > 0.0 {
            let mut input = self.read(left, Layout::RowMajor)?;
            if flags[0] {
                input = self.transposed(input, &[1, 0]);
            }
            let weights = (right, self.view(right).encoding.as_ref());
            return self.connected(input, weights, flags[1], bias, factors, to);
        }
        if factors.0 != 1.0 || (factors.1 != 1.0 && sum.is_some()) {
            let what = format!("factors {factors:?} beside operands that are no constants");
            return Err(Refusal::attribute(what));
        }
        if !matches!(domain, Domain::Float(_)) && sum.is_some() {
            return Err(Refusal::encoding(
                "a sum behind a product of two tensors: the product has no encoding",
            ));
        }
        let a = self.operand_of(left, Layout::RowMajor, 2, domain)?;
        let b = self.operand_of(right, Layout::RowMajor, 2, domain)?;
        let Some(sum) = sum else {
            return self.result(Kind::Product(flags), &[a, b], to, Layout::RowMajor);
        };
        let product = self.like(Kind::Product(flags), &[a, b], self.shape(to)?);
        let sum = self.operand_of(sum, Layout::RowMajor, 2, domain)?;
        self.result(Kind::Binary(Op::Add), &[product, sum], to, Layout::RowMajor)
    }

    pub(super) fn matmul(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        if domain == Domain::Whole {
            return Err(Refusal::dtype("a product of plain integers"));
        }
        let (left, right, to) = (self.input(node, 0)?, self.input(node, 1)?, self.output(node)?);
        let (a, b) = (self.shape(left)?, self.shape(right)?);
        if self.part.is_constant(right) && b.len() == 2 && !self.part.is_constant(left) {
            let input = self.read(left, Layout::RowMajor)?;
            let weights = (right, self.view(right).encoding.as_ref());
            return self.connected(input, weights, false, None, (1.0, 1.0), to);
        }
        let row = Layout::RowMajor;
        let mut left = self.operand_of(left, row, a.len(), domain)?;
        let mut right = self.operand_of(right, row, b.len(), domain)?;
        let mut dims = self.shape(to)?.to_vec();
        if a.len() == 1 {
            left = self.reshaped(left, &widened(a, 2));
            dims.insert(dims.len() - usize::from(b.len() > 1), 1);
        }
        if b.len() == 1 {
            right = self.reshaped(right, &[b[0], 1]);
            dims.push(1);
        }
        self.result_of(Kind::Product([false; 2]), &[left, right], &dims, to, row)
    }
}
