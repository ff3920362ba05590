//! The function that a node is of each element.
//!
//! Not here: who computes it: a pass of its own (`elementwise`), an epilogue (`fuse`), a table of codes (`int8`).

use polychip_cpu_kernels::Unary;
use polychip_ops::{Attr, DType, Op};

use super::encoding::stands_for_f32;
use crate::part::{Node, Part};

/// The function of a node that maps one f32 tensor, where its parameters are constants.
pub(super) fn activation(part: &Part, node: &Node) -> Option<Unary> {
    let alpha = |default: f32| node.attributes.float(Attr::Alpha).unwrap_or(default);
    if !stands_for_f32(part, node.input(0)?) {
        return None;
    }
    Some(match node.op {
        Op::Abs => Unary::Abs,
        Op::Neg => Unary::Neg,
        Op::Relu => Unary::Relu,
        Op::Clip => {
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
        Op::LeakyRelu => Unary::LeakyRelu { alpha: alpha(0.01) },
        Op::ThresholdedRelu => Unary::ThresholdedRelu { alpha: alpha(1.0) },
        Op::Exp => Unary::Exp,
        Op::Log => Unary::Log,
        Op::Sqrt => Unary::Sqrt,
        Op::Reciprocal => Unary::Reciprocal,
        Op::Erf => Unary::Erf,
        Op::Tanh => Unary::Tanh,
        Op::Sigmoid => Unary::Sigmoid,
        Op::Swish => Unary::Swish { alpha: alpha(1.0) },
        Op::Gelu => match node.attributes.str(Attr::Approximate).unwrap_or("none") {
            "none" => Unary::Gelu,
            "tanh" => Unary::GeluTanh,
            _ => return None,
        },
        Op::HardSigmoid => Unary::HardSigmoid {
            alpha: alpha(0.2),
            beta: node.attributes.float(Attr::Beta).unwrap_or(0.5),
        },
        Op::HardSwish => Unary::HardSwish,
        Op::Elu => Unary::Elu { alpha: alpha(1.0) },
        Op::Selu => Unary::Selu {
            alpha: alpha(1.673_263_2),
            gamma: node.attributes.float(Attr::Gamma).unwrap_or(1.050_701),
        },
        Op::Celu => Unary::Celu { alpha: alpha(1.0) },
        Op::Softplus => Unary::Softplus,
        Op::Softsign => Unary::Softsign,
        Op::Mish => Unary::Mish,
        Op::Floor => Unary::Floor,
        Op::Ceil => Unary::Ceil,
        Op::Round => Unary::Round,
        Op::Sign => Unary::Sign,
        Op::Sin => Unary::Sin,
        Op::Cos => Unary::Cos,
        Op::Tan => Unary::Tan,
        Op::Asin => Unary::Asin,
        Op::Acos => Unary::Acos,
        Op::Atan => Unary::Atan,
        Op::Sinh => Unary::Sinh,
        Op::Cosh => Unary::Cosh,
        Op::Asinh => Unary::Asinh,
        Op::Acosh => Unary::Acosh,
        Op::Atanh => Unary::Atanh,
        Op::Shrink => Unary::Shrink {
            bias: node.attributes.float(Attr::Bias).unwrap_or(0.0),
            lambda: node.attributes.float(Attr::Lambd).unwrap_or(0.5),
        },
        _ => return None,
    })
}
