//! Comparison ops, tests of one number, and Where.
//!
//! Invariant: results are bool, but for Where, whose result has its choices' type.

use polychip_cpu_kernels::reference::compare::{self as kernel, Comparison};
use polychip_ops::Op;
use polychip_ops::operator::IsInf;

use crate::call::{Call, Outputs, bad, one};
use crate::row::{ANY, BOOL, NUMBERS, Row};
use polychip_ops::DTypes;

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Equal => Row {
            takes: &[ANY],
            run: compare,
        },
        Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => Row {
            takes: &[NUMBERS],
            run: compare,
        },
        Op::IsNaN => Row {
            takes: &[DTypes::ANY_FLOAT],
            run: |c| one(kernel::is_nan(c.input(0)?)),
        },
        Op::IsInf => Row {
            takes: &[DTypes::ANY_FLOAT],
            run: is_inf,
        },
        Op::Where => Row {
            takes: &[BOOL, ANY],
            run: |c| one(kernel::choose(c.input(0)?, c.input(1)?, c.input(2)?)),
        },
        _ => return None,
    })
}

fn compare(c: &Call<'_>) -> Outputs {
    let f = match c.op {
        Op::Equal => Comparison::Equal,
        Op::Less => Comparison::Less,
        Op::LessOrEqual => Comparison::LessOrEqual,
        Op::Greater => Comparison::Greater,
        Op::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return bad("not a comparison"),
    };
    one(kernel::compare(f, c.input(0)?, c.input(1)?))
}

fn is_inf(c: &Call<'_>) -> Outputs {
    let node: IsInf = c.typed()?;
    one(kernel::is_inf(c.input(0)?, node.positive, node.negative))
}
