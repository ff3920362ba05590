//! Elementwise ops on integers, booleans and f64, and those on f32 without a vector kernel: comparisons, remainders, tests.
//!
//! Invariant: results equal those of the reference evaluator, bit for bit.
//!
//! Not here: f32 and its vector kernels (`elementwise`), conversions (`cast`).

use polychip_cpu_kernels::elementwise::BinaryPlan;
use polychip_cpu_kernels::elementwise_int::{
    self, Arithmetic, Bitwise, Comparison, Logic, Number, Pass, Rows, Single,
};
use polychip_cpu_kernels::{Isa, convert};
use polychip_ops::operator::{BitShift, IsInf, Mod, Shift};
use polychip_ops::{DType, Op, broadcast};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error};
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain, Run, ValueId};
use crate::work::Class;

/// What a node computes.
#[derive(Clone, Copy)]
enum Function {
    Pair(Pair),
    Single(Single),
    /// Bits or truth values inverted.
    Not,
    Clip,
}

#[derive(Clone, Copy)]
enum Pair {
    Arithmetic(Arithmetic),
    Bitwise(Bitwise),
    Logic(Logic),
    Comparison(Comparison),
}

fn function(node: &Node, dtype: DType) -> Option<Function> {
    let arithmetic = |f| Some(Function::Pair(Pair::Arithmetic(f)));
    let bitwise = |f| Some(Function::Pair(Pair::Bitwise(f)));
    let logic = |f| Some(Function::Pair(Pair::Logic(f)));
    let comparison = |f| Some(Function::Pair(Pair::Comparison(f)));
    let truth = dtype == DType::Bool;
    match node.op {
        Op::And => logic(Logic::And),
        Op::Or => logic(Logic::Or),
        Op::Xor => logic(Logic::Xor),
        Op::Equal if truth => logic(Logic::Equal),
        Op::Not => Some(Function::Not),
        _ if truth => None,
        Op::Add => arithmetic(Arithmetic::Add),
        Op::Sub => arithmetic(Arithmetic::Sub),
        Op::Mul => arithmetic(Arithmetic::Mul),
        Op::Div => arithmetic(Arithmetic::Div),
        Op::Max => arithmetic(Arithmetic::Max),
        Op::Min => arithmetic(Arithmetic::Min),
        Op::Mod => arithmetic(if node.typed::<Mod>().ok()?.fmod {
            Arithmetic::Fmod
        } else {
            Arithmetic::Mod
        }),
        Op::BitwiseAnd => bitwise(Bitwise::And),
        Op::BitwiseOr => bitwise(Bitwise::Or),
        Op::BitwiseXor => bitwise(Bitwise::Xor),
        Op::BitShift => match node.typed::<BitShift>().ok()?.direction {
            Shift::Left => bitwise(Bitwise::ShiftLeft),
            Shift::Right => bitwise(Bitwise::ShiftRight),
        },
        Op::BitwiseNot => Some(Function::Not),
        Op::Equal => comparison(Comparison::Equal),
        Op::Less => comparison(Comparison::Less),
        Op::LessOrEqual => comparison(Comparison::LessOrEqual),
        Op::Greater => comparison(Comparison::Greater),
        Op::GreaterOrEqual => comparison(Comparison::GreaterOrEqual),
        Op::Abs => Some(Function::Single(Single::Abs)),
        Op::Neg => Some(Function::Single(Single::Neg)),
        Op::Sign => Some(Function::Single(Single::Sign)),
        Op::Clip => Some(Function::Clip),
        _ => None,
    }
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(first), Some(output)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let plain = |t: &TensorIndex| l.part.tensors[*t].encoding.is_none();
    if matches!(node.op, Op::IsNaN | Op::IsInf) {
        return tests(l, node, first, output);
    }
    let (Some(function), true) = (
        function(node, l.real_dtype(first)),
        node.reads().chain([output]).all(|t| plain(&t)),
    ) else {
        return Ok(false);
    };
    match l.real_dtype(first) {
        DType::Bool => of_truth(l, function, node, output),
        DType::I8 => of::<i8>(l, function, node, output),
        DType::I16 => of::<i16>(l, function, node, output),
        DType::I32 => of::<i32>(l, function, node, output),
        DType::I64 => of::<i64>(l, function, node, output),
        DType::U8 => of::<u8>(l, function, node, output),
        DType::U16 => of::<u16>(l, function, node, output),
        DType::U32 => of::<u32>(l, function, node, output),
        DType::U64 => of::<u64>(l, function, node, output),
        DType::F32 => of::<f32>(l, function, node, output),
        DType::F64 => of::<f64>(l, function, node, output),
        _ => Ok(false),
    }
}

