//! Pooling of images with channels last: the largest or the mean value under a window, or over a whole image.
//!
//! Invariant: floats are summed in f32; elements outside the image do not count in a maximum, and
//! count in a mean, as zeros, only if padding is counted.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Error, Generate, Image, Kernel, Limits, Result, Sample, Scalar, Values, WgslBuilder, Window, grid,
};

/// The kind of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PoolKind {
    /// The largest value.
    Max,
    /// The mean value.
    Average {
        /// Whether padding counts as zeros; elements that `ceil` adds beyond the padding never
        /// count.
        count_padding: bool,
    },
}

/// Pooling: one value per window position and channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// The input, `[n, h, w, c]`.
    pub image: Image,
    /// The window.
    pub window: Window,
    /// Whether a last window that only begins inside the image counts (ONNX `ceil_mode`).
    pub ceil: bool,
    /// The kind of pooling.
    pub kind: PoolKind,
    /// F32 or F16; for the maximum also I8 and U8.
    pub scalar: Scalar,
}

impl Pool {
    /// Size of the output.
    #[must_use]
    pub fn output(&self) -> Image {
        let [height, width] = self
            .window
            .output([self.image.height, self.image.width], self.ceil);
        Image {
            height,
            width,
            ..self.image
        }
    }

    /// Elements that a mean at this place divides by, in the words of plain code.
    fn counted(&self, place: [u32; 2]) -> f64 {
        let size = [self.image.height, self.image.width];
        let mut count = 1.0;
        for axis in 0..2 {
            let w = &self.window;
            let start = i64::from(place[axis] * w.strides[axis]) - i64::from(w.begin[axis]);
            let inside = (0..w.kernel[axis])
                .filter(|&k| {
                    let at = start + i64::from(k * w.dilations[axis]);
                    match self.kind {
                        PoolKind::Average { count_padding: true } => {
                            at < i64::from(size[axis]) + i64::from(w.end[axis])
                        }
                        _ => at >= 0 && at < i64::from(size[axis]),
                    }
                })
                .count();
            count *= inside as f64;
        }
        count
    }
}

