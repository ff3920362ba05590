//! Points between the pixels of images: GridSample, RoiAlign, DeformConv; affine grids and columns added to images.
//!
//! Invariant: images have two dimensions, in f32 or an encoding of it; others fall to the reference.

use polychip_cpu_kernels::gemm::{Elements, MAX_BATCH_DIMS, MatMulParams, Strides};
use polychip_cpu_kernels::sample::{
    Between, ColumnsPlan, DeformPlan, GridPlan, LargestPlan, Outside, RegionPlan, affine_grid,
};
use polychip_cpu_kernels::{Binary, Unary};
use polychip_ops::operator::{
    self, AffineGrid, Col2Im, DeformConv, GridSample, Interpolation, MaxRoiPool, RegionCoordinates,
    RegionMode, RoiAlign,
};
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::{Lowering, shape_error};
use super::{matmul, steps};
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, ValueId};
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if !l.is_f32(x) || !l.is_f32(y) || l.shape(y)?.contains(&0) || l.shape(x)?.contains(&0) {
        return Ok(false);
    }
    match node.op {
        Op::GridSample => grid_sample(l, node, x, y),
        Op::RoiAlign => regions(l, node, x, y),
        Op::MaxRoiPool => largest(l, node, x, y),
        Op::DeformConv => deform(l, node, x, y),
        Op::AffineGrid => affine(l, node, x, y),
        Op::Col2Im => columns(l, node, x, y),
        _ => Ok(false),
    }
}

/// Offsets and weights of taps.
fn taps(l: &mut Lowering<'_>, len: usize) -> Result<[ValueId; 2]> {
    Ok([l.fresh(DType::U32, vec![len])?, l.fresh(DType::F32, vec![len])?])
}

fn grid_sample(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let Ok(attributes) = node.typed::<GridSample>() else {
        return Ok(false);
    };
    let between = match attributes.interpolation {
        Interpolation::Linear => Between::Linear,
        Interpolation::Nearest => Between::Nearest,
        Interpolation::Cubic => Between::Cubic,
    };
    let outside = match attributes.outside {
        operator::Outside::Zeros => Outside::Zeros,
        operator::Outside::Border => Outside::Border,
        operator::Outside::Reflection => Outside::Reflection,
    };
    let Some(grid) = node.input(1).filter(|&grid| l.is_f32(grid)) else {
        return Ok(false);
    };
    let (&[n, c, h, w], &[of, rows, across, 2]) = (l.shape(x)?, l.shape(grid)?) else {
        return Ok(false);
    };
    if of != n || l.shape(y)? != [n, c, rows, across] {
        return Ok(false);
    }
    let plan = GridPlan {
        images: [n, c],
        size: [h, w],
        points: rows * across,
        between,
        outside,
        align_corners: attributes.align_corners,
    };
    let reads = [l.rows(x)?, l.rows(grid)?];
    let [offsets, weights] = taps(l, plan.scratch_len())?;
    let (isa, to) = (l.isa, l.write_rows(y)?);
    l.step(
        "GridSample",
        &reads,
        &[to, offsets, weights],
        None,
        Box::new(move |o| {
            let (x, grid, y) = (o.read(0), o.read(1), o.write(0));
            plan.run(isa, o.pool, x, grid, (o.write(1), o.write(2)), y);
            Ok(())
        }),
    )
    .does(Class::Sample, n * (c + 4) * plan.scratch_len());
    Ok(true)
}

fn regions(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let Ok(attributes) = node.typed::<RoiAlign>() else {
        return Ok(false);
    };
    let half_pixel = attributes.coordinates == RegionCoordinates::HalfPixel;
    // the number of samples of a cell must be known before the run
    let Some(samples) = Some(attributes.sampling_ratio).filter(|samples| (1..=16).contains(samples)) else {
        return Ok(false);
    };
    let (Some(boxes), Some(images)) = (node.input(1), node.input(2)) else {
        return Ok(false);
    };
    let (&[n, c, h, w], &[count, of, rows, across], boxed) = (l.shape(x)?, l.shape(y)?, l.shape(boxes)?)
    else {
        return Ok(false);
    };
    let fits = boxed == [count, 4] && l.shape(images)? == [count] && of == c && l.is_f32(boxes);
    if !fits || l.dtype(images) != DType::I64 || attributes.mode != RegionMode::Average {
        return Ok(false);
    }
    let plan = RegionPlan {
        images: [n, c],
        size: [h, w],
        output: [rows, across],
        samples,
        scale: f64::from(attributes.spatial_scale),
        half_pixel,
    };
    let reads = [l.rows(x)?, l.rows(boxes)?, l.rows(images)?];
    let [offsets, weights] = taps(l, plan.scratch_len())?;
    let (isa, to) = (l.isa, l.write_rows(y)?);
    l.step(
        "RoiAlign",
        &reads,
        &[to, offsets, weights],
        None,
        Box::new(move |o| {
            let (regions, y) = ((o.read(1), o.read(2)), o.write(0));
            let outcome = plan.run(isa, o.pool, o.read(0), regions, (o.write(1), o.write(2)), y);
            outcome.map_err(|image| {
                let message = format!("RoiAlign: a region of image {image}, there are {n}");
                Error::new(ErrorKind::BadArgument, message)
            })
        }),
    )
    .does(Class::Sample, count * (c + 4) * plan.scratch_len());
    Ok(true)
}