/// Whether numbers are infinite or none, by their bits.
fn tests(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let infinite = node.op == Op::IsInf;
    // IsNaN has no signs to tell apart
    let (above, below) = match node.typed::<IsInf>() {
        Ok(IsInf { positive, negative }) => (positive, negative),
        Err(_) if infinite => return Ok(false),
        Err(_) => (true, true),
    };
    let isa = l.isa;
    macro_rules! of {
        ($bits:ty, $infinity:expr) => {{
            const INFINITY: $bits = $infinity;
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            // what no number has
            let never = <$bits>::MAX;
            let (plus, minus) = (
                if above { INFINITY } else { never },
                if below { INFINITY | SIGN } else { never },
            );
            Box::new(move |o: &mut Operands<'_>| {
                let (x, y) = (o.read::<$bits>(0), o.write::<u8>(0));
                if infinite {
                    convert::each(isa, o.pool, x, y, |x| u8::from((x == plus) | (x == minus)));
                } else {
                    convert::each(isa, o.pool, x, y, |x| u8::from(x & !SIGN > INFINITY));
                }
                Ok(())
            }) as Run
        }};
    }
    if l.part.tensors[x].encoding.is_some() {
        return Ok(false);
    }
    let run = match l.dtype(x) {
        DType::F16 => of!(u16, 0x7c00),
        DType::BF16 => of!(u16, 0x7f80),
        DType::F32 => of!(u32, 0x7f80_0000),
        DType::F64 => of!(u64, 0x7ff0_0000_0000_0000),
        _ => return Ok(false),
    };
    let (from, to) = (l.as_is(x)?, l.write_rows(y)?);
    l.step(node.op.name(), &[from], &[to], None, run).is(Class::Typed);
    Ok(true)
}

fn of_truth(l: &mut Lowering<'_>, function: Function, node: &Node, output: TensorIndex) -> Result<bool> {
    match function {
        Function::Pair(Pair::Logic(f)) => {
            pairs(l, node, output, &rows(elementwise_int::logic(f)), Class::Typed)
        }
        Function::Not => single(l, node, output, pass(l.isa, elementwise_int::not)),
        _ => Ok(false),
    }
}

/// Lowers a function of numbers of one type; `false` where that type has none.
fn of<T: Plain + Number + PartialEq>(
    l: &mut Lowering<'_>,
    function: Function,
    node: &Node,
    output: TensorIndex,
) -> Result<bool> {
    match function {
        Function::Pair(Pair::Arithmetic(f)) => {
            let class = match f {
                Arithmetic::Div | Arithmetic::Mod | Arithmetic::Fmod => Class::TypedDivide,
                _ => Class::Typed,
            };
            chain(l, node, output, &rows(T::arithmetic(f)), class)
        }
        Function::Pair(Pair::Bitwise(f)) => match T::bitwise(f) {
            Some(f) => pairs(l, node, output, &rows(f), Class::Typed),
            None => Ok(false),
        },
        Function::Pair(Pair::Comparison(f)) => pairs(l, node, output, &rows(T::comparison(f)), Class::Typed),
        Function::Pair(Pair::Logic(_)) => Ok(false),
        Function::Single(f) => single(l, node, output, pass(l.isa, T::single(f))),
        Function::Not => match T::inverted() {
            Some(f) => single(l, node, output, pass(l.isa, f)),
            None => Ok(false),
        },
        Function::Clip => clip(l, node, output, clipping::<T>),
    }
}

/// What makes the step of two operands from the loops over them: the one piece that there is for each type.
type Make<'a> = &'a dyn Fn(Isa, BinaryPlan) -> Run;

fn rows<T: Plain, U: Plain>(f: Rows<T, U>) -> impl Fn(Isa, BinaryPlan) -> Run {
    move |isa, plan| {
        Box::new(move |o| {
            plan.rows(isa, o.pool, f, o.read::<T>(0), o.read::<T>(1), o.write::<U>(0));
            Ok(())
        })
    }
}

