//! Normalisations of rows by their mean and variance.
//!
//! Invariants:
//! 1. Sums are in f32; the variance is summed over differences from the mean, in a second pass.
//! 2. Scale and bias are of the tensor's type and are packed constants or not, as stated.
//!
//! Not here: batch normalisation, which is an element-wise chain.

use serde::{Deserialize, Serialize};

use crate::rows::Lines;
use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element,
};

/// `LayerNormalization` of `[rows, count]`, or `RMSNormalization`. Bindings: input, scale, bias if any, output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerNorm {
    /// Element type of all tensors: `f32` or `f16`.
    pub scalar: Scalar,
    /// Rows.
    pub rows: u64,
    /// Values of a row, of the scale and of the bias.
    pub count: u64,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether the mean counts as 0 (`RMSNormalization`).
    pub rms: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// How scale and bias are bound.
    pub access: Access,
}

/// `GroupNormalization`; `InstanceNormalization` where there are as many groups as channels. Bindings: input,
/// scale `[channels]`, bias `[channels]`, output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupNorm {
    /// Element type of all tensors: `f32` or `f16`.
    pub scalar: Scalar,
    /// Images.
    pub images: u64,
    /// Channels.
    pub channels: u64,
    /// Groups, a divisor of the channels.
    pub groups: u64,
    /// Pixels of an image.
    pub places: u64,
    /// Whether the layout is `[images, places, channels]`, else `[images, channels, places]`.
    pub channels_last: bool,
    /// Added to the variance.
    pub epsilon: f32,
    /// How scale and bias are bound.
    pub access: Access,
}

/// `LpNormalization` of `[outer, count, inner]` along `count`. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LpNorm {
    /// Type of both: `f32` or `f16`.
    pub scalar: Scalar,
    /// Product of the dimensions before the axis.
    pub outer: u64,
    /// Size of the axis.
    pub count: u64,
    /// Product of the dimensions after the axis.
    pub inner: u64,
    /// 1 or 2.
    pub p: u32,
}

/// `LRN`: local response normalisation across channels. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lrn {
    /// Type of both: `f32` or `f16`.
    pub scalar: Scalar,
    /// Images.
    pub images: u64,
    /// Channels.
    pub channels: u64,
    /// Pixels of an image.
    pub places: u64,
    /// Whether the layout is `[images, places, channels]`, else `[images, channels, places]`.
    pub channels_last: bool,
    /// Number of channels in a sum.
    pub size: u64,
    /// Factor of the sum, which is divided by `size`.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Added to the sum.
    pub bias: f32,
}

/// Text that finds the mean (`mean`; 0 where it counts as 0) and the factor (`factor`) of a row of `count` values;
/// `load` is text that names a step's values `v`.
fn spread(lines: &Lines, load: &str, count: u64, epsilon: f32, centred: bool) -> String {
    let rows = lines.rows;
    let share = 1.0 / count as f64;
    let mut text = String::new();
    if centred {
        text.push_str("    var acc = 0.0;\n");
        text.push_str(&rows.each(&format!("{load} acc += {};", lines.sum("v"))));
        text.push_str(&rows.tree("part", "acc", "sum", |a, b| format!("{a} + {b}")));
        text.push_str(&format!("    let mean = sum * {share:?};\n"));
    } else {
        text.push_str("    let mean = 0.0;\n");
    }
    text.push_str("    var spread = 0.0;\n");
    text.push_str(&rows.each(&format!(
        "{load} let d = v - mean; spread += {};",
        lines.sum("(d * d)")
    )));
    text.push_str(&rows.tree("part", "spread", "square", |a, b| format!("{a} + {b}")));
    text.push_str(&format!(
        "    let factor = inverseSqrt(square * {share:?} + f32({epsilon:?}));\n"
    ));
    text
}

/// A row less its mean, over its spread.
fn normal(row: &[f64], epsilon: f32, centred: bool) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = if centred {
        row.iter().sum::<f64>() / count
    } else {
        0.0
    };
    let square = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let factor = 1.0 / (square + f64::from(epsilon)).sqrt();
    row.iter().map(|x| (x - mean) * factor).collect()
}

