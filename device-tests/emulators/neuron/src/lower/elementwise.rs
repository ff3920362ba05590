//! Operations that compute element by element.

use polychip_ops::{Attributes, Op};
use polychip_sys::neuron::bindings as sys;

use super::{Lower, Outcome, is_float, is_quantised};
use crate::model::Operand;

/// Operand types of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Floats,
    Reals,
    /// Floats and plain integers.
    Numbers,
    All,
    Truths,
    /// Anything, with truth values as result.
    Compared,
}

const UNARY: &[(u32, Op, On)] = &[
    (sys::NEURON_ABS, Op::Abs, On::Numbers),
    (sys::NEURON_EXP, Op::Exp, On::Floats),
    (sys::NEURON_FLOOR, Op::Floor, On::Floats),
    (sys::NEURON_NEG, Op::Neg, On::Numbers),
    (sys::NEURON_SQRT, Op::Sqrt, On::Floats),
    (sys::NEURON_RSQRT, Op::Sqrt, On::Floats),
    (sys::NEURON_LOGISTIC, Op::Sigmoid, On::Reals),
    (sys::NEURON_TANH, Op::Tanh, On::Reals),
    (sys::NEURON_HARD_SWISH, Op::HardSwish, On::Reals),
    (sys::NEURON_LOGICAL_NOT, Op::Not, On::Truths),
];

const BINARY: &[(u32, Op, On, bool)] = &[
    (sys::NEURON_ADD, Op::Add, On::All, true),
    (sys::NEURON_SUB, Op::Sub, On::All, true),
    (sys::NEURON_MUL, Op::Mul, On::All, true),
    (sys::NEURON_DIV, Op::Div, On::Floats, true),
    (sys::NEURON_MAXIMUM, Op::Max, On::All, false),
    (sys::NEURON_MINIMUM, Op::Min, On::All, false),
    (sys::NEURON_POW, Op::Pow, On::Floats, false),
    (sys::NEURON_PRELU, Op::PRelu, On::Reals, false),
    (sys::NEURON_EQUAL, Op::Equal, On::Compared, false),
    (sys::NEURON_GREATER, Op::Greater, On::Compared, false),
    (sys::NEURON_GREATER_EQUAL, Op::GreaterOrEqual, On::Compared, false),
    (sys::NEURON_LESS, Op::Less, On::Compared, false),
    (sys::NEURON_LESS_EQUAL, Op::LessOrEqual, On::Compared, false),
    (sys::NEURON_LOGICAL_AND, Op::And, On::Truths, false),
    (sys::NEURON_LOGICAL_OR, Op::Or, On::Truths, false),
];

/// The type of a tensor, symmetric signed bytes as signed bytes.
fn kind(ty: u32) -> u32 {
    match ty {
        sys::NEURON_TENSOR_QUANT8_SYMM => sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED,
        ty => ty,
    }
}

fn takes(on: On, operand: &Operand) -> bool {
    let (float, quantised) = (is_float(operand), is_quantised(operand));
    let whole = operand.ty == sys::NEURON_TENSOR_INT32 && operand.scale == 0.0;
    match on {
        On::Floats => float,
        On::Reals => float || quantised,
        On::Numbers => float || whole,
        On::All | On::Compared => float || quantised || whole,
        On::Truths => operand.ty == sys::NEURON_TENSOR_BOOL8,
    }
}

impl Lower<'_> {
    fn result_of(&self, on: On, place: usize) -> Outcome<()> {
        let (from, to) = (self.operand(place)?, self.out());
        let fits = match on {
            On::Compared => to.ty == sys::NEURON_TENSOR_BOOL8,
            // without a zero point or with one, signed bytes are of one kind
            _ => kind(to.ty) == kind(from.ty),
        };
        if !takes(on, from) || !fits {
            return Err(format!("types {} to {}", from.ty, to.ty));
        }
        Ok(())
    }

    pub(super) fn elementwise(&mut self, code: u32) -> Outcome<()> {
        let activation = match code {
            sys::NEURON_RELU => Some(sys::NEURON_FUSED_RELU),
            sys::NEURON_RELU1 => Some(sys::NEURON_FUSED_RELU1),
            sys::NEURON_RELU6 => Some(sys::NEURON_FUSED_RELU6),
            _ => None,
        };
        if let Some(activation) = activation {
            self.reals(0)?;
            self.alike(0)?;
            self.fits(&self.shape(0)?)?;
            let from = self.value(0)?;
            let result = self.clamped(from, activation)?;
            return self.give(result, 0);
        }
        if let Some(&(_, op, on)) = UNARY.iter().find(|(own, ..)| *own == code) {
            self.result_of(on, 0)?;
            self.fits(&self.shape(0)?)?;
            match op {
                Op::Sigmoid => self.fixed(1.0 / 256.0, 0, -128)?,
                Op::Tanh => self.fixed(1.0 / 128.0, 128, 0)?,
                _ => {}
            }
            let from = self.value(0)?;
            let mut result = self.step(op, Attributes::new(), &[from]);
            if code == sys::NEURON_RSQRT {
                result = self.step(Op::Reciprocal, Attributes::new(), &[result]);
            }
            return self.give(result, 0);
        }
        let Some(&(_, op, on, fuses)) = BINARY.iter().find(|(own, ..)| *own == code) else {
            return Err("not offered".to_owned());
        };
        self.result_of(on, 0)?;
        self.result_of(on, 1)?;
        if kind(self.operand(0)?.ty) != kind(self.operand(1)?.ty) {
            return Err("operands of two types".to_owned());
        }
        let shapes = [self.shape(0)?, self.shape(1)?];
        let wanted =
            broadcast(&shapes[0], &shapes[1]).ok_or_else(|| format!("{shapes:?} do not broadcast"))?;
        self.fits(&wanted)?;
        let inputs = [self.value(0)?, self.value(1)?];
        let mut result = self.step(op, Attributes::new(), &inputs);
        if fuses {
            result = match self.operand(0)?.ty {
                // of plain integers there is nothing to clamp
                sys::NEURON_TENSOR_INT32 if self.int(2)? == 0 => result,
                sys::NEURON_TENSOR_INT32 => return Err("an activation of plain integers".to_owned()),
                _ => self.activated(result, 2)?,
            };
        }
        self.give(result, 0)
    }
}

fn broadcast(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let at = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |place| shape[place])
    };
    (0..rank)
        .map(|axis| match (at(left, axis), at(right, axis)) {
            (a, b) if a == b => Some(a),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}
