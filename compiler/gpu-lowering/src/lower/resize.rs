//! Resampling of images, channels last.

use polychip_gpu_kernels::{Coordinates, Interpolation, Resize, ResizeAxis, Rounding, Scalar};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::operator::{self, AspectRatio};
use polychip_ops::{Op, axis};

use super::builder::{Lowering, of_kernel};
use super::image;
use super::movement::carried;

/// Lowers Resize over the last axes of an image.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let (Op::Resize, Some(x), Some(y)) = (node.op, node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    let rank = dims.len();
    if !(3..=4).contains(&rank) || out.len() != rank || dims[..2] != out[..2] || out.contains(&0) {
        return Err(Refusal::shape(format!(
            "a Resize from {dims:?} to {out:?} is not offered"
        )));
    }
    let attributes: operator::Resize = node.typed()?;
    let wrong = |what: &str, value: &str| {
        Err(Refusal::attribute(format!(
            "Resize with {what} '{value}' is not offered"
        )))
    };
    let coordinates = match attributes.coordinates {
        operator::Coordinates::HalfPixel => Coordinates::HalfPixel,
        operator::Coordinates::HalfPixelSymmetric => Coordinates::HalfPixelSymmetric,
        operator::Coordinates::PytorchHalfPixel => Coordinates::PytorchHalfPixel,
        operator::Coordinates::AlignCorners => Coordinates::AlignCorners,
        operator::Coordinates::Asymmetric => Coordinates::Asymmetric,
        operator::Coordinates::TfCropAndResize => Coordinates::TfCropAndResize,
        other @ operator::Coordinates::TfHalfPixelForNn => return wrong("coordinates", other.text()),
    };
    let interpolation = match attributes.interpolation {
        operator::Interpolation::Nearest => Interpolation::Nearest(match attributes.rounding {
            operator::Rounding::RoundPreferFloor => Rounding::RoundPreferFloor,
            operator::Rounding::RoundPreferCeil => Rounding::RoundPreferCeil,
            operator::Rounding::Floor => Rounding::Floor,
            operator::Rounding::Ceil => Rounding::Ceil,
        }),
        operator::Interpolation::Linear => Interpolation::Linear,
        operator::Interpolation::Cubic => Interpolation::Cubic(attributes.cubic),
    };
    let axes: Vec<usize> = match &attributes.axes {
        None => (0..rank).collect(),
        Some(axes) => axis::normalise_all(axes, rank)
            .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of rank {rank}")))?,
    };
    let numbers = |l: &Lowering<'_>, input: usize| -> Outcome<Option<Vec<f64>>> {
        let Some(t) = node.input(input) else {
            return Ok(None);
        };
        if l.dims(t)?.contains(&0) {
            return Ok(None);
        }
        l.part
            .numbers(t)
            .map(Some)
            .ok_or_else(|| Refusal::constant(format!("input {input} of Resize comes from the run")))
    };
    let (region, scales, sizes) = (numbers(l, 1)?, numbers(l, 2)?, numbers(l, 3)?);
    if attributes.aspect != AspectRatio::Ignored && sizes.is_some() {
        return wrong("the policy", attributes.aspect.text());
    }
    let of_axis = |axis: usize| -> Outcome<ResizeAxis> {
        let output = u32::try_from(out[axis]).map_err(|_| Refusal::shape("an extent beyond 32 bits"))?;
        let at = axes.iter().position(|&own| own == axis);
        let pick = |list: &Option<Vec<f64>>, at: Option<usize>| {
            list.as_ref().zip(at).and_then(|(l, at)| l.get(at).copied())
        };
        let scale = match (pick(&scales, at), sizes.is_some()) {
            (Some(scale), false) => scale as f32,
            _ => out[axis] as f32 / dims[axis] as f32,
        };
        let start = pick(&region, at).unwrap_or(0.0) as f32;
        let end = pick(&region, at.map(|at| at + axes.len())).unwrap_or(1.0) as f32;
        Ok(ResizeAxis {
            output,
            scale,
            region: [start, end],
        })
    };
    let alone = ResizeAxis {
        output: 1,
        scale: 1.0,
        region: [0.0, 1.0],
    };
    let along = if rank == 3 {
        [alone, of_axis(2)?]
    } else {
        [of_axis(2)?, of_axis(3)?]
    };
    let nearest = matches!(interpolation, Interpolation::Nearest(_));
    let kind = if nearest { carried(l, x, y) } else { Storage::Real };
    resample(l, (x, y), kind, |scalar, image| Resize {
        image,
        axes: along,
        interpolation,
        coordinates,
        antialias: attributes.antialias,
        exclude_outside: attributes.exclude_outside,
        extrapolation: attributes.extrapolation,
        scalar,
    })?;
    Ok(true)
}

fn resample(
    l: &mut Lowering<'_>,
    (x, y): (TensorIndex, TensorIndex),
    kind: Storage,
    make: impl FnOnce(Scalar, polychip_gpu_kernels::Image) -> Resize,
) -> Outcome<()> {
    let dims = l.dims(x)?;
    let from = l.get(x, Layout::ChannelsLast, kind)?;
    let resize = make(l.stored(from).scalar, image::image(dims)?);
    let kernel = l.kernel(&resize)?;
    let taps = l.packed(kernel.bindings[1].bytes, || resize.pack().map_err(of_kernel))?;
    let (_, target) = l.destination(y, Layout::ChannelsLast, kind)?;
    l.define(y, Layout::ChannelsLast, kind, target)?;
    l.launch_kernel(kernel, &[from, taps, target])
}
