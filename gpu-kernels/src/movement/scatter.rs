//! Scatter ops.
//!
//! Invariant: units are of 4 bytes or more, so that no two threads write one word.

use super::{ScatterElements, ScatterNd, gather, map};
use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element,
};

/// Declares the bindings: indices, updates, output.
fn text(scalar: Scalar, index: Scalar, unit: u64, counts: [u64; 3]) -> Result<WgslBuilder> {
    if unit < 4 {
        return Err(Error::new(format!(
            "scatter: runs of {} are not whole words",
            scalar.name()
        )));
    }
    let mut text = WgslBuilder::new();
    map::indices(&mut text, index, counts[0], None);
    map::bind(&mut text, "updates", Access::Read, unit, counts[1]);
    map::bind(&mut text, "out", Access::Write, unit, counts[2]);
    Ok(text)
}

/// Text that moves the index named `s` to `0..dim`, or leaves.
fn inside(dim: u64) -> String {
    format!("    s = select(s, s + {dim}, s < 0);\n    if s < 0 || s >= {dim} {{ return; }}\n")
}

impl Generate for ScatterElements {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let fits = self.axis < self.shape.len()
            && self.indices.len() == self.shape.len()
            && (0..self.shape.len()).all(|i| i == self.axis || self.indices[i] <= self.shape[i]);
        if !fits {
            return Err(Error::new(format!(
                "scatter elements: indices {:?} along axis {} of {:?}",
                self.indices, self.axis, self.shape
            )));
        }
        gather::check("scatter elements", self.index, &self.shape)?;
        let count = element::count("scatter elements", &self.indices)?;
        let total = element::count("scatter elements", &self.shape)?;
        let text = text(
            self.scalar,
            self.index,
            self.scalar.bytes(),
            [count, count, total],
        )?;
        let (threads, groups, index) = element::flat(count, limits);
        let terms: Vec<String> = element::strides(&self.shape)
            .iter()
            .enumerate()
            .map(|(axis, stride)| match axis {
                _ if axis == self.axis => format!("u32(s) * {stride}u"),
                _ => format!("c{axis} * {stride}u"),
            })
            .collect();
        let body = format!(
            "    let i = {index};
    if i >= {count}u {{ return; }}
{}    var s = signed_index(i);
{}    out[{}] = updates[i];",
            element::places("i", &self.indices, "c"),
            inside(self.shape[self.axis]),
            terms.join(" + ")
        );
        let variant = format!("scatterelements-b{}", self.scalar.bytes());
        text.kernel(variant, [threads, 1, 1], groups, count, &body, limits)
    }

    fn sample(&self) -> Sample {
        let count = element::size(&self.indices);
        let dim = self.shape[self.axis];
        // distinct along the axis: the positions of the indices, rotated by one and counted from the end
        let places: Vec<Number> = (0..count)
            .map(|flat| {
                let at = element::unravel(flat, &self.indices)[self.axis] as i64;
                Number::I64((at + 1) % dim as i64 - dim as i64)
            })
            .collect();
        let indices = Values::of_numbers(self.index, &places);
        let updates = Values::some(self.scalar, 2, count);
        let data = Values::some(self.scalar, 1, element::size(&self.shape));
        let targets: Vec<usize> = (0..count)
            .map(|flat| {
                let mut at = element::unravel(flat, &self.indices);
                at[self.axis] = map::place(&indices, self.index, flat, dim);
                element::ravel(&at, &self.shape)
            })
            .collect();
        placed(self.scalar, indices, updates, data, &targets)
    }
}

impl ScatterNd {
    /// Tuples, values of a tuple, elements behind each.
    fn sizes(&self) -> Result<(u64, usize, u64)> {
        let wrong = || {
            Error::new(format!(
                "scatter nd: indices {:?} of {:?}",
                self.indices, self.shape
            ))
        };
        let (&tuple, outer) = self.indices.split_last().ok_or_else(wrong)?;
        let tuple = usize::try_from(tuple).map_err(|_| wrong())?;
        if tuple == 0 || tuple > self.shape.len() {
            return Err(wrong());
        }
        gather::check("scatter nd", self.index, &self.shape[..tuple])?;
        let rows = element::count("scatter nd", outer)?;
        Ok((rows, tuple, element::count("scatter nd", &self.shape[tuple..])?))
    }
}

impl Generate for ScatterNd {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let (rows, tuple, inner) = self.sizes()?;
        let unit = map::unit(self.scalar, &[inner]);
        let lump = unit / self.scalar.bytes();
        let inner = inner / lump;
        let total = element::count("scatter nd", &self.shape)?;
        let count = element::count("scatter nd", &[rows, inner])?;
        let counts = [rows * tuple as u64, count, total / lump];
        let text = text(self.scalar, self.index, unit, counts)?;
        let (threads, groups, index) = element::flat(count, limits);
        let mut body = format!(
            "    let i = {index};
    if i >= {count}u {{ return; }}
    let row = i / {inner}u;
    var at = i % {inner}u;
    var s = 0;\n"
        );
        for (k, stride) in element::strides(&self.shape)[..tuple].iter().enumerate() {
            body.push_str(&format!(
                "    s = signed_index(row * {tuple}u + {k}u);\n{}    at += u32(s) * {}u;\n",
                inside(self.shape[k]),
                stride / lump
            ));
        }
        body.push_str("    out[at] = updates[i];");
        let variant = format!("scatternd-b{unit}");
        text.kernel(variant, [threads, 1, 1], groups, count, &body, limits)
    }

    fn sample(&self) -> Sample {
        let Ok((rows, tuple, inner)) = self.sizes() else {
            return Sample::empty();
        };
        let (rows, inner) = (rows as usize, inner as usize);
        let dims = &self.shape[..tuple];
        let all = element::size(dims);
        // distinct while there are enough places: one after the other from the end
        let mut numbers = Vec::new();
        let mut targets = Vec::new();
        for row in 0..rows {
            let flat = all - 1 - row % all;
            let at = element::unravel(flat, dims);
            numbers.extend(at.iter().map(|&at| Number::I64(at as i64)));
            targets.extend((0..inner).map(|i| flat * inner + i));
        }
        let indices = Values::of_numbers(self.index, &numbers);
        let updates = Values::some(self.scalar, 2, rows * inner);
        let data = Values::some(self.scalar, 1, element::size(&self.shape));
        placed(self.scalar, indices, updates, data, &targets)
    }
}

fn placed(scalar: Scalar, indices: Values, updates: Values, data: Values, targets: &[usize]) -> Sample {
    let mut numbers: Vec<Number> = (0..data.len()).map(|i| data.number(scalar, i)).collect();
    for (i, &target) in targets.iter().enumerate() {
        numbers[target] = updates.number(scalar, i);
    }
    Sample {
        before: vec![indices, updates, data],
        after: vec![None, None, Some(Values::of_numbers(scalar, &numbers))],
        tolerance: 0.0,
    }
}
