//! A chain of element-wise ops as one kernel, from broadcast or strided operands to one or several
//! outputs.
//!
//! Invariants:
//! 1. Outputs are dense and row-major, all of one shape; a thread writes whole words, so the last
//!    word may extend past the end of a tensor of bytes.
//! 2. An operand's element is at `offset + sum(index[i] * strides[i])`; a stride is 0 along a
//!    broadcast axis and negative along a reversed one. So slices, transposes and expansions of
//!    operands cost nothing extra.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Error, Expression, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Type, Values,
    WgslBuilder, element,
};

/// A tensor that is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// Type in memory.
    pub scalar: Scalar,
    /// [`Access::Read`], or [`Access::Constant`] of packed constants.
    pub access: Access,
    /// Stride along each axis of the kernel's shape, in elements.
    pub strides: Vec<i64>,
    /// Position of the element at index 0 of all axes.
    pub offset: u64,
}

/// A tensor that is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Type in memory; the expression's type must be [`Scalar::computed`] of it.
    pub scalar: Scalar,
    /// Its value as an expression over the kernel's operands.
    pub expression: Expression,
}

/// Expressions over operands, evaluated for each element of a shape. Bindings: the operands, then
/// the outcomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elementwise {
    /// Shape of all outcomes.
    pub shape: Vec<u64>,
    /// Operands.
    pub operands: Vec<Operand>,
    /// Outcomes.
    pub outcomes: Vec<Outcome>,
}

impl Operand {
    /// A dense operand of the kernel's own shape.
    #[must_use]
    pub fn dense(scalar: Scalar, shape: &[u64]) -> Operand {
        Operand {
            scalar,
            access: Access::Read,
            strides: element::strides(shape).iter().map(|&n| n as i64).collect(),
            offset: 0,
        }
    }

    /// A dense operand of shape `from`, broadcast to `shape` as NumPy does.
    ///
    /// # Errors
    /// `from` does not broadcast to `shape`.
    pub fn broadcast(scalar: Scalar, from: &[u64], shape: &[u64]) -> Result<Operand> {
        let refuse = || {
            Error::new(format!(
                "elementwise: an operand of shape {from:?} does not broadcast to {shape:?}"
            ))
        };
        let missing = shape.len().checked_sub(from.len()).ok_or_else(refuse)?;
        let mut strides = vec![0; shape.len()];
        for (axis, (&dim, stride)) in from.iter().zip(element::strides(from)).enumerate() {
            if dim == shape[missing + axis] {
                strides[missing + axis] = if dim == 1 { 0 } else { stride as i64 };
            } else if dim != 1 {
                return Err(refuse());
            }
        }
        Ok(Operand {
            scalar,
            access: Access::Read,
            strides,
            offset: 0,
        })
    }

    /// The same operand, bound as packed constants.
    #[must_use]
    pub fn constant(self) -> Operand {
        Operand {
            access: Access::Constant,
            ..self
        }
    }

    /// Elements that it reaches, from its start.
    fn extent(&self, shape: &[u64]) -> Result<u64> {
        let mut low = self.offset as i128;
        let mut high = low;
        for (&dim, &stride) in shape.iter().zip(&self.strides) {
            let reach = i128::from(stride) * (i128::from(dim) - 1);
            *(if reach < 0 { &mut low } else { &mut high }) += reach;
        }
        if low < 0 || high >= 1 << 31 {
            return Err(Error::new(format!(
                "elementwise: an operand reaches from element {low} to {high}, which is no index"
            )));
        }
        Ok(high as u64 + 1)
    }
}

impl Elementwise {
    /// One outcome over dense operands of one type.
    #[must_use]
    pub fn dense(scalar: Scalar, shape: &[u64], expression: Expression) -> Elementwise {
        let count = expression.operands() as usize;
        Elementwise {
            shape: shape.to_vec(),
            operands: vec![Operand::dense(scalar, shape); count],
            outcomes: vec![Outcome { scalar, expression }],
        }
    }

    fn types(&self) -> Vec<Type> {
        self.operands.iter().map(|o| o.scalar.computed()).collect()
    }

    fn check(&self) -> Result<u64> {
        let total = element::count("elementwise", &self.shape)?;
        if self.outcomes.is_empty() {
            return Err(Error::new("elementwise: nothing is computed"));
        }
        for operand in &self.operands {
            if operand.strides.len() != self.shape.len() || operand.access == Access::Write {
                return Err(Error::new(format!(
                    "elementwise: operand {operand:?} does not fit shape {:?}",
                    self.shape
                )));
            }
        }
        let types = self.types();
        for outcome in &self.outcomes {
            let kind = outcome.expression.kind(&types)?;
            if kind != outcome.scalar.computed() {
                return Err(Error::new(format!(
                    "elementwise: a value of {kind:?} is stored as {}",
                    outcome.scalar.name()
                )));
            }
        }
        Ok(total)
    }

