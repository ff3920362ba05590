//! Nodes that compute element by element, with broadcasting.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Attr, Op};
use polychip_sys::nnrt::bindings as sys;

use super::builder::{Lower, Param, input, of_rank, output};
use crate::program::{TensorId, Type};

type Rule<'a> = fn(&mut Lower<'a>, &Node, Layout) -> Outcome<()>;

/// Operations of one operand of floats.
fn unary(op: Op) -> Option<u32> {
    Some(match op {
        Op::Abs => sys::OH_NN_OPS_ABS,
        Op::Ceil => sys::OH_NN_OPS_CEIL,
        Op::Cos => sys::OH_NN_OPS_COS,
        Op::Erf => sys::OH_NN_OPS_ERF,
        Op::Exp => sys::OH_NN_OPS_EXP,
        Op::Floor => sys::OH_NN_OPS_FLOOR,
        Op::HardSwish => sys::OH_NN_OPS_HSWISH,
        Op::Log => sys::OH_NN_OPS_LOG,
        Op::Neg => sys::OH_NN_OPS_NEG,
        Op::Reciprocal => sys::OH_NN_OPS_RECIPROCAL,
        Op::Relu => sys::OH_NN_OPS_RELU,
        Op::Sigmoid => sys::OH_NN_OPS_SIGMOID,
        Op::Sin => sys::OH_NN_OPS_SIN,
        Op::Sqrt => sys::OH_NN_OPS_SQRT,
        Op::Tanh => sys::OH_NN_OPS_TANH,
        _ => return None,
    })
}

/// An operation of two operands.
struct Binary {
    code: u32,
    /// The role of the parameter that says what is done to the result, where it has one.
    activation: Option<u32>,
    on: On,
}

/// What operands are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Floats,
    Numbers,
    Truths,
}

fn binary(op: Op) -> Option<Binary> {
    let plain = |code, on| Binary {
        code,
        activation: None,
        on,
    };
    let fuses = |code, role, on| Binary {
        activation: Some(role),
        ..plain(code, on)
    };
    Some(match op {
        Op::Add | Op::Sum => fuses(sys::OH_NN_OPS_ADD, sys::OH_NN_ADD_ACTIVATIONTYPE, On::Numbers),
        Op::Sub => fuses(sys::OH_NN_OPS_SUB, sys::OH_NN_SUB_ACTIVATIONTYPE, On::Numbers),
        Op::Mul => fuses(sys::OH_NN_OPS_MUL, sys::OH_NN_MUL_ACTIVATION_TYPE, On::Numbers),
        // how integers are rounded is not said
        Op::Div => fuses(sys::OH_NN_OPS_DIV, sys::OH_NN_DIV_ACTIVATIONTYPE, On::Floats),
        Op::Max => plain(sys::OH_NN_OPS_MAXIMUM, On::Numbers),
        Op::Min => plain(sys::OH_NN_OPS_MINIMUM, On::Numbers),
        Op::Equal => plain(sys::OH_NN_OPS_EQUAL, On::Numbers),
        Op::Greater => plain(sys::OH_NN_OPS_GREATER, On::Numbers),
        Op::GreaterOrEqual => plain(sys::OH_NN_OPS_GREATER_EQUAL, On::Numbers),
        Op::Less => plain(sys::OH_NN_OPS_LESS, On::Numbers),
        Op::LessOrEqual => plain(sys::OH_NN_OPS_LESS_EQUAL, On::Numbers),
        Op::And => plain(sys::OH_NN_OPS_LOGICAL_AND, On::Truths),
        Op::Or => plain(sys::OH_NN_OPS_LOGICAL_OR, On::Truths),
        _ => return None,
    })
}

/// What lowers an op that is computed element by element.
pub(super) fn rule<'a>(op: Op) -> Option<Rule<'a>> {
    Some(match op {
        Op::Identity | Op::Dropout => Lower::same,
        Op::Clip => Lower::clip,
        Op::HardSigmoid => Lower::hard_sigmoid,
        Op::LeakyRelu => Lower::leaky_relu,
        Op::Not => |l, node, layout| l.apply(node, layout, sys::OH_NN_OPS_LOGICAL_NOT, On::Truths),
        Op::Pow => Lower::pow,
        Op::PRelu => Lower::prelu,
        Op::Where => |l, node, _| l.select(node),
        _ if unary(op).is_some() => Lower::unary,
        _ if binary(op).is_some() => Lower::binary,
        _ => return None,
    })
}

