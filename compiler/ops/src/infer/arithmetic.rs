//! Shape arithmetic: elementwise ops over small integer tensors that are partly known.
//!
//! Invariants:
//! 1. A number that is given is the number every run computes; overflow and division by zero
//!    give an unknown element.
//! 2. Symbols pass through unchanged or become unknown; no expressions are built.
//!
//! Not here: ops that only move elements; their classes do that.

use crate::infer::call::{Call, make_value};
use crate::{DType, Element, Op, Value};

use Element::{Int, Symbol, Unknown};

/// The value of an elementwise op of rank 0 or 1 from the values of its inputs.
pub(super) fn elementwise(call: &Call<'_>, dtype: DType) -> Option<Value> {
    if !(dtype.is_int() || dtype == DType::Bool) {
        return None;
    }
    let mut inputs = Vec::with_capacity(call.inputs.len());
    let mut rank = 0;
    for index in 0..call.inputs.len() {
        rank = rank.max(call.dims(index)?.len());
        let count = match call.dims(index)? {
            [] => 1,
            [dim] => dim.known()?,
            _ => return None,
        };
        inputs.push((call.elements(index), count));
    }
    let mut count = 1;
    for (_, have) in &inputs {
        match (count, *have) {
            (a, b) if a == b || b == 1 => {}
            (1, b) => count = b,
            _ => return None,
        }
    }
    if count > super::call::MAX_VALUE {
        return None;
    }
    let mut result = Vec::with_capacity(count);
    for place in 0..count {
        let operands: Vec<Element> = inputs
            .iter()
            .map(|(elements, count)| match elements {
                Some(elements) => elements[if *count == 1 { 0 } else { place }].clone(),
                None => Unknown,
            })
            .collect();
        result.push(compute(call.op, &operands)?);
    }
    make_value(dtype, rank, result)
}

/// One element; `None` for an op that shape arithmetic does not know.
fn compute(op: Op, operands: &[Element]) -> Option<Element> {
    let known = |value: Option<i64>| value.map_or(Unknown, Int);
    let truth = |value: bool| Int(i64::from(value));
    Some(match (op, operands) {
        (Op::Neg, [Int(a)]) => known(a.checked_neg()),
        (Op::Abs, [Int(a)]) => known(a.checked_abs()),
        (Op::Sign, [Int(a)]) => Int(a.signum()),
        (Op::Not, [Int(a)]) => truth(*a == 0),
        (Op::Abs, [Symbol(name)]) => Symbol(name.clone()),
        (Op::Add | Op::Sum, operands) => fold(operands, add)?,
        (Op::Mul, operands) => fold(operands, multiply)?,
        (Op::Max, operands) => fold(operands, |a, b| larger(a, b, true))?,
        (Op::Min, operands) => fold(operands, |a, b| larger(a, b, false))?,
        (Op::Sub, [Int(a), Int(b)]) => known(a.checked_sub(*b)),
        (Op::Sub, [a, Int(0)]) => a.clone(),
        (Op::Sub, [Symbol(a), Symbol(b)]) if a == b => Int(0),
        (Op::Div, [Int(a), Int(b)]) => known(a.checked_div(*b)),
        (Op::Div, [a, Int(1)]) => a.clone(),
        (Op::Mod, [Int(a), Int(b)]) if *b > 0 && *a >= 0 => Int(a % b),
        (Op::Mod, [_, Int(1)]) => Int(0),
        (Op::Equal, [a, b]) => match equal(a, b) {
            Some(same) => truth(same),
            None => Unknown,
        },
        (Op::Less, [Int(a), Int(b)]) => truth(a < b),
        (Op::LessOrEqual, [Int(a), Int(b)]) => truth(a <= b),
        (Op::Greater, [Int(a), Int(b)]) => truth(a > b),
        (Op::GreaterOrEqual, [Int(a), Int(b)]) => truth(a >= b),
        (Op::And, [Int(a), Int(b)]) => truth(*a != 0 && *b != 0),
        (Op::Or, [Int(a), Int(b)]) => truth(*a != 0 || *b != 0),
        (Op::Xor, [Int(a), Int(b)]) => truth((*a != 0) != (*b != 0)),
        (Op::Where, [Int(0), _, b]) => b.clone(),
        (Op::Where, [Int(_), a, _]) => a.clone(),
        (Op::Where, [_, a, b]) if a == b => a.clone(),
        (
            Op::Neg
            | Op::Abs
            | Op::Sign
            | Op::Not
            | Op::Sub
            | Op::Div
            | Op::Mod
            | Op::Less
            | Op::LessOrEqual
            | Op::Greater
            | Op::GreaterOrEqual
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Where,
            _,
        ) => Unknown,
        _ => return None,
    })
}

