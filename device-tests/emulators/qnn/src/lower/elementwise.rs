//! Elementwise arithmetic, comparisons and logic, by their own names and by the `operation` of the joint ops.
//!
//! Invariant: a joint op and the op of its own name have the same recipe.

use polychip_ops::Op;

use crate::recipe::{Recipe, Value};
use crate::view::{Refusal, View};

const A: Value = Value::Input(0);
const B: Value = Value::Input(1);

/// `operation` of `ElementWiseBinary`, in order.
const BINARY: [&str; 20] = [
    "Add",
    "And",
    "Divide",
    "Equal",
    "FloorDiv",
    "Fmod",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "Maximum",
    "Minimum",
    "Mod",
    "Multiply",
    "NotEqual",
    "Or",
    "Power",
    "SquaredDifference",
    "Subtract",
    "Xor",
];

/// `operation` of `ElementWiseUnary`, in order.
const UNARY: [&str; 16] = [
    "Abs",
    "Asin",
    "Atan",
    "Ceil",
    "Cos",
    "Exp",
    "Floor",
    "Log",
    "Neg",
    "Not",
    "Reciprocal",
    "Round",
    "Rsqrt",
    "Sign",
    "Sin",
    "SquareRoot",
];

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    let name = view.op.strip_prefix("ElementWise")?;
    let joint = |names: &[&'static str]| -> Result<&'static str, Refusal> {
        let operation = view.required("operation")?;
        match usize::try_from(operation).ok().and_then(|i| names.get(i)) {
            Some(name) => Ok(name),
            None => Refusal::rule(format!("{}: operation is {operation}", view.op)),
        }
    };
    match name {
        "Binary" => Some(joint(&BINARY).and_then(|name| match binary(name) {
            Some(recipe) => view.input(1).map(|_| recipe),
            None => Err(Refusal::Unknown),
        })),
        "Unary" => Some(joint(&UNARY).and_then(|name| unary(name).ok_or(Refusal::Unknown))),
        "Select" => {
            let mut r = Recipe::default();
            let y = r.plain(Op::Where, &[A, B, Value::Input(2)]);
            Some(view.input(2).map(|_| r.gives(&[y])))
        }
        _ => match binary(name) {
            Some(recipe) => Some(view.input(1).map(|_| recipe)),
            None => unary(name).map(Ok),
        },
    }
}

/// The name of the operation that a node computes, joint or not.
pub(crate) fn operation(view: &View<'_>) -> Option<&'static str> {
    let name = view.op.strip_prefix("ElementWise")?;
    let index = || usize::try_from(view.int("operation", -1).ok()?).ok();
    match name {
        "Binary" => BINARY.get(index()?).copied(),
        "Unary" => UNARY.get(index()?).copied(),
        _ => BINARY.iter().chain(&UNARY).find(|known| **known == name).copied(),
    }
}

fn binary(name: &str) -> Option<Recipe> {
    let mut r = Recipe::default();
    let op = match name {
        "Add" => Op::Add,
        "And" => Op::And,
        "Divide" => Op::Div,
        "Equal" => Op::Equal,
        "Greater" => Op::Greater,
        "GreaterEqual" => Op::GreaterOrEqual,
        "Less" => Op::Less,
        "LessEqual" => Op::LessOrEqual,
        "Maximum" => Op::Max,
        "Minimum" => Op::Min,
        "Multiply" => Op::Mul,
        "Or" => Op::Or,
        "Power" => Op::Pow,
        "Subtract" => Op::Sub,
        "Xor" => Op::Xor,
        "NotEqual" => {
            let equal = r.plain(Op::Equal, &[A, B]);
            let y = r.plain(Op::Not, &[equal]);
            return Some(r.gives(&[y]));
        }
        "FloorDiv" => {
            let ratio = r.plain(Op::Div, &[A, B]);
            let y = r.plain(Op::Floor, &[ratio]);
            return Some(r.gives(&[y]));
        }
        // a - b * floor(a / b), and with truncation for Fmod: written out, for Mod of ONNX is of integers
        "Mod" | "Fmod" => {
            let ratio = r.plain(Op::Div, &[A, B]);
            let whole = match name {
                "Mod" => r.plain(Op::Floor, &[ratio]),
                _ => {
                    let (sign, size) = (r.plain(Op::Sign, &[ratio]), r.plain(Op::Abs, &[ratio]));
                    let size = r.plain(Op::Floor, &[size]);
                    r.plain(Op::Mul, &[sign, size])
                }
            };
            let back = r.plain(Op::Mul, &[whole, B]);
            let y = r.plain(Op::Sub, &[A, back]);
            return Some(r.gives(&[y]));
        }
        "SquaredDifference" => {
            let difference = r.plain(Op::Sub, &[A, B]);
            let y = r.plain(Op::Mul, &[difference, difference]);
            return Some(r.gives(&[y]));
        }
        _ => return None,
    };
    let y = r.plain(op, &[A, B]);
    Some(r.gives(&[y]))
}

fn unary(name: &str) -> Option<Recipe> {
    let mut r = Recipe::default();
    let op = match name {
        "Abs" => Op::Abs,
        "Asin" => Op::Asin,
        "Atan" => Op::Atan,
        "Ceil" => Op::Ceil,
        "Cos" => Op::Cos,
        "Exp" => Op::Exp,
        "Floor" => Op::Floor,
        "Log" => Op::Log,
        "Neg" => Op::Neg,
        "Not" => Op::Not,
        "Reciprocal" => Op::Reciprocal,
        "Round" => Op::Round,
        "Sign" => Op::Sign,
        "Sin" => Op::Sin,
        "SquareRoot" => Op::Sqrt,
        "Softplus" => Op::Softplus,
        "Rsqrt" => {
            let root = r.plain(Op::Sqrt, &[A]);
            let y = r.plain(Op::Reciprocal, &[root]);
            return Some(r.pointwise(y));
        }
        _ => return None,
    };
    let y = r.plain(op, &[A]);
    Some(r.pointwise(y))
}
