//! The function that a node is of each element.
//!
//! Not here: who computes it: a pass of its own (`elementwise`), an epilogue (`fuse`), a table of codes (`int8`).

use polychip_cpu_kernels::Unary;
use polychip_ops::operator::{Alpha, GeluForm, HardSigmoid, Selu, Shrink};
use polychip_ops::{DType, Operator};

use super::encoding::stands_for_f32;
use crate::part::{Node, Part};

/// The function of a node that maps one f32 tensor, where its parameters are constants.
pub(super) fn activation(part: &Part, node: &Node) -> Option<Unary> {
    if !stands_for_f32(part, node.input(0)?) {
        return None;
    }
    Some(match node.operator().ok()? {
        Operator::Abs => Unary::Abs,
        Operator::Neg => Unary::Neg,
        Operator::Relu => Unary::Relu,
        Operator::Clip => {
            let bound = |i: usize, default: f32| match node.input(i) {
                None => Some(default),
                Some(tensor) => part.scalar(tensor).map(|value| value as f32),
            };
            // limits that are left out are the type's last finite numbers
            let end = match part.real(node.input(0)?) {
                DType::F16 => 65504.0,
                DType::BF16 => f32::from_bits(0x7f7f_0000),
                _ => f32::MAX,
            };
            let (low, high) = (bound(1, -end)?, bound(2, end)?);
            if low.is_nan() || high.is_nan() {
                return None;
            }
            Unary::Clip { low, high }
        }
        Operator::LeakyRelu(Alpha { alpha }) => Unary::LeakyRelu { alpha },
        Operator::ThresholdedRelu(Alpha { alpha }) => Unary::ThresholdedRelu { alpha },
        Operator::Exp => Unary::Exp,
        Operator::Log => Unary::Log,
        Operator::Sqrt => Unary::Sqrt,
        Operator::Reciprocal => Unary::Reciprocal,
        Operator::Erf => Unary::Erf,
        Operator::Tanh => Unary::Tanh,
        Operator::Sigmoid => Unary::Sigmoid,
        Operator::Swish(Alpha { alpha }) => Unary::Swish { alpha },
        Operator::Gelu(gelu) => match gelu.form {
            GeluForm::Exact => Unary::Gelu,
            GeluForm::Tanh => Unary::GeluTanh,
        },
        Operator::HardSigmoid(HardSigmoid { alpha, beta }) => Unary::HardSigmoid { alpha, beta },
        Operator::HardSwish => Unary::HardSwish,
        Operator::Elu(Alpha { alpha }) => Unary::Elu { alpha },
        Operator::Selu(Selu { alpha, gamma }) => Unary::Selu { alpha, gamma },
        Operator::Celu(Alpha { alpha }) => Unary::Celu { alpha },
        Operator::Softplus => Unary::Softplus,
        Operator::Softsign => Unary::Softsign,
        Operator::Mish => Unary::Mish,
        Operator::Floor => Unary::Floor,
        Operator::Ceil => Unary::Ceil,
        Operator::Round => Unary::Round,
        Operator::Sign => Unary::Sign,
        Operator::Sin => Unary::Sin,
        Operator::Cos => Unary::Cos,
        Operator::Tan => Unary::Tan,
        Operator::Asin => Unary::Asin,
        Operator::Acos => Unary::Acos,
        Operator::Atan => Unary::Atan,
        Operator::Sinh => Unary::Sinh,
        Operator::Cosh => Unary::Cosh,
        Operator::Asinh => Unary::Asinh,
        Operator::Acosh => Unary::Acosh,
        Operator::Atanh => Unary::Atanh,
        Operator::Shrink(Shrink { bias, lambda }) => Unary::Shrink { bias, lambda },
        _ => return None,
    })
}
