//! Between reals and integers: QuantizeLinear, DequantizeLinear, Cast.
//!
//! Invariant: f32 is not quantised, nor cast to integers: the library rounds it to 16 bits first, which moves
//! results by a step. Integers become f32 only where 16-bit accuracy is allowed.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{DType, Op};
use polychip_sdk::{Encoding, EncodingKind, Reason};

use super::builder::{Domain, Lower};
use crate::info;
use crate::program::Type;

impl Lower<'_> {
    /// QuantizeLinear and DequantizeLinear with one constant scale.
    pub(super) fn border_of_integers(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let (from, to) = (self.info(input)?, self.info(output)?);
        let (fixed, float) = match node.op {
            Op::QuantizeLinear => (&to, &from),
            _ => (&from, &to),
        };
        if !fixed.ty.is_quantised() || fixed.quant.per_tensor().is_none() || !float.ty.is_float() {
            return Err(Refusal::encoding(format!(
                "{} with scales that are no one constant, or of a type the NPU does not quantise",
                node.op_name
            )));
        }
        let quantises = node.op == Op::QuantizeLinear;
        if float.ty == Type::Float32 && (quantises || !self.target.reduced) {
            let what = format!("{} with f32, which the NPU rounds to 16 bits", node.op_name);
            return Err(Refusal::new(Reason::DType, what));
        }
        if self.view(input).is_constant() {
            return Err(Refusal::encoding("a quantisation of a constant"));
        }
        if info::named(self.part, node, fixed.ty, 1) != Some((fixed.ty, fixed.quant.clone())) {
            return Err(Refusal::encoding(format!(
                "{} with another encoding than its tensor has elsewhere",
                node.op_name
            )));
        }
        let kind = match node.op {
            Op::QuantizeLinear => "Quantize",
            _ => "Dequantize",
        };
        let from = self.read(input, layout)?;
        let to = self.write(output, layout)?;
        self.op(kind, Vec::new(), &[from], &[to]);
        Ok(())
    }

    /// That data and result of a node on plain integers have the encodings that it names; the result's type.
    pub(super) fn named_alike(&self, node: &Node) -> Outcome<Type> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        for (tensor, scale) in [(input, 1), (output, 6)] {
            let info = self.info(tensor)?;
            let named = info::named(self.part, node, info.ty, scale);
            if named.is_none() || named != Some((info.ty, info.quant)) {
                return Err(Refusal::encoding(format!(
                    "tensor {} has another encoding elsewhere, or scales that are no one constant",
                    self.view(tensor).name
                )));
            }
        }
        Ok(self.info(output)?.ty)
    }

    /// The encoding that a node on plain integers names for its weights, of which `axis` is the output's.
    pub(super) fn named_weights(&self, node: &Node, weights: TensorIndex, axis: usize) -> Outcome<Encoding> {
        let scales = self.constant_reals(self.input(node, 4)?)?;
        let zeros = self.constant_ints(self.input(node, 5)?)?;
        let kind = if scales.len() == 1 {
            EncodingKind::PerTensor
        } else {
            EncodingKind::PerAxis { axis }
        };
        let fits = scales.len() == 1 || scales.len() == self.shape(weights)?[axis];
        let zeros: Option<Vec<i32>> = zeros.into_iter().map(|zero| i32::try_from(zero).ok()).collect();
        match zeros.filter(|zeros| fits && (zeros.len() == scales.len())) {
            Some(zero_points) => Ok(Encoding {
                kind,
                scales,
                zero_points,
                real_dtype: DType::F32,
            }),
            None => Err(Refusal::encoding(format!(
                "weights {} have {} scales and other zero points",
                self.view(weights).name,
                scales.len()
            ))),
        }
    }

    /// A convolution of integers whose encodings the node names.
    pub(super) fn integer_conv(&mut self, node: &Node) -> Outcome<()> {
        let ty = self.named_alike(node)?;
        let filter = self.input(node, 3)?;
        let encoding = self.named_weights(node, filter, 0)?;
        let first = self.program.operations.len();
        self.conv_of(node, Domain::Fixed(ty), filter, Some(encoding), node.input(8))?;
        self.unify(first)
    }

    pub(super) fn cast(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        for tensor in [input, output] {
            let info = self.info(tensor)?;
            let view = self.view(tensor);
            if info.ty.is_quantised() {
                return Err(Refusal::encoding(format!(
                    "Cast of quantised tensor {}",
                    view.name
                )));
            }
            if view.dtype == DType::I64 {
                return Err(Refusal::new(
                    Reason::DType,
                    format!("tensor {} is of i64", view.name),
                ));
            }
            if info.ty.is_float() {
                self.floats(tensor, info.ty)?;
            }
        }
        let (from, to) = (self.info(input)?.ty, self.info(output)?.ty);
        if from == Type::Float32 && !to.is_float() {
            return Err(Refusal::new(
                Reason::DType,
                "Cast of f32, which the NPU rounds to 16 bits, to integers",
            ));
        }
        let from = self.read(input, layout)?;
        let to = self.write(output, layout)?;
        self.op("Cast", Vec::new(), &[from], &[to]);
        Ok(())
    }
}
