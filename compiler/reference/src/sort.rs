//! TopK, Unique and NonZero.
//!
//! Invariant: TopK is always sorted, which every `sorted` allows.

use polychip_cpu_kernels::reference::{index, sort as kernel};
use polychip_ops::operator::{TopK, Unique};
use polychip_ops::{DType, DTypes, Op};

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
    let node: TopK = c.typed()?;
    let axis = index::axis(node.axis, x.rank())?;
    let Ok(k) = usize::try_from(c.scalar(1)?) else {
        return bad("k is negative");
    };
    let (values, places) = kernel::top_k(x, k, axis, node.largest)?;
    Ok(vec![values, places])
}

fn unique(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let node: Unique = c.typed()?;
    let axis = node.axis.map(|axis| index::axis(axis, x.rank())).transpose()?;
    let u = kernel::unique(x, axis, node.sorted)?;
    Ok(vec![u.values, u.first, u.inverse, u.counts])
}
