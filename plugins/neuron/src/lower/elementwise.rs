//! Nodes that compute element by element, with broadcasting.
//!
//! Invariant: where the library fixes the encoding of a result, the node's own is had by a conversion behind.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Attr, Op};
use polychip_sys::neuron::bindings as sys;

use super::builder::{Lower, input, output};
use crate::program::{OperandId, Quant, Type};

type Rule<'a> = fn(&mut Lower<'a>, &Node, Layout) -> Outcome<()>;

/// What a node computes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Floats,
    /// Floats and encoded integers.
    Reals,
    /// Plain integers too.
    Numbers,
    Truths,
}

/// Operations of one operand.
fn unary(op: Op) -> Option<(u32, On)> {
    Some(match op {
        Op::Abs => (sys::NEURON_ABS, On::Floats),
        Op::Exp => (sys::NEURON_EXP, On::Floats),
        Op::Floor => (sys::NEURON_FLOOR, On::Floats),
        Op::Neg => (sys::NEURON_NEG, On::Floats),
        Op::Sqrt => (sys::NEURON_SQRT, On::Floats),
        Op::Relu => (sys::NEURON_RELU, On::Reals),
        Op::Sigmoid => (sys::NEURON_LOGISTIC, On::Reals),
        Op::Tanh => (sys::NEURON_TANH, On::Reals),
        Op::HardSwish => (sys::NEURON_HARD_SWISH, On::Reals),
        Op::Not => (sys::NEURON_LOGICAL_NOT, On::Truths),
        _ => return None,
    })
}

/// Operations of two operands, what they compute on, and whether they say what is done to the result.
fn binary(op: Op) -> Option<(u32, On, bool)> {
    Some(match op {
        Op::Add | Op::Sum => (sys::NEURON_ADD, On::Numbers, true),
        Op::Sub => (sys::NEURON_SUB, On::Numbers, true),
        Op::Mul => (sys::NEURON_MUL, On::Numbers, true),
        // of integers, the library rounds down
        Op::Div => (sys::NEURON_DIV, On::Floats, true),
        Op::Max => (sys::NEURON_MAXIMUM, On::Numbers, false),
        Op::Min => (sys::NEURON_MINIMUM, On::Numbers, false),
        Op::Pow => (sys::NEURON_POW, On::Floats, false),
        Op::PRelu => (sys::NEURON_PRELU, On::Reals, false),
        Op::Equal => (sys::NEURON_EQUAL, On::Numbers, false),
        Op::Greater => (sys::NEURON_GREATER, On::Numbers, false),
        Op::GreaterOrEqual => (sys::NEURON_GREATER_EQUAL, On::Numbers, false),
        Op::Less => (sys::NEURON_LESS, On::Numbers, false),
        Op::LessOrEqual => (sys::NEURON_LESS_EQUAL, On::Numbers, false),
        Op::And => (sys::NEURON_LOGICAL_AND, On::Truths, false),
        Op::Or => (sys::NEURON_LOGICAL_OR, On::Truths, false),
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
        Op::Reciprocal => Lower::reciprocal,
        Op::Where => |l, node, _| l.select(node),
        _ if unary(op).is_some() => Lower::unary,
        _ if binary(op).is_some() => Lower::binary,
        _ => return None,
    })
}

