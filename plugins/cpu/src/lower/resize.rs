//! Resize of images, channels last: nearest and linear in two spatial dimensions.

use polychip_cpu_kernels::sample;
use polychip_lowering::{Layout, Storage};
use polychip_ops::Op;
use polychip_ops::operator::{self, AspectRatio, Interpolation, Resize, Rounding};
use polychip_sdk::Result;

use super::builder::Lowering;
use super::encoding::grid;
use super::steps::strided;
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain};
use crate::work::Class;

/// How an output coordinate maps to the input.
#[derive(Clone, Copy)]
enum Coordinates {
    HalfPixel,
    PytorchHalfPixel,
    Asymmetric,
    AlignCorners,
}

impl Coordinates {
    /// The input coordinate of output pixel `x`.
    fn source(self, x: usize, scale: f64, input: usize, output: usize) -> f64 {
        let x = x as f64;
        match self {
            Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel if output > 1 => (x + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel => 0.0,
            Coordinates::Asymmetric => x / scale,
            // the length that the scale makes, which may lie between two integers: so has it ONNX's backend suite
            Coordinates::AlignCorners if scale * input as f64 == 1.0 => 0.0,
            Coordinates::AlignCorners => x * (input as f64 - 1.0) / (scale * input as f64 - 1.0),
        }
    }
}

/// Repeats each pixel of `[lines, width, channels]` down and across: a strided copy, into a concatenation's place where
/// the result has one.
fn repeat(
    l: &mut Lowering<'_>,
    (x, y): (TensorIndex, TensorIndex),
    storage: Storage,
    [lines, width, channels]: [usize; 3],
    [down, across]: [usize; 2],
) -> Result<()> {
    let (mut input, mut stride) = l.image(x, storage)?;
    let (output, pixel) = match l.concat_of(y, storage) {
        Some(place) => {
            let whole = l.begin_concat(place, storage)?;
            if l.are_together(input, whole) {
                (input, stride) = (l.read(x, Layout::ChannelsLast, storage)?, channels);
            }
            (l.write_in_place(y, place, storage)?, place.channels)
        }
        None => (l.write(y, Layout::ChannelsLast, storage)?, channels),
    };
    let line = width * across * pixel;
    let from = [width * stride, 0, stride, 0, 1].map(|stride| stride as isize);
    let to = [down * line, line, across * pixel, pixel, 1].map(|stride| stride as isize);
    let shape = [lines, down, width, across, channels];
    strided(l, "resize nearest", &shape, (input, 0, &from), (output, 0, &to))
}

/// Repeats each pixel of planes in ONNX order, of any elements of a fixed size.
fn rows_repeated(
    l: &mut Lowering<'_>,
    (x, y): (TensorIndex, TensorIndex),
    lines: [usize; 2],
    times: [usize; 2],
) -> Result<()> {
    let (isa, from, to) = (l.isa, l.rows(x)?, l.write_rows(y)?);
    let width = l.width(from);
    l.step(
        "resize nearest",
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            match width {
                1 => sample::repeat::<u8>(isa, o.pool, lines, times, o.read(0), o.write(0)),
                2 => sample::repeat::<u16>(isa, o.pool, lines, times, o.read(0), o.write(0)),
                4 => sample::repeat::<u32>(isa, o.pool, lines, times, o.read(0), o.write(0)),
                _ => sample::repeat::<u64>(isa, o.pool, lines, times, o.read(0), o.write(0)),
            }
            Ok(())
        }),
    )
    .is(Class::Copy);
    Ok(())
}

