//! NonMaxSuppression.
//!
//! Invariant: without a number of boxes per class none is chosen, as ONNX says.

use polychip_cpu_kernels::reference::Result;
use polychip_cpu_kernels::reference::detect::{self as kernel, Suppression};
use polychip_ops::{DType, DTypes, Op, operator};

use crate::call::{Call, Outputs, bad, one};
use crate::row::Row;

const F32: DTypes = DTypes::of(&[DType::F32]);
const I64: DTypes = DTypes::of(&[DType::I64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    match op {
        Op::NonMaxSuppression => Some(Row {
            takes: &[F32, F32, I64, F32],
            run,
        }),
        _ => None,
    }
}

fn run(c: &Call<'_>) -> Outputs {
    let scalar = |i: usize| -> Result<Option<f64>> {
        match c.optional(i) {
            None => Ok(None),
            Some(t) => match t.to_f64s()?.as_slice() {
                [v] => Ok(Some(*v)),
                _ => bad(format!("input {i} is not a scalar")),
            },
        }
    };
    let max_output = match c.optional(2) {
        Some(_) => usize::try_from(c.scalar(2)?).unwrap_or(0),
        None => 0,
    };
    let p = Suppression {
        centre: c.typed::<operator::Suppression>()?.center_point_box,
        max_output,
        iou: scalar(3)?.unwrap_or(0.0),
        score: scalar(4)?,
    };
    one(kernel::non_max_suppression(c.input(0)?, c.input(1)?, p))
}