impl Lower<'_> {
    fn takes(&self, on: On, node: &Node) -> Outcome<()> {
        for tensor in node.reads() {
            let ty = self.info(tensor)?.ty;
            let fits = match on {
                On::Floats => ty.is_float(),
                On::Numbers => ty != Type::Bool,
                On::Truths => ty == Type::Bool,
            };
            if !fits {
                let what = format!("{} of {ty:?} ({})", node.op_name, self.name(tensor));
                return Err(Refusal::dtype(what));
            }
        }
        Ok(())
    }

    fn apply(&mut self, node: &Node, layout: Layout, code: u32, on: On) -> Outcome<()> {
        self.takes(on, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let dims = self.dims(from);
        let out = self.like(code, from, &dims, &[from], vec![]);
        self.settle(out, output(node)?, layout)
    }

    fn unary(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let code = unary(node.op).ok_or_else(|| Refusal::op(node.op_name.clone()))?;
        self.apply(node, layout, code, On::Floats)
    }

    fn binary(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let Some(Binary { code, activation, on }) = binary(node.op) else {
            return Err(Refusal::op(node.op_name.clone()));
        };
        self.takes(on, node)?;
        let to = output(node)?;
        let rank = self.rank(to)?;
        let operands: Vec<TensorIndex> = node.reads().collect();
        let mut shape = self.shape(input(node, 0)?)?.to_vec();
        let mut left = self.operand(operands[0], rank, layout)?;
        for (number, &right) in operands.iter().enumerate().skip(1) {
            shape = broadcast(&shape, self.shape(right)?);
            let right = self.operand(right, rank, layout)?;
            if self.ty(left) != self.ty(right) {
                return Err(Refusal::dtype(format!("{} of two types", node.op_name)));
            }
            let out = if number + 1 == operands.len() {
                self.write(to, layout)?
            } else {
                // of as many axes as the result where the order is an image's
                let mut wide = vec![1; rank - shape.len()];
                wide.extend_from_slice(&shape);
                let order = of_rank(layout, rank);
                let dims = match order {
                    Layout::ChannelsLast => order.dims(&wide),
                    Layout::RowMajor => shape.clone(),
                };
                self.tensor(self.ty(left), &dims, order)
            };
            let params = activation.map(Param::unfused).into_iter().collect();
            self.op(code, &[left, right], &[out], params);
            left = out;
        }
        if operands.len() == 1 {
            return self.settle(left, to, layout);
        }
        Ok(())
    }

    fn same(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let trains = |tensor| self.part.scalar(tensor) != Some(0.0);
        if node.op == Op::Dropout && node.input(2).is_some_and(trains) {
            return Err(Refusal::attribute("a Dropout that trains"));
        }
        let from = self.read(input(node, 0)?, layout)?;
        self.settle(from, output(node)?, layout)
    }

    /// A bound of a Clip: the constant, or nothing.
    fn bound(&self, node: &Node, place: usize) -> Outcome<Option<f32>> {
        let Some(tensor) = node.input(place) else {
            return Ok(None);
        };
        Ok(self.reals(tensor)?.first().copied())
    }

    fn clip(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let (low, high) = (self.bound(node, 1)?, self.bound(node, 2)?);
        let from = self.read(input(node, 0)?, layout)?;
        let out = self.clipped(from, low, high);
        self.settle(out, output(node)?, layout)
    }

    fn clipped(&mut self, from: TensorId, low: Option<f32>, high: Option<f32>) -> TensorId {
        let dims = self.dims(from);
        match (low, high) {
            (Some(0.0), None) => return self.like(sys::OH_NN_OPS_RELU, from, &dims, &[from], vec![]),
            (Some(0.0), Some(6.0)) => return self.like(sys::OH_NN_OPS_RELU6, from, &dims, &[from], vec![]),
            _ => {}
        }
        // a minimum above the maximum gives the maximum: in this order also where both are given
        let mut at = from;
        for (code, bound) in [(sys::OH_NN_OPS_MAXIMUM, low), (sys::OH_NN_OPS_MINIMUM, high)] {
            if let Some(bound) = bound.filter(|bound| bound.is_finite()) {
                let bound = self.one(self.ty(at), bound);
                at = self.like(code, at, &dims, &[at, bound], vec![]);
            }
        }
        at
    }

    /// A constant of one element.
    fn one(&mut self, ty: Type, value: f32) -> TensorId {
        self.floats(ty, &[value], &[1], &[0])
    }

    fn hard_sigmoid(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let (ty, dims) = (self.ty(from), self.dims(from));
        let factor = self.one(ty, node.attributes.float(Attr::Alpha).unwrap_or(0.2));
        let shift = self.one(ty, node.attributes.float(Attr::Beta).unwrap_or(0.5));
        let params = vec![Param::unfused(sys::OH_NN_MUL_ACTIVATION_TYPE)];
        let scaled = self.like(sys::OH_NN_OPS_MUL, from, &dims, &[from, factor], params);
        let params = vec![Param::unfused(sys::OH_NN_ADD_ACTIVATIONTYPE)];
        let line = self.like(sys::OH_NN_OPS_ADD, from, &dims, &[scaled, shift], params);
        let out = self.clipped(line, Some(0.0), Some(1.0));
        self.settle(out, output(node)?, layout)
    }

    fn leaky_relu(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let dims = self.dims(from);
        let slope = node.attributes.float(Attr::Alpha).unwrap_or(0.01);
        let params = vec![Param::Real(sys::OH_NN_LEAKY_RELU_NEGATIVE_SLOPE, slope)];
        let out = self.like(sys::OH_NN_OPS_LEAKY_RELU, from, &dims, &[from], params);
        self.settle(out, output(node)?, layout)
    }

    /// Powers: the runtime asks for operands of one shape, or one that is a constant of one element.
    fn pow(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let (base, exponent, to) = (input(node, 0)?, input(node, 1)?, output(node)?);
        let single = self.part.is_constant(exponent) && self.shape(exponent)?.iter().all(|&dim| dim == 1);
        if self.shape(base)? != self.shape(to)? || !(single || self.shape(exponent)? == self.shape(to)?) {
            return Err(Refusal::shape("Pow that repeats an operand"));
        }
        if self.info(base)?.ty != self.info(exponent)?.ty {
            return Err(Refusal::dtype("Pow of two types"));
        }
        let base = self.read(base, layout)?;
        let exponent = if single {
            let value = self.reals(exponent)?;
            self.one(self.ty(base), value[0])
        } else {
            self.read(exponent, layout)?
        };
        let dims = self.dims(base);
        let out = self.like(sys::OH_NN_OPS_POW, base, &dims, &[base, exponent], vec![]);
        self.settle(out, to, layout)
    }

    /// A slope for all, or one per channel, which come last.
    fn prelu(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let (tensor, slope, to) = (input(node, 0)?, input(node, 1)?, output(node)?);
        let rank = self.rank(tensor)?;
        let order = of_rank(layout, rank);
        let slopes = self.reals(slope)?;
        let mut wide = vec![1; rank.saturating_sub(self.rank(slope)?)];
        wide.extend_from_slice(self.shape(slope)?);
        let channels = self.shape(tensor)?.get(1).copied().unwrap_or(1);
        let along = |(axis, &dim): (usize, &usize)| dim == 1 || (axis == 1 && dim == channels);
        if rank < 2 || !wide.iter().enumerate().all(along) || wide.len() != rank {
            let what = format!("PRelu with slopes of {:?}", self.shape(slope)?);
            return Err(Refusal::shape(what));
        }
        let from = self.read(tensor, order)?;
        let slopes = self.floats(self.ty(from), &slopes, &[slopes.len()], &[0]);
        let dims = self.dims(from);
        let out = self.like(sys::OH_NN_OPS_PRELU, from, &dims, &[from, slopes], vec![]);
        self.settle(out, to, order)
    }

    fn select(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let mut operands = Vec::new();
        for place in 0..3 {
            let tensor = input(node, place)?;
            if self.shape(tensor)? != self.shape(to)? {
                return Err(Refusal::shape("Where that repeats an operand"));
            }
            operands.push(self.read(tensor, Layout::RowMajor)?);
        }
        if self.ty(operands[1]) != self.info(to)?.ty || self.ty(operands[1]) == Type::Bool {
            return Err(Refusal::dtype("Where of truth values or of two types"));
        }
        let out = self.write(to, Layout::RowMajor)?;
        self.op(sys::OH_NN_OPS_SELECT, &operands, &[out], vec![]);
        Ok(())
    }
}

/// The shape that two shapes broadcast to.
fn broadcast(left: &[usize], right: &[usize]) -> Vec<usize> {
    let rank = left.len().max(right.len());
    let wide = |shape: &[usize]| [vec![1; rank - shape.len()], shape.to_vec()].concat();
    wide(left)
        .into_iter()
        .zip(wide(right))
        .map(|(a, b)| if a == 1 { b } else { a })
        .collect()
}