fn fold(operands: &[Element], f: impl Fn(&Element, &Element) -> Element) -> Option<Element> {
    let (first, rest) = operands.split_first()?;
    Some(rest.iter().fold(first.clone(), |a, b| f(&a, b)))
}

pub(super) fn add(a: &Element, b: &Element) -> Element {
    match (a, b) {
        (Int(a), Int(b)) => a.checked_add(*b).map_or(Unknown, Int),
        (other, Int(0)) | (Int(0), other) => other.clone(),
        _ => Unknown,
    }
}

pub(super) fn multiply(a: &Element, b: &Element) -> Element {
    match (a, b) {
        (Int(a), Int(b)) => a.checked_mul(*b).map_or(Unknown, Int),
        (_, Int(0)) | (Int(0), _) => Int(0),
        (other, Int(1)) | (Int(1), other) => other.clone(),
        _ => Unknown,
    }
}

/// The larger or the smaller of two; a symbol is a size, so never below zero.
pub(super) fn larger(a: &Element, b: &Element, largest: bool) -> Element {
    match (a, b) {
        (Int(a), Int(b)) => Int(if largest { *a.max(b) } else { *a.min(b) }),
        (Symbol(a), Symbol(b)) if a == b => Symbol(a.clone()),
        (Symbol(name), Int(number)) | (Int(number), Symbol(name)) if *number <= 0 => {
            if largest {
                Symbol(name.clone())
            } else {
                Int(*number)
            }
        }
        _ => Unknown,
    }
}

/// Whether two elements are equal, where that is certain.
fn equal(a: &Element, b: &Element) -> Option<bool> {
    match (a, b) {
        (Int(a), Int(b)) => Some(a == b),
        (Symbol(a), Symbol(b)) if a == b => Some(true),
        (Symbol(_), Int(number)) | (Int(number), Symbol(_)) if *number < 0 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compute_and_symbols_pass() {
        let n = || Symbol("n".into());
        let of = |op, operands: &[Element]| compute(op, operands).unwrap();
        assert_eq!(of(Op::Add, &[Int(2), Int(3)]), Int(5));
        assert_eq!(of(Op::Add, &[n(), Int(0)]), n());
        assert_eq!(of(Op::Mul, &[Int(1), n()]), n());
        assert_eq!(of(Op::Mul, &[Int(0), Unknown]), Int(0));
        assert_eq!(of(Op::Mul, &[Int(2), n()]), Unknown);
        assert_eq!(of(Op::Div, &[Int(-7), Int(2)]), Int(-3));
        assert_eq!(of(Op::Div, &[Int(7), Int(0)]), Unknown);
        assert_eq!(of(Op::Sub, &[n(), n()]), Int(0));
        assert_eq!(of(Op::Equal, &[n(), Int(-1)]), Int(0));
        assert_eq!(of(Op::Equal, &[n(), Int(1)]), Unknown);
        assert_eq!(of(Op::Where, &[Int(0), Int(5), n()]), n());
        assert_eq!(of(Op::Max, &[n(), Int(0)]), n());
        assert_eq!(of(Op::Add, &[Int(i64::MAX), Int(1)]), Unknown);
        assert_eq!(compute(Op::Sin, &[Int(1)]), None);
    }
}