fn largest(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let (Ok(MaxRoiPool { spatial_scale, .. }), Some(regions)) = (node.typed(), node.input(1)) else {
        return Ok(false);
    };
    let (&[n, c, h, w], &[count, of, rows, across], boxed) = (l.shape(x)?, l.shape(y)?, l.shape(regions)?)
    else {
        return Ok(false);
    };
    if boxed != [count, 5] || of != c || !l.is_f32(regions) {
        return Ok(false);
    }
    let plan = LargestPlan {
        images: [n, c],
        size: [h, w],
        output: [rows, across],
        scale: f64::from(spatial_scale),
    };
    let (isa, reads, to) = (l.isa, [l.rows(x)?, l.rows(regions)?], l.write_rows(y)?);
    // a region may be all of its image
    let seen = count * c * (rows * across + h * w);
    l.step(
        "MaxRoiPool",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            let outcome = plan.run(isa, o.pool, o.read(0), o.read(1), o.write(0));
            outcome.map_err(|image| {
                let message = format!("MaxRoiPool: a region of image {image}, there are {n}");
                Error::new(ErrorKind::BadArgument, message)
            })
        }),
    )
    .does(Class::Arithmetic, seen);
    Ok(true)
}

/// A convolution whose taps lie where offsets say: columns of samples, and a product of filters and columns for each group.
fn deform(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let (Some(w), Some(offset)) = (node.input(1), node.input(2)) else {
        return Ok(false);
    };
    if !l.all_f32(node) {
        return Ok(false);
    }
    let Ok(attributes) = node.typed::<DeformConv>() else {
        return Ok(false);
    };
    let (group, offset_group) = (attributes.groups.get(), attributes.offset_groups.get());
    let (&[n, c, h, width], &[m, per_group, kh, kw]) = (l.shape(x)?, l.shape(w)?) else {
        return Ok(false);
    };
    let window = attributes.window.over(&[kh, kw]).map_err(shape_error)?;
    let placement = window.resolve(&[h, width]).map_err(shape_error)?;
    let &[oh, ow] = &placement.output[..] else {
        return Ok(false);
    };
    let taps_of = |planes: usize| vec![n, offset_group * kh * kw * planes, oh, ow];
    let fits = c == per_group * group
        && m % group == 0
        && c % offset_group == 0
        && l.shape(y)? == [n, m, oh, ow]
        && l.shape(offset)? == taps_of(2)
        && node
            .input(4)
            .is_none_or(|mask| l.shape(mask).is_ok_and(|dims| dims == taps_of(1)));
    if !fits {
        return Ok(false);
    }
    let pair = |values: &[usize]| [values[0], values[1]];
    let plan = DeformPlan {
        channels: c,
        groups: offset_group,
        size: [h, width],
        output: [oh, ow],
        kernel: [kh, kw],
        strides: pair(&window.strides),
        dilations: pair(&window.dilations),
        pads: [placement.begin[0] as i64, placement.begin[1] as i64],
    };
    let (points, depth) = (oh * ow, c * kh * kw);
    let (image, offsets) = (l.rows(x)?, l.rows(offset)?);
    let mut reads = vec![image, offsets];
    let masked = node.input(4).is_some();
    if let Some(mask) = node.input(4) {
        reads.push(l.rows(mask)?);
    }
    let columns = l.fresh(DType::F32, vec![n, depth, points])?;
    let [at, weights] = taps(l, plan.scratch_len())?;
    let isa = l.isa;
    l.step(
        "DeformConv",
        &reads,
        &[columns, at, weights],
        None,
        Box::new(move |o: &mut Operands<'_>| {
            let (x, offsets) = (o.read::<f32>(0), o.read::<f32>(1));
            let mask = masked.then(|| o.read::<f32>(2));
            let (columns, at, weights) = (o.write::<f32>(0), o.write::<u32>(1), o.write::<f32>(2));
            let taps = offset_group * kh * kw * points;
            for image in 0..n {
                plan.run(
                    isa,
                    o.pool,
                    &x[image * c * h * width..][..c * h * width],
                    &offsets[image * 2 * taps..][..2 * taps],
                    mask.map(|mask| &mask[image * taps..][..taps]),
                    (at, weights),
                    &mut columns[image * depth * points..][..depth * points],
                );
            }
            Ok(())
        }),
    )
    .does(
        Class::Sample,
        4 * n * points * (depth + 16 * offset_group * kh * kw),
    );
    let mut batch = [1; MAX_BATCH_DIMS];
    batch[MAX_BATCH_DIMS - 2..].copy_from_slice(&[n, group]);
    let strides = |image: usize, own: usize, row: usize| {
        let mut batch = [0; MAX_BATCH_DIMS];
        batch[MAX_BATCH_DIMS - 2..].copy_from_slice(&[image, own]);
        Strides {
            batch,
            row,
            column: 1,
        }
    };
    let (rows, k) = (m / group, depth / group);
    let params = MatMulParams {
        batch,
        m: rows,
        k,
        n: points,
        a: strides(0, rows * k, k),
        b: strides(depth * points, k * points, points),
        c: strides(m * points, rows * points, points),
        alpha: 1.0,
        activation: Unary::Identity,
    };
    let filters = l.rows(w)?;
    let Some(bias) = node.input(3) else {
        let to = l.write_rows(y)?;
        matmul::product(l, Elements::F32, params, filters, columns, to)?;
        return Ok(true);
    };
    let raw = l.fresh(DType::F32, vec![n, m, oh, ow])?;
    matmul::product(l, Elements::F32, params, filters, columns, raw)?;
    let bias = l.rows(bias)?;
    let bias = l.view(bias, vec![m, 1, 1]);
    let to = l.write_rows(y)?;
    steps::binary(l, Binary::Add, raw, bias, to)?;
    Ok(true)
}

