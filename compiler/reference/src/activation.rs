//! Activation ops.
//!
//! Invariant: attribute defaults are those of ONNX opset 28.

use polychip_cpu_kernels::reference::activation::{self as kernel, Activation};
use polychip_ops::{Attr, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{FLOATS, NUMBERS, Row};

const RELU: DTypes = FLOATS.with(DTypes::of(&[DType::I8, DType::I16, DType::I32, DType::I64]));

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Relu => Row {
            takes: &[RELU],
            run: activate,
        },
        Op::Shrink => Row {
            takes: &[NUMBERS],
            run: activate,
        },
        Op::LeakyRelu
        | Op::ThresholdedRelu
        | Op::Elu
        | Op::Celu
        | Op::Selu
        | Op::Sigmoid
        | Op::HardSigmoid
        | Op::HardSwish
        | Op::Swish
        | Op::Mish
        | Op::Softplus
        | Op::Softsign
        | Op::Gelu => Row {
            takes: &[FLOATS],
            run: activate,
        },
        Op::PRelu => Row {
            takes: &[NUMBERS],
            run: |c| one(kernel::prelu(c.input(0)?, c.input(1)?)),
        },
        Op::SwiGLU => Row {
            takes: &[FLOATS],
            run: |c| {
                one(kernel::swiglu(
                    c.input(0)?,
                    c.input(1)?,
                    c.float(Attr::Alpha, 1.0),
                ))
            },
        },
        _ => return None,
    })
}

fn activate(c: &Call<'_>) -> Outputs {
    let alpha = |default| c.float(Attr::Alpha, default);
    let f = match c.op {
        Op::Relu => Activation::Relu,
        Op::LeakyRelu => Activation::LeakyRelu { alpha: alpha(0.01) },
        Op::ThresholdedRelu => Activation::ThresholdedRelu { alpha: alpha(1.0) },
        Op::Elu => Activation::Elu { alpha: alpha(1.0) },
        Op::Celu => Activation::Celu { alpha: alpha(1.0) },
        Op::Selu => Activation::Selu {
            alpha: alpha(1.673_263_2),
            gamma: c.float(Attr::Gamma, 1.050_701),
        },
        Op::Sigmoid => Activation::Sigmoid,
        Op::HardSigmoid => Activation::HardSigmoid {
            alpha: alpha(0.2),
            beta: c.float(Attr::Beta, 0.5),
        },
        Op::HardSwish => Activation::HardSwish,
        Op::Swish => Activation::Swish { alpha: alpha(1.0) },
        Op::Mish => Activation::Mish,
        Op::Softplus => Activation::Softplus,
        Op::Softsign => Activation::Softsign,
        Op::Gelu => match c.text(Attr::Approximate, "none") {
            "none" => Activation::Gelu,
            "tanh" => Activation::GeluTanh,
            other => return bad(format!("approximate is {other:?}, not none or tanh")),
        },
        Op::Shrink => Activation::Shrink {
            bias: c.float(Attr::Bias, 0.0),
            lambda: c.float(Attr::Lambd, 0.5),
        },
        _ => return bad("not an activation"),
    };
    one(kernel::activate(f, c.input(0)?))
}
