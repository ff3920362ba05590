//! Convolutions and matrix products of fixed-point numbers, exact and fast enough for whole models.
//!
//! Invariants:
//! 1. Sums of products are exact integers; scales enter once, in `f64`, rounded half away from zero.
//! 2. Padding is the real zero.
//!
//! Not here: floats and dynamic weights; those the oracle computes from the same node's recipe.

use polychip_emulator_qnn_format::{Dtype, Kind, Linear, Tensor};

use crate::lower;
use crate::real;
use crate::view::View;

/// A sum of 8-bit products is kept in 32 bits over this many: 255 * 255 * 2^14 fits.
const RUN: usize = 1 << 14;

/// A convolution with constant weights, ready to run.
pub(crate) struct Product {
    /// `[n, h, w, c]` of the input; a matrix product is an image of one row.
    input: [usize; 4],
    /// `[oh, ow]`.
    output: [usize; 2],
    kernel: [usize; 2],
    strides: [i64; 2],
    dilations: [i64; 2],
    pads: [i64; 2],
    groups: usize,
    filters: usize,
    weights: Weights,
    /// In units of the product of both scales.
    bias: Vec<i64>,
    /// From a sum to steps of the output, per filter.
    factors: Vec<f64>,
    from: (Tensor, Dtype, i64),
    to: (Dtype, Linear, (i64, i64)),
}

enum Weights {
    /// `[group][filter][tap * channel]`.
    Narrow(Vec<i16>),
    /// The same for numbers of 16 bits and more.
    Wide(Vec<i32>),
    /// One filter per channel, `[tap][channel]`.
    Depthwise(Vec<i32>),
}

impl Product {
    /// The fast form of a node, if it has one.
    pub(crate) fn new(view: &View<'_>) -> Option<Product> {
        let (x, w) = (view.input(0).ok()?, view.input(1).ok()?);
        let y = view.output(0).ok()?;
        let (x_type, w_type, y_type) = (x.known_dtype()?, w.known_dtype()?, y.known_dtype()?);
        let fixed = [x_type, w_type, y_type].iter().all(|dtype| dtype.is_fixed());
        if !fixed || x_type.bits() > 16 || w_type.bits() > 16 || w.kind != Kind::Static {
            return None;
        }
        let (x_step, y_step) = (real::one_step(x)?, real::one_step(y)?);
        let shape = Shape::of(view, x, w)?;
        let (axis, steps) = w.encoding.steps()?;
        let steps = match (axis, steps) {
            (None, [step]) => vec![*step; shape.filters],
            (Some(axis), steps) if axis == shape.filter_axis && steps.len() == shape.filters => {
                steps.to_vec()
            }
            _ => return None,
        };
        let numbers = real::numbers(w, &w.data).ok()?;
        let scale = |filter: usize| f64::from(x_step.scale) * f64::from(steps[filter].scale);
        let bias = match view.inputs.get(2).copied().flatten() {
            None => vec![0; shape.filters],
            Some(bias) => bias_units(bias, shape.filters, scale)?,
        };
        let narrow = x_type.bits() <= 8 && w_type.bits() <= 8;
        Some(Product {
            weights: shape.weights(&numbers, &steps, narrow),
            input: shape.input,
            output: shape.output,
            kernel: shape.kernel,
            strides: shape.strides,
            dilations: shape.dilations,
            pads: shape.pads,
            groups: shape.groups,
            filters: shape.filters,
            bias,
            factors: (0..shape.filters)
                .map(|filter| scale(filter) / f64::from(y_step.scale))
                .collect(),
            from: (
                Tensor {
                    data: Vec::new().into(),
                    ..x.clone()
                },
                x_type,
                x_step.offset.into(),
            ),
            to: (y_type, y_step, real::range(y, y_type)),
        })
    }

    /// Multiplications and additions of one run.
    pub(crate) fn macs(&self) -> u64 {
        let places = self.input[0] * self.output[0] * self.output[1];
        let taps = self.kernel[0] * self.kernel[1] * (self.input[3] / self.groups.max(1));
        (places * taps * self.filters) as u64
    }