fn tolerance(scalar: Scalar) -> f64 {
    if scalar == Scalar::F16 { 2e-3 } else { 1e-4 }
}

fn check_epsilon(what: &str, epsilon: f32) -> Result<()> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(Error::new(format!("{what}: epsilon is {epsilon}")))
}

impl Generate for LayerNorm {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        check_epsilon("layernorm", self.epsilon)?;
        let lines = Lines::new("layernorm", self.scalar, [self.rows, self.count, 1])?;
        let rows = lines.rows;
        let mut text = WgslBuilder::new();
        lines.bind(&mut text, "in0", Access::Read);
        lines.bind_row(&mut text, "scale", self.access, self.count);
        if self.bias {
            lines.bind_row(&mut text, "bias", self.access, self.count);
        }
        lines.bind(&mut text, "out", Access::Write);
        text.shared("part", "f32", 4, rows.threads());
        let place = lines.place();
        let load = format!("let v = {};", lines.load("in0", &place));
        let (groups, mut body) = rows.head(limits);
        body.push_str(&spread(&lines, &load, self.count, self.epsilon, !self.rms));
        let mut value = format!("(v - mean) * factor * {}", lines.load("scale", "k"));
        if self.bias {
            value.push_str(&format!(" + {}", lines.load("bias", "k")));
        }
        body.push_str(&rows.each(&format!("{load} {}", lines.store("out", &place, &value))));
        let name = if self.rms { "rmsnorm" } else { "layernorm" };
        let bias = if self.bias { "-bias" } else { "" };
        let variant = format!("{name}{bias}-{}-x{}", self.scalar.name(), lines.width);
        let work = self.rows * self.count;
        text.kernel(variant, [rows.threads(), 1, 1], groups, work, &body, limits)
    }

    fn sample(&self) -> Sample {
        let shape = [self.rows, self.count, 1];
        let input = Values::spread(self.scalar, 1, element::size(&shape), -1.0, 3.0);
        let scale = Values::some(self.scalar, 2, self.count as usize);
        let bias = Values::some(self.scalar, 3, self.count as usize);
        let of = |values: &Values, i: usize| values.number(self.scalar, i).to_f64();
        let output = element::along(self.scalar, shape, &input, |row| {
            let row = normal(row, self.epsilon, !self.rms);
            let shift = |i: usize| if self.bias { of(&bias, i) } else { 0.0 };
            row.iter()
                .enumerate()
                .map(|(i, x)| x * of(&scale, i) + shift(i))
                .collect()
        });
        let mut before = vec![input, scale];
        if self.bias {
            before.push(bias);
        }
        let mut after = vec![None; before.len()];
        before.push(Values::zeros(self.scalar, output.len()));
        after.push(Some(output));
        Sample {
            before,
            after,
            tolerance: tolerance(self.scalar),
        }
    }
}

impl GroupNorm {
    /// Channels of a group.
    fn each(&self) -> Result<u64> {
        match self.channels.checked_div(self.groups) {
            Some(each) if each * self.groups == self.channels => Ok(each),
            _ => Err(Error::new(format!(
                "groupnorm: {} channels in {} groups",
                self.channels, self.groups
            ))),
        }
    }
}

