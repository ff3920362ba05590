//! Depthwise convolutions: a thread computes four channels of a few neighbouring pixels.
//!
//! Invariants:
//! 1. Input and output have channels last; floats are summed in f32, bytes in i32.
//! 2. Weights are packed once by [`Depthwise::pack_weights`] or [`Depthwise::pack_bytes`]: for each
//!    element of the window, groups of four channels.

use std::fmt::Write as _;

use half::f16;
use serde::{Deserialize, Serialize};

use crate::{
    Access, Epilogue, Error, Generate, Image, Kernel, Limits, Result, Sample, Scalar, Values, WgslBuilder,
    Window, grid,
};

/// Columns of the input that a thread reads at most by unrolled text.
const UNROLLED: u32 = 24;

/// A convolution with as many groups as the input has channels.
///
/// Bindings: the image, the packed weights, the operands of the epilogue, the output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Depthwise {
    /// The input, `[n, h, w, c]`.
    pub image: Image,
    /// Channels of the output, a multiple of the input's.
    pub channels_out: u32,
    /// The window.
    pub window: Window,
    /// Element type: F32 or F16 with weights of the same type, or I8 or U8 with weights in I8.
    pub scalar: Scalar,
    /// For bytes: the zero point of the input.
    pub zero_point: i32,
    /// Applied to each sum before it is stored, as for `Conv`.
    pub epilogue: Epilogue,
    /// Number of neighbouring pixels of a row that a thread computes.
    pub strip: u32,
}

impl Depthwise {
    /// Size of the output.
    #[must_use]
    pub fn output(&self) -> Image {
        let [height, width] = self.window.output([self.image.height, self.image.width], false);
        Image {
            batch: self.image.batch,
            height,
            width,
            channels: self.channels_out,
        }
    }

    /// Values of `strip` that this device can run, ordered by a fixed rule, best first.
    #[must_use]
    pub fn candidates(&self, limits: &Limits) -> Vec<u32> {
        let output = self.output();
        let threads = output.pixels() * u64::from(self.channels_out.div_ceil(4));
        // a strip reads less, where enough threads are left to fill a large device
        let mut strips: Vec<u32> = if threads > 1 << 17 {
            vec![4, 2, 1]
        } else {
            vec![1, 2, 4]
        };
        strips.retain(|&strip| {
            let one = Depthwise {
                strip,
                ..self.clone()
            };
            (strip == 1 || strip <= output.width) && one.kernel(limits).is_ok()
        });
        strips
    }

    fn is_bytes(&self) -> bool {
        matches!(self.scalar, Scalar::I8 | Scalar::U8)
    }

    fn check(&self) -> Result<()> {
        self.image.check("an image")?;
        self.window.check()?;
        self.output().check("a convolved image")?;
        if !self.channels_out.is_multiple_of(self.image.channels) {
            return Err(Error::new(format!(
                "{} filters for {} single channels",
                self.channels_out, self.image.channels
            )));
        }
        if !(self.is_bytes() || matches!(self.scalar, Scalar::F32 | Scalar::F16)) {
            return Err(Error::new(format!("a convolution of {}", self.scalar.name())));
        }
        if self.strip == 0 || self.strip > 16 {
            return Err(Error::new(format!(
                "{} pixels of a thread, not 1 to 16",
                self.strip
            )));
        }
        let weights = u64::from(self.window.taps()) * u64::from(self.channels_out.next_multiple_of(4));
        if weights > 1 << 30 {
            return Err(Error::new(format!("{weights} weights, kernels take 2^30")));
        }
        Ok(())
    }

    fn pack<T: std::marker::Copy>(&self, weights: &[T], zero: T) -> Result<Vec<T>> {
        self.check()?;
        let (taps, m) = (self.window.taps() as usize, self.channels_out as usize);
        if weights.len() != taps * m {
            return Err(Error::new(format!(
                "{} weights for {m} filters of {taps}",
                weights.len()
            )));
        }
        let mut packed = Vec::with_capacity(taps * m.next_multiple_of(4));
        for tap in 0..taps {
            for channel in 0..m.next_multiple_of(4) {
                packed.push(if channel < m {
                    weights[channel * taps + tap]
                } else {
                    zero
                });
            }
        }
        Ok(packed)
    }

    /// Packs the weights of floats, `[m, 1, kh, kw]`.
    ///
    /// # Errors
    /// The number of weights is wrong.
    pub fn pack_weights(&self, weights: &[f32]) -> Result<Vec<u8>> {
        let packed = self.pack(weights, 0.0)?;
        Ok(match self.scalar {
            Scalar::F16 => packed
                .iter()
                .flat_map(|&w| f16::from_f32(w).to_le_bytes())
                .collect(),
            _ => packed.iter().flat_map(|w| w.to_le_bytes()).collect(),
        })
    }

    /// Packs the weights of bytes, `[m, 1, kh, kw]`, whose zero point is 0.
    ///
    /// # Errors
    /// The number of weights is wrong.
    pub fn pack_bytes(&self, weights: &[i8]) -> Result<Vec<u8>> {
        let packed = self.pack(weights, 0)?;
        Ok(packed.into_iter().map(i8::cast_unsigned).collect())
    }