impl Generate for Pool {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.image.check("an image")?;
        self.window.check()?;
        let output = self.output();
        output.check("a pooled image")?;
        let bytes = matches!(self.scalar, Scalar::I8 | Scalar::U8);
        let max = self.kind == PoolKind::Max;
        if !(matches!(self.scalar, Scalar::F32 | Scalar::F16) || bytes && max) {
            return Err(Error::new(format!(
                "pool {:?} of {}: floats, or the maximum of bytes",
                self.kind,
                self.scalar.name()
            )));
        }
        let Image {
            height: h,
            width: w,
            channels: c,
            ..
        } = self.image;
        let [oh, ow] = [output.height, output.width];
        // bytes are unpacked four at a time; where a word straddles pixels, one by one
        let whole = c.is_multiple_of(4);
        let width = if whole { 4 } else { 1 };
        let (value, lowest) = match (bytes, whole) {
            (false, true) => ("vec4<f32>", "vec4<f32>(-3.4028235e38)"),
            (false, false) => ("f32", "-3.4028235e38"),
            (true, true) => ("vec4<i32>", "vec4<i32>(-128)"),
            (true, false) => ("i32", "-128"),
        };
        let mut text = WgslBuilder::new();
        let declared = if bytes { 1 } else { width };
        text.binding(
            "source",
            Access::Read,
            self.scalar,
            declared,
            self.image.elements(),
        );
        text.binding("result", Access::Write, self.scalar, declared, output.elements());
        let load = match (self.scalar, whole) {
            (Scalar::I8, true) => "unpack4xI8(source[at])".to_owned(),
            (Scalar::U8, true) => "vec4<i32>(unpack4xU8(source[at]))".to_owned(),
            (Scalar::I8, false) => {
                "extractBits(bitcast<i32>(source[at / 4u]), 8u * (at % 4u), 8u)".to_owned()
            }
            (Scalar::U8, false) => "i32(extractBits(source[at / 4u], 8u * (at % 4u), 8u))".to_owned(),
            _ => format!("{value}(source[at])"),
        };
        let start = if max {
            lowest.to_owned()
        } else {
            format!("{value}(0.0)")
        };
        let step = if max {
            "sum = max(sum, value);"
        } else {
            "sum += value;"
        };
        let cw = c / width;
        let Window {
            kernel: [kh, kw],
            strides: [sh, sw],
            dilations: [dh, dw],
            begin: [ph, pw],
            end: [eh, ew],
        } = self.window;
        let count = match self.kind {
            PoolKind::Average { count_padding: true } => {
                format!("if y < {}i {{ if x < {}i {{ count += 1.0; }} }}", h + eh, w + ew)
            }
            _ => String::new(),
        };
        let count_inside = match self.kind {
            PoolKind::Average { count_padding: false } => "count += 1.0;",
            _ => "",
        };
        let finish = if max { "sum" } else { "sum / max(count, 1.0)" };
        text.declare(&format!(
            "fn pooled(number: u32) -> {value} {{
    let channel = number % {cw}u;
    let pixel = number / {cw}u;
    let left = i32(pixel % {ow}u * {sw}u) - {pw}i;
    let top = i32(pixel / {ow}u % {oh}u * {sh}u) - {ph}i;
    let image = pixel / {}u * {}u;
    var sum = {start};
    var count = 0.0;
    for (var ky = 0i; ky < {kh}i; ky++) {{
        let y = top + ky * {dh}i;
        for (var kx = 0i; kx < {kw}i; kx++) {{
            let x = left + kx * {dw}i;
            {count}
            if y >= 0i && y < {h}i && x >= 0i && x < {w}i {{
                let at = (image + u32(y * {w}i + x)) * {cw}u + channel;
                let value = {load};
                {step}
                {count_inside}
            }}
        }}
    }}
    return {finish};
}}",
            oh * ow,
            h * w,
        ));
        let outputs = output.elements() / u64::from(width);
        // bytes of pixels without whole words: a thread makes a word of four
        let items = if bytes && !whole {
            outputs.div_ceil(4)
        } else {
            outputs
        };
        let threads = grid::threads(items, 64, limits);
        let (groups, number) = grid::row(items.div_ceil(threads.into()), limits)?;
        let store = match (self.scalar, whole) {
            (Scalar::F32, _) => "result[i] = pooled(i);".to_owned(),
            (Scalar::F16, true) => "result[i] = vec4<f16>(pooled(i));".to_owned(),
            (Scalar::F16, false) => "result[i] = f16(pooled(i));".to_owned(),
            (_, true) => "result[i] = pack4xU8(vec4<u32>(pooled(i)) & vec4<u32>(255u));".to_owned(),
            (_, false) => format!(
                "var word = 0u;
        for (var j = 0u; j < 4u; j++) {{
            let e = 4u * i + j;
            if e < {outputs}u {{ word |= (u32(pooled(e)) & 255u) << (8u * j); }}
        }}
        result[i] = word;"
            ),
        };
        let body = format!(
            "    let i = {number} * {threads}u + thread;
    if i < {items}u {{
        {store}
    }}"
        );
        let variant = format!(
            "pool-{}-{}{}",
            self.scalar.name(),
            if max { "max" } else { "mean" },
            if whole { "-x4" } else { "" }
        );
        let work = output.elements() * u64::from(self.window.taps());
        text.kernel(variant, [threads, 1, 1], groups, work, &body, limits)
    }

    fn sample(&self) -> Sample {
        let source = Values::samples(self.scalar, 3, self.image.elements() as usize);
        let output = self.output();
        let input = source.to_f64();
        let size = [self.image.height, self.image.width];
        let mut right = Vec::new();
        for n in 0..output.batch {
            for oy in 0..output.height {
                for ox in 0..output.width {
                    for c in 0..output.channels {
                        let mut all = Vec::new();
                        for ky in 0..self.window.kernel[0] {
                            for kx in 0..self.window.kernel[1] {
                                if let Some([y, x]) = self.window.pixel([oy, ox], [ky, kx], size) {
                                    let at = ((n * size[0] + y) * size[1] + x) * self.image.channels + c;
                                    all.push(input[at as usize]);
                                }
                            }
                        }
                        right.push(match self.kind {
                            PoolKind::Max => all.into_iter().fold(
                                if matches!(self.scalar, Scalar::F32 | Scalar::F16) {
                                    f64::from(f32::MIN)
                                } else {
                                    -128.0
                                },
                                f64::max,
                            ),
                            PoolKind::Average { .. } => {
                                all.iter().sum::<f64>() / self.counted([oy, ox]).max(1.0)
                            }
                        });
                    }
                }
            }
        }
        let before = vec![source, Values::of(self.scalar, &vec![0.0; right.len()])];
        Sample {
            before,
            after: vec![None, Some(Values::of(self.scalar, &right))],
            tolerance: match self.scalar {
                Scalar::I8 | Scalar::U8 => 0.0,
                scalar => scalar.tolerance(1e-6),
            },
        }
    }
}

