//! Ops that read or write by index.
//!
//! Invariant: an index outside is an error, never a wrapped or clamped access.

use polychip_cpu_kernels::reference::elementwise::Binary;
use polychip_cpu_kernels::reference::gather::{self as kernel, Meeting};
use polychip_cpu_kernels::reference::{Result, index};
use polychip_ops::{Attr, DType, DTypes, Op};

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
        index::axis(c.int(Attr::Axis, 0), x.rank())?,
    ))
}

fn gather_elements(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    one(kernel::gather_elements(
        x,
        c.input(1)?,
        index::axis(c.int(Attr::Axis, 0), x.rank())?,
    ))
}

fn gather_nd(c: &Call<'_>) -> Outputs {
    match usize::try_from(c.int(Attr::BatchDims, 0)) {
        Ok(dims) => one(kernel::gather_nd(c.input(0)?, c.input(1)?, dims)),
        Err(_) => bad("batch_dims is negative"),
    }
}

fn meeting(c: &Call<'_>) -> Result<Meeting> {
    Ok(match c.text(Attr::Reduction, "none") {
        "none" => None,
        "add" => Some(Binary::Add),
        "mul" => Some(Binary::Mul),
        "max" => Some(Binary::Max),
        "min" => Some(Binary::Min),
        other => return bad(format!("reduction is {other:?}, not none, add, mul, max or min")),
    })
}

fn scatter_elements(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = index::axis(c.int(Attr::Axis, 0), x.rank())?;
    one(kernel::scatter_elements(
        x,
        c.input(1)?,
        c.input(2)?,
        axis,
        meeting(c)?,
    ))
}

fn scatter_nd(c: &Call<'_>) -> Outputs {
    one(kernel::scatter_nd(
        c.input(0)?,
        c.input(1)?,
        c.input(2)?,
        meeting(c)?,
    ))
}

fn tensor_scatter(c: &Call<'_>) -> Outputs {
    let cache = c.input(0)?;
    let axis = index::axis(c.int(Attr::Axis, -2), cache.rank())?;
    let circular = match c.text(Attr::Mode, "linear") {
        "linear" => false,
        "circular" => true,
        other => return bad(format!("mode is {other:?}, not linear or circular")),
    };
    let starts = c.optional_ints(2)?;
    one(kernel::tensor_scatter(
        cache,
        c.input(1)?,
        starts.as_deref(),
        axis,
        circular,
    ))
}

fn one_hot(c: &Call<'_>) -> Outputs {
    let indices = c.input(0)?;
    let depth = match c.input(1)?.to_i128s()?.as_slice() {
        [depth] => usize::try_from(*depth).or_else(|_| bad(format!("depth is {depth}")))?,
        other => return bad(format!("depth has {} elements", other.len())),
    };
    let axis = index::axis(c.int(Attr::Axis, -1), indices.rank() + 1)?;
    one(kernel::one_hot(indices, depth, c.input(2)?, axis))
}

fn compress(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = c
        .attributes
        .int(Attr::Axis)
        .map(|a| index::axis(a, x.rank()))
        .transpose()?;
    one(kernel::compress(x, &c.input(1)?.to_bools()?, axis))
}