/// Repeats each pixel of an image of what is no f32, where nearest neighbours come to that; `false` where they do not.
pub(super) fn lower_plain(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let Ok(attributes) = node.typed::<Resize>() else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    let floor =
        attributes.rounding == Rounding::Floor && attributes.coordinates == operator::Coordinates::Asymmetric;
    let fits = attributes.interpolation == Interpolation::Nearest
        && attributes.aspect == AspectRatio::Ignored
        && attributes.axes.is_none()
        && !l.is_f32(x)
        && plain(x)
        && plain(y)
        && l.dtype(x) == l.dtype(y)
        && floor;
    let (&[n, c, h, w], &[out_n, out_c, out_h, out_w]) = (l.shape(x)?, l.shape(y)?) else {
        return Ok(false);
    };
    let whole = (n, c) == (out_n, out_c)
        && ![h, w, out_h, out_w].contains(&0)
        && out_h.is_multiple_of(h)
        && out_w.is_multiple_of(w);
    let times = [out_h / h.max(1), out_w / w.max(1)];
    let scaled = match node.input(2).map(|t| l.part.numbers(t)) {
        None => true,
        Some(Some(scales)) if scales.is_empty() => true,
        Some(Some(scales)) => scales[..] == [1.0, 1.0, times[0] as f64, times[1] as f64],
        Some(None) => false,
    };
    if !fits || !whole || !scaled || !matches!(l.dtype(x).byte_width(), Some(1 | 2 | 4 | 8)) {
        return Ok(false);
    }
    rows_repeated(l, (x, y), [n * c * h, w], times)?;
    Ok(true)
}