    /// The output's bytes.
    pub(crate) fn run(&self, bytes: &[u8]) -> Vec<u8> {
        let (spec, dtype, offset) = &self.from;
        let places = self.input[0] * self.output[0] * self.output[1];
        let mut out = Vec::with_capacity(places * self.filters * self.to.0.bits() / 8);
        match &self.weights {
            Weights::Narrow(weights) => {
                let mut x: Vec<i16> = Vec::with_capacity(bytes.len());
                real::each(spec, *dtype, bytes, |q| x.push((q + offset) as i16));
                self.rows(&x, weights, dot_narrow, &mut out);
            }
            Weights::Wide(weights) => {
                let mut x: Vec<i32> = Vec::with_capacity(bytes.len());
                real::each(spec, *dtype, bytes, |q| x.push((q + offset) as i32));
                self.rows(&x, weights, dot_wide, &mut out);
            }
            Weights::Depthwise(weights) => {
                let mut x: Vec<i32> = Vec::with_capacity(bytes.len());
                real::each(spec, *dtype, bytes, |q| x.push((q + offset) as i32));
                if dtype.bits() <= 8 {
                    self.depthwise::<i32>(&x, weights, &mut out);
                } else {
                    self.depthwise::<i64>(&x, weights, &mut out);
                }
            }
        }
        out
    }

    /// The input element that a tap of an output place reads, on one axis.
    fn source(&self, axis: usize, place: usize, tap: usize) -> Option<usize> {
        let at = place as i64 * self.strides[axis] + tap as i64 * self.dilations[axis] - self.pads[axis];
        usize::try_from(at).ok().filter(|&at| at < self.input[1 + axis])
    }

    fn emit(&self, sums: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
        let (dtype, step, (low, high)) = self.to;
        let numbers = sums.enumerate().map(|(filter, sum)| {
            let steps = ((sum + self.bias[filter]) as f64 * self.factors[filter]).round();
            (steps as i64).saturating_sub(step.offset.into()).clamp(low, high)
        });
        real::pack(dtype, numbers, out);
    }

    fn rows<T: Copy + Default>(&self, x: &[T], weights: &[T], dot: fn(&[T], &[T]) -> i64, out: &mut Vec<u8>) {
        let [n, h, w, c] = self.input;
        let per_group = c / self.groups;
        let taps = self.kernel[0] * self.kernel[1];
        let depth = taps * per_group;
        let filters = self.filters / self.groups;
        // one row of all groups: [group][tap][channel]
        let mut row = vec![T::default(); self.groups * depth];
        let mut sums = vec![0i64; self.filters];
        for image in 0..n {
            for oy in 0..self.output[0] {
                for ox in 0..self.output[1] {
                    for ky in 0..self.kernel[0] {
                        let y = self.source(0, oy, ky);
                        for kx in 0..self.kernel[1] {
                            let tap = ky * self.kernel[1] + kx;
                            let from = y.zip(self.source(1, ox, kx));
                            for group in 0..self.groups {
                                let to = &mut row[group * depth + tap * per_group..][..per_group];
                                match from {
                                    None => to.fill(T::default()),
                                    Some((y, x_at)) => {
                                        let at = ((image * h + y) * w + x_at) * c + group * per_group;
                                        to.copy_from_slice(&x[at..at + per_group]);
                                    }
                                }
                            }
                        }
                    }
                    for group in 0..self.groups {
                        let values = &row[group * depth..][..depth];
                        for f in 0..filters {
                            let filter = group * filters + f;
                            sums[filter] = dot(values, &weights[filter * depth..][..depth]);
                        }
                    }
                    self.emit(sums.iter().copied(), out);
                }
            }
        }
    }

    fn depthwise<S>(&self, x: &[i32], weights: &[i32], out: &mut Vec<u8>)
    where
        S: Copy + Default + std::ops::AddAssign + std::ops::Mul<Output = S> + From<i32> + Into<i64>,
    {
        let [n, h, w, c] = self.input;
        let mut sums = vec![S::default(); c];
        for image in 0..n {
            for oy in 0..self.output[0] {
                for ox in 0..self.output[1] {
                    sums.fill(S::default());
                    for ky in 0..self.kernel[0] {
                        let Some(y) = self.source(0, oy, ky) else { continue };
                        for kx in 0..self.kernel[1] {
                            let Some(x_at) = self.source(1, ox, kx) else {
                                continue;
                            };
                            let values = &x[((image * h + y) * w + x_at) * c..][..c];
                            let tap = &weights[(ky * self.kernel[1] + kx) * c..][..c];
                            for ((sum, &value), &weight) in sums.iter_mut().zip(values).zip(tap) {
                                *sum += S::from(value) * S::from(weight);
                            }
                        }
                    }
                    self.emit(sums.iter().map(|&sum| sum.into()), out);
                }
            }
        }
    }
}

fn dot_narrow(a: &[i16], b: &[i16]) -> i64 {
    a.chunks(RUN)
        .zip(b.chunks(RUN))
        .map(|(a, b)| {
            let sum: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
            i64::from(sum)
        })
        .sum()
}

fn dot_wide(a: &[i32], b: &[i32]) -> i64 {
    a.iter().zip(b).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum()
}

