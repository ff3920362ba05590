//! Between reals and integers: QuantizeLinear, DequantizeLinear, Cast.
//!
//! Invariant: f32 is not quantised, nor cast to integers: the library rounds it to 16 bits first, which moves
//! results by a step. Integers become f32 only where 16-bit accuracy is allowed.

use polychip_ops::{DType, Op};
use polychip_sdk::{NodeView, Reason};

use super::Lower;
use crate::order::Order;
use crate::program::Type;
use crate::refusal::{Lowered, Refusal};

impl Lower<'_> {
    /// QuantizeLinear and DequantizeLinear with one constant scale.
    pub(super) fn border_of_integers(&mut self, node: &NodeView<'_>, order: Order) -> Lowered<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        let (from, to) = (self.info(input)?, self.info(output)?);
        let (fixed, float) = match node.op() {
            Op::QuantizeLinear => (&to, &from),
            _ => (&from, &to),
        };
        if !fixed.ty.is_quantised() || fixed.quant.per_tensor().is_none() || !float.ty.is_float() {
            return Err(Refusal::encoding(format!(
                "{} with scales that are no one constant, or of a type the NPU does not quantise",
                node.op_name()
            )));
        }
        let quantises = node.op() == Op::QuantizeLinear;
        if float.ty == Type::Float32 && (quantises || !self.target.reduced) {
            let what = format!("{} with f32, which the NPU rounds to 16 bits", node.op_name());
            return Err(Refusal::new(Reason::DType, what));
        }
        if self.view(input).is_constant() {
            return Err(Refusal::encoding("a quantisation of a constant"));
        }
        let kind = match node.op() {
            Op::QuantizeLinear => "Quantize",
            _ => "Dequantize",
        };
        let from = self.read(input, order)?;
        let to = self.write(output, order)?;
        self.op(kind, Vec::new(), &[from], &[to]);
        Ok(())
    }

    pub(super) fn cast(&mut self, node: &NodeView<'_>, order: Order) -> Lowered<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node, 0)?);
        for tensor in [input, output] {
            let info = self.info(tensor)?;
            let view = self.view(tensor);
            if info.ty.is_quantised() {
                return Err(Refusal::encoding(format!(
                    "Cast of quantised tensor {}",
                    view.name()
                )));
            }
            if view.dtype() == DType::I64 {
                return Err(Refusal::new(
                    Reason::DType,
                    format!("tensor {} is of i64", view.name()),
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
        let from = self.read(input, order)?;
        let to = self.write(output, order)?;
        self.op("Cast", Vec::new(), &[from], &[to]);
        Ok(())
    }
}
