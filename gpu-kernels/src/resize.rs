//! Resampling of images with channels last: each output is a weighted sum of inputs, by ONNX's rules.
//!
//! The inputs and their weights depend only on the shapes: [`Resize::pack`] computes them once for
//! each row and each column, in f64, and the kernel sums according to these two tables.
//!
//! Invariant: along an axis every output has the same number of taps; unused taps have weight zero.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Error, Generate, Image, Kernel, Limits, Result, Sample, Scalar, Values, WgslBuilder, grid,
};

/// How nearest neighbours are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the word of ONNX
pub enum Rounding {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// The interpolation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Interpolation {
    /// The nearest one.
    Nearest(Rounding),
    /// Two neighbours.
    Linear,
    /// Four neighbours, with this coefficient (`cubic_coeff_a`).
    Cubic(f32),
}

/// How an output coordinate becomes an input coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the word of ONNX
pub enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfCropAndResize,
}

/// Inputs of one output, and their weights.
type Taps = Vec<(u32, f64)>;

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ResizeAxis {
    /// Size of the output.
    pub output: u32,
    /// Ratio of output to input size, as the model states it.
    pub scale: f32,
    /// Start and end of the region, as fractions of the input; only [`Coordinates::TfCropAndResize`] reads it.
    pub region: [f32; 2],
}

/// A resampling of rows and columns.
///
/// Bindings: the image, the packed taps, the output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    /// The input, `[n, h, w, c]`.
    pub image: Image,
    /// Rows, then columns.
    pub axes: [ResizeAxis; 2],
    /// The interpolation.
    pub interpolation: Interpolation,
    /// The coordinate transformation.
    pub coordinates: Coordinates,
    /// Whether the filter widens when the image shrinks, so that every input counts.
    pub antialias: bool,
    /// Whether inputs outside the image have weight zero; if not, the edge is repeated.
    pub exclude_outside: bool,
    /// The value outside the region of [`Coordinates::TfCropAndResize`].
    pub extrapolation: f32,
    /// F32 or F16; bytes for nearest neighbours.
    pub scalar: Scalar,
}

impl Resize {
    /// Size of the output.
    #[must_use]
    pub fn output(&self) -> Image {
        Image {
            height: self.axes[0].output,
            width: self.axes[1].output,
            ..self.image
        }
    }

    fn size(&self, axis: usize) -> u32 {
        [self.image.height, self.image.width][axis]
    }

    /// The place in the input of output `o`.
    fn origin(&self, axis: usize, o: u32) -> f64 {
        let (o, input) = (f64::from(o), f64::from(self.size(axis)));
        let ResizeAxis {
            output,
            scale,
            region: [start, end],
        } = self.axes[axis];
        let (scale, start, end) = (f64::from(scale), f64::from(start), f64::from(end));
        let resized = scale * input;
        let half = (o + 0.5) / scale - 0.5;
        match self.coordinates {
            Coordinates::HalfPixel => half,
            Coordinates::HalfPixelSymmetric => input / 2.0 * (1.0 - f64::from(output) / resized) + half,
            Coordinates::PytorchHalfPixel if resized == 1.0 => -0.5,
            Coordinates::PytorchHalfPixel => half,
            Coordinates::AlignCorners if resized == 1.0 => 0.0,
            Coordinates::AlignCorners => o * (input - 1.0) / (resized - 1.0),
            Coordinates::Asymmetric => o / scale,
            Coordinates::TfCropAndResize if resized == 1.0 => (start + end) * (input - 1.0) / 2.0,
            Coordinates::TfCropAndResize => {
                start * (input - 1.0) + o * (end - start) * (input - 1.0) / (resized - 1.0)
            }
        }
    }

