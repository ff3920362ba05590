//! TopK, Unique and NonZero.
//!
//! Invariant: TopK is always sorted, which every `sorted` allows.

use polychip_cpu_kernels::reference::{index, sort as kernel};
use polychip_ops::{Attr, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{ANY, NUMBERS, Row};

const I64: DTypes = DTypes::of(&[DType::I64]);
const ORDERED: DTypes = ANY.without(DTypes::of(&[DType::C64, DType::C128]));

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::TopK => Row {
            takes: &[NUMBERS, I64],
            run: top_k,
        },
        Op::Unique => Row {
            takes: &[ORDERED],
            run: unique,
        },
        Op::NonZero => Row {
            takes: &[ORDERED],
            run: |c| one(kernel::non_zero(c.input(0)?)),
        },
        _ => return None,
    })
}

fn top_k(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = index::axis(c.int(Attr::Axis, -1), x.rank())?;
    let Ok(k) = usize::try_from(c.scalar(1)?) else {
        return bad("k is negative");
    };
    let (values, places) = kernel::top_k(x, k, axis, c.flag(Attr::Largest, true))?;
    Ok(vec![values, places])
}

fn unique(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = c
        .attributes
        .int(Attr::Axis)
        .map(|a| index::axis(a, x.rank()))
        .transpose()?;
    let u = kernel::unique(x, axis, c.flag(Attr::Sorted, true))?;
    Ok(vec![u.values, u.first, u.inverse, u.counts])
}
