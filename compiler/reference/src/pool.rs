//! Pools and regions of interest.
//!
//! Invariant: windows are resolved before a kernel runs.

use polychip_cpu_kernels::reference::pool::{self as kernel, PoolSum};
use polychip_cpu_kernels::reference::window::Window;
use polychip_ops::operator::{
    AveragePool, GlobalLpPool, LpPool, MaxPool, MaxRoiPool, MaxUnpool, RegionCoordinates, RegionMode,
    RoiAlign,
};
use polychip_ops::{DType, DTypes, Op};

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
    let pool: MaxPool = c.typed()?;
    let window = window::sliding(&pool.window, x.shape(), None)?;
    let (values, places) = kernel::max_pool(x, &window, pool.column_major)?;
    Ok(vec![values, places])
}

fn average_pool(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let pool: AveragePool = c.typed()?;
    let window = window::sliding(&pool.window, x.shape(), None)?;
    let include_pad = pool.count_include_pad;
    one(kernel::sum_pool(x, &window, PoolSum::Average { include_pad }))
}

fn lp_pool(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let (window, p) = if c.op == Op::GlobalLpPool {
        let spatial = window::spatial(x.shape())?;
        let n = spatial.len();
        let whole = Window {
            kernel: spatial.to_vec(),
            strides: vec![1; n],
            dilations: vec![1; n],
            pads: vec![(0, 0); n],
            output: vec![1; n],
        };
        (whole, c.typed::<GlobalLpPool>()?.p)
    } else {
        let pool: LpPool = c.typed()?;
        (window::sliding(&pool.window, x.shape(), None)?, pool.p)
    };
    one(kernel::sum_pool(x, &window, PoolSum::Norm { p: p as f64 }))
}

fn max_unpool(c: &Call<'_>) -> Outputs {
    let (x, places) = (c.input(0)?, c.ints(1)?);
    let spatial = window::spatial(x.shape())?;
    let n = spatial.len();
    let window = c.typed::<MaxUnpool>()?.window;
    let kernel_shape = window.kernel_shape;
    let or = |list: Vec<i64>, none: Vec<i64>| if list.is_empty() { none } else { list };
    let (strides, pads) = (or(window.strides, vec![1; n]), or(window.pads, vec![0; 2 * n]));
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
    // MaxPool counts places in its whole input: so does ONNX Runtime here, whatever the window gives back
    let shape = match c.optional_ints(2)? {
        Some(shape) => sizes(&shape)?,
        None => [&x.shape()[..2], &sizes(&inferred)?].concat(),
    };
    one(kernel::max_unpool(x, &places, shape))
}

fn max_roi_pool(c: &Call<'_>) -> Outputs {
    let pool: MaxRoiPool = c.typed()?;
    let pooled = sizes(&pool.pooled_shape)?;
    let &[h, w] = pooled.as_slice() else {
        return bad(format!("pooled_shape is {pooled:?}, two sizes wanted"));
    };
    one(kernel::max_roi_pool(
        c.input(0)?,
        c.input(1)?,
        (h, w),
        pool.spatial_scale.into(),
    ))
}

fn roi_align(c: &Call<'_>) -> Outputs {
    let align: RoiAlign = c.typed()?;
    let p = kernel::RoiAlign {
        output: (align.output_height, align.output_width),
        sampling_ratio: align.sampling_ratio,
        scale: align.spatial_scale.into(),
        half_pixel: align.coordinates == RegionCoordinates::HalfPixel,
        max: align.mode == RegionMode::Max,
    };
    one(kernel::roi_align(c.input(0)?, c.input(1)?, &c.ints(2)?, p))
}