impl Generate for GroupNorm {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        check_epsilon("groupnorm", self.epsilon)?;
        let each = self.each()?;
        let GroupNorm {
            scalar,
            images,
            channels,
            groups,
            places,
            ..
        } = *self;
        let count = element::count("groupnorm", &[each, places])?;
        let total = element::count("groupnorm", &[images, channels, places])?;
        // channels last, each for itself: neighbouring rows lie side by side
        let shape = match (self.channels_last, each) {
            (true, 1) => [images, places, channels],
            _ => [images * groups, count, 1],
        };
        let mut lines = Lines::new("groupnorm", scalar, shape)?;
        let channel = if !self.channels_last {
            if !places.is_multiple_of(4) {
                lines = lines.narrow();
            }
            let wide = u64::from(lines.width);
            format!("(row % {groups}u) * {each}u + (k * {wide}u) / {places}u")
        } else {
            lines = if each == 1 { lines } else { lines.narrow() };
            format!("(row % {groups}u) * {each}u + k % {each}u")
        };
        let place = match (self.channels_last, each) {
            (true, 1) | (false, _) => lines.place(),
            (true, _) => format!("((row / {groups}u) * {places}u + k / {each}u) * {channels}u + {channel}"),
        };
        let rows = lines.rows;
        let mut text = WgslBuilder::new();
        lines.bind(&mut text, "in0", Access::Read);
        element::declare(&mut text, "scale", self.access, scalar, channels);
        element::declare(&mut text, "bias", self.access, scalar, channels);
        lines.bind(&mut text, "out", Access::Write);
        text.shared("part", "f32", 4, rows.threads());
        let load = format!("let v = {};", lines.load("in0", &place));
        let (launch, mut body) = rows.head(limits);
        body.push_str(&spread(&lines, &load, count, self.epsilon, true));
        let value = "(v - mean) * (factor * f32(scale[c])) + f32(bias[c])";
        body.push_str(&rows.each(&format!(
            "{load} let c = {channel}; {}",
            lines.store("out", &place, value)
        )));
        let layout = if self.channels_last { "nhwc" } else { "nchw" };
        let variant = format!("groupnorm-{layout}-{}-x{}", scalar.name(), lines.width);
        text.kernel(variant, [rows.threads(), 1, 1], launch, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        let Ok(each) = self.each() else {
            return Sample::empty();
        };
        let (images, channels, places) = (self.images as usize, self.channels as usize, self.places as usize);
        let each = each as usize;
        let input = Values::spread(self.scalar, 1, images * channels * places, -1.0, 3.0);
        let scale = Values::some(self.scalar, 2, channels);
        let bias = Values::some(self.scalar, 3, channels);
        let of = |values: &Values, i: usize| values.number(self.scalar, i).to_f64();
        let mut numbers = vec![Number::F32(0.0); input.len()];
        for image in 0..images {
            for group in 0..self.groups as usize {
                let at = |k: usize| {
                    let (channel, place) = (group * each + k / places, k % places);
                    let at = if self.channels_last {
                        (image * places + place) * channels + channel
                    } else {
                        (image * channels + channel) * places + place
                    };
                    (channel, at)
                };
                let row: Vec<f64> = (0..each * places).map(|k| of(&input, at(k).1)).collect();
                for (k, x) in normal(&row, self.epsilon, true).into_iter().enumerate() {
                    let (channel, at) = at(k);
                    numbers[at] = Number::F32((x * of(&scale, channel) + of(&bias, channel)) as f32);
                }
            }
        }
        Sample {
            before: vec![input, scale, bias, Values::zeros(self.scalar, numbers.len())],
            after: vec![None, None, None, Some(Values::of_numbers(self.scalar, &numbers))],
            tolerance: tolerance(self.scalar),
        }
    }
}