/// Global pooling: one value per image and channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GlobalPool {
    /// The input, `[n, h, w, c]`.
    pub image: Image,
    /// The reduction; there is no padding.
    pub kind: PoolKind,
    /// F32 or F16.
    pub scalar: Scalar,
}

impl Generate for GlobalPool {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.image.check("an image")?;
        if !matches!(self.scalar, Scalar::F32 | Scalar::F16) {
            return Err(Error::new(format!(
                "a global pool of {}: floats only",
                self.scalar.name()
            )));
        }
        let max = self.kind == PoolKind::Max;
        let pixels = self.image.height * self.image.width;
        let c = self.image.channels;
        let width = if c.is_multiple_of(4) { 4 } else { 1 };
        let cw = c / width;
        let value = if width == 4 { "vec4<f32>" } else { "f32" };
        let stored = match (self.scalar, width) {
            (Scalar::F16, 4) => "vec4<f16>",
            (Scalar::F16, _) => "f16",
            (_, 4) => "vec4<f32>",
            _ => "f32",
        };
        // channels side by side read whole lines; the pixels are shared out among rows of threads
        let across = cw.next_power_of_two().min(8);
        let down = grid::threads(pixels.into(), 32, limits)
            .min(limits.invocations / across)
            .max(1);
        let tiles = cw.div_ceil(across);
        let (groups, number) = grid::row(u64::from(tiles) * u64::from(self.image.batch), limits)?;
        let mut text = WgslBuilder::new();
        text.binding("source", Access::Read, self.scalar, width, self.image.elements());
        let outputs = u64::from(self.image.batch) * u64::from(c);
        text.binding("result", Access::Write, self.scalar, width, outputs);
        text.shared("part", value, 4 * width, across * down);
        let start = if max {
            format!("{value}(-3.4028235e38)")
        } else {
            format!("{value}(0.0)")
        };
        let join = |a: &str, b: &str| {
            if max {
                format!("max({a}, {b})")
            } else {
                format!("{a} + {b}")
            }
        };
        let finish = if max {
            "all".to_owned()
        } else {
            format!("all / {pixels}.0")
        };
        let body = format!(
            "    let number = {number};
    let image = number / {tiles}u;
    let channel = number % {tiles}u * {across}u + thread % {across}u;
    let row = thread / {across}u;
    var sum = {start};
    if channel < {cw}u && image < {batch}u {{
        for (var p = row; p < {pixels}u; p += {down}u) {{
            sum = {joined};
        }}
    }}
    part[thread] = sum;
    workgroupBarrier();
    if row == 0u && channel < {cw}u && image < {batch}u {{
        var all = part[thread];
        for (var j = 1u; j < {down}u; j++) {{
            all = {all};
        }}
        result[image * {cw}u + channel] = {stored}({finish});
    }}",
            batch = self.image.batch,
            joined = join(
                "sum",
                &format!("{value}(source[(image * {pixels}u + p) * {cw}u + channel])")
            ),
            all = join("all", &format!("part[j * {across}u + thread]")),
        );
        let variant = format!(
            "global-pool-{}-{}{}",
            self.scalar.name(),
            if max { "max" } else { "mean" },
            if width == 4 { "-x4" } else { "" }
        );
        text.kernel(
            variant,
            [across * down, 1, 1],
            groups,
            self.image.elements(),
            &body,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let whole = Pool {
            image: self.image,
            window: Window {
                kernel: [self.image.height, self.image.width],
                ..Window::POINT
            },
            ceil: false,
            kind: self.kind,
            scalar: self.scalar,
        };
        whole.sample()
    }
}
