//! ArgMax, ArgMin, Hardmax, OneHot, EyeLike, and Reduce* of integers.
//!
//! Not here: CumSum and CumProd (`cumulative`), reductions of f32 (`reduce`), selections by constant indices (`selection`).

use polychip_cpu_kernels::argreduce::{self, ArgRule};
use polychip_cpu_kernels::elementwise_int::{Fold, fold};
use polychip_ops::operator::{Along, ArgReduce, EyeLike, Reduce};
use polychip_ops::{DType, Op, axis};
use polychip_sdk::Result;

use super::builder::Lowering;
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain};
use crate::work::Class;

type Run = Box<dyn Fn(&mut Operands<'_>) -> Result<()> + Send + Sync>;

/// Lowers a node of these ops.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    if !node.reads().chain([y]).all(plain) {
        return Ok(false);
    }
    match node.op {
        Op::ArgMax | Op::ArgMin => arg(l, node, x, y),
        Op::Hardmax => hardmax(l, node, x, y),
        Op::OneHot => one_hot(l, node, x, y),
        Op::EyeLike => eye(l, node, y),
        Op::ReduceSum | Op::ReduceMax | Op::ReduceMin | Op::ReduceProd => reduce(l, node, x, y),
        _ => Ok(false),
    }
}

/// The shape `[outer, n, inner]` around an axis.
pub(super) fn around(dims: &[usize], along: i64) -> Option<[usize; 3]> {
    let axis = axis::normalise(along, dims.len())?;
    Some([
        dims[..axis].iter().product(),
        dims[axis],
        dims[axis + 1..].iter().product(),
    ])
}

fn arg(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let Ok(attributes) = node.typed::<ArgReduce>() else {
        return Ok(false);
    };
    let Some(shape) = around(l.shape(x)?, attributes.axis).filter(|shape| shape[1] > 0) else {
        return Ok(false);
    };
    let rule = ArgRule {
        largest: node.op == Op::ArgMax,
        last: attributes.last,
    };
    let isa = l.isa;
    macro_rules! of {
        ($t:ty) => {
            Box::new(move |o: &mut Operands<'_>| {
                argreduce::argreduce(isa, o.pool, shape, rule, o.read::<$t>(0), o.write(0));
                Ok(())
            }) as Run
        };
    }
    let run = match l.real_dtype(x) {
        _ if l.is_f32(x) => of!(f32),
        DType::F64 => of!(f64),
        DType::I8 => of!(i8),
        DType::U8 => of!(u8),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        _ => return Ok(false),
    };
    let (from, to) = (l.rows(x)?, l.write_rows(y)?);
    let elements = shape.iter().product();
    l.step(node.op.name(), &[from], &[to], None, run)
        .does(Class::Reduce, elements);
    Ok(true)
}

fn hardmax(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let Ok(Along { axis: along }) = node.typed() else {
        return Ok(false);
    };
    let (true, Some(shape)) = (l.all_f32(node), around(l.shape(x)?, along)) else {
        return Ok(false);
    };
    let (isa, from, to) = (l.isa, l.rows(x)?, l.write_rows(y)?);
    l.step(
        "Hardmax",
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            argreduce::hardmax(isa, o.pool, shape, o.read(0), o.write(0));
            Ok(())
        }),
    )
    .is(Class::Arithmetic);
    Ok(true)
}

fn one_hot(l: &mut Lowering<'_>, node: &Node, indices: TensorIndex, y: TensorIndex) -> Result<bool> {
    let Some(values) = node.input(2) else {
        return Ok(false);
    };
    let Ok(Along { axis: along }) = node.typed() else {
        return Ok(false);
    };
    let Some(shape) = around(l.shape(y)?, along) else {
        return Ok(false);
    };
    let dtype = l.dtype(values);
    let two = l.shape(values)?.iter().product::<usize>() == 2;
    let count: usize = l.shape(indices)?.iter().product();
    let (Some(width @ (1 | 2 | 4 | 8)), true) = (dtype.byte_width(), two) else {
        return Ok(false);
    };
    if dtype != l.dtype(y) || count != shape[0] * shape[2] {
        return Ok(false);
    }
    let wide = match l.dtype(indices) {
        DType::I64 => true,
        DType::I32 => false,
        _ => return Ok(false),
    };
    fn run<T: Plain>(o: &mut Operands<'_>, shape: [usize; 3], wide: bool) {
        let values = o.read::<T>(1);
        let (values, y) = ([values[0], values[1]], o.write::<T>(0));
        if wide {
            let at = o.read::<i64>(0);
            argreduce::one_hot(o.pool, shape, |i| at[i], values, y);
        } else {
            let at = o.read::<i32>(0);
            argreduce::one_hot(o.pool, shape, |i| i64::from(at[i]), values, y);
        }
    }
    let reads = [l.rows(indices)?, l.as_is(values)?];
    let to = l.write_as_is(y)?;
    l.step(
        "OneHot",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            match width {
                1 => run::<u8>(o, shape, wide),
                2 => run::<u16>(o, shape, wide),
                4 => run::<u32>(o, shape, wide),
                _ => run::<u64>(o, shape, wide),
            }
            Ok(())
        }),
    )
    .is(Class::Copy);
    Ok(true)
}

