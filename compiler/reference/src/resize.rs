//! Resampling ops.
//!
//! Invariant: exactly one of scales and sizes decides the output.

use polychip_cpu_kernels::reference::resize::{
    self as kernel, Axis, Interpolation, Nearest, Outside, Resize, Transform,
};
use polychip_cpu_kernels::reference::{Result, index};
use polychip_ops::{Attr, DType, DTypes, Op};

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

fn interpolation(c: &Call<'_>) -> Result<Interpolation> {
    Ok(match c.text(Attr::Mode, "nearest") {
        "nearest" => Interpolation::Nearest(match c.text(Attr::NearestMode, "round_prefer_floor") {
            "round_prefer_floor" => Nearest::RoundPreferFloor,
            "round_prefer_ceil" => Nearest::RoundPreferCeil,
            "floor" => Nearest::Floor,
            "ceil" => Nearest::Ceil,
            other => return bad(format!("nearest_mode is {other:?}")),
        }),
        "linear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic {
            a: c.float(Attr::CubicCoeffA, -0.75),
        },
        other => return bad(format!("mode is {other:?}, not nearest, linear or cubic")),
    })
}

fn transform(c: &Call<'_>) -> Result<Transform> {
    Ok(match c.text(Attr::CoordinateTransformationMode, "half_pixel") {
        "half_pixel" => Transform::HalfPixel,
        "half_pixel_symmetric" => Transform::HalfPixelSymmetric,
        "pytorch_half_pixel" => Transform::PytorchHalfPixel,
        "align_corners" => Transform::AlignCorners,
        "asymmetric" => Transform::Asymmetric,
        // of opset 11 alone
        "tf_half_pixel_for_nn" => Transform::TfHalfPixelForNn,
        "tf_crop_and_resize" => Transform::TfCropAndResize,
        other => return bad(format!("coordinate_transformation_mode is {other:?}")),
    })
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
    let axes = match c.attributes.ints(Attr::Axes) {
        Some(axes) => index::axes(axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let transform = transform(c)?;
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
            let common = match c.text(Attr::KeepAspectRatioPolicy, "stretch") {
                "stretch" => None,
                "not_larger" => ratios.reduce(f64::min),
                "not_smaller" => ratios.reduce(f64::max),
                other => return bad(format!("keep_aspect_ratio_policy is {other:?}")),
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
        interpolation: interpolation(c)?,
        transform,
        antialias: c.flag(Attr::Antialias, false),
        exclude_outside: c.flag(Attr::ExcludeOutside, false),
        extrapolation: c.float(Attr::ExtrapolationValue, 0.0),
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
    let interpolation = match c.text(Attr::Mode, "nearest") {
        "nearest" => Interpolation::Nearest(Nearest::Floor),
        "linear" => Interpolation::Linear,
        other => return bad(format!("mode is {other:?}, not nearest or linear")),
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
    let interpolation = match c.text(Attr::Mode, "linear") {
        "linear" | "bilinear" => Interpolation::Linear,
        "nearest" => Interpolation::Nearest(Nearest::RoundPreferFloor),
        "cubic" | "bicubic" => Interpolation::Cubic { a: -0.75 },
        other => return bad(format!("mode is {other:?}, not linear, nearest or cubic")),
    };
    let outside = match c.text(Attr::PaddingMode, "zeros") {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return bad(format!("padding_mode is {other:?}")),
    };
    one(kernel::grid_sample(
        c.input(0)?,
        c.input(1)?,
        interpolation,
        outside,
        c.flag(Attr::AlignCorners, false),
    ))
}

fn affine_grid(c: &Call<'_>) -> Outputs {
    let size = sizes(&c.ints(1)?)?;
    one(kernel::affine_grid(
        c.input(0)?,
        &size,
        c.flag(Attr::AlignCorners, false),
    ))
}
