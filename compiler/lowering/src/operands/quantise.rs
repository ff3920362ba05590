//! Between reals and integers: QuantizeLinear, DequantizeLinear, Cast, and ops on integers that name their encodings.

use polychip_ops::{DType, Op};
use polychip_sdk::{Encoding, EncodingKind};

use super::builder::Lower;
use super::info::{kept, named};
use super::program::{Kind, Quant, Type};
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

impl Lower<'_> {
    /// QuantizeLinear and DequantizeLinear with one constant scale.
    pub(super) fn border_of_integers(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let (from, into) = (self.info(tensor)?, self.info(to)?);
        let (fixed, float) = match node.op {
            Op::QuantizeLinear => (into, from),
            _ => (from, into),
        };
        if fixed.quant.per_tensor().is_none() || !float.ty.is_float() || self.part.is_constant(tensor) {
            return Err(Refusal::encoding(format!(
                "{} of a constant, with scales that are no one constant, or of a type the chip does not quantise",
                node.op_name
            )));
        }
        let integers = match node.op {
            Op::QuantizeLinear => to,
            _ => tensor,
        };
        if self.named(node, integers, 1)? != Some((fixed.ty, fixed.quant.clone())) {
            return Err(Refusal::encoding(format!(
                "{} with another encoding than its tensor has elsewhere",
                node.op_name
            )));
        }
        let from = self.read(tensor, order)?;
        self.result(Kind::Convert, &[from], to, order)
    }

    pub(super) fn cast(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        for tensor in [tensor, to] {
            let (info, view) = (self.info(tensor)?, self.view(tensor));
            if info.ty.is_quantised() {
                return Err(Refusal::encoding(format!(
                    "Cast of quantised tensor {}",
                    view.name
                )));
            }
            if view.dtype == DType::I64 {
                return Err(Refusal::dtype(format!("tensor {} is of i64", view.name)));
            }
            if info.ty.is_float() {
                self.vendor.floats(info.ty, &view.name)?;
            }
        }
        let from = self.read(tensor, order)?;
        if self.ty(from) == self.info(to)?.ty {
            return self.settle(from, to, order);
        }
        self.result(Kind::Convert, &[from], to, order)
    }

    /// The type and encoding in which the chip keeps a tensor of integers, by what a node names.
    fn named(&self, node: &Node, tensor: TensorIndex, scale: usize) -> Outcome<Option<(Type, Quant)>> {
        let ty = match self.view(tensor).dtype {
            DType::U8 => Type::Ufixed8,
            _ => self.info(tensor)?.ty,
        };
        let traits = self.vendor.traits();
        Ok(named(self.part, node, ty, scale).map(|(ty, quant)| kept(ty, quant, traits)))
    }

    /// That data and result of a node on plain integers have the encodings that it names.
    fn named_alike(&self, node: &Node) -> Outcome<()> {
        for (tensor, scale) in [(self.input(node, 0)?, 1), (self.output(node)?, 6)] {
            let info = self.info(tensor)?;
            if self.named(node, tensor, scale)? != Some((info.ty, info.quant.clone())) {
                return Err(Refusal::encoding(format!(
                    "tensor {} has another encoding elsewhere, or scales that are no one constant",
                    self.view(tensor).name
                )));
            }
        }
        Ok(())
    }

    /// The encoding that a node on plain integers names for its weights, of which `axis` is the output's.
    fn named_weights(&self, node: &Node, weights: TensorIndex, axis: usize) -> Outcome<Encoding> {
        let scales = self.reals(self.input(node, 4)?)?;
        let zeros = self.ints(self.input(node, 5)?)?;
        let kind = match scales.len() {
            1 => EncodingKind::PerTensor,
            _ => EncodingKind::PerAxis { axis },
        };
        let fits = zeros.len() == scales.len() && [1, self.shape(weights)?[axis]].contains(&scales.len());
        let zeros: Option<Vec<i32>> = zeros.into_iter().map(|zero| i32::try_from(zero).ok()).collect();
        let wrong = || {
            Refusal::encoding(format!(
                "weights {} have {} scales and other zero points",
                self.view(weights).name,
                scales.len()
            ))
        };
        let zero_points = zeros.filter(|_| fits).ok_or_else(wrong)?;
        Ok(Encoding {
            kind,
            scales,
            zero_points,
            real_dtype: DType::F32,
        })
    }

    /// A convolution of integers whose encodings the node names.
    pub(super) fn integer_conv(&mut self, node: &Node) -> Outcome<()> {
        self.named_alike(node)?;
        let filter = self.input(node, 3)?;
        let encoding = self.named_weights(node, filter, 0)?;
        let first = self.program.steps.len();
        self.conv_of(node, filter, Some(&encoding), node.input(8))?;
        self.vendor.unify(self, first)
    }

    /// A product of integers by constant ones whose encodings the node names.
    pub(super) fn integer_matmul(&mut self, node: &Node) -> Outcome<()> {
        self.named_alike(node)?;
        let (left, right) = (self.input(node, 0)?, self.input(node, 3)?);
        if self.rank(right)? != 2 {
            return Err(Refusal::shape("QLinearMatMul by other than a matrix"));
        }
        let encoding = self.named_weights(node, right, 1)?;
        let input = self.read(left, Layout::RowMajor)?;
        let weights = (right, Some(&encoding));
        self.connected(input, weights, false, None, (1.0, 1.0), self.output(node)?)
    }
}