/// Zeros, and ones on a diagonal.
fn eye(l: &mut Lowering<'_>, node: &Node, y: TensorIndex) -> Result<bool> {
    let &[_, columns] = l.shape(y)? else {
        return Ok(false);
    };
    let Ok(EyeLike { k: diagonal, .. }) = node.typed() else {
        return Ok(false);
    };
    let dtype = l.dtype(y);
    let one: [u8; 8] = match dtype {
        DType::F32 => u64::from(1f32.to_bits()).to_le_bytes(),
        DType::F64 => 1f64.to_bits().to_le_bytes(),
        DType::F16 => 0x3c00u64.to_le_bytes(),
        DType::BF16 => 0x3f80u64.to_le_bytes(),
        _ if dtype.is_float() => return Ok(false),
        _ => 1u64.to_le_bytes(),
    };
    let Some(width @ (1 | 2 | 4 | 8)) = dtype.byte_width() else {
        return Ok(false);
    };
    let to = l.write_as_is(y)?;
    l.step(
        "EyeLike",
        &[],
        &[to],
        None,
        Box::new(move |o| {
            let y = o.write::<u8>(0);
            y.fill(0);
            for (row, y) in y.chunks_exact_mut(columns.max(1) * width).enumerate() {
                let at = i64::try_from(row).ok().and_then(|row| row.checked_add(diagonal));
                let at = at.and_then(|at| usize::try_from(at).ok());
                if let Some(at) = at.filter(|&at| at < columns) {
                    y[at * width..][..width].copy_from_slice(&one[..width]);
                }
            }
            Ok(())
        }),
    )
    .is(Class::Copy);
    Ok(true)
}

/// Reduce* of integers and f64 over neighbouring axes.
fn reduce(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let f = match node.op {
        Op::ReduceSum => Fold::Sum,
        Op::ReduceMax => Fold::Max,
        Op::ReduceMin => Fold::Min,
        _ => Fold::Product,
    };
    let dims = l.shape(x)?.to_vec();
    let axes = match node.input(1) {
        Some(t) => match l.part.integers(t) {
            Some(axes) => axes,
            None => return Ok(false),
        },
        None => Vec::new(),
    };
    let all = axes.is_empty();
    if all
        && !node
            .typed::<Reduce>()
            .is_ok_and(|reduce| !reduce.noop_with_empty_axes)
    {
        return Ok(false);
    }
    let Some(mut axes) = axis::normalise_all(&axes, dims.len()) else {
        return Ok(false);
    };
    axes.sort_unstable();
    if all {
        axes = (0..dims.len()).collect();
    }
    let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else {
        return Ok(false);
    };
    if last - first + 1 != axes.len() {
        return Ok(false);
    }
    let shape = [
        dims[..first].iter().product(),
        dims[first..=last].iter().product(),
        dims[last + 1..].iter().product(),
    ];
    let isa = l.isa;
    macro_rules! of {
        ($t:ty) => {
            Box::new(move |o: &mut Operands<'_>| {
                fold(isa, o.pool, shape, f, o.read::<$t>(0), o.write(0));
                Ok(())
            }) as Run
        };
    }
    let run = match l.dtype(x) {
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        _ => return Ok(false),
    };
    let (from, to) = (l.rows(x)?, l.write_rows(y)?);
    let elements = dims.iter().product();
    l.step(node.op.name(), &[from], &[to], None, run)
        .does(Class::Reduce, elements);
    Ok(true)
}
