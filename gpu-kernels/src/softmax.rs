//! Softmax and its logarithm.
//!
//! Invariant: computed in f32 from the largest value of a row, so that no exponential overflows.

use serde::{Deserialize, Serialize};

use crate::element::along;
use crate::rows::Lines;
use crate::{Access, Error, Generate, Kernel, Limits, Result, Sample, Scalar, Values, WgslBuilder, element};

/// Softmax of `[outer, count, inner]` along `count`. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Softmax {
    /// Type of both: `f32` or `f16`.
    pub scalar: Scalar,
    /// Product of the dimensions before the axis.
    pub outer: u64,
    /// Size of the axis.
    pub count: u64,
    /// Product of the dimensions after the axis.
    pub inner: u64,
    /// Whether to compute the logarithm of the softmax.
    pub log: bool,
}

impl Softmax {
    /// Softmax of a tensor of this shape along one axis.
    ///
    /// # Errors
    /// There is no such axis.
    pub fn along(scalar: Scalar, shape: &[u64], axis: usize, log: bool) -> Result<Softmax> {
        let count = *shape
            .get(axis)
            .ok_or_else(|| Error::new(format!("softmax: axis {axis} of {shape:?}")))?;
        Ok(Softmax {
            scalar,
            outer: element::count("softmax", &shape[..axis])?,
            count,
            inner: element::count("softmax", &shape[axis + 1..])?,
            log,
        })
    }
}

impl Generate for Softmax {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let shape = [self.outer, self.count, self.inner];
        let lines = Lines::new("softmax", self.scalar, shape)?;
        let rows = lines.rows;
        let mut text = WgslBuilder::new();
        lines.bind(&mut text, "in0", Access::Read);
        lines.bind(&mut text, "out", Access::Write);
        text.shared("part", "f32", 4, rows.threads());
        let place = lines.place();
        let load = format!("let v = {};", lines.load("in0", &place));
        let (groups, mut body) = rows.head(limits);
        // the least float: a row of nothing but -inf then sums to 0, and no infinities are subtracted
        body.push_str("    var top = -3.4028234e38;\n");
        body.push_str(&rows.each(&format!("{load} top = max(top, {});", lines.largest("v"))));
        body.push_str(&rows.tree("part", "top", "peak", |a, b| format!("max({a}, {b})")));
        body.push_str("    var acc = 0.0;\n");
        body.push_str(&rows.each(&format!(
            "{load} let e = exp(v - peak); acc += {};",
            lines.sum("e")
        )));
        body.push_str(&rows.tree("part", "acc", "sum", |a, b| format!("{a} + {b}")));
        let result = if self.log {
            body.push_str("    let shift = peak + log(sum);\n");
            "v - shift"
        } else {
            body.push_str("    let factor = 1.0 / sum;\n");
            "exp(v - peak) * factor"
        };
        body.push_str(&rows.each(&format!("{load} {}", lines.store("out", &place, result))));
        let name = if self.log { "logsoftmax" } else { "softmax" };
        let variant = format!("{name}-{}-x{}", self.scalar.name(), lines.width);
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
        let input = Values::spread(self.scalar, 1, element::size(&shape), -8.0, 8.0);
        let output = along(self.scalar, shape, &input, |row| {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
            let one = |x: f64| {
                if self.log {
                    x - top - sum.ln()
                } else {
                    (x - top).exp() / sum
                }
            };
            row.iter().map(|&x| one(x)).collect()
        });
        Sample {
            before: vec![input, Values::zeros(self.scalar, output.len())],
            after: vec![None, Some(output)],
            tolerance: if self.scalar == Scalar::F16 { 2e-3 } else { 1e-5 },
        }
    }
}