fn affine(l: &mut Lowering<'_>, node: &Node, theta: TensorIndex, y: TensorIndex) -> Result<bool> {
    let (&[n, h, w, 2], &[of, 2, 3]) = (l.shape(y)?, l.shape(theta)?) else {
        return Ok(false);
    };
    if of != n {
        return Ok(false);
    }
    let Ok(AffineGrid { align_corners }) = node.typed() else {
        return Ok(false);
    };
    let (isa, from, to) = (l.isa, l.rows(theta)?, l.write_rows(y)?);
    l.step(
        "AffineGrid",
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            affine_grid(isa, o.pool, o.read(0), [h, w], align_corners, o.write(0));
            Ok(())
        }),
    )
    .is(Class::Arithmetic);
    Ok(true)
}

fn columns(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let given = |i: usize| -> Option<[usize; 2]> {
        let values = l.part.integers(node.input(i)?)?;
        let values: Vec<usize> = values
            .iter()
            .map(|&v| usize::try_from(v).ok())
            .collect::<Option<_>>()?;
        values.try_into().ok()
    };
    let (Some(size), Some(kernel)) = (given(1), given(2)) else {
        return Ok(false);
    };
    let Ok(Col2Im { window }) = node.typed() else {
        return Ok(false);
    };
    let pair = |values: &[i64]| -> Option<[usize; 2]> {
        match *values {
            [] => Some([1, 1]),
            [a, b] => Some([usize::try_from(a).ok()?, usize::try_from(b).ok()?]),
            _ => None,
        }
    };
    let pads: Option<[i64; 4]> = match &window.pads[..] {
        [] => Some([0; 4]),
        pads => pads.try_into().ok(),
    };
    let (Some(strides), Some(dilations), Some(pads)) = (pair(&window.strides), pair(&window.dilations), pads)
    else {
        return Ok(false);
    };
    if strides.contains(&0)
        || dilations.contains(&0)
        || kernel.contains(&0)
        || pads.iter().any(|&pad| pad < 0)
    {
        return Ok(false);
    }
    let windows = |d: usize| -> Option<usize> {
        let room = size[d] + pads[d] as usize + pads[d + 2] as usize;
        let reach = (kernel[d] - 1).checked_mul(dilations[d])?;
        Some((room.checked_sub(reach + 1)?) / strides[d] + 1)
    };
    let (Some(down), Some(across)) = (windows(0), windows(1)) else {
        return Ok(false);
    };
    let &[n, rows, places] = l.shape(x)? else {
        return Ok(false);
    };
    let taps = kernel[0] * kernel[1];
    if places != down * across || rows % taps != 0 || l.shape(y)? != [n, rows / taps, size[0], size[1]] {
        return Ok(false);
    }
    let plan = ColumnsPlan {
        size,
        kernel,
        windows: [down, across],
        strides,
        dilations,
        pads: [pads[0], pads[1]],
    };
    let (isa, from, to) = (l.isa, l.rows(x)?, l.write_rows(y)?);
    l.step(
        "Col2Im",
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            plan.run(isa, o.pool, o.read(0), &[], o.write(0));
            Ok(())
        }),
    )
    .does(Class::Arithmetic, n * rows * places);
    Ok(true)
}