/// Lowers Resize.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if node.op != Op::Resize || !l.is_f32(x) || !l.is_f32(y) {
        return Ok(false);
    }
    let (&[n, c, h, w], &[out_n, out_c, out_h, out_w]) = (l.shape(x)?, l.shape(y)?) else {
        return Ok(false);
    };
    let Ok(attributes) = node.typed::<Resize>() else {
        return Ok(false);
    };
    if (n, c) != (out_n, out_c)
        || attributes.antialias
        || attributes.aspect != AspectRatio::Ignored
        || attributes.axes.is_some()
        || [h, w, out_h, out_w].contains(&0)
    {
        return Ok(false);
    }
    let coordinates = match attributes.coordinates {
        operator::Coordinates::HalfPixel => Coordinates::HalfPixel,
        operator::Coordinates::PytorchHalfPixel => Coordinates::PytorchHalfPixel,
        operator::Coordinates::Asymmetric => Coordinates::Asymmetric,
        operator::Coordinates::AlignCorners => Coordinates::AlignCorners,
        operator::Coordinates::HalfPixelSymmetric
        | operator::Coordinates::TfHalfPixelForNn
        | operator::Coordinates::TfCropAndResize => return Ok(false),
    };
    // an empty list of scales means sizes
    let scales = match node
        .input(2)
        .map(|t| (l.shape(t).map(|s| s.iter().product::<usize>()), l.part.numbers(t)))
    {
        Some((Ok(4), Some(scales))) if scales[0] == 1.0 && scales[1] == 1.0 => [scales[2], scales[3]],
        None | Some((Ok(0), _)) if node.input(3).is_some() => {
            [out_h as f64 / h as f64, out_w as f64 / w as f64]
        }
        _ => return Ok(false),
    };
    // of a size that is cut off, these measure by what it was before
    let cut = (scales[0] * h as f64, scales[1] * w as f64) != (out_h as f64, out_w as f64);
    if cut
        && matches!(
            coordinates,
            Coordinates::AlignCorners | Coordinates::PytorchHalfPixel
        )
    {
        return Ok(false);
    }
    match attributes.interpolation {
        Interpolation::Nearest => {
            let round: fn(f64) -> f64 = match attributes.rounding {
                Rounding::RoundPreferFloor => |x| (x - 0.5).ceil(),
                Rounding::RoundPreferCeil => |x| (x + 0.5).floor(),
                Rounding::Floor => f64::floor,
                Rounding::Ceil => f64::ceil,
            };
            let map = |scale: f64, input: usize, output: usize| -> Vec<usize> {
                (0..output)
                    .map(|x| {
                        round(coordinates.source(x, scale, input, output)).clamp(0.0, (input - 1) as f64)
                            as usize
                    })
                    .collect()
            };
            let (rows, columns) = (map(scales[0], h, out_h), map(scales[1], w, out_w));
            let storage = match (grid(l.part, x), grid(l.part, y)) {
                // pixels that are only moved stay codes
                (Some(from), Some(to)) if from == to => Storage::Codes,
                _ => l.kept(x, &[Some(y)]),
            };
            let repeats = |map: &[usize], size: usize| {
                let times = map.len() / size;
                (map.len().is_multiple_of(size) && map.iter().enumerate().all(|(i, &from)| from == i / times))
                    .then_some(times)
            };
            if let (Some(down), Some(across)) = (repeats(&rows, h), repeats(&columns, w)) {
                if storage == Storage::Real && !l.has_channels(x) && l.concat_of(y, storage).is_none() {
                    rows_repeated(l, (x, y), [n * c * h, w], [down, across])?;
                } else {
                    repeat(l, (x, y), storage, [n * h, w, c], [down, across])?;
                }
                return Ok(true);
            }
            let (input, output) = (
                l.read(x, Layout::ChannelsLast, storage)?,
                l.write(y, Layout::ChannelsLast, storage)?,
            );
            l.step(
                "resize nearest",
                &[input],
                &[output],
                None,
                Box::new(move |o| {
                    fn nearest<T: Plain>(
                        o: &mut Operands<'_>,
                        rows: &[usize],
                        columns: &[usize],
                        [h, w, c]: [usize; 3],
                    ) {
                        let x = o.read::<T>(0);
                        let line = columns.len() * c;
                        for (index, y) in o.write::<T>(0).chunks_exact_mut(line.max(1)).enumerate() {
                            let from = (index / rows.len() * h + rows[index % rows.len()]) * w;
                            for (y, column) in y.chunks_exact_mut(c).zip(columns) {
                                let start = (from + column) * c;
                                y.copy_from_slice(&x[start..start + c]);
                            }
                        }
                    }
                    match storage {
                        Storage::Codes => nearest::<u8>(o, &rows, &columns, [h, w, c]),
                        Storage::Bf16 => nearest::<u16>(o, &rows, &columns, [h, w, c]),
                        _ => nearest::<f32>(o, &rows, &columns, [h, w, c]),
                    }
                    Ok(())
                }),
            )
            .is(Class::Copy);
        }
        Interpolation::Linear => {
            let map = |scale: f64, input: usize, output: usize| -> Vec<(usize, usize, f32)> {
                (0..output)
                    .map(|x| {
                        let last = (input - 1) as f64;
                        let source = coordinates.source(x, scale, input, output).clamp(0.0, last);
                        let low = source.floor();
                        (
                            low as usize,
                            (low + 1.0).min(last) as usize,
                            (source - low) as f32,
                        )
                    })
                    .collect()
            };
            let (rows, columns) = (map(scales[0], h, out_h), map(scales[1], w, out_w));
            let (input, output) = (l.channels(x)?, l.write_channels(y)?);
            l.step(
                "resize linear",
                &[input],
                &[output],
                None,
                Box::new(move |o| {
                    let x = o.read::<f32>(0);
                    let line = columns.len() * c;
                    for (index, y) in o.write::<f32>(0).chunks_exact_mut(line.max(1)).enumerate() {
                        let image = index / rows.len() * h;
                        let (top, bottom, down) = rows[index % rows.len()];
                        for (y, &(left, right, along)) in y.chunks_exact_mut(c).zip(&columns) {
                            let pixel = |row: usize, column: usize| {
                                let start = ((image + row) * w + column) * c;
                                &x[start..start + c]
                            };
                            let corners = [
                                pixel(top, left),
                                pixel(top, right),
                                pixel(bottom, left),
                                pixel(bottom, right),
                            ];
                            for (i, y) in y.iter_mut().enumerate() {
                                let above = corners[0][i] + (corners[1][i] - corners[0][i]) * along;
                                let below = corners[2][i] + (corners[3][i] - corners[2][i]) * along;
                                *y = above + (below - above) * down;
                            }
                        }
                    }
                    Ok(())
                }),
            )
            .is(Class::Resize);
        }
        Interpolation::Cubic => return Ok(false),
    }
    Ok(true)
}
