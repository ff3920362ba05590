//! Reductions along axes, by a tree in the memory of a workgroup.
//!
//! Invariant: floats are summed in f32, integers in their own type; the order of a sum is fixed by the shape.

use serde::{Deserialize, Serialize};

use crate::rows::Rows;
use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Type, Values, WgslBuilder,
    element,
};

/// The reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is ONNX `Reduce` of that name
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

/// A reduction. Bindings: input, output of the same type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reduce {
    /// Type of both: `f32`, `f16`, or (not of logarithms and roots) `i32`, `i64`.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Axes that are reduced.
    pub axes: Vec<usize>,
    /// The reduction.
    pub reduction: Reduction,
}

/// `ArgMax` or `ArgMin`. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArgReduce {
    /// Type of the input: `f32`, `f16`, `i32`, `i8` or `u8`.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// The reduced axis.
    pub axis: usize,
    /// Whether to find the largest element, else the smallest.
    pub largest: bool,
    /// Whether ties go to the last element, else to the first.
    pub last: bool,
    /// Type of the output: `i64` (no device needs 64-bit integers for it) or `i32`.
    pub index: Scalar,
}

/// Axes that stay and axes that go, each merged where they lie behind each other: sizes and strides.
struct Split {
    kept: (Vec<u64>, Vec<u64>),
    gone: (Vec<u64>, Vec<u64>),
}

impl Split {
    fn of(what: &str, shape: &[u64], axes: &[usize]) -> Result<Split> {
        if let Some(axis) = axes.iter().find(|axis| **axis >= shape.len()) {
            return Err(Error::new(format!("{what}: axis {axis} of shape {shape:?}")));
        }
        let mut split = Split {
            kept: (Vec::new(), Vec::new()),
            gone: (Vec::new(), Vec::new()),
        };
        for (axis, (&dim, stride)) in shape.iter().zip(element::strides(shape)).enumerate() {
            let (dims, strides) = if axes.contains(&axis) {
                &mut split.gone
            } else {
                &mut split.kept
            };
            if dim == 1 {
                continue;
            }
            match (dims.last_mut(), strides.last_mut()) {
                (Some(outer), Some(last)) if *last == stride * dim => {
                    *outer *= dim;
                    *last = stride;
                }
                _ => {
                    dims.push(dim);
                    strides.push(stride);
                }
            }
        }
        Ok(split)
    }

    fn counts(&self) -> (u64, u64) {
        (self.kept.0.iter().product(), self.gone.0.iter().product())
    }

    fn rows(&self) -> Rows {
        let (rows, count) = self.counts();
        Rows::new(rows, count, self.kept.1.last() == Some(&1))
    }

    /// Declares `base(row)` and `step(k)`: the element of a row's step is their sum.
    fn declare(&self, text: &mut WgslBuilder) {
        for (name, (dims, strides)) in [("base", &self.kept), ("step", &self.gone)] {
            let mut terms = vec!["0u".to_owned()];
            for (axis, stride) in strides.iter().enumerate() {
                terms.push(format!("c{axis} * {stride}u"));
            }
            text.declare(&format!(
                "fn {name}(i: u32) -> u32 {{\n{}    return {};\n}}",
                element::places("i", dims, "c"),
                terms.join(" + ")
            ));
        }
    }

    /// Element of a row's step.
    fn place(&self, row: usize, step: usize) -> usize {
        [(row, &self.kept), (step, &self.gone)]
            .into_iter()
            .map(|(flat, (dims, strides))| {
                let places = element::unravel(flat, dims);
                let terms = places.iter().zip(strides);
                terms
                    .map(|(place, stride)| place * *stride as usize)
                    .sum::<usize>()
            })
            .sum()
    }
}

impl Reduce {
    fn check(&self) -> Result<(Split, u64)> {
        use Reduction as R;
        let total = element::count("reduce", &self.shape)?;
        let whole = !matches!(self.reduction, R::L2 | R::LogSum | R::LogSumExp);
        match self.scalar {
            Scalar::F32 | Scalar::F16 => (),
            Scalar::I32 | Scalar::I64 if whole => (),
            other => {
                return Err(Error::new(format!(
                    "reduce: {:?} of {}",
                    self.reduction,
                    other.name()
                )));
            }
        }
        if total == 0 {
            return Err(Error::new(format!("reduce: shape {:?} is empty", self.shape)));
        }
        Ok((Split::of("reduce", &self.shape, &self.axes)?, total))
    }
}