/// A function of two operands.
fn pairs(
    l: &mut Lowering<'_>,
    node: &Node,
    output: TensorIndex,
    make: Make<'_>,
    class: Class,
) -> Result<bool> {
    let operands: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    let [a, b] = operands[..] else {
        return Ok(false);
    };
    let (a, b) = (l.rows(a)?, l.rows(b)?);
    let to = l.write_rows(output)?;
    pair(l, (node.op.name(), class), make, [a, b], to)?;
    Ok(true)
}

/// A function of two or more operands, two at a time.
fn chain(
    l: &mut Lowering<'_>,
    node: &Node,
    output: TensorIndex,
    make: Make<'_>,
    class: Class,
) -> Result<bool> {
    let operands: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    let [first, between @ .., last] = &operands[..] else {
        return Ok(false);
    };
    let mut left = l.rows(*first)?;
    for &next in between {
        let right = l.rows(next)?;
        let shape = broadcast::shapes(&[l.value_shape(left), l.value_shape(right)])
            .ok_or_else(|| Error::unsupported("shapes do not broadcast together"))?;
        let sofar = l.fresh(l.real_dtype(*first), shape)?;
        pair(l, (node.op.name(), class), make, [left, right], sofar)?;
        left = sofar;
    }
    let right = l.rows(*last)?;
    let to = l.write_rows(output)?;
    pair(l, (node.op.name(), class), make, [left, right], to)?;
    Ok(true)
}

fn pair(
    l: &mut Lowering<'_>,
    (name, class): (&'static str, Class),
    make: Make<'_>,
    [a, b]: [ValueId; 2],
    y: ValueId,
) -> Result<()> {
    let plan = BinaryPlan::new(l.value_shape(a), l.value_shape(b)).map_err(kernel_error)?;
    if plan.output_len() != l.value_shape(y).iter().product::<usize>() {
        return Err(Error::unsupported(format!(
            "operands {:?} and {:?} do not make {:?}",
            l.value_shape(a),
            l.value_shape(b),
            l.value_shape(y)
        )));
    }
    let run = make(l.isa, plan);
    l.step(name, &[a, b], &[y], None, run).is(class);
    Ok(())
}

fn pass<T: Plain, U: Plain>(isa: Isa, f: Pass<T, U>) -> Run {
    Box::new(move |o| {
        elementwise_int::pass(isa, o.pool, &f, o.read::<T>(0), o.write::<U>(0));
        Ok(())
    })
}

fn single(l: &mut Lowering<'_>, node: &Node, output: TensorIndex, run: Run) -> Result<bool> {
    let Some(input) = node.input(0) else {
        return Ok(false);
    };
    let (x, y) = (l.rows(input)?, l.write_rows(output)?);
    l.step(node.op.name(), &[x], &[y], None, run).is(Class::Typed);
    Ok(true)
}

/// What makes the step of Clip from the places of its limits.
type MakeClip = fn(Isa, Option<usize>, Option<usize>) -> Run;

fn clipping<T: Plain + Number>(isa: Isa, low: Option<usize>, high: Option<usize>) -> Run {
    Box::new(move |o| {
        let one = |place: Option<usize>| place.map(|place| o.read::<T>(place)[0]);
        let (low, high) = (one(low), one(high));
        let (x, y) = (o.read::<T>(0), o.write::<T>(0));
        let clip = |isa, y: &mut [T], x: &[T]| T::clip(isa, y, x, low, high);
        elementwise_int::pass(isa, o.pool, &clip, x, y);
        Ok(())
    })
}

/// Clip, whose limits may be computed.
fn clip(l: &mut Lowering<'_>, node: &Node, output: TensorIndex, make: MakeClip) -> Result<bool> {
    let Some(input) = node.input(0) else {
        return Ok(false);
    };
    let (x, y) = (l.rows(input)?, l.write_rows(output)?);
    let mut reads = vec![x];
    let mut limit = |l: &mut Lowering<'_>, place: usize| -> Result<Option<usize>> {
        let Some(tensor) = node.input(place) else {
            return Ok(None);
        };
        if l.shape(tensor)?.iter().product::<usize>() != 1 {
            return Err(Error::bad_argument("a limit of Clip is no scalar"));
        }
        reads.push(l.rows(tensor)?);
        Ok(Some(reads.len() - 1))
    };
    let (low, high) = (limit(l, 1)?, limit(l, 2)?);
    let run = make(l.isa, low, high);
    l.step("Clip", &reads, &[y], None, run).is(Class::Typed);
    Ok(true)
}
