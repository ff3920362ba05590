//! Nodes whose elements depend on one element of each input.

use polychip_lowering::{Node, Outcome, Refusal};
use polychip_ops::operator::{Alpha, GeluForm};
use polychip_ops::{DType, Op, Operator};

use super::builder::{Args, Lower};
use crate::program::{Arg, Type, ValueId};

/// Ops that are one operation without parameters.
const fn plain(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Abs => "abs",
        Op::Acos => "acos",
        Op::Asin => "asin",
        Op::Atan => "atan",
        Op::Atanh => "atanh",
        Op::Ceil => "ceil",
        Op::Cos => "cos",
        Op::Cosh => "cosh",
        Op::Erf => "erf",
        Op::Exp => "exp",
        Op::Floor => "floor",
        Op::Relu => "relu",
        Op::Round => "round",
        Op::Sigmoid => "sigmoid",
        Op::Sign => "sign",
        Op::Sin => "sin",
        Op::Sinh => "sinh",
        Op::Softplus => "softplus",
        Op::Softsign => "softsign",
        Op::Sqrt => "sqrt",
        Op::Tan => "tan",
        Op::Tanh => "tanh",
        _ => return None,
    })
}

impl Lower<'_> {
    /// An operation of two operands that broadcast.
    pub(super) fn two(&mut self, kind: &'static str, x: ValueId, y: ValueId) -> Outcome<ValueId> {
        if self.ty_of(x) != self.ty_of(y) {
            return Err(Refusal::dtype(format!("{kind} of two types")));
        }
        let (a, b) = (self.dims_of(x), self.dims_of(y));
        let rank = a.len().max(b.len());
        let at =
            |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
        let joined = |axis| match (at(a, axis), at(b, axis)) {
            (1, dim) | (dim, 1) => Some(dim),
            (one, other) => (one == other).then_some(one),
        };
        let dims: Option<Vec<usize>> = (0..rank).map(joined).collect();
        let dims = dims.ok_or_else(|| Refusal::shape(format!("{kind} of {a:?} and {b:?}")))?;
        let ty = self.ty_of(x);
        Ok(self.op(kind, vec![("x", Arg::Value(x)), ("y", Arg::Value(y))], ty, &dims))
    }

    pub(super) fn binary(&mut self, node: &Node) -> Outcome<()> {
        let kind = match node.op {
            Op::Add | Op::Sum => "add",
            Op::Sub => "sub",
            Op::Mul => "mul",
            Op::Div => "real_div",
            Op::Pow => "pow",
            Op::Max => "maximum",
            _ => "minimum",
        };
        let output = self.output(node)?;
        let whole = !matches!(node.op, Op::Div | Op::Pow);
        let mut made: Option<ValueId> = None;
        for tensor in node.inputs.iter().copied().flatten() {
            if !whole {
                self.floats(tensor)?;
            }
            let id = self.read(tensor)?;
            made = Some(match made {
                Some(before) => self.two(kind, before, id)?,
                None => id,
            });
        }
        let made = made.ok_or_else(|| Refusal::attribute("no inputs"))?;
        self.settle(output, made)
    }

    pub(super) fn cast_node(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let id = self.read(input)?;
        let to = self.ty(output)?;
        let id = self.cast(id, to);
        self.settle(output, id)
    }

    pub(super) fn unary(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let ty = self.floats(input)?;
        let narrowed = ty == Type::F16 && self.view(input).dtype == DType::F32;
        if narrowed && matches!(node.op, Op::Ceil | Op::Floor | Op::Round) {
            let words = format!(
                "{} of f32 in 16 bits, which round to another integer",
                node.op_name
            );
            return Err(Refusal::dtype(words));
        }
        let x = self.read(input)?;
        let real = |value: f32| Arg::Real(ty, value);
        let one = |name, value| vec![(name, real(value))];
        let out = match node.operator()? {
            operator if plain(operator.op()).is_some() => {
                self.like(plain(node.op).unwrap_or("identity"), x, Args::new())
            }
            Operator::Log => self.like("log", x, one("epsilon", 0.0)),
            Operator::LeakyRelu(Alpha { alpha }) => self.like("leaky_relu", x, one("alpha", alpha)),
            Operator::Elu(Alpha { alpha }) => self.like("elu", x, one("alpha", alpha)),
            Operator::Neg => {
                let minus = self.scalar(ty, -1.0);
                self.two("mul", x, minus)?
            }
            Operator::Reciprocal => {
                let one = self.scalar(ty, 1.0);
                self.two("real_div", one, x)?
            }
            Operator::HardSigmoid(sigmoid) => self.like(
                "sigmoid_hard",
                x,
                vec![("alpha", real(sigmoid.alpha)), ("beta", real(sigmoid.beta))],
            ),
            Operator::HardSwish => {
                // x / 6 + 0.5 would be off by a sixth's rounding to 16 bits where the gate closes
                let (three, sixth) = (self.scalar(ty, 3.0), self.scalar(ty, 1.0 / 6.0));
                let shifted = self.two("add", x, three)?;
                let gate = self.like("clip", shifted, vec![("alpha", real(0.0)), ("beta", real(6.0))]);
                let gate = self.two("mul", gate, sixth)?;
                self.two("mul", x, gate)?
            }
            Operator::Swish(Alpha { alpha }) => {
                if alpha == 1.0 {
                    self.like("silu", x, Args::new())
                } else {
                    let alpha = self.scalar(ty, alpha);
                    let scaled = self.two("mul", x, alpha)?;
                    let gate = self.like("sigmoid", scaled, Args::new());
                    self.two("mul", x, gate)?
                }
            }
            Operator::Mish => {
                let soft = self.like("softplus", x, Args::new());
                let gate = self.like("tanh", soft, Args::new());
                self.two("mul", x, gate)?
            }
            Operator::Selu(selu) => {
                let gamma = self.scalar(ty, selu.gamma);
                let elu = self.like("elu", x, one("alpha", selu.alpha));
                self.two("mul", elu, gamma)?
            }
            Operator::Gelu(gelu) => {
                let mode = match gelu.form {
                    GeluForm::Exact => "EXACT",
                    GeluForm::Tanh => "TANH_APPROXIMATION",
                };
                self.like("gelu", x, vec![("mode", Arg::Text(mode))])
            }
            Operator::Clip => self.clip(node, x, ty)?,
            Operator::PRelu => {
                let slope = self.input(node, 1)?;
                let (shape, of) = (self.shape(input)?, self.shape(slope)?);
                let channels = shape.get(1).copied().unwrap_or(0);
                // one slope per channel: [c, 1, 1] beside [n, c, h, w]
                let per_channel = of.len() + 1 == shape.len()
                    && of.first() == Some(&channels)
                    && of[1..].iter().all(|&dim| dim == 1);
                if per_channel && shape.len() == 4 && self.view(slope).is_constant() {
                    let alpha = self.weights(slope, &[channels])?;
                    self.like("prelu", x, vec![("alpha", Arg::Value(alpha))])
                } else {
                    // Core ML has slopes per channel of images only
                    let (zero, slope) = (self.scalar(ty, 0.0), self.read(slope)?);
                    let (above, below) = (self.two("maximum", x, zero)?, self.two("minimum", x, zero)?);
                    let below = self.two("mul", below, slope)?;
                    self.two("add", above, below)?
                }
            }
            _ => return Err(Refusal::op(node.op_name.clone())),
        };
        self.settle(output, out)
    }

    fn clip(&mut self, node: &Node, x: ValueId, ty: Type) -> Outcome<ValueId> {
        let bound = |l: &Self, place| node.input(place).map(|tensor| l.number(tensor)).transpose();
        Ok(match (bound(self, 1)?, bound(self, 2)?) {
            (Some(low), Some(high)) if low <= high => {
                let args = vec![("alpha", Arg::Real(ty, low)), ("beta", Arg::Real(ty, high))];
                self.like("clip", x, args)
            }
            (low, high) => {
                let mut out = x;
                for (kind, bound) in [("maximum", low), ("minimum", high)] {
                    if let Some(bound) = bound {
                        let bound = self.scalar(ty, bound);
                        out = self.two(kind, out, bound)?;
                    }
                }
                out
            }
        })
    }
}
