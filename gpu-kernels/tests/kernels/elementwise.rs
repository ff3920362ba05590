//! Element-wise chains: every function, type and way of reading operands, and what special values give.

use std::sync::Arc;

use libtest_mimic::Trial;
use polychip_gpu_kernels::{
    Access, Binary, Elementwise, Expression, Generate, Kernel, Limits, Operand, Outcome, Result, Sample,
    Scalar, Type, Unary, Values,
};

use crate::device::Gpu;
use crate::judge::trial;

const UNARY: [Unary; 38] = [
    Unary::Relu,
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Exp,
    Unary::Log,
    Unary::Sqrt,
    Unary::Reciprocal,
    Unary::Erf,
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::HardSwish,
    Unary::Gelu,
    Unary::GeluTanh,
    Unary::Silu,
    Unary::Mish,
    Unary::Softplus,
    Unary::Softsign,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Sin,
    Unary::Cos,
    Unary::Tan,
    Unary::Asin,
    Unary::Acos,
    Unary::Atan,
    Unary::Sinh,
    Unary::Cosh,
    Unary::Asinh,
    Unary::Acosh,
    Unary::Atanh,
    Unary::Not,
    Unary::BitwiseNot,
    Unary::IsNan,
    Unary::IsInf,
    Unary::IsPositiveInf,
    Unary::IsNegativeInf,
];

const BINARY: [Binary; 28] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Min,
    Binary::Max,
    Binary::Pow,
    Binary::Mod,
    Binary::FMod,
    Binary::PRelu,
    Binary::Elu,
    Binary::Celu,
    Binary::ThresholdedRelu,
    Binary::Swish,
    Binary::Equal,
    Binary::Less,
    Binary::LessOrEqual,
    Binary::Greater,
    Binary::GreaterOrEqual,
    Binary::And,
    Binary::Or,
    Binary::Xor,
    Binary::BitwiseAnd,
    Binary::BitwiseOr,
    Binary::BitwiseXor,
    Binary::ShiftLeft,
    Binary::ShiftRight,
    Binary::Add,
];

const SCALARS: [Scalar; 10] = [
    Scalar::F32,
    Scalar::F16,
    Scalar::I32,
    Scalar::U32,
    Scalar::I64,
    Scalar::I16,
    Scalar::U16,
    Scalar::I8,
    Scalar::U8,
    Scalar::Bool,
];

/// All functions of a kind that one type takes, in kernels of a few outcomes each.
fn chains(scalar: Scalar, shape: &[u64], expressions: &[Expression]) -> Vec<Elementwise> {
    let types = [scalar.computed(); 2];
    let outcomes: Vec<Outcome> = expressions
        .iter()
        .filter_map(|expression| {
            let kind = expression.kind(&types).ok()?;
            let scalar = match kind {
                Type::Bool => Scalar::Bool,
                _ => scalar,
            };
            Some(Outcome {
                scalar,
                expression: expression.clone(),
            })
        })
        .collect();
    outcomes
        .chunks(4)
        .map(|outcomes| Elementwise {
            shape: shape.to_vec(),
            operands: vec![Operand::dense(scalar, shape); 2],
            outcomes: outcomes.to_vec(),
        })
        .collect()
}

/// A chain over floats that are no ordinary numbers.
struct Special(Expression, Scalar);

const SPECIAL: [f32; 12] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    -3.0,
    80.0,
    -80.0,
    0.5,
];

impl Special {
    fn chain(&self) -> Elementwise {
        let shape = [12, 12];
        Elementwise {
            shape: shape.to_vec(),
            operands: vec![
                Operand::broadcast(Scalar::F32, &[12, 1], &shape).unwrap(),
                Operand::broadcast(Scalar::F32, &[12], &shape).unwrap(),
            ],
            outcomes: vec![Outcome {
                scalar: self.1,
                expression: self.0.clone(),
            }],
        }
    }
}

impl Generate for Special {
    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.chain().kernel(limits)
    }

    fn sample(&self) -> Sample {
        let mut sample = self.chain().sample();
        let values = SPECIAL.to_vec();
        let pairs = values.iter().flat_map(|a| values.iter().map(move |b| [*a, *b]));
        sample.after[2] = Some(match self.1 {
            Scalar::Bool => Values::U8(
                pairs
                    .map(|pair| {
                        let pair = pair.map(polychip_gpu_kernels::Number::F32);
                        self.0.evaluate(&pair).to_f64() as u8
                    })
                    .collect(),
            ),
            _ => Values::F32(pairs.map(|pair| self.0.value(&pair)).collect()),
        });
        sample.before[0] = Values::F32(values.clone());
        sample.before[1] = Values::F32(values);
        sample
    }
}