impl Generate for Reduce {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        use Reduction as R;
        let (split, total) = self.check()?;
        let (outputs, count) = split.counts();
        let rows = split.rows();
        let scalar = self.scalar;
        let kind = scalar.computed();
        let float = kind == Type::F32;
        let one = kind.text(1);
        let mut text = WgslBuilder::new();
        element::declare(&mut text, "in0", Access::Read, scalar, total);
        element::declare(&mut text, "out", Access::Write, scalar, outputs);
        let size = if kind == Type::I64 { 8 } else { 4 };
        text.shared("part", &one, size, rows.threads());
        split.declare(&mut text);
        let value = element::load("in0", scalar, "first + step(k)");
        let (groups, mut body) = rows.head(limits);
        // a row that is none reads the last one
        body.push_str(&format!("    let first = base(min(row, {}u));\n", outputs - 1));
        let mut shift = String::new();
        // where there is no infinity, any value of the row
        let bound = |bits: u32| {
            if float {
                format!("px_bits1({bits}u)")
            } else {
                element::load("in0", scalar, "first")
            }
        };
        let lowest = || bound(f32::NEG_INFINITY.to_bits());
        let highest = || bound(f32::INFINITY.to_bits());
        if self.reduction == R::LogSumExp {
            body.push_str(&format!("    var top = {};\n", lowest()));
            body.push_str(&rows.each(&format!("top = max(top, {value});")));
            body.push_str(&rows.tree("part", "top", "peak", |a, b| format!("max({a}, {b})")));
            // an infinite peak is no shift
            body.push_str("    let shift = select(peak, 0.0, px_isinf1(peak));\n");
            shift = " - shift".to_owned();
        }
        let (start, step): (String, String) = match self.reduction {
            R::Sum | R::Mean | R::LogSum => (format!("{one}(0)"), format!("acc += {value};")),
            R::LogSumExp => (format!("{one}(0)"), format!("acc += exp({value}{shift});")),
            R::L1 => (format!("{one}(0)"), format!("acc += abs({value});")),
            R::L2 | R::SumSquare => (format!("{one}(0)"), format!("let v = {value}; acc += v * v;")),
            R::Prod => (format!("{one}(1)"), format!("acc *= {value};")),
            R::Max => (lowest(), format!("acc = max(acc, {value});")),
            R::Min => (highest(), format!("acc = min(acc, {value});")),
        };
        body.push_str(&format!("    var acc = {start};\n"));
        body.push_str(&rows.each(&step));
        body.push_str(&rows.tree("part", "acc", "sum", |a, b| match self.reduction {
            R::Prod => format!("{a} * {b}"),
            R::Max => format!("max({a}, {b})"),
            R::Min => format!("min({a}, {b})"),
            _ => format!("{a} + {b}"),
        }));
        let finish = match self.reduction {
            R::Mean if float => format!("sum * {:?}", 1.0 / count as f64),
            R::Mean => format!("sum / {one}({count})"),
            R::L2 => "sqrt(sum)".to_owned(),
            R::LogSum => "log(sum)".to_owned(),
            R::LogSumExp => "log(sum) + shift".to_owned(),
            _ => "sum".to_owned(),
        };
        body.push_str(&format!(
            "    let result = {finish};\n    if live && y == 0u {{ out[row] = {}; }}",
            element::pack(scalar, "result")
        ));
        let variant = format!("reduce.{:?}-{}", self.reduction, scalar.name()).to_ascii_lowercase();
        text.kernel(variant, [rows.threads(), 1, 1], groups, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        use Reduction as R;
        let Ok((split, total)) = self.check() else {
            return Sample::empty();
        };
        let (outputs, count) = split.counts();
        // a logarithm wants a positive sum, a product values near one
        let (low, high) = match self.reduction {
            R::LogSum => (0.1, 1.0),
            R::Prod => (0.9, 1.1),
            _ => (-1.0, 1.0),
        };
        let input = Values::spread(self.scalar, 1, total as usize, low, high);
        let whole = !matches!(self.scalar.computed(), Type::F32);
        let numbers: Vec<Number> = (0..outputs as usize)
            .map(|row| {
                let steps = 0..count as usize;
                let values = steps.map(|step| input.number(self.scalar, split.place(row, step)));
                let values: Vec<f64> = values.map(Number::to_f64).collect();
                let sum = || values.iter().sum::<f64>();
                let squares = || values.iter().map(|x| x * x).sum::<f64>();
                let result = match self.reduction {
                    R::Sum => sum(),
                    R::Mean => sum() / count as f64,
                    R::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    R::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
                    // integers wrap around
                    R::Prod if whole => values.iter().fold(1i64, |a, x| a.wrapping_mul(*x as i64)) as f64,
                    R::Prod => values.iter().product(),
                    R::L1 => values.iter().map(|x| x.abs()).sum(),
                    R::L2 => squares().sqrt(),
                    R::SumSquare => squares(),
                    R::LogSum => sum().ln(),
                    R::LogSumExp => values.iter().map(|x| x.exp()).sum::<f64>().ln(),
                };
                match self.scalar {
                    Scalar::I32 => Number::I32(result as i64 as i32),
                    Scalar::I64 => Number::I64(result as i64),
                    _ => Number::F32(result as f32),
                }
            })
            .collect();
        Sample {
            before: vec![input, Values::zeros(self.scalar, numbers.len())],
            after: vec![None, Some(Values::of_numbers(self.scalar, &numbers))],
            tolerance: match self.scalar {
                Scalar::F32 => 1e-4,
                Scalar::F16 => 2e-3,
                _ => 0.0,
            },
        }
    }
}

