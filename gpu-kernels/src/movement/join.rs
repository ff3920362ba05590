//! Concatenation and padding.

use super::{Concat, Pad, PadMode, map};
use crate::{Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element};

impl Concat {
    /// Elements before the axis, and of each input from one of those to the next.
    fn runs(&self) -> Result<(u64, Vec<u64>)> {
        let first = self
            .shapes
            .first()
            .ok_or_else(|| Error::new("concat: there is no input"))?;
        if self.axis >= first.len() {
            return Err(Error::new(format!("concat: axis {} of {first:?}", self.axis)));
        }
        let alike = |shape: &Vec<u64>| {
            shape.len() == first.len() && (0..first.len()).all(|i| i == self.axis || shape[i] == first[i])
        };
        if !self.shapes.iter().all(alike) {
            return Err(Error::new(format!(
                "concat: shapes {:?} differ beside axis {}",
                self.shapes, self.axis
            )));
        }
        let outer = element::count("concat", &first[..self.axis])?;
        let runs = self
            .shapes
            .iter()
            .map(|s| element::count("concat", &s[self.axis..]));
        Ok((outer, runs.collect::<Result<_>>()?))
    }
}

impl Generate for Concat {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let (outer, runs) = self.runs()?;
        let unit = map::unit(self.scalar, &runs);
        let lump = unit / self.scalar.bytes();
        let mut text = WgslBuilder::new();
        let mut fetch = String::new();
        let mut start = 0;
        for (number, run) in runs.iter().map(|run| run / lump).enumerate() {
            map::source(&mut text, number, unit, outer * run);
            let take = format!("return take{number}(c0 * {run}u + c1 - {start}u);");
            start += run;
            if number + 1 < runs.len() {
                fetch.push_str(&format!("    if c1 < {start}u {{ {take} }}\n"));
            } else {
                fetch.push_str(&format!("    {take}"));
            }
        }
        map::kernel(
            text,
            format!("concat{}", runs.len()),
            unit,
            &[outer, start],
            &fetch,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let Ok((outer, runs)) = self.runs() else {
            return Sample::empty();
        };
        let inputs: Vec<Values> = (0..)
            .zip(&runs)
            .map(|(seed, run)| Values::some(self.scalar, seed, (outer * run) as usize))
            .collect();
        let mut numbers: Vec<Number> = Vec::new();
        for row in 0..outer {
            for (input, &run) in inputs.iter().zip(&runs) {
                numbers.extend((row * run..(row + 1) * run).map(|i| input.number(self.scalar, i as usize)));
            }
        }
        let mut after = vec![None; inputs.len()];
        let mut before = inputs;
        before.push(Values::zeros(self.scalar, numbers.len()));
        after.push(Some(Values::of_numbers(self.scalar, &numbers)));
        Sample {
            before,
            after,
            tolerance: 0.0,
        }
    }
}

impl Pad {
    /// Shape of the output.
    ///
    /// # Errors
    /// Nothing is left of an axis, or the mode has nothing to repeat.
    pub fn output(&self) -> Result<Vec<u64>> {
        if self.before.len() != self.shape.len() || self.after.len() != self.shape.len() {
            return Err(Error::new(format!("pad: {self:?} is not of one rank")));
        }
        let pads = self.before.iter().zip(&self.after);
        self.shape
            .iter()
            .zip(pads)
            .map(|(&dim, (&before, &after))| {
                let size = i128::from(dim) + i128::from(before) + i128::from(after);
                let largest = i128::from(before.max(after));
                let fits = match self.mode {
                    PadMode::Constant => true,
                    PadMode::Reflect => largest < i128::from(dim).max(1),
                    PadMode::Edge => dim > 0,
                    PadMode::Wrap => largest <= i128::from(dim),
                };
                match u64::try_from(size) {
                    Ok(size) if size > 0 && size < 1 << 31 && fits && dim > 0 => Ok(size),
                    _ => Err(Error::new(format!(
                        "pad: an axis of size {dim} is not padded by {before} and {after}, mode {:?}",
                        self.mode
                    ))),
                }
            })
            .collect()
    }

    fn place(&self, axis: usize, at: i64) -> Option<i64> {
        let dim = self.shape[axis] as i64;
        let at = at - self.before[axis];
        if (0..dim).contains(&at) {
            return Some(at);
        }
        match self.mode {
            PadMode::Constant => None,
            PadMode::Edge => Some(at.clamp(0, dim - 1)),
            PadMode::Wrap => Some(at.rem_euclid(dim)),
            PadMode::Reflect if at < 0 => Some(-at),
            PadMode::Reflect => Some(2 * (dim - 1) - at),
        }
    }
}