/// A bias in units of the product of both scales.
fn bias_units(bias: &Tensor, filters: usize, scale: impl Fn(usize) -> f64) -> Option<Vec<i64>> {
    if bias.kind != Kind::Static || bias.elements() != Some(filters) {
        return None;
    }
    let numbers = real::numbers(bias, &bias.data).ok()?;
    let Some((_, steps)) = bias.encoding.steps() else {
        return Some(numbers);
    };
    Some(
        numbers
            .into_iter()
            .enumerate()
            .map(|(filter, q)| {
                let step = steps[filter % steps.len()];
                let ratio = f64::from(step.scale) / scale(filter);
                let q = q + i64::from(step.offset);
                // the usual case: both are the same scale, written with other rounding
                if (ratio - 1.0).abs() < 1e-4 {
                    q
                } else {
                    (q as f64 * ratio).round() as i64
                }
            })
            .collect(),
    )
}

/// Sizes of a product, and how its weights lie in memory.
struct Shape {
    input: [usize; 4],
    output: [usize; 2],
    kernel: [usize; 2],
    strides: [i64; 2],
    dilations: [i64; 2],
    pads: [i64; 2],
    groups: usize,
    filters: usize,
    filter_axis: usize,
    /// `[tap, channel, filter]`, else `[filter, channel]`.
    filters_last: bool,
    depthwise: bool,
}

impl Shape {
    fn of(view: &View<'_>, x: &Tensor, w: &Tensor) -> Option<Shape> {
        let (xs, ws) = (x.shape(), w.shape());
        let matrix = |units: usize, inputs: usize, filters_last: bool| Shape {
            input: [
                1,
                1,
                x.elements().unwrap_or(0).checked_div(inputs).unwrap_or(0),
                inputs,
            ],
            output: [1, x.elements().unwrap_or(0).checked_div(inputs).unwrap_or(0)],
            kernel: [1; 2],
            strides: [1; 2],
            dilations: [1; 2],
            pads: [0; 2],
            groups: 1,
            filters: units,
            filter_axis: usize::from(filters_last),
            filters_last,
            depthwise: false,
        };
        match view.op {
            "FullyConnected" => Some(matrix(*ws.first()?, *ws.get(1)?, false)),
            "MatMul" => {
                let transposed = view.flag("transpose_in0", false).ok()?;
                let turned = view.flag("transpose_in1", false).ok()?;
                let &[a, b] = &ws[..] else { return None };
                if transposed || xs.len() < 2 {
                    return None;
                }
                Some(if turned {
                    matrix(a, b, false)
                } else {
                    matrix(b, a, true)
                })
            }
            "Conv2d" | "DepthWiseConv2d" => {
                let depthwise = view.op == "DepthWiseConv2d";
                let g = lower::geometry(view, depthwise).ok()?;
                let groups = usize::try_from(g.group).ok().filter(|&group| group > 0)?;
                let y = view.output(0).ok()?.shape();
                let (&[n, h, wide, c], &[kh, kw, _, filters], &[_, oh, ow, _]) = (&xs[..], &ws[..], &y[..])
                else {
                    return None;
                };
                Some(Shape {
                    input: [n, h, wide, c],
                    output: [oh, ow],
                    kernel: [kh, kw],
                    strides: g.strides,
                    dilations: g.dilations,
                    pads: [g.pads[0], g.pads[1]],
                    groups,
                    filters,
                    filter_axis: 3,
                    filters_last: true,
                    depthwise: depthwise && filters == c,
                })
            }
            _ => None,
        }
    }

    /// The weights without offsets, in the order of the loops.
    fn weights(&self, numbers: &[i64], steps: &[Linear], narrow: bool) -> Weights {
        let depth = self.kernel[0] * self.kernel[1] * (self.input[3] / self.groups);
        let at = |filter: usize, i: usize| -> i64 {
            let from = if self.filters_last {
                i * self.filters + filter
            } else {
                filter * depth + i
            };
            numbers[from] + i64::from(steps[filter].offset)
        };
        if self.depthwise {
            let taps = self.kernel[0] * self.kernel[1];
            let all = (0..taps).flat_map(|tap| (0..self.filters).map(move |filter| (filter, tap)));
            return Weights::Depthwise(all.map(|(filter, tap)| at(filter, tap) as i32).collect());
        }
        let all = (0..self.filters).flat_map(|filter| (0..depth).map(move |i| (filter, i)));
        if narrow {
            Weights::Narrow(all.map(|(filter, i)| at(filter, i) as i16).collect())
        } else {
            Weights::Wide(all.map(|(filter, i)| at(filter, i) as i32).collect())
        }
    }
}

#[cfg(test)]
mod tests;