    /// Shape without axes of size 1, and with axes that lie behind each other in every operand as one; strides
    /// of each operand alike.
    fn merged(&self) -> (Vec<u64>, Vec<Vec<i64>>) {
        let mut shape: Vec<u64> = Vec::new();
        let mut strides: Vec<Vec<i64>> = vec![Vec::new(); self.operands.len()];
        for (axis, &dim) in self.shape.iter().enumerate() {
            if dim == 1 {
                continue;
            }
            let behind = !shape.is_empty()
                && self
                    .operands
                    .iter()
                    .zip(&strides)
                    .all(|(o, s)| s.last().copied() == o.strides[axis].checked_mul(dim as i64));
            if behind {
                if let Some(last) = shape.last_mut() {
                    *last *= dim;
                }
            } else {
                shape.push(dim);
            }
            for (operand, strides) in self.operands.iter().zip(&mut strides) {
                if behind {
                    strides.pop();
                }
                strides.push(operand.strides[axis]);
            }
        }
        if shape.is_empty() {
            shape.push(1);
            strides.iter_mut().for_each(|s| s.push(0));
        }
        (shape, strides)
    }

    fn name(&self, way: &str) -> String {
        let mut name = String::from("elementwise");
        for operand in &self.operands {
            name.push('-');
            name.push_str(operand.scalar.name());
        }
        for outcome in &self.outcomes {
            name.push_str("-to-");
            name.push_str(outcome.scalar.name());
            let mut functions = String::new();
            outcome.expression.describe(&mut functions);
            name.push_str(&functions);
        }
        if name.len() > 120 {
            // FNV-1a: which functions, where they are too many to name
            let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
            name.truncate(96);
            name.push_str(&format!("-{hash:016x}"));
        }
        name.push_str(way);
        name
    }
}

impl Generate for Elementwise {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let total = self.check()?;
        let types = self.types();
        let (shape, strides) = self.merged();
        let inner = shape[shape.len() - 1];
        let by_four = inner.is_multiple_of(4);
        let mut text = WgslBuilder::new();
        let mut body = String::new();
        let fours = total.div_ceil(4);
        let (threads, groups, index) = element::flat(fours, limits);
        body.push_str(&format!(
            "    let four = {index};\n    if four >= {fours}u {{ return; }}\n"
        ));
        body.push_str("    let first = four * 4u;\n");
        if by_four {
            body.push_str(&element::places("first", &shape, "c"));
        }
        let last = total.saturating_sub(1);
        for (number, (operand, strides)) in self.operands.iter().zip(&strides).enumerate() {
            let name = format!("in{number}");
            let extent = operand.extent(&self.shape)?;
            let scalar = operand.scalar;
            let inner_stride = strides[strides.len() - 1];
            let place = |prefix: &str| {
                let mut terms = vec![format!("{}u", operand.offset)];
                for (axis, &stride) in strides.iter().enumerate().filter(|(_, stride)| **stride != 0) {
                    // two's complement: sums of a place that exists wrap back to it
                    terms.push(format!("{prefix}{axis} * {}u", stride as u32));
                }
                if terms.len() > 1 && operand.offset == 0 {
                    terms.remove(0);
                }
                terms.join(" + ")
            };
            let outer_by_four = strides[..strides.len() - 1].iter().all(|stride| stride % 4 == 0);
            let kind = scalar.computed().text(4);
            let value = if by_four && inner_stride == 1 && outer_by_four && operand.offset % 4 == 0 {
                let (width, count) = element::four(scalar, extent);
                text.binding(&name, operand.access, scalar, width, count);
                element::load_four(&name, scalar, &format!("({}) >> 2u", place("c")))
            } else {
                text.binding(&name, operand.access, scalar, 1, extent);
                if strides.iter().all(|stride| *stride == 0) {
                    let one = element::load(&name, scalar, &format!("{}u", operand.offset));
                    format!("{kind}({one})")
                } else if by_four {
                    body.push_str(&format!("    let at{number} = {};\n", place("c")));
                    let one = |k: i64| {
                        let step = (k * inner_stride) as u32;
                        element::load(&name, scalar, &format!("at{number} + {step}u"))
                    };
                    if inner_stride == 0 {
                        format!("{kind}({})", element::load(&name, scalar, &format!("at{number}")))
                    } else {
                        format!("{kind}({}, {}, {}, {})", one(0), one(1), one(2), one(3))
                    }
                } else {
                    text.declare(&format!(
                        "fn place{number}(i: u32) -> u32 {{\n{}    return {};\n}}",
                        element::places("i", &shape, "c"),
                        place("c")
                    ));
                    let mut parts = Vec::new();
                    for k in 0..4 {
                        body.push_str(&format!(
                            "    let at{number}_{k} = place{number}(min(first + {k}u, {last}u));\n"
                        ));
                        parts.push(element::load(&name, scalar, &format!("at{number}_{k}")));
                    }
                    format!("{kind}({})", parts.join(", "))
                }
            };
            body.push_str(&format!("    let x{number} = {value};\n"));
        }
        let names: Vec<String> = (0..self.operands.len()).map(|n| format!("x{n}")).collect();
        let operands: Vec<(&str, Type)> = names
            .iter()
            .map(String::as_str)
            .zip(types.iter().copied())
            .collect();
        let mut int64 = false;
        for (number, outcome) in self.outcomes.iter().enumerate() {
            let name = format!("out{number}");
            let scalar = outcome.scalar;
            let value = outcome.expression.typed_text(&operands, 4);
            int64 |= outcome.expression.needs_int64(&types)?;
            body.push_str(&format!("    let y{number} = {value};\n"));
            let packed = element::pack_four(scalar, &format!("y{number}"));
            let whole = total.is_multiple_of(4) || scalar.bytes() == 1;
            if whole {
                let (width, count) = element::four(scalar, total);
                text.binding(&name, Access::Write, scalar, width, count);
                body.push_str(&format!("    {name}[four] = {packed};\n"));
            } else if scalar.bytes() == 2 && scalar != Scalar::F16 {
                text.binding(&name, Access::Write, scalar, 1, total);
                body.push_str(&format!(
                    "    let w{number} = {packed};\n    {name}[four * 2u] = w{number}.x;\n    \
                     if first + 2u < {total}u {{ {name}[four * 2u + 1u] = w{number}.y; }}\n"
                ));
            } else {
                text.binding(&name, Access::Write, scalar, 1, total);
                body.push_str(&format!("    let w{number} = {packed};\n"));
                for (k, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
                    body.push_str(&format!(
                        "    if first + {k}u < {total}u {{ {name}[first + {k}u] = w{number}.{part}; }}\n"
                    ));
                }
            }
        }
        text.needs(|needs| needs.int64 |= int64);
        let way = if by_four { "-x4" } else { "-x1" };
        text.kernel(self.name(way), [threads, 1, 1], groups, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        let total = element::size(&self.shape);
        // the first range in which every value is a number: logarithms want positive ones, arcs small ones
        let mut sample = self.sample_of(total, -2.0, 2.0);
        for (low, high) in [(0.1, 2.0), (-0.9, 0.9), (1.1, 3.0)] {
            let finite = |values: &Values| values.to_f64().iter().all(|x| x.is_finite());
            if sample.after.iter().flatten().all(finite) {
                break;
            }
            sample = self.sample_of(total, low, high);
        }
        sample
    }
}