pub(crate) fn trials(gpu: &std::result::Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    let x = || Expression::operand(0);
    let y = || Expression::operand(1);
    let unary = UNARY.map(|function| x().unary(function));
    let binary = BINARY.map(|function| x().binary(function, y()));
    for scalar in SCALARS {
        for (family, expressions) in [("unary", &unary[..]), ("binary", &binary[..])] {
            for shape in [&[3u64, 4][..], &[5, 3]] {
                for (number, chain) in chains(scalar, shape, expressions).into_iter().enumerate() {
                    let name = format!("elementwise/{family}/{}/{shape:?}/{number}", scalar.name());
                    trials.push(trial(gpu, name, chain));
                }
            }
        }
        for to in SCALARS {
            let shape = [7];
            let chain = Elementwise {
                shape: shape.to_vec(),
                operands: vec![Operand::dense(scalar, &shape)],
                outcomes: vec![Outcome {
                    scalar: to,
                    expression: x().cast(to),
                }],
            };
            let name = format!("elementwise/cast/{}/{}", scalar.name(), to.name());
            trials.push(trial(gpu, name, chain));
        }
    }
    for function in UNARY {
        let expression = x().unary(function);
        let Ok(kind) = expression.kind(&[Type::F32]) else {
            continue;
        };
        let to = if kind == Type::Bool {
            Scalar::Bool
        } else {
            Scalar::F32
        };
        trials.push(trial(
            gpu,
            format!("elementwise/special/{function:?}"),
            Special(expression, to),
        ));
    }
    for function in BINARY {
        let expression = x().binary(function, y());
        let Ok(kind) = expression.kind(&[Type::F32; 2]) else {
            continue;
        };
        let to = if kind == Type::Bool {
            Scalar::Bool
        } else {
            Scalar::F32
        };
        trials.push(trial(
            gpu,
            format!("elementwise/special/{function:?}"),
            Special(expression, to),
        ));
    }
    let clip = x().clip(Some(0.0), Some(6.0));
    trials.push(trial(gpu, "elementwise/special/clip", Special(clip, Scalar::F32)));
    for (name, expression) in [
        ("square", x().with(Binary::Pow, 2.0)),
        ("cube", x().with(Binary::Pow, 3.0)),
        ("fourth", x().with(Binary::Pow, 4.0)),
        ("root", x().with(Binary::Pow, 0.5)),
        ("leaky", x().leaky_relu(0.1)),
        ("selu", x().selu(1.673_263_2, 1.050_700_9)),
        ("hardsigmoid", x().hard_sigmoid(0.2, 0.5)),
        ("infinite", x().with(Binary::Min, f32::INFINITY)),
        (
            "where",
            x().binary(Binary::Less, y()).select(y(), x().unary(Unary::Neg)),
        ),
    ] {
        let chain = Elementwise::dense(Scalar::F32, &[2, 9], expression);
        trials.push(trial(gpu, format!("elementwise/chain/{name}"), chain));
    }
    let sum = || x().binary(Binary::Add, y()).unary(Unary::Relu);
    for scalar in [Scalar::F32, Scalar::F16, Scalar::I8, Scalar::I16] {
        for (shape, from) in [
            (&[2u64, 3, 4, 8][..], &[8u64][..]),
            (&[2, 3, 4, 8], &[3, 1, 1]),
            (&[2, 3, 4, 8], &[2, 1, 4, 1]),
            (&[2, 3, 5, 7], &[3, 1, 7]),
            (&[2, 3, 5, 7], &[5, 1]),
            (&[1, 1, 17], &[1]),
            (&[1], &[1]),
            (&[1000, 3], &[1000, 1]),
        ] {
            let chain = Elementwise {
                shape: shape.to_vec(),
                operands: vec![
                    Operand::dense(scalar, shape),
                    Operand::broadcast(scalar, from, shape).unwrap().constant(),
                ],
                outcomes: vec![Outcome {
                    scalar,
                    expression: sum().cast(scalar),
                }],
            };
            let name = format!("elementwise/broadcast/{}/{shape:?}/{from:?}", scalar.name());
            trials.push(trial(gpu, name, chain));
        }
        for (strides, offset) in [([1i64, 8], 0u64), ([-8, 2], 56), ([8, -1], 7), ([16, 1], 4)] {
            let shape = [8, 4];
            let chain = Elementwise {
                shape: shape.to_vec(),
                operands: vec![
                    Operand::dense(scalar, &shape),
                    Operand {
                        scalar,
                        access: Access::Read,
                        strides: strides.to_vec(),
                        offset,
                    },
                ],
                outcomes: vec![Outcome {
                    scalar,
                    expression: sum().cast(scalar),
                }],
            };
            let name = format!("elementwise/strided/{}/{strides:?}", scalar.name());
            trials.push(trial(gpu, name, chain));
        }
    }
    trials
}
