//! Ops that read or write by index.
//!
//! Invariant: an index outside is an error, never a wrapped or clamped access.

use polychip_cpu_kernels::reference::elementwise::Binary;
use polychip_cpu_kernels::reference::gather::{self as kernel, Meeting};
use polychip_cpu_kernels::reference::index;
use polychip_ops::operator::{
    Along, CacheMode, Compress, GatherNd, ScatterNd, ScatterReduction, TensorScatter,
};
use polychip_ops::{DType, DTypes, Op, Operator};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{ANY, BOOL, INDEX, NUMBERS, Row};

const I64: DTypes = DTypes::of(&[DType::I64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Gather => Row {
            takes: &[ANY, INDEX],
            run: gather,
        },
        Op::GatherElements => Row {
            takes: &[ANY, INDEX],
            run: gather_elements,
        },
        Op::GatherND => Row {
            takes: &[ANY, I64],
            run: gather_nd,
        },
        Op::Scatter | Op::ScatterElements => Row {
            takes: &[ANY, INDEX, ANY],
            run: scatter_elements,
        },
        Op::ScatterND => Row {
            takes: &[ANY, I64, ANY],
            run: scatter_nd,
        },
        Op::TensorScatter => Row {
            takes: &[ANY, ANY, I64],
            run: tensor_scatter,
        },
        Op::OneHot => Row {
            takes: &[NUMBERS, NUMBERS, ANY],
            run: one_hot,
        },
        Op::Compress => Row {
            takes: &[ANY, BOOL],
            run: compress,
        },
        _ => return None,
    })
}

fn gather(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    one(kernel::gather(
        x,
        c.input(1)?,
        index::axis(c.typed::<Along>()?.axis, x.rank())?,
    ))
}

fn gather_elements(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    one(kernel::gather_elements(
        x,
        c.input(1)?,
        index::axis(c.typed::<Along>()?.axis, x.rank())?,
    ))
}

fn gather_nd(c: &Call<'_>) -> Outputs {
    let node: GatherNd = c.typed()?;
    one(kernel::gather_nd(c.input(0)?, c.input(1)?, node.batch_dims))
}

fn meeting(reduction: ScatterReduction) -> Meeting {
    match reduction {
        ScatterReduction::None => None,
        ScatterReduction::Add => Some(Binary::Add),
        ScatterReduction::Mul => Some(Binary::Mul),
        ScatterReduction::Max => Some(Binary::Max),
        ScatterReduction::Min => Some(Binary::Min),
    }
}

fn scatter_elements(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    // Scatter is the older name of the same without a reduction
    let (axis, reduction) = match c.operator()? {
        Operator::ScatterElements(node) => (node.axis, node.reduction),
        Operator::Scatter(node) => (node.axis, ScatterReduction::None),
        _ => return bad("not a scatter op"),
    };
    one(kernel::scatter_elements(
        x,
        c.input(1)?,
        c.input(2)?,
        index::axis(axis, x.rank())?,
        meeting(reduction),
    ))
}

fn scatter_nd(c: &Call<'_>) -> Outputs {
    one(kernel::scatter_nd(
        c.input(0)?,
        c.input(1)?,
        c.input(2)?,
        meeting(c.typed::<ScatterNd>()?.reduction),
    ))
}

fn tensor_scatter(c: &Call<'_>) -> Outputs {
    let cache = c.input(0)?;
    let node: TensorScatter = c.typed()?;
    let axis = index::axis(node.axis, cache.rank())?;
    let starts = c.optional_ints(2)?;
    one(kernel::tensor_scatter(
        cache,
        c.input(1)?,
        starts.as_deref(),
        axis,
        node.mode == CacheMode::Circular,
    ))
}

fn one_hot(c: &Call<'_>) -> Outputs {
    let indices = c.input(0)?;
    let depth = match c.input(1)?.to_i128s()?.as_slice() {
        [depth] => usize::try_from(*depth).or_else(|_| bad(format!("depth is {depth}")))?,
        other => return bad(format!("depth has {} elements", other.len())),
    };
    let axis = index::axis(c.typed::<Along>()?.axis, indices.rank() + 1)?;
    one(kernel::one_hot(indices, depth, c.input(2)?, axis))
}

fn compress(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = c.typed::<Compress>()?.axis;
    let axis = axis.map(|axis| index::axis(axis, x.rank())).transpose()?;
    one(kernel::compress(x, &c.input(1)?.to_bools()?, axis))
}