impl Lower<'_> {
    fn takes(&self, on: On, node: &Node) -> Outcome<()> {
        for tensor in node.inputs.iter().copied().flatten() {
            let ty = self.info(tensor)?.ty;
            let fits = match on {
                On::Floats => ty.is_float(),
                On::Reals => ty.is_float() || ty.is_quantised(),
                On::Numbers => ty != Type::Bool,
                On::Truths => ty == Type::Bool,
            };
            if !fits {
                return Err(Refusal::dtype(format!(
                    "{} of {ty:?} ({})",
                    node.op_name,
                    self.view(tensor).name
                )));
            }
        }
        Ok(())
    }

    fn unary(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (code, on) = unary(node.op).ok_or_else(|| Refusal::op(node.op_name.clone()))?;
        self.takes(on, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let to = output(node)?;
        let info = self.info(to)?;
        // the library's own encodings of what lies in [0, 1] and [-1, 1]
        let fixed = match (code, info.ty) {
            (sys::NEURON_LOGISTIC, Type::U8) => Some((1.0 / 256.0, 0)),
            (sys::NEURON_LOGISTIC, Type::S8) => Some((1.0 / 256.0, -128)),
            (sys::NEURON_TANH, Type::U8) => Some((1.0 / 128.0, 128)),
            (sys::NEURON_TANH, Type::S8) => Some((1.0 / 128.0, 0)),
            _ => None,
        };
        let dims = self.dims(from);
        let quant = match fixed {
            Some((scale, zero)) => Quant { scale, zero },
            None if code == sys::NEURON_RELU => self.quant(from),
            None => info.quant,
        };
        let out = self.tensor(self.ty(from), quant, &dims);
        self.op(code, &[from], &[out]);
        self.settle(out, to, layout)
    }

    fn binary(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (code, on, fuses) = binary(node.op).ok_or_else(|| Refusal::op(node.op_name.clone()))?;
        self.takes(on, node)?;
        let to = output(node)?;
        let info = self.info(to)?;
        let rank = info.shape.len();
        let operands: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
        if operands.len() > 2 && info.ty.is_quantised() {
            return Err(Refusal::encoding(
                "sums of more than two: those between have no encoding",
            ));
        }
        let mut left = self.read_as(input(node, 0)?, rank, layout)?;
        if operands.len() == 1 {
            return self.settle(left, to, layout);
        }
        let mut reached = self.shape(operands[0])?.to_vec();
        for (number, &right) in operands.iter().enumerate().skip(1) {
            let (first, last) = (left, number + 1 == operands.len());
            let right_id = self.read_as(right, rank, layout)?;
            if fuses && self.ty(first) == Type::I32 && self.ty(right_id) != Type::I32 {
                return Err(Refusal::dtype(format!("{} of two types", node.op_name)));
            }
            reached = broadcast(&reached, self.shape(right)?);
            let out = if last {
                self.write(to, layout)?
            } else {
                let layout = if rank < 3 || reached.len() != rank {
                    Layout::RowMajor
                } else {
                    layout
                };
                self.tensor(self.ty(first), Quant::default(), &layout.dims(&reached))
            };
            let mut inputs = vec![first, right_id];
            if fuses {
                inputs.push(self.unfused());
            }
            self.op(code, &inputs, &[out]);
            left = out;
        }
        Ok(())
    }

    fn same(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        if let Some(training) = node.input(2)
            && self.part.scalar(training) != Some(0.0)
        {
            return Err(Refusal::attribute("training_mode 1"));
        }
        let from = self.read(input(node, 0)?, layout)?;
        self.settle(from, output(node)?, layout)
    }

    fn clip(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Reals, node)?;
        let bound = |l: &Self, place: usize, none: f32| -> Outcome<f32> {
            match node.input(place) {
                Some(tensor) => Ok(*l.view(tensor).reals()?.first().unwrap_or(&none)),
                None => Ok(none),
            }
        };
        let (low, high) = (bound(self, 1, f32::NEG_INFINITY)?, bound(self, 2, f32::INFINITY)?);
        let from = self.read(input(node, 0)?, layout)?;
        let to = output(node)?;
        let dims = self.dims(from);
        let code = match (low, high) {
            (0.0, 6.0) => Some(sys::NEURON_RELU6),
            (-1.0, 1.0) => Some(sys::NEURON_RELU1),
            (0.0, f32::INFINITY) => Some(sys::NEURON_RELU),
            _ => None,
        };
        if let Some(code) = code {
            let out = self.like(code, from, &dims, &[from]);
            return self.settle(out, to, layout);
        }
        let ty = self.ty(from);
        if !ty.is_float() {
            return Err(Refusal::attribute(format!(
                "Clip of integers to {low} and {high}"
            )));
        }
        let mut at = from;
        for (code, bound) in [(sys::NEURON_MAXIMUM, low), (sys::NEURON_MINIMUM, high)] {
            if bound.is_finite() {
                let bound = self.one(ty, bound, dims.len());
                at = self.like(code, at, &dims, &[at, bound]);
            }
        }
        self.settle(at, to, layout)
    }

    /// A tensor of one element.
    fn one(&mut self, ty: Type, value: f32, rank: usize) -> OperandId {
        let bytes = match ty {
            Type::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        self.fixed(ty, Quant::default(), &vec![1; rank.max(1)], bytes)
    }

    fn leaky_relu(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let alpha = node.attributes.float(Attr::Alpha).unwrap_or(0.01);
        let dims = self.dims(from);
        let alpha = self.one(self.ty(from), alpha, dims.len());
        let out = self.like(sys::NEURON_PRELU, from, &dims, &[from, alpha]);
        self.settle(out, output(node)?, layout)
    }

    /// `max(0, min(1, alpha x + beta))`, an operation each: the library has none for it.
    fn hard_sigmoid(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let alpha = node.attributes.float(Attr::Alpha).unwrap_or(0.2);
        let beta = node.attributes.float(Attr::Beta).unwrap_or(0.5);
        let (ty, dims) = (self.ty(from), self.dims(from));
        let mut at = from;
        for (code, operand) in [(sys::NEURON_MUL, alpha), (sys::NEURON_ADD, beta)] {
            let operand = self.one(ty, operand, dims.len());
            let unfused = self.unfused();
            at = self.like(code, at, &dims, &[at, operand, unfused]);
        }
        for (code, bound) in [(sys::NEURON_MAXIMUM, 0.0), (sys::NEURON_MINIMUM, 1.0)] {
            let bound = self.one(ty, bound, dims.len());
            at = self.like(code, at, &dims, &[at, bound]);
        }
        self.settle(at, output(node)?, layout)
    }

    fn reciprocal(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.takes(On::Floats, node)?;
        let from = self.read(input(node, 0)?, layout)?;
        let dims = self.dims(from);
        let one = self.one(self.ty(from), 1.0, dims.len());
        let unfused = self.unfused();
        let out = self.like(sys::NEURON_DIV, from, &dims, &[one, from, unfused]);
        self.settle(out, output(node)?, layout)
    }

    fn select(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let shape = self.shape(to)?;
        let mut operands = Vec::new();
        for place in 0..3 {
            let tensor = input(node, place)?;
            if self.shape(tensor)? != shape {
                return Err(Refusal::shape(
                    "Where with operands of other shapes than its result",
                ));
            }
            let id = self.read(tensor, Layout::RowMajor)?;
            if place > 0 {
                let info = self.info(to)?;
                operands.push(self.converted(id, info.ty, info.quant)?);
            } else {
                operands.push(id);
            }
        }
        if self.info(to)?.ty == Type::Bool {
            return Err(Refusal::dtype("Where of truth values"));
        }
        let out = self.write(to, Layout::RowMajor)?;
        self.op(sys::NEURON_SELECT, &operands, &[out]);
        Ok(())
    }
}

/// The shape that two shapes broadcast to.
fn broadcast(left: &[usize], right: &[usize]) -> Vec<usize> {
    let rank = left.len().max(right.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(place) => shape[place],
        None => 1,
    };
    let extent = |axis| match (at(left, axis), at(right, axis)) {
        (1, other) | (other, _) => other,
    };
    (0..rank).map(extent).collect()
}