    /// Declares `pixel_(pixel, quad)`: four channels of a pixel as the output has them.
    fn declare_read(&self, text: &mut WgslBuilder, value: &str) -> bool {
        let c = self.image.channels;
        let multiple = self.channels_out / c;
        let whole = multiple == 1 && c.is_multiple_of(4);
        let zero = self.zero_point;
        if whole {
            let at = format!("pixel * {}u + quad", c / 4);
            let read = match self.scalar {
                Scalar::F32 => format!("source[{at}]"),
                Scalar::F16 => format!("vec4<f32>(source[{at}])"),
                Scalar::I8 => format!("unpack4xI8(source[{at}]) - vec4<i32>({zero})"),
                _ => format!("vec4<i32>(unpack4xU8(source[{at}])) - vec4<i32>({zero})"),
            };
            text.declare(&format!(
                "fn pixel_(pixel: u32, quad: u32) -> {value} {{ return {read}; }}"
            ));
            return true;
        }
        let (kind, one) = match self.scalar {
            Scalar::F32 => ("f32", "source[at]".to_owned()),
            Scalar::F16 => ("f32", "f32(source[at])".to_owned()),
            Scalar::I8 => (
                "i32",
                format!("extractBits(bitcast<i32>(source[at / 4u]), 8u * (at % 4u), 8u) - ({zero}i)"),
            ),
            _ => (
                "i32",
                format!("i32(extractBits(source[at / 4u], 8u * (at % 4u), 8u)) - ({zero}i)"),
            ),
        };
        text.declare(&format!(
            "fn one(pixel: u32, channel: u32) -> {kind} {{
    let at = pixel * {c}u + min(channel / {multiple}u, {}u);
    return {one};
}}
fn pixel_(pixel: u32, quad: u32) -> {value} {{
    let c = 4u * quad;
    return {value}(one(pixel, c), one(pixel, c + 1u), one(pixel, c + 2u), one(pixel, c + 3u));
}}",
            c - 1
        ));
        false
    }
}

