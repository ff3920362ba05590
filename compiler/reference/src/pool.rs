//! Pools and regions of interest.
//!
//! Invariant: windows are resolved before a kernel runs.

use polychip_cpu_kernels::reference::pool::{self as kernel, PoolSum, RoiAlign};
use polychip_cpu_kernels::reference::window::Window;
use polychip_ops::{Attr, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::row::{FLOATS, Row};
use crate::window;

const MAX: DTypes = FLOATS.with(DTypes::of(&[DType::I8, DType::U8]));
const I64: DTypes = DTypes::of(&[DType::I64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::MaxPool => Row {
            takes: &[MAX],
            run: max_pool,
        },
        Op::AveragePool => Row {
            takes: &[FLOATS],
            run: average_pool,
        },
        Op::LpPool | Op::GlobalLpPool => Row {
            takes: &[FLOATS],
            run: lp_pool,
        },
        Op::MaxUnpool => Row {
            takes: &[FLOATS, I64, I64],
            run: max_unpool,
        },
        Op::MaxRoiPool => Row {
            takes: &[FLOATS],
            run: max_roi_pool,
        },
        Op::RoiAlign => Row {
            takes: &[FLOATS, FLOATS, I64],
            run: roi_align,
        },
        _ => return None,
    })
}

fn max_pool(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let window = window::sliding(c, x.shape(), None)?;
    let (values, places) = kernel::max_pool(x, &window, c.flag(Attr::StorageOrder, false))?;
    Ok(vec![values, places])
}

fn average_pool(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let window = window::sliding(c, x.shape(), None)?;
    let include_pad = c.flag(Attr::CountIncludePad, false);
    one(kernel::sum_pool(x, &window, PoolSum::Average { include_pad }))
}

fn lp_pool(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let window = if c.op == Op::GlobalLpPool {
        let spatial = window::spatial(x.shape())?;
        let n = spatial.len();
        Window {
            kernel: spatial.to_vec(),
            strides: vec![1; n],
            dilations: vec![1; n],
            pads: vec![(0, 0); n],
            output: vec![1; n],
        }
    } else {
        window::sliding(c, x.shape(), None)?
    };
    one(kernel::sum_pool(
        x,
        &window,
        PoolSum::Norm {
            p: c.int(Attr::P, 2) as f64,
        },
    ))
}

fn max_unpool(c: &Call<'_>) -> Outputs {
    let (x, places) = (c.input(0)?, c.ints(1)?);
    let spatial = window::spatial(x.shape())?;
    let n = spatial.len();
    let Some(kernel_shape) = c.attributes.ints(Attr::KernelShape) else {
        return bad("attribute kernel_shape is missing");
    };
    let ones = vec![1; n];
    let zeros = vec![0; 2 * n];
    let strides = c.attributes.ints(Attr::Strides).unwrap_or(&ones);
    let pads = c.attributes.ints(Attr::Pads).unwrap_or(&zeros);
    if kernel_shape.len() != n || strides.len() != n || pads.len() != 2 * n {
        return bad(format!("a kernel {kernel_shape:?} over {n} spatial dims"));
    }
    let inferred: Vec<i64> = (0..n)
        .map(|d| {
            (spatial[d] as i64 - 1)
                .saturating_mul(strides[d])
                .saturating_add(kernel_shape[d])
                .saturating_sub(pads[d].saturating_add(pads[n + d]))
        })
        .collect();
    let mut counted = x.shape()[..2].to_vec();
    counted.extend(sizes(&inferred)?);
    let shape = match c.optional_ints(2)? {
        Some(shape) => sizes(&shape)?,
        None => counted.clone(),
    };
    one(kernel::max_unpool(x, &places, &counted, shape))
}

fn max_roi_pool(c: &Call<'_>) -> Outputs {
    let pooled = c.sizes(Attr::PooledShape)?.unwrap_or_default();
    let &[h, w] = pooled.as_slice() else {
        return bad(format!("pooled_shape is {pooled:?}, two sizes wanted"));
    };
    one(kernel::max_roi_pool(
        c.input(0)?,
        c.input(1)?,
        (h, w),
        c.float(Attr::SpatialScale, 1.0),
    ))
}

fn roi_align(c: &Call<'_>) -> Outputs {
    let size = |attr, default| sizes(&[c.int(attr, default)]).map(|v| v[0]);
    let max = match c.text(Attr::Mode, "avg") {
        "avg" => false,
        "max" => true,
        other => return bad(format!("mode is {other:?}, not avg or max")),
    };
    let half_pixel = match c.text(Attr::CoordinateTransformationMode, "half_pixel") {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return bad(format!("coordinate_transformation_mode is {other:?}")),
    };
    let p = RoiAlign {
        output: (size(Attr::OutputHeight, 1)?, size(Attr::OutputWidth, 1)?),
        sampling_ratio: size(Attr::SamplingRatio, 0)?,
        scale: c.float(Attr::SpatialScale, 1.0),
        half_pixel,
        max,
    };
    one(kernel::roi_align(c.input(0)?, c.input(1)?, &c.ints(2)?, p))
}
