//! Activation ops.
//!
//! Invariant: attributes come decoded, with the defaults of the op table.

use polychip_cpu_kernels::reference::activation::{self as kernel, Activation};
use polychip_ops::operator::{Alpha, GeluForm};
use polychip_ops::{DType, DTypes, Op, Operator};

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
                    c.typed::<Alpha>()?.alpha.into(),
                ))
            },
        },
        _ => return None,
    })
}

fn activate(c: &Call<'_>) -> Outputs {
    let f = match c.operator()? {
        Operator::Relu => Activation::Relu,
        Operator::LeakyRelu(Alpha { alpha }) => Activation::LeakyRelu { alpha: alpha.into() },
        Operator::ThresholdedRelu(Alpha { alpha }) => Activation::ThresholdedRelu { alpha: alpha.into() },
        Operator::Elu(Alpha { alpha }) => Activation::Elu { alpha: alpha.into() },
        Operator::Celu(Alpha { alpha }) => Activation::Celu { alpha: alpha.into() },
        Operator::Selu(selu) => Activation::Selu {
            alpha: selu.alpha.into(),
            gamma: selu.gamma.into(),
        },
        Operator::Sigmoid => Activation::Sigmoid,
        Operator::HardSigmoid(sigmoid) => Activation::HardSigmoid {
            alpha: sigmoid.alpha.into(),
            beta: sigmoid.beta.into(),
        },
        Operator::HardSwish => Activation::HardSwish,
        Operator::Swish(Alpha { alpha }) => Activation::Swish { alpha: alpha.into() },
        Operator::Mish => Activation::Mish,
        Operator::Softplus => Activation::Softplus,
        Operator::Softsign => Activation::Softsign,
        Operator::Gelu(gelu) => match gelu.form {
            GeluForm::Exact => Activation::Gelu,
            GeluForm::Tanh => Activation::GeluTanh,
        },
        Operator::Shrink(shrink) => Activation::Shrink {
            bias: shrink.bias.into(),
            lambda: shrink.lambda.into(),
        },
        _ => return bad("not an activation"),
    };
    one(kernel::activate(f, c.input(0)?))
}