impl Generate for Depthwise {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
        let output = self.output();
        let (oh, ow, quads) = (output.height, output.width, self.channels_out.div_ceil(4));
        let (h, w) = (self.image.height, self.image.width);
        let bytes = self.is_bytes();
        let value = if bytes { "vec4<i32>" } else { "vec4<f32>" };
        let mut text = WgslBuilder::new();
        let whole = self.channels_out == self.image.channels && self.image.channels.is_multiple_of(4);
        let declared = if whole && !bytes { 4 } else { 1 };
        text.binding(
            "source",
            Access::Read,
            self.scalar,
            declared,
            self.image.elements(),
        );
        let taps = self.window.taps();
        let weights = u64::from(taps) * u64::from(quads) * 4;
        let (packed, width) = if bytes { (Scalar::I8, 1) } else { (self.scalar, 4) };
        text.binding("weights", Access::Constant, packed, width, weights);
        let epilogue = self
            .epilogue
            .declare(&mut text, output.pixels(), self.channels_out.into())?;
        self.declare_read(&mut text, value);
        let Window {
            kernel: [kh, kw],
            strides: [sh, sw],
            dilations: [dh, dw],
            begin: [ph, pw],
            ..
        } = self.window;
        let weight = match (bytes, self.scalar) {
            (true, _) => "unpack4xI8(weights[at])",
            (_, Scalar::F16) => "vec4<f32>(weights[at])",
            _ => "weights[at]",
        };
        text.declare(&format!(
            "fn filter_(at: u32) -> {value} {{ return {weight}; }}
fn finish(sum: {value}, row: u32, quad: u32) {{
    {}
}}",
            epilogue.four(if bytes { "vec4<f32>(sum)" } else { "sum" }, "row", "(4u * quad)")
        ));
        let strips = ow.div_ceil(self.strip);
        let items = u64::from(output.batch) * u64::from(oh) * u64::from(strips) * u64::from(quads);
        let threads = grid::threads(items, 64, limits);
        let (groups, number) = grid::row(items.div_ceil(threads.into()), limits)?;
        let mut body = format!(
            "let i = {number} * {threads}u + thread;
if i >= {items}u {{ return; }}
let quad = i % {quads}u;
let x0 = i / {quads}u % {strips}u * {strip}u;
let line = i / {};
let y0 = line % {oh}u;
let top = i32(y0 * {sh}u) - {ph}i;
let left = i32(x0 * {sw}u) - {pw}i;
let first = line / {oh}u * {}u;
",
            format_args!("{}u", u64::from(quads) * u64::from(strips)),
            u64::from(h) * u64::from(w),
            strip = self.strip,
        );
        for r in 0..self.strip {
            let _ = writeln!(body, "var sum{r} = {value}();");
        }
        let product = |r: u32, x: &str, f: &str| {
            if bytes {
                format!("sum{r} += {x} * {f};")
            } else {
                format!("sum{r} = fma({x}, {f}, sum{r});")
            }
        };
        let _ = writeln!(
            body,
            "for (var ky = 0u; ky < {kh}u; ky++) {{
let y = top + i32(ky * {dh}u);
if y >= 0i && y < {h}i {{
let base = first + u32(y) * {w}u;"
        );
        let columns = u64::from(self.strip - 1) * u64::from(sw) + u64::from(kw - 1) * u64::from(dw) + 1;
        if columns <= u64::from(UNROLLED) {
            for kx in 0..kw {
                let _ = writeln!(
                    body,
                    "let f{kx} = filter_((ky * {kw}u + {kx}u) * {quads}u + quad);"
                );
            }
            let inside =
                self.window.begin[1] == 0 && self.window.end[1] == 0 && ow.is_multiple_of(self.strip);
            for column in 0..columns as u32 {
                let meets: Vec<(u32, u32)> = (0..self.strip)
                    .flat_map(|r| (0..kw).map(move |kx| (r, kx)))
                    .filter(|&(r, kx)| r * sw + kx * dw == column)
                    .collect();
                if meets.is_empty() {
                    continue;
                }
                let _ = writeln!(
                    body,
                    "let x{column} = left + {column}i;\nvar v{column} = {value}();"
                );
                let read = format!("v{column} = pixel_(base + u32(x{column}), quad);");
                if inside {
                    let _ = writeln!(body, "{read}");
                } else {
                    let _ = writeln!(body, "if x{column} >= 0i && x{column} < {w}i {{ {read} }}");
                }
                for (r, kx) in meets {
                    let _ = writeln!(body, "{}", product(r, &format!("v{column}"), &format!("f{kx}")));
                }
            }
        } else {
            let _ = writeln!(
                body,
                "for (var kx = 0u; kx < {kw}u; kx++) {{
let f = filter_((ky * {kw}u + kx) * {quads}u + quad);"
            );
            for r in 0..self.strip {
                let _ = writeln!(
                    body,
                    "let x{r} = left + {}i + i32(kx * {dw}u);
if x{r} >= 0i && x{r} < {w}i {{ {} }}",
                    r * sw,
                    product(r, &format!("pixel_(base + u32(x{r}), quad)"), "f")
                );
            }
            body.push_str("}\n");
        }
        body.push_str("} }\n");
        for r in 0..self.strip {
            let _ = writeln!(
                body,
                "if x0 + {r}u < {ow}u {{ finish(sum{r}, line * {ow}u + x0 + {r}u, quad); }}"
            );
        }
        let variant = format!(
            "depthwise-{}{}-{}",
            self.scalar.name(),
            if whole { "" } else { "-single" },
            self.strip
        );
        let work = output.elements() * u64::from(taps);
        text.kernel(variant, [threads, 1, 1], groups, work, &body, limits)
    }

    fn sample(&self) -> Sample {
        let output = self.output();
        let multiple = self.channels_out / self.image.channels.max(1);
        let [kh, kw] = self.window.kernel;
        let count = (self.window.taps() * self.channels_out) as usize;
        let image = Values::samples(self.scalar, 5, self.image.elements() as usize);
        let weights = match self.scalar {
            Scalar::U8 => Values::samples(Scalar::I8, 6, count),
            scalar => Values::samples(scalar, 6, count),
        };
        let packed = match &weights {
            Values::I8(bytes) => self.pack_bytes(bytes),
            other => self.pack_weights(&other.to_f64().iter().map(|&w| w as f32).collect::<Vec<f32>>()),
        };
        let zero = if self.is_bytes() {
            f64::from(self.zero_point)
        } else {
            0.0
        };
        let (input, filters) = (image.to_f64(), weights.to_f64());
        let size = [self.image.height, self.image.width];
        let mut sums = Vec::new();
        for n in 0..output.batch {
            for place in (0..output.height).flat_map(|y| (0..output.width).map(move |x| [y, x])) {
                for m in 0..output.channels {
                    let mut sum = 0.0;
                    for tap in (0..kh).flat_map(|y| (0..kw).map(move |x| [y, x])) {
                        if let Some([y, x]) = self.window.pixel(place, tap, size) {
                            let at = ((n * size[0] + y) * size[1] + x) * self.image.channels + m / multiple;
                            let weight = (m * kh + tap[0]) * kw + tap[1];
                            sum += (input[at as usize] - zero) * filters[weight as usize];
                        }
                    }
                    sums.push(sum as f32);
                }
            }
        }
        let (operands, after) = self
            .epilogue
            .sample(&sums, output.pixels(), self.channels_out.into());
        let mut sample = Sample {
            before: vec![image, Values::U8(packed.unwrap_or_default())],
            after: vec![None; 2 + operands.len()],
            tolerance: self.epilogue.output.tolerance(1.0e-6),
        };
        sample.before.extend(operands);
        sample.before.push(after.blank());
        sample.after.push(Some(after));
        sample
    }
}
