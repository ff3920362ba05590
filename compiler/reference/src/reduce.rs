//! Reduction ops, ArgMax and ArgMin, running sums and products.
//!
//! Invariant: axes come from an input where ONNX defines one, from an attribute otherwise.

use polychip_cpu_kernels::reference::index;
use polychip_cpu_kernels::reference::reduce::{self as kernel, Reduction};
use polychip_ops::Op;
use polychip_ops::operator::{ArgReduce, Cumulative, Reduce};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{FLOATS, INDEX, NUMBERS, NUMBERS_AND_BOOL, Row};

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::ReduceMax | Op::ReduceMin => Row {
            takes: &[NUMBERS_AND_BOOL, INDEX],
            run: reduce,
        },
        Op::GlobalAveragePool | Op::GlobalMaxPool => Row {
            takes: &[FLOATS],
            run: global,
        },
        op if reduction(op).is_some() => Row {
            takes: &[NUMBERS, INDEX],
            run: reduce,
        },
        Op::ArgMax | Op::ArgMin => Row {
            takes: &[NUMBERS],
            run: arg,
        },
        Op::CumSum | Op::CumProd => Row {
            takes: &[NUMBERS, INDEX],
            run: cumulate,
        },
        _ => return None,
    })
}

fn reduction(op: Op) -> Option<Reduction> {
    Some(match op {
        Op::ReduceSum => Reduction::Sum,
        Op::ReduceMean | Op::GlobalAveragePool => Reduction::Mean,
        Op::ReduceProd => Reduction::Prod,
        Op::ReduceMax | Op::GlobalMaxPool => Reduction::Max,
        Op::ReduceMin => Reduction::Min,
        Op::ReduceL1 => Reduction::L1,
        Op::ReduceL2 => Reduction::L2,
        Op::ReduceSumSquare => Reduction::SumSquare,
        Op::ReduceLogSum => Reduction::LogSum,
        Op::ReduceLogSumExp => Reduction::LogSumExp,
        _ => return None,
    })
}

fn reduce(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let Some(f) = reduction(c.op) else {
        return bad("not a reduction");
    };
    let node: Reduce = c.typed()?;
    let named = c.optional_ints(1)?.unwrap_or_default();
    let mut axes = index::axes(&named, x.rank())?;
    if axes.is_empty() && !node.noop_with_empty_axes {
        axes = (0..x.rank()).collect();
    }
    one(kernel::reduce(x, f, &axes, node.keepdims))
}

fn global(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    match reduction(c.op) {
        Some(f) => one(kernel::reduce(x, f, &axes, true)),
        None => bad("not a reduction"),
    }
}

fn arg(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let node: ArgReduce = c.typed()?;
    let axis = index::axis(node.axis, x.rank())?;
    one(kernel::arg_extreme(
        x,
        axis,
        node.keepdims,
        c.op == Op::ArgMax,
        node.last,
    ))
}

fn cumulate(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = index::axis(c.scalar(1)?, x.rank())?;
    let node: Cumulative = c.typed()?;
    one(kernel::cumulate(
        x,
        axis,
        node.exclusive,
        node.reverse,
        c.op == Op::CumProd,
    ))
}
