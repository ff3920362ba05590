//! Resampling ops.
//!
//! Invariant: exactly one of scales and sizes decides the output.

use polychip_cpu_kernels::reference::resize::{
    self as kernel, Axis, Interpolation, Nearest, Outside, Resize, Transform,
};
use polychip_cpu_kernels::reference::{Result, index};
use polychip_ops::operator::{
    self, AffineGrid, AspectRatio, Coordinates, GridSample, Interpolation as Mode, Rounding, Upsample,
};
use polychip_ops::{DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::row::{FLOATS, NUMBERS, Row};

const I64: DTypes = DTypes::of(&[DType::I64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Resize => Row {
            takes: &[NUMBERS, FLOATS, FLOATS, I64],
            run: resize,
        },
        Op::Upsample => Row {
            takes: &[NUMBERS, FLOATS],
            run: upsample,
        },
        Op::GridSample => Row {
            takes: &[FLOATS],
            run: grid_sample,
        },
        Op::AffineGrid => Row {
            takes: &[FLOATS, I64],
            run: affine_grid,
        },
        _ => return None,
    })
}

fn interpolation(node: &operator::Resize) -> Interpolation {
    match node.interpolation {
        Mode::Nearest => Interpolation::Nearest(match node.rounding {
            Rounding::RoundPreferFloor => Nearest::RoundPreferFloor,
            Rounding::RoundPreferCeil => Nearest::RoundPreferCeil,
            Rounding::Floor => Nearest::Floor,
            Rounding::Ceil => Nearest::Ceil,
        }),
        Mode::Linear => Interpolation::Linear,
        Mode::Cubic => Interpolation::Cubic { a: node.cubic.into() },
    }
}

fn transform(coordinates: Coordinates) -> Transform {
    match coordinates {
        Coordinates::HalfPixel => Transform::HalfPixel,
        Coordinates::HalfPixelSymmetric => Transform::HalfPixelSymmetric,
        Coordinates::PytorchHalfPixel => Transform::PytorchHalfPixel,
        Coordinates::AlignCorners => Transform::AlignCorners,
        Coordinates::Asymmetric => Transform::Asymmetric,
        Coordinates::TfHalfPixelForNn => Transform::TfHalfPixelForNn,
        Coordinates::TfCropAndResize => Transform::TfCropAndResize,
    }
}

fn scaled(size: usize, scale: f64) -> Result<usize> {
    // in 32-bit floats, as shapes are inferred
    let n = f64::from((size as f32 * scale as f32).floor());
    if !(0.0..=1e12).contains(&n) {
        return bad(format!("a dim of {size} scaled by {scale}"));
    }
    Ok(n as usize)
}

fn resize(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let node: operator::Resize = c.typed()?;
    let axes = match &node.axes {
        Some(axes) => index::axes(axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let transform = transform(node.coordinates);
    let mut all: Vec<Axis> = x
        .shape()
        .iter()
        .map(|&output| Axis {
            output,
            scale: 1.0,
            roi: (0.0, 1.0),
        })
        .collect();
    if transform == Transform::TfCropAndResize {
        let roi = c.input(1)?.to_f64s()?;
        if roi.len() != 2 * axes.len() {
            return bad(format!(
                "a region of {} numbers for {} axes",
                roi.len(),
                axes.len()
            ));
        }
        for (i, &d) in axes.iter().enumerate() {
            all[d].roi = (roi[i], roi[axes.len() + i]);
        }
    }
    let given = |i: usize| c.optional(i).filter(|t| !t.is_empty());
    match (given(2), given(3)) {
        (Some(scales), None) => {
            let scales = scales.to_f64s()?;
            if scales.len() != axes.len() {
                return bad(format!("{} scales for {} axes", scales.len(), axes.len()));
            }
            for (&d, scale) in axes.iter().zip(scales) {
                all[d] = Axis {
                    output: scaled(x.shape()[d], scale)?,
                    scale,
                    ..all[d]
                };
            }
        }
        (None, Some(wanted)) => {
            let wanted = sizes(&wanted.to_i64s()?)?;
            if wanted.len() != axes.len() {
                return bad(format!("{} sizes for {} axes", wanted.len(), axes.len()));
            }
            let ratio = |i: usize| wanted[i] as f64 / x.shape()[axes[i]].max(1) as f64;
            let ratios = (0..axes.len()).map(ratio);
            let common = match node.aspect {
                AspectRatio::Ignored => None,
                AspectRatio::NotLarger => ratios.reduce(f64::min),
                AspectRatio::NotSmaller => ratios.reduce(f64::max),
            };
            for (i, &d) in axes.iter().enumerate() {
                let (output, scale) = match common {
                    None => (wanted[i], ratio(i)),
                    Some(scale) => ((scale * x.shape()[d] as f64 + 0.5).floor() as usize, scale),
                };
                all[d] = Axis {
                    output,
                    scale,
                    ..all[d]
                };
            }
        }
        _ => return bad("one of scales and sizes is wanted"),
    }
    let p = Resize {
        interpolation: interpolation(&node),
        transform,
        antialias: node.antialias,
        exclude_outside: node.exclude_outside,
        extrapolation: node.extrapolation.into(),
    };
    one(kernel::resize(x, &all, &p))
}

fn upsample(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let scales = c.input(1)?.to_f64s()?;
    if scales.len() != x.rank() {
        return bad(format!("{} scales for shape {:?}", scales.len(), x.shape()));
    }
    let axes: Result<Vec<Axis>> = x
        .shape()
        .iter()
        .zip(scales)
        .map(|(&d, scale)| {
            Ok(Axis {
                output: scaled(d, scale)?,
                scale,
                roi: (0.0, 1.0),
            })
        })
        .collect();
    let interpolation = match c.typed::<Upsample>()?.interpolation {
        Mode::Nearest => Interpolation::Nearest(Nearest::Floor),
        Mode::Linear => Interpolation::Linear,
        Mode::Cubic => return bad("mode is cubic, not nearest or linear"),
    };
    let p = Resize {
        interpolation,
        transform: Transform::Asymmetric,
        antialias: false,
        exclude_outside: false,
        extrapolation: 0.0,
    };
    one(kernel::resize(x, &axes?, &p))
}

fn grid_sample(c: &Call<'_>) -> Outputs {
    let node: GridSample = c.typed()?;
    let interpolation = match node.interpolation {
        Mode::Linear => Interpolation::Linear,
        Mode::Nearest => Interpolation::Nearest(Nearest::RoundPreferFloor),
        Mode::Cubic => Interpolation::Cubic { a: -0.75 },
    };
    let outside = match node.outside {
        operator::Outside::Zeros => Outside::Zeros,
        operator::Outside::Border => Outside::Border,
        operator::Outside::Reflection => Outside::Reflection,
    };
    one(kernel::grid_sample(
        c.input(0)?,
        c.input(1)?,
        interpolation,
        outside,
        node.align_corners,
    ))
}

fn affine_grid(c: &Call<'_>) -> Outputs {
    let size = sizes(&c.ints(1)?)?;
    one(kernel::affine_grid(
        c.input(0)?,
        &size,
        c.typed::<AffineGrid>()?.align_corners,
    ))
}
