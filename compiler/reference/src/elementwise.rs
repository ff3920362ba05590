//! Elementwise arithmetic and logic ops.
//!
//! Invariant: rows name exactly the element types that the kernels compute.

use polychip_cpu_kernels::reference::Tensor;
use polychip_cpu_kernels::reference::elementwise::{self as kernel, Binary, Unary};
use polychip_ops::Op;
use polychip_ops::operator::{BitShift, Mod, Shift};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{BOOL, FLOATS, INTS, NUMBERS, NUMBERS_AND_BOOL, Row};

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Abs | Op::Neg | Op::Sign => Row {
            takes: &[NUMBERS],
            run: unary,
        },
        op if unary_of(op).is_some() => Row {
            takes: &[FLOATS],
            run: unary,
        },
        Op::Add | Op::Sub | Op::Mul | Op::Div => Row {
            takes: &[NUMBERS],
            run: binary,
        },
        Op::Mod => Row {
            takes: &[NUMBERS],
            run: modulo,
        },
        Op::Pow => Row {
            takes: &[NUMBERS],
            run: |c| one(kernel::pow(c.input(0)?, c.input(1)?)),
        },
        Op::BitShift => Row {
            takes: &[INTS],
            run: shift,
        },
        Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor => Row {
            takes: &[INTS],
            run: binary,
        },
        Op::And | Op::Or | Op::Xor => Row {
            takes: &[BOOL],
            run: binary,
        },
        Op::BitwiseNot => Row {
            takes: &[INTS],
            run: |c| one(kernel::not(c.input(0)?)),
        },
        Op::Not => Row {
            takes: &[BOOL],
            run: |c| one(kernel::not(c.input(0)?)),
        },
        Op::Max | Op::Min => Row {
            takes: &[NUMBERS_AND_BOOL],
            run: extreme,
        },
        Op::Sum => Row {
            takes: &[FLOATS],
            run: |c| one(kernel::sum(&c.list(0)?, false)),
        },
        Op::Mean => Row {
            takes: &[FLOATS],
            run: |c| one(kernel::sum(&c.list(0)?, true)),
        },
        Op::Clip => Row {
            takes: &[NUMBERS],
            run: |c| one(kernel::clip(c.input(0)?, c.optional(1), c.optional(2))),
        },
        _ => return None,
    })
}

fn unary_of(op: Op) -> Option<Unary> {
    Some(match op {
        Op::Abs => Unary::Abs,
        Op::Acos => Unary::Acos,
        Op::Acosh => Unary::Acosh,
        Op::Asin => Unary::Asin,
        Op::Asinh => Unary::Asinh,
        Op::Atan => Unary::Atan,
        Op::Atanh => Unary::Atanh,
        Op::Ceil => Unary::Ceil,
        Op::Cos => Unary::Cos,
        Op::Cosh => Unary::Cosh,
        Op::Erf => Unary::Erf,
        Op::Exp => Unary::Exp,
        Op::Floor => Unary::Floor,
        Op::Log => Unary::Log,
        Op::Neg => Unary::Neg,
        Op::Reciprocal => Unary::Reciprocal,
        Op::Round => Unary::Round,
        Op::Sign => Unary::Sign,
        Op::Sin => Unary::Sin,
        Op::Sinh => Unary::Sinh,
        Op::Sqrt => Unary::Sqrt,
        Op::Tan => Unary::Tan,
        Op::Tanh => Unary::Tanh,
        _ => return None,
    })
}

fn unary(c: &Call<'_>) -> Outputs {
    match unary_of(c.op) {
        Some(f) => one(kernel::unary(f, c.input(0)?)),
        None => bad("not a unary op"),
    }
}

fn binary(c: &Call<'_>) -> Outputs {
    let f = match c.op {
        Op::Add => Binary::Add,
        Op::Sub => Binary::Sub,
        Op::Mul => Binary::Mul,
        Op::Div => Binary::Div,
        Op::BitwiseAnd => Binary::BitAnd,
        Op::BitwiseOr => Binary::BitOr,
        Op::BitwiseXor => Binary::BitXor,
        Op::And => Binary::And,
        Op::Or => Binary::Or,
        Op::Xor => Binary::Xor,
        _ => return bad("not a binary op"),
    };
    one(kernel::binary(f, c.input(0)?, c.input(1)?))
}

fn modulo(c: &Call<'_>) -> Outputs {
    let f = if c.typed::<Mod>()?.fmod {
        Binary::Fmod
    } else {
        Binary::Mod
    };
    one(kernel::binary(f, c.input(0)?, c.input(1)?))
}

fn shift(c: &Call<'_>) -> Outputs {
    let f = match c.typed::<BitShift>()?.direction {
        Shift::Left => Binary::ShiftLeft,
        Shift::Right => Binary::ShiftRight,
    };
    one(kernel::binary(f, c.input(0)?, c.input(1)?))
}

fn extreme(c: &Call<'_>) -> Outputs {
    let f = if c.op == Op::Max { Binary::Max } else { Binary::Min };
    let inputs = c.list(0)?;
    let Some((first, rest)) = inputs.split_first() else {
        return bad("no inputs");
    };
    let mut out: Tensor = (*first).clone();
    for next in rest {
        out = kernel::binary(f, &out, next)?;
    }
    Ok(vec![out])
}