impl Generate for LpNorm {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        if !matches!(self.p, 1 | 2) {
            return Err(Error::new(format!("lpnorm: p is {}, not 1 or 2", self.p)));
        }
        let shape = [self.outer, self.count, self.inner];
        let lines = Lines::new("lpnorm", self.scalar, shape)?;
        let rows = lines.rows;
        let mut text = WgslBuilder::new();
        lines.bind(&mut text, "in0", Access::Read);
        lines.bind(&mut text, "out", Access::Write);
        text.shared("part", "f32", 4, rows.threads());
        let place = lines.place();
        let load = format!("let v = {};", lines.load("in0", &place));
        let term = if self.p == 1 { "abs(v)" } else { "(v * v)" };
        let (groups, mut body) = rows.head(limits);
        body.push_str("    var acc = 0.0;\n");
        body.push_str(&rows.each(&format!("{load} acc += {};", lines.sum(term))));
        body.push_str(&rows.tree("part", "acc", "sum", |a, b| format!("{a} + {b}")));
        // a row of zeros stays one
        let norm = if self.p == 1 { "sum" } else { "sqrt(sum)" };
        body.push_str(&format!("    let norm = select({norm}, 1.0, sum == 0.0);\n"));
        body.push_str(&rows.each(&format!("{load} {}", lines.store("out", &place, "v / norm"))));
        let variant = format!("lpnorm{}-{}-x{}", self.p, self.scalar.name(), lines.width);
        text.kernel(
            variant,
            [rows.threads(), 1, 1],
            groups,
            shape.iter().product(),
            &body,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let shape = [self.outer, self.count, self.inner];
        let input = Values::some(self.scalar, 1, element::size(&shape));
        let output = element::along(self.scalar, shape, &input, |row| {
            let norm: f64 = match self.p {
                1 => row.iter().map(|x| x.abs()).sum(),
                _ => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
            };
            row.iter()
                .map(|x| if norm == 0.0 { 0.0 } else { x / norm })
                .collect()
        });
        Sample {
            before: vec![input, Values::zeros(self.scalar, output.len())],
            after: vec![None, Some(output)],
            tolerance: tolerance(self.scalar),
        }
    }
}

impl Lrn {
    /// Places of an image's channels: elements before a channel's first, and from one channel to the next.
    fn shape(&self) -> [u64; 3] {
        if self.channels_last {
            [self.images * self.places, self.channels, 1]
        } else {
            [self.images, self.channels, self.places]
        }
    }
}

impl Generate for Lrn {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let [_, channels, inner] = self.shape();
        let total = element::count("lrn", &self.shape())?;
        let finite = [self.alpha, self.beta, self.bias].iter().all(|x| x.is_finite());
        if self.size == 0 || total == 0 || !finite || self.size > 1 << 20 {
            return Err(Error::new(format!("lrn: {self:?}")));
        }
        let mut text = WgslBuilder::new();
        element::declare(&mut text, "in0", Access::Read, self.scalar, total);
        element::declare(&mut text, "out", Access::Write, self.scalar, total);
        let (threads, groups, index) = element::flat(total, limits);
        let (before, after) = ((self.size - 1) / 2, self.size / 2);
        let body = format!(
            "    let i = {index};
    if i >= {total}u {{ return; }}
    let c = (i / {inner}u) % {channels}u;
    var sum = 0.0;
    for (var k = c - min(c, {before}u); k <= min(c + {after}u, {channels}u - 1u); k++) {{
        let v = f32(in0[i + (k - c) * {inner}u]);
        sum += v * v;
    }}
    let base = f32({:?}) + f32({:?}) * sum;
    let result = f32(in0[i]) * pow(base, f32({:?}));
    out[i] = {};",
            self.bias,
            self.alpha / self.size as f32,
            -self.beta,
            element::pack(self.scalar, "result")
        );
        let variant = format!("lrn-{}", self.scalar.name());
        text.kernel(variant, [threads, 1, 1], groups, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        let shape = self.shape();
        let input = Values::some(self.scalar, 1, element::size(&shape));
        let (before, after) = ((self.size - 1) / 2, self.size / 2);
        let output = element::along(self.scalar, shape, &input, |row| {
            (0..row.len())
                .map(|c| {
                    let low = c.saturating_sub(before as usize);
                    let high = (c + after as usize).min(row.len() - 1);
                    let sum: f64 = row[low..=high].iter().map(|x| x * x).sum();
                    let base = f64::from(self.bias) + f64::from(self.alpha) / self.size as f64 * sum;
                    row[c] / base.powf(self.beta.into())
                })
                .collect()
        });
        Sample {
            before: vec![input, Values::zeros(self.scalar, output.len())],
            after: vec![None, Some(output)],
            tolerance: tolerance(self.scalar),
        }
    }
}