impl Elementwise {
    fn sample_of(&self, total: usize, low: f32, high: f32) -> Sample {
        let reads = (0..).zip(&self.operands).map(|(seed, operand)| {
            let extent = operand.extent(&self.shape).unwrap_or(1) as usize;
            Values::spread(operand.scalar, seed, extent, low, high)
        });
        self.sample_over(total, reads.collect())
    }

    /// A sample whose operands are changed before the truth is computed: number, values.
    pub(crate) fn sample_with(&self, change: impl Fn(usize, Values) -> Values) -> Sample {
        let total = element::size(&self.shape);
        let mut before = self.sample_of(total, -2.0, 2.0).before;
        before.truncate(self.operands.len());
        let before = before.into_iter().enumerate();
        self.sample_over(
            total,
            before.map(|(number, values)| change(number, values)).collect(),
        )
    }

    /// The truth over these operands.
    fn sample_over(&self, total: usize, mut before: Vec<Values>) -> Sample {
        let mut outcomes: Vec<Vec<Number>> = vec![Vec::with_capacity(total); self.outcomes.len()];
        for flat in 0..total {
            let places = element::unravel(flat, &self.shape);
            let numbers: Vec<Number> = self
                .operands
                .iter()
                .zip(&before)
                .map(|(operand, values)| {
                    let at = places
                        .iter()
                        .zip(&operand.strides)
                        .fold(operand.offset as i64, |at, (&place, stride)| {
                            at + place as i64 * stride
                        });
                    values.number(operand.scalar, at as usize)
                })
                .collect();
            for (outcome, values) in self.outcomes.iter().zip(&mut outcomes) {
                values.push(outcome.expression.evaluate(&numbers));
            }
        }
        let mut after: Vec<Option<Values>> = vec![None; before.len()];
        let mut tolerance: f64 = 0.0;
        for (outcome, values) in self.outcomes.iter().zip(&outcomes) {
            before.push(Values::zeros(outcome.scalar, total));
            after.push(Some(Values::of_numbers(outcome.scalar, values)));
            // of the largest value; Vulkan lets trigonometric functions be off by 2^-11
            tolerance = tolerance.max(match outcome.scalar {
                Scalar::F32 => outcome.expression.tolerance(),
                Scalar::F16 => outcome.expression.tolerance().max(1e-3),
                // one step, where a quotient meets a half
                Scalar::I8 | Scalar::U8 if outcome.expression.saturates() => 1.01 / 255.0,
                Scalar::I16 | Scalar::U16 if outcome.expression.saturates() => 1.01 / 65_535.0,
                _ => 0.0,
            });
        }
        Sample {
            before,
            after,
            tolerance,
        }
    }
}
