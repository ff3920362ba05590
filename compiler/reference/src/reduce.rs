//! Reduction ops, ArgMax and ArgMin, running sums and products.
//!
//! Invariant: axes come from an input where ONNX defines one, from an attribute otherwise.

use polychip_cpu_kernels::reference::index;
use polychip_cpu_kernels::reference::reduce::{self as kernel, Reduction};
use polychip_ops::{Attr, Op};

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
    let named = match c.optional_ints(1)? {
        Some(axes) => axes,
        None => c.attributes.ints(Attr::Axes).unwrap_or_default().to_vec(),
    };
    let mut axes = index::axes(&named, x.rank())?;
    if axes.is_empty() && !c.flag(Attr::NoopWithEmptyAxes, false) {
        axes = (0..x.rank()).collect();
    }
    one(kernel::reduce(x, f, &axes, c.flag(Attr::Keepdims, true)))
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
    let axis = index::axis(c.int(Attr::Axis, 0), x.rank())?;
    one(kernel::arg_extreme(
        x,
        axis,
        c.flag(Attr::Keepdims, true),
        c.op == Op::ArgMax,
        c.flag(Attr::SelectLastIndex, false),
    ))
}

fn cumulate(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = index::axis(c.scalar(1)?, x.rank())?;
    one(kernel::cumulate(
        x,
        axis,
        c.flag(Attr::Exclusive, false),
        c.flag(Attr::Reverse, false),
        c.op == Op::CumProd,
    ))
}
