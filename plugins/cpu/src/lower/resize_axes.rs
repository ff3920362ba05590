//! Resize of images in ONNX order, one axis after the other: linear and cubic, with and without antialiasing.
//!
//! Which pixels a new one is made of, and how much of each, is the scalar reference's word.
//!
//! Not here: nearest neighbours, and what the kernels of channels-last images cover (`resize`); regions of interest.

use polychip_cpu_kernels::reference::resize::{Axis, Interpolation, Resize, Transform, taps};
use polychip_cpu_kernels::sample::AxisPlan;
use polychip_ops::operator::{self, AspectRatio, Coordinates};
use polychip_ops::{DType, Op};
use polychip_sdk::Result;

use super::builder::Lowering;
use crate::part::Node;
use crate::work::Class;

/// Weights of an axis that are computed ahead, at most; more are left to the scalar reference, which has the image then.
const MOST_KEPT: f64 = (1 << 22) as f64;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Op::Resize, Some(x), Some(y)) = (node.op, node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let Ok(attributes) = node.typed::<operator::Resize>() else {
        return Ok(false);
    };
    let interpolation = match attributes.interpolation {
        operator::Interpolation::Linear => Interpolation::Linear,
        operator::Interpolation::Cubic => Interpolation::Cubic {
            a: f64::from(attributes.cubic),
        },
        operator::Interpolation::Nearest => return Ok(false),
    };
    let transform = match attributes.coordinates {
        Coordinates::HalfPixel => Transform::HalfPixel,
        Coordinates::HalfPixelSymmetric => Transform::HalfPixelSymmetric,
        Coordinates::PytorchHalfPixel => Transform::PytorchHalfPixel,
        Coordinates::AlignCorners => Transform::AlignCorners,
        Coordinates::Asymmetric => Transform::Asymmetric,
        Coordinates::TfHalfPixelForNn | Coordinates::TfCropAndResize => return Ok(false),
    };
    let (dims, out) = (l.shape(x)?.to_vec(), l.shape(y)?.to_vec());
    let whole_axes = attributes.aspect == AspectRatio::Ignored;
    if !l.is_f32(x)
        || !l.is_f32(y)
        || !whole_axes
        || attributes.axes.is_some()
        || dims.len() != out.len()
        || dims.contains(&0)
        || out.contains(&0)
    {
        return Ok(false);
    }
    // an empty list of scales means sizes
    let scales: Vec<f64> = match node.input(2).map(|t| l.part.numbers(t)) {
        Some(Some(scales)) if scales.len() == dims.len() => scales,
        None => out
            .iter()
            .zip(&dims)
            .map(|(&out, &size)| out as f64 / size as f64)
            .collect(),
        Some(Some(scales)) if scales.is_empty() => out
            .iter()
            .zip(&dims)
            .map(|(&out, &size)| out as f64 / size as f64)
            .collect(),
        _ => return Ok(false),
    };
    let p = Resize {
        interpolation,
        transform,
        antialias: attributes.antialias,
        exclude_outside: attributes.exclude_outside,
        extrapolation: 0.0,
    };
    let changed: Vec<usize> = (0..dims.len())
        .filter(|&d| out[d] != dims[d] || scales[d] != 1.0)
        .collect();
    let mut plans = Vec::new();
    for &d in &changed {
        let axis = Axis {
            output: out[d],
            scale: scales[d],
            roi: (0.0, 1.0),
        };
        // how much of each pixel is kept: of an axis that shrinks to almost nothing, more than the image
        let shrinks = if p.antialias { axis.scale.min(1.0) } else { 1.0 };
        let kept = (2.0 * p.interpolation.reach() / shrinks + 2.0) * out[d] as f64;
        if kept > MOST_KEPT {
            return Ok(false);
        }
        let lines: Option<Vec<_>> = (0..out[d]).map(|o| taps(o, dims[d], axis, &p)).collect();
        match lines {
            Some(lines) if axis.scale > 0.0 => plans.push((d, AxisPlan::new(dims[d], &lines))),
            _ => return Ok(false),
        }
    }
    if plans.is_empty() {
        return Ok(false);
    }
    let mut from = l.rows(x)?;
    let mut shape = dims;
    let count = plans.len();
    for (number, (d, plan)) in plans.into_iter().enumerate() {
        let (outer, inner) = (shape[..d].iter().product(), shape[d + 1..].iter().product());
        shape[d] = plan.output();
        let to = if number + 1 == count {
            l.write_rows(y)?
        } else {
            l.fresh(DType::F32, shape.clone())?
        };
        let (isa, products) = (l.isa, plan.multiply_adds(outer, inner));
        l.step(
            "resize axis",
            &[from],
            &[to],
            None,
            Box::new(move |o| {
                plan.run(isa, o.pool, inner, o.read(0), o.write(0));
                Ok(())
            }),
        )
        .does(Class::Sample, products);
        from = to;
    }
    Ok(true)
}