impl ArgReduce {
    fn check(&self) -> Result<(Split, u64)> {
        let total = element::count("argreduce", &self.shape)?;
        if !matches!(self.index, Scalar::I32 | Scalar::I64) || self.scalar == Scalar::Bool {
            return Err(Error::new(format!(
                "argreduce: {} of {}",
                self.index.name(),
                self.scalar.name()
            )));
        }
        if total == 0 {
            return Err(Error::new(format!("argreduce: shape {:?} is empty", self.shape)));
        }
        Ok((Split::of("argreduce", &self.shape, &[self.axis])?, total))
    }
}

impl Generate for ArgReduce {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let (split, total) = self.check()?;
        let (outputs, _) = split.counts();
        let rows = split.rows();
        let kind = self.scalar.computed();
        let one = kind.text(1);
        let mut text = WgslBuilder::new();
        element::declare(&mut text, "in0", Access::Read, self.scalar, total);
        let result = if self.index == Scalar::I64 {
            // an index fits the low word
            text.binding("out", Access::Write, Scalar::U32, 2, outputs * 2);
            "vec2<u32>(at, 0u)"
        } else {
            text.binding("out", Access::Write, Scalar::I32, 1, outputs);
            "i32(at)"
        };
        let size = if kind == Type::I64 { 8 } else { 4 };
        text.shared("best", &one, size, rows.threads());
        text.shared("place", "u32", 4, rows.threads());
        split.declare(&mut text);
        let sign = if self.largest { ">" } else { "<" };
        let tie = if self.last { ">" } else { "<" };
        text.declare(&format!(
            "fn beats(a: {one}, i: u32, b: {one}, j: u32) -> bool {{
    return a {sign} b || (a == b && i {tie} j);
}}"
        ));
        let (groups, mut body) = rows.head(limits);
        body.push_str(&format!(
            "    let first = base(min(row, {}u));
    var at = 0u;
    var top = {};
",
            outputs - 1,
            element::load("in0", self.scalar, "first")
        ));
        body.push_str(&rows.each(&format!(
            "let v = {}; if beats(v, k, top, at) {{ top = v; at = k; }}",
            element::load("in0", self.scalar, "first + step(k)")
        )));
        body.push_str("    place[slot] = at;\n");
        body.push_str(&rows.pairs("best", "place", "top"));
        body.push_str(&format!(
            "    if live && y == 0u {{ at = place[x]; out[row] = {result}; }}"
        ));
        let what = if self.largest { "max" } else { "min" };
        let variant = format!("arg{what}-{}-{}", self.scalar.name(), self.index.name());
        text.kernel(variant, [rows.threads(), 1, 1], groups, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        let Ok((split, total)) = self.check() else {
            return Sample::empty();
        };
        let (outputs, count) = split.counts();
        // few different values, so that some are equal
        let input = Values::of_numbers(
            self.scalar,
            &Values::floats(1, total as usize)
                .iter()
                .map(|x| Number::F32(((x + 1.0) * 3.0).floor()))
                .collect::<Vec<_>>(),
        );
        let numbers: Vec<Number> = (0..outputs as usize)
            .map(|row| {
                let value = |step: usize| input.number(self.scalar, split.place(row, step)).to_f64();
                let mut best = 0;
                for step in 1..count as usize {
                    let (new, old) = (value(step), value(best));
                    let beats = if self.largest { new > old } else { new < old };
                    if beats || (new == old && self.last) {
                        best = step;
                    }
                }
                Number::I64(best as i64)
            })
            .collect();
        Sample {
            before: vec![input, Values::zeros(self.index, numbers.len())],
            after: vec![None, Some(Values::of_numbers(self.index, &numbers))],
            tolerance: 0.0,
        }
    }
}