    /// Inputs and weights of output `o` along an axis; `None` where it is extrapolated.
    fn taps(&self, axis: usize, o: u32) -> Option<Taps> {
        let same = self.axes[axis].output == self.size(axis) && self.axes[axis].scale == 1.0;
        if same && self.coordinates != Coordinates::TfCropAndResize {
            return Some(vec![(o, 1.0)]);
        }
        let x = self.origin(axis, o);
        let last = f64::from(self.size(axis)) - 1.0;
        if self.coordinates == Coordinates::TfCropAndResize && !(0.0..=last).contains(&x) {
            return None;
        }
        let (reach, a) = match self.interpolation {
            Interpolation::Nearest(how) => {
                let whole = match how {
                    Rounding::Floor => x.floor(),
                    Rounding::Ceil => x.ceil(),
                    Rounding::RoundPreferFloor => (x - 0.5).ceil(),
                    Rounding::RoundPreferCeil => (x + 0.5).floor(),
                };
                return Some(vec![(whole.clamp(0.0, last) as u32, 1.0)]);
            }
            Interpolation::Linear => (1.0, 0.0),
            Interpolation::Cubic(a) => (2.0, f64::from(a)),
        };
        let weight = |distance: f64| {
            let d = distance.abs();
            if reach == 1.0 {
                (1.0 - d).max(0.0)
            } else if d <= 1.0 {
                ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
            } else if d < 2.0 {
                ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
            } else {
                0.0
            }
        };
        let squeeze = if self.antialias {
            f64::from(self.axes[axis].scale).min(1.0)
        } else {
            1.0
        };
        let mut found = Vec::new();
        let mut i = (x - reach / squeeze).floor();
        while i <= (x + reach / squeeze).ceil() {
            let weight = weight((i - x) * squeeze);
            let outside = !(0.0..=last).contains(&i);
            if weight != 0.0 && !(outside && self.exclude_outside) {
                found.push((i.clamp(0.0, last) as u32, weight));
            }
            i += 1.0;
        }
        let sum: f64 = found.iter().map(|tap| tap.1).sum();
        if (self.antialias || self.exclude_outside) && sum != 0.0 {
            found.iter_mut().for_each(|tap| tap.1 /= sum);
        }
        Some(found)
    }

    fn check(&self) -> Result<()> {
        self.image.check("an image")?;
        self.output().check("a resized image")?;
        for axis in self.axes {
            let finite = axis.region.iter().all(|x| x.is_finite());
            // a smaller scale would have every output see more inputs than a thread can add
            if !(axis.scale.is_finite() && axis.scale >= 1.0 / 1024.0 && finite) {
                return Err(Error::new(format!(
                    "an axis resized by {} in {:?}: kernels take scales from 1/1024",
                    axis.scale, axis.region
                )));
            }
        }
        let nearest = matches!(self.interpolation, Interpolation::Nearest(_));
        let bytes = matches!(self.scalar, Scalar::I8 | Scalar::U8 | Scalar::Bool) && nearest;
        if !(bytes || matches!(self.scalar, Scalar::F32 | Scalar::F16)) {
            return Err(Error::new(format!(
                "{:?} of {}: floats, or nearest neighbours of bytes",
                self.interpolation,
                self.scalar.name()
            )));
        }
        if bytes && self.coordinates == Coordinates::TfCropAndResize {
            return Err(Error::new("bytes are not extrapolated"));
        }
        Ok(())
    }