impl Generate for Pad {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let output = self.output()?;
        let count = element::count("pad", &self.shape)?;
        // axes behind the last padded one move as runs
        let padded = (0..output.len())
            .rev()
            .find(|&i| self.before[i] != 0 || self.after[i] != 0);
        let axes = padded.map_or(0, |axis| axis + 1);
        let run = element::count("pad", &self.shape[axes..])?;
        let unit = map::unit(self.scalar, &[run]);
        let lump = unit / self.scalar.bytes();
        let mut shape = output[..axes].to_vec();
        shape.push(run / lump);
        let mut input = self.shape[..axes].to_vec();
        input.push(run / lump);
        let strides = element::strides(&input);
        let mut text = WgslBuilder::new();
        map::source(&mut text, 0, unit, count / lump);
        let mut fetch = String::new();
        let mut terms = vec![format!("c{axes}")];
        let bits = self.fill;
        let fill = match unit {
            _ if unit > 4 => {
                // the fill again and again
                let bytes = self.scalar.bytes();
                let word = |word: u64| match bytes {
                    8 => (bits >> (32 * (word % 2))) & 0xffff_ffff,
                    4 => bits & 0xffff_ffff,
                    2 => (bits & 0xffff) * 0x0001_0001,
                    _ => (bits & 0xff) * 0x0101_0101,
                };
                let words: Vec<String> = (0..unit / 4).map(|k| format!("{}u", word(k))).collect();
                format!("{}({})", map::register(unit), words.join(", "))
            }
            4 if self.scalar.bytes() == 2 => format!("{}u", (bits & 0xffff) * 0x0001_0001),
            4 if self.scalar.bytes() == 1 => format!("{}u", (bits & 0xff) * 0x0101_0101),
            4 => format!("{}u", bits & 0xffff_ffff),
            2 if self.scalar.bytes() == 1 => format!("{}u", (bits & 0xff) * 0x0101),
            _ => format!("{}u", bits & 0xffff),
        };
        for (axis, stride) in strides.iter().enumerate().take(axes) {
            let (dim, before) = (self.shape[axis], self.before[axis]);
            fetch.push_str(&format!("    var p{axis} = i32(c{axis}) - ({before});\n"));
            if self.before[axis] > 0 || self.after[axis] > 0 {
                let last = dim as i64 - 1;
                fetch.push_str(&match self.mode {
                    PadMode::Constant => {
                        format!("    if p{axis} < 0 || p{axis} > {last} {{ return {fill}; }}\n")
                    }
                    PadMode::Edge => format!("    p{axis} = clamp(p{axis}, 0, {last});\n"),
                    PadMode::Reflect => {
                        format!(
                            "    p{axis} = abs(p{axis});\n    p{axis} = {last} - abs({last} - p{axis});\n"
                        )
                    }
                    PadMode::Wrap => format!("    p{axis} = (p{axis} + {dim}) % {dim};\n"),
                });
            }
            terms.push(format!("u32(p{axis}) * {}u", stride));
        }
        fetch.push_str(&format!("    return take0({});", terms.join(" + ")));
        let mode = format!("pad.{:?}", self.mode).to_ascii_lowercase();
        map::kernel(text, mode, unit, &shape, &fetch, limits)
    }

    fn sample(&self) -> Sample {
        let Ok(shape) = self.output() else {
            return Sample::empty();
        };
        let input = Values::some(self.scalar, 1, element::size(&self.shape));
        let places: Vec<Option<usize>> = (0..element::size(&shape))
            .map(|flat| {
                let places: Option<Vec<usize>> = element::unravel(flat, &shape)
                    .iter()
                    .enumerate()
                    .map(|(axis, &at)| self.place(axis, at as i64).map(|at| at as usize))
                    .collect();
                places.map(|places| element::ravel(&places, &self.shape))
            })
            .collect();
        let fill = number_of_bits(self.scalar, self.fill);
        let output = map::pick(self.scalar, &input, &places, fill);
        Sample {
            before: vec![input, Values::zeros(self.scalar, places.len())],
            after: vec![None, Some(output)],
            tolerance: 0.0,
        }
    }
}

/// A number of a type's bits.
fn number_of_bits(scalar: Scalar, bits: u64) -> Number {
    match scalar {
        Scalar::F32 => Number::F32(f32::from_bits(bits as u32)),
        Scalar::F16 => Number::F32(half::f16::from_bits(bits as u16).to_f32()),
        Scalar::I32 => Number::I32(bits as i32),
        Scalar::U32 => Number::U32(bits as u32),
        Scalar::I64 => Number::I64(bits as i64),
        Scalar::I16 => Number::I32((bits as i16).into()),
        Scalar::U16 => Number::U32((bits as u16).into()),
        Scalar::I8 => Number::I32((bits as i8).into()),
        Scalar::U8 => Number::U32((bits as u8).into()),
        Scalar::Bool => Number::Bool(bits & 0xff != 0),
    }
}