    /// Taps of every output along an axis, and how many each has.
    fn table(&self, axis: usize) -> (Vec<Option<Taps>>, u32) {
        let lines: Vec<_> = (0..self.axes[axis].output).map(|o| self.taps(axis, o)).collect();
        let most = lines.iter().flatten().map(Vec::len).max().unwrap_or(1).max(1);
        (lines, u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// The taps of all rows and columns, in the form that the kernel reads: pairs of an index and a weight.
    ///
    /// # Errors
    /// The parameters contradict each other.
    pub fn pack(&self) -> Result<Vec<u8>> {
        self.check()?;
        let mut bytes = Vec::new();
        for axis in 0..2 {
            let (lines, most) = self.table(axis);
            for line in lines {
                let outside = line.is_none();
                let line = line.unwrap_or_default();
                for tap in 0..most as usize {
                    // an index beyond all images marks an extrapolated output
                    let index = if outside {
                        u32::MAX
                    } else {
                        line.get(tap).map_or(0, |tap| tap.0)
                    };
                    let weight = line.get(tap).map_or(0.0, |tap| tap.1 as f32);
                    bytes.extend(index.to_le_bytes());
                    bytes.extend(weight.to_bits().to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }
}

impl Generate for Resize {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
        let output = self.output();
        let (ty, tx) = (self.table(0).1, self.table(1).1);
        let Image {
            height: h,
            width: w,
            channels: c,
            ..
        } = self.image;
        let [oh, ow] = [output.height, output.width];
        let whole = c.is_multiple_of(4);
        let bytes = !matches!(self.scalar, Scalar::F32 | Scalar::F16);
        let width = if whole { 4 } else { 1 };
        let declared = if bytes { 1 } else { width };
        let cw = c / width;
        let mut text = WgslBuilder::new();
        text.binding(
            "source",
            Access::Read,
            self.scalar,
            declared,
            self.image.elements(),
        );
        let taps = u64::from(oh) * u64::from(ty) + u64::from(ow) * u64::from(tx);
        text.binding("taps", Access::Constant, Scalar::U32, 2, taps * 2);
        text.binding("result", Access::Write, self.scalar, declared, output.elements());
        let value = match (bytes, whole) {
            (true, _) => "u32",
            (false, true) => "vec4<f32>",
            (false, false) => "f32",
        };
        let (read, sum) = match (bytes, whole) {
            (true, true) => ("source[at]".to_owned(), "sum = value;"),
            (true, false) => (
                "extractBits(source[at / 4u], 8u * (at % 4u), 8u)".to_owned(),
                "sum = value;",
            ),
            _ => (
                format!("{value}(source[at])"),
                "sum += bitcast<f32>(row.y) * bitcast<f32>(column.y) * value;",
            ),
        };
        let outside = if self.coordinates == Coordinates::TfCropAndResize {
            format!(
                "if row.x == 4294967295u || column.x == 4294967295u {{ return {value}({:?}); }}",
                self.extrapolation
            )
        } else {
            String::new()
        };
        text.declare(&format!(
            "fn resized(number: u32) -> {value} {{
    let channel = number % {cw}u;
    let pixel = number / {cw}u;
    let x = pixel % {ow}u;
    let y = pixel / {ow}u % {oh}u;
    let first = pixel / {opixels}u * {pixels}u;
    var sum = {value}();
    for (var i = 0u; i < {ty}u; i++) {{
        let row = taps[y * {ty}u + i];
        for (var j = 0u; j < {tx}u; j++) {{
            let column = taps[{columns}u + x * {tx}u + j];
            {outside}
            let at = (first + row.x * {w}u + column.x) * {cw}u + channel;
            let value = {read};
            {sum}
        }}
    }}
    return sum;
}}",
            pixels = u64::from(h) * u64::from(w),
            opixels = u64::from(oh) * u64::from(ow),
            columns = u64::from(oh) * u64::from(ty),
        ));
        let outputs = output.elements() / u64::from(width);
        let items = if bytes && !whole {
            outputs.div_ceil(4)
        } else {
            outputs
        };
        let threads = grid::threads(items, 64, limits);
        let (groups, number) = grid::row(items.div_ceil(threads.into()), limits)?;
        let store = match (bytes, whole, self.scalar) {
            (true, false, _) => format!(
                "var word = 0u;
        for (var j = 0u; j < 4u; j++) {{
            let e = 4u * i + j;
            if e < {outputs}u {{ word |= resized(e) << (8u * j); }}
        }}
        result[i] = word;"
            ),
            (false, true, Scalar::F16) => "result[i] = vec4<f16>(resized(i));".to_owned(),
            (false, false, Scalar::F16) => "result[i] = f16(resized(i));".to_owned(),
            _ => "result[i] = resized(i);".to_owned(),
        };
        let body = format!(
            "    let i = {number} * {threads}u + thread;
    if i < {items}u {{
        {store}
    }}"
        );
        let variant = format!("resize-{}{}", self.scalar.name(), if whole { "-x4" } else { "" });
        let work = output.elements() * u64::from(ty) * u64::from(tx);
        text.kernel(variant, [threads, 1, 1], groups, work, &body, limits)
    }

    fn sample(&self) -> Sample {
        let output = self.output();
        let image = Values::samples(self.scalar, 4, self.image.elements() as usize);
        let input = image.to_f64();
        let (rows, columns) = (self.table(0).0, self.table(1).0);
        let mut right = Vec::new();
        for n in 0..output.batch {
            for row in &rows {
                for column in &columns {
                    for c in 0..output.channels {
                        let (Some(row), Some(column)) = (row, column) else {
                            right.push(f64::from(self.extrapolation));
                            continue;
                        };
                        let mut sum = 0.0;
                        for &(y, wy) in row {
                            for &(x, wx) in column {
                                let at = ((n * self.image.height + y) * self.image.width + x)
                                    * self.image.channels
                                    + c;
                                sum += wy * wx * input[at as usize];
                            }
                        }
                        right.push(sum);
                    }
                }
            }
        }
        let right = Values::of(self.scalar, &right);
        Sample {
            before: vec![image, Values::U8(self.pack().unwrap_or_default()), right.blank()],
            after: vec![None, None, Some(right)],
            tolerance: match self.scalar {
                Scalar::F32 | Scalar::F16 => self.scalar.tolerance(1.0e-6),
                _ => 0.0,
            },
        }
    }
}
