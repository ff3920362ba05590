//! A program of an emulated chip: steps, which the scalar reference computes, over tensors with a
//! vendor's encodings.
//!
//! A vendor's graph becomes *tensors*, which hold bytes of a type (ports, constants, and results
//! that the chip rounds), and *intermediate values*, which are not rounded. A step reads real
//! numbers: an 8-bit tensor with a scale yields `(q - zero_point) * scale`. If a step writes to a
//! tensor, the result is rounded to the tensor's type and scale.
//!
//! Invariants:
//! 1. The steps are in an order in which they can run; an input that no earlier step makes is an
//!    error.
//! 2. A run does not change the program, so several threads may run it.
//! 3. Intermediate real values are `f32`.

use std::collections::BTreeMap;

use half::{bf16, f16};
use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};
use polychip_reference::{Tensor, element, evaluate, tensor_from_literal};

use crate::table::Work;

/// Integers that encode reals: `(q - zero_point) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// The axis with a scale for each index; `None` if there is one scale.
    pub axis: Option<usize>,
    /// Scales.
    pub scales: Vec<f32>,
    /// The integer that encodes zero, one for each scale.
    pub zero_points: Vec<i32>,
}

impl Linear {
    /// One scale for the whole tensor.
    #[must_use]
    pub fn whole(scale: f32, zero_point: i32) -> Linear {
        Linear {
            axis: None,
            scales: vec![scale],
            zero_points: vec![zero_point],
        }
    }
}

/// Type, shape and encoding of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Type of an element.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// How integers encode reals; none for plain values.
    pub encoding: Option<Linear>,
}

impl Spec {
    /// A tensor without an encoding.
    #[must_use]
    pub fn plain(dtype: DType, shape: impl Into<Vec<usize>>) -> Spec {
        Spec {
            dtype,
            shape: shape.into(),
            encoding: None,
        }
    }

    /// Elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes, elements packed without gaps; text has none.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.elements() * self.dtype.bits().unwrap_or(0)).div_ceil(8)
    }

    /// Whether steps read real numbers from it.
    fn is_real(&self) -> bool {
        self.encoding.is_some() || matches!(self.dtype, DType::F16 | DType::BF16 | DType::F32)
    }

    /// Decodes bytes to real numbers or integers.
    ///
    /// # Errors
    /// The number of bytes is wrong, or the scales do not fit the shape.
    pub fn load(&self, bytes: &[u8]) -> Result<Tensor, String> {
        if bytes.len() != self.bytes() {
            return Err(format!("{} bytes for a tensor of {}", bytes.len(), self.bytes()));
        }
        let stored = Tensor::from_bytes(element(self.dtype), self.shape.clone(), bytes).map_err(text)?;
        if !self.is_real() {
            return Ok(stored);
        }
        let mut values = stored.to_f64s().map_err(text)?;
        if let Some(encoding) = &self.encoding {
            self.each_scale(encoding, |at, scale, zero_point| {
                values[at] = (values[at] - zero_point) * scale;
            })?;
        }
        Tensor::from_f64s(element(DType::F32), self.shape.clone(), &values).map_err(text)
    }

    /// Encodes a value: rounds it to this type and scale, half to even, then clamps it.
    ///
    /// # Errors
    /// The value has another number of elements, or its type cannot be converted.
    pub fn store(&self, value: &Tensor) -> Result<Vec<u8>, String> {
        if value.len() != self.elements() {
            return Err(format!(
                "{:?} for a tensor of shape {:?}",
                value.shape(),
                self.shape
            ));
        }
        let to = element(self.dtype);
        if !self.is_real() {
            let value = if value.element() == to {
                value.clone()
            } else if self.dtype == DType::Bool {
                Tensor::from_bools(self.shape.clone(), value.to_bools().map_err(text)?).map_err(text)?
            } else {
                let numbers: Vec<i128> = match value.to_i128s() {
                    Ok(numbers) => numbers,
                    Err(_) => value
                        .to_f64s()
                        .map_err(text)?
                        .iter()
                        .map(|v| *v as i128)
                        .collect(),
                };
                let (low, high) = integers(self.dtype)?;
                let numbers: Vec<i128> = numbers.into_iter().map(|n| n.clamp(low, high)).collect();
                Tensor::from_i128s(to, self.shape.clone(), &numbers).map_err(text)?
            };
            return Ok(value.to_bytes());
        }
        let values = reals(value)?;
        let Some(encoding) = &self.encoding else {
            return Ok(match self.dtype {
                DType::F16 => values
                    .iter()
                    .flat_map(|v| f16::from_f64(*v).to_le_bytes())
                    .collect(),
                DType::BF16 => values
                    .iter()
                    .flat_map(|v| bf16::from_f64(*v).to_le_bytes())
                    .collect(),
                _ => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
            });
        };
        let (low, high) = integers(self.dtype)?;
        let mut numbers = vec![0_i128; values.len()];
        self.each_scale(encoding, |at, scale, zero_point| {
            // a cast saturates, and makes 0 of NaN
            numbers[at] = (((values[at] / scale).round_ties_even() + zero_point) as i128).clamp(low, high);
        })?;
        Ok(Tensor::from_i128s(to, self.shape.clone(), &numbers)
            .map_err(text)?
            .to_bytes())
    }

    fn each_scale(&self, encoding: &Linear, mut each: impl FnMut(usize, f64, f64)) -> Result<(), String> {
        let (count, inner) = match encoding.axis {
            None => (1, self.elements().max(1)),
            Some(axis) => {
                let extent = *self
                    .shape
                    .get(axis)
                    .ok_or("scales along an axis that is not there")?;
                (extent, self.shape[axis + 1..].iter().product::<usize>().max(1))
            }
        };
        if encoding.scales.len() != count || encoding.zero_points.len() != count {
            return Err(format!(
                "{} scales and {} zero points for {count}",
                encoding.scales.len(),
                encoding.zero_points.len()
            ));
        }
        for at in 0..self.elements() {
            let which = at / inner % count;
            each(
                at,
                encoding.scales[which].into(),
                encoding.zero_points[which].into(),
            );
        }
        Ok(())
    }
}

/// The least and the greatest integer of a type.
fn integers(dtype: DType) -> Result<(i128, i128), String> {
    let range = element(dtype).int_range();
    range.ok_or_else(|| format!("{dtype:?} holds no integers"))
}

fn reals(value: &Tensor) -> Result<Vec<f64>, String> {
    match value.to_f64s() {
        Ok(values) => Ok(values),
        Err(_) => Ok(value
            .to_i128s()
            .map_err(text)?
            .into_iter()
            .map(|n| n as f64)
            .collect()),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// A tensor or an intermediate value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id(usize);

#[derive(Clone, Debug)]
struct Step {
    op: Op,
    attributes: Attributes,
    inputs: Vec<Option<Id>>,
    outputs: Vec<Id>,
    /// Values that no later step reads.
    dead: Vec<Id>,
}

/// Builds a program.
#[derive(Default)]
pub struct Builder {
    /// For each tensor its spec; `None` for intermediate values.
    specs: Vec<Option<Spec>>,
    constants: BTreeMap<Id, Tensor>,
    steps: Vec<Step>,
}

impl Builder {
    /// Adds a tensor: an input, or a result that the chip rounds.
    pub fn tensor(&mut self, spec: Spec) -> Id {
        self.specs.push(Some(spec));
        Id(self.specs.len() - 1)
    }

    /// Adds a tensor with an operation's result, rounded to half precision first where the chip
    /// computes reals in it.
    pub fn output(&mut self, value: Id, spec: Spec, in_half: bool) -> Id {
        let value = if in_half && spec.dtype == DType::F32 {
            let half = self.tensor(Spec::plain(DType::F16, spec.shape.clone()));
            self.copy_to(value, half);
            half
        } else {
            value
        };
        let out = self.tensor(spec);
        self.copy_to(value, out);
        out
    }

    /// Adds a constant tensor.
    ///
    /// # Errors
    /// As [`Spec::load`].
    pub fn constant(&mut self, spec: Spec, bytes: &[u8]) -> Result<Id, String> {
        let value = spec.load(bytes)?;
        let id = self.tensor(spec);
        self.constants.insert(id, value);
        Ok(id)
    }

    /// Adds a constant operand of an ONNX op, such as axes, shapes or bounds.
    ///
    /// # Errors
    /// The literal's bytes do not fit its shape.
    pub fn literal(&mut self, literal: &Literal) -> Result<Id, String> {
        let value = tensor_from_literal(literal).map_err(text)?;
        let id = self.between();
        self.constants.insert(id, value);
        Ok(id)
    }

    /// Adds an intermediate value, which is not rounded.
    pub fn between(&mut self) -> Id {
        self.specs.push(None);
        Id(self.specs.len() - 1)
    }

    /// Adds a step that writes these tensors or values.
    pub fn step_to(&mut self, op: Op, attributes: Attributes, inputs: &[Option<Id>], outputs: &[Id]) {
        self.steps.push(Step {
            op,
            attributes,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            dead: Vec::new(),
        });
    }

    /// Adds a step whose result is an intermediate value.
    pub fn step(&mut self, op: Op, attributes: Attributes, inputs: &[Id]) -> Id {
        let out = self.between();
        let inputs: Vec<Option<Id>> = inputs.iter().copied().map(Some).collect();
        self.step_to(op, attributes, &inputs, &[out]);
        out
    }

    /// Transposes a value.
    pub fn transpose(&mut self, value: Id, perm: &[usize]) -> Id {
        let perm = perm.iter().map(|&axis| axis as i64).collect();
        let attributes = Attributes::new().with(Attr::Perm, AttrValue::Ints(perm));
        self.step(Op::Transpose, attributes, &[value])
    }

    /// `[n, …, c]` as `[n, c, …]`.
    pub fn channels_first(&mut self, value: Id, rank: usize) -> Id {
        let mut perm = vec![0, rank - 1];
        perm.extend(1..rank - 1);
        self.transpose(value, &perm)
    }

    /// `[n, c, …]` as `[n, …, c]`.
    pub fn channels_last(&mut self, value: Id, rank: usize) -> Id {
        let mut perm = vec![0];
        perm.extend(2..rank);
        perm.push(1);
        self.transpose(value, &perm)
    }

    /// Copies a value to a tensor, and so rounds it.
    pub fn copy_to(&mut self, value: Id, tensor: Id) {
        self.step_to(Op::Identity, Attributes::new(), &[Some(value)], &[tensor]);
    }

    /// Returns the program.
    ///
    /// # Errors
    /// A step reads a value that no earlier step makes, two steps write one tensor, or a port is an
    /// intermediate value.
    pub fn finish(mut self, inputs: &[Id], outputs: &[Id]) -> Result<Program, String> {
        let mut made: Vec<bool> = vec![false; self.specs.len()];
        for &id in inputs.iter().chain(self.constants.keys()) {
            made[id.0] = true;
        }
        for step in &self.steps {
            for id in step.inputs.iter().flatten() {
                if !made[id.0] {
                    return Err(format!("{:?} reads a tensor that nothing has made", step.op));
                }
            }
            for id in &step.outputs {
                if std::mem::replace(&mut made[id.0], true) {
                    return Err(format!("{:?} writes a tensor a second time", step.op));
                }
            }
        }
        for id in inputs.iter().chain(outputs) {
            if self.specs[id.0].is_none() {
                return Err("a port is a value in between".to_owned());
            }
            if !made[id.0] {
                return Err("an output is made by nothing".to_owned());
            }
        }
        let mut last: BTreeMap<Id, usize> = BTreeMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            for &id in step.inputs.iter().flatten() {
                last.insert(id, at);
            }
        }
        for (id, at) in last {
            if !outputs.contains(&id) && !self.constants.contains_key(&id) {
                self.steps[at].dead.push(id);
            }
        }
        Ok(Program {
            specs: self.specs,
            constants: self.constants,
            steps: self.steps,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        })
    }
}

/// A program, ready to run.
pub struct Program {
    specs: Vec<Option<Spec>>,
    constants: BTreeMap<Id, Tensor>,
    steps: Vec<Step>,
    inputs: Vec<Id>,
    outputs: Vec<Id>,
}

impl Program {
    /// Specs of the inputs, in order.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &Spec> {
        self.inputs.iter().map(|id| self.spec(*id))
    }

    /// Specs of the outputs, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Spec> {
        self.outputs.iter().map(|id| self.spec(*id))
    }

    fn spec(&self, id: Id) -> &Spec {
        self.specs[id.0]
            .as_ref()
            .expect("invariant: finish refuses ports without a meaning")
    }

    /// Computes the bytes of the outputs from those of the inputs, and the work of the run.
    ///
    /// # Errors
    /// An input has another size, or a step cannot compute its values; the error names the step.
    pub fn run(&self, inputs: &[&[u8]]) -> Result<(Vec<Vec<u8>>, Work), String> {
        if inputs.len() != self.inputs.len() {
            return Err(format!("{} inputs for {}", inputs.len(), self.inputs.len()));
        }
        let mut values: BTreeMap<Id, Tensor> = BTreeMap::new();
        for (id, bytes) in self.inputs.iter().zip(inputs) {
            values.insert(*id, self.spec(*id).load(bytes)?);
        }
        let mut work = Work::default();
        for step in &self.steps {
            self.compute(step, &mut values, &mut work)
                .map_err(|why| format!("{:?}: {why}", step.op))?;
            for id in &step.dead {
                values.remove(id);
            }
        }
        let mut bytes = Vec::with_capacity(self.outputs.len());
        for id in &self.outputs {
            let value = values.get(id).or_else(|| self.constants.get(id));
            bytes.push(self.spec(*id).store(value.ok_or("an output has no value")?)?);
        }
        Ok((bytes, work))
    }

    fn compute(&self, step: &Step, values: &mut BTreeMap<Id, Tensor>, work: &mut Work) -> Result<(), String> {
        let inputs: Vec<Option<&Tensor>> = step
            .inputs
            .iter()
            .map(|id| id.and_then(|id| values.get(&id).or_else(|| self.constants.get(&id))))
            .collect();
        let results = evaluate(step.op, &step.attributes, &inputs, step.outputs.len()).map_err(text)?;
        work.macs += macs(step, &inputs, &results);
        for id in step.inputs.iter().flatten().chain(&step.outputs) {
            work.bytes += self.specs[id.0].as_ref().map_or(0, |spec| spec.bytes() as u64);
        }
        for (id, result) in step.outputs.iter().zip(results) {
            let value = match &self.specs[id.0] {
                Some(spec) => spec.load(&spec.store(&result)?)?,
                None => widened(result)?,
            };
            values.insert(*id, value);
        }
        Ok(())
    }
}

/// 16-bit reals as `f32`: steps compute on one type of reals.
fn widened(value: Tensor) -> Result<Tensor, String> {
    if value.element() == element(DType::F16) || value.element() == element(DType::BF16) {
        let reals = value.to_f64s().map_err(text)?;
        return Tensor::from_f64s(element(DType::F32), value.shape().to_vec(), &reals).map_err(text);
    }
    Ok(value)
}

/// Multiply-adds of a product or convolution.
fn macs(step: &Step, inputs: &[Option<&Tensor>], results: &[Tensor]) -> u64 {
    let shape = |at: usize| inputs.get(at).copied().flatten().map(Tensor::shape);
    let (Some(x), Some(w), Some(y)) = (shape(0), shape(1), results.first()) else {
        return 0;
    };
    let per_first = |shape: &[usize]| shape.iter().skip(1).product::<usize>();
    let count = match step.op {
        Op::Conv => y.len() * per_first(w),
        Op::ConvTranspose => x.iter().product::<usize>() * per_first(w),
        Op::MatMul => y.len() * x.last().copied().unwrap_or(1),
        Op::Gemm => y.len() * x.iter().product::<usize>() / y.shape().first().copied().unwrap_or(1).max(1),
        _ => 0,
    };
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn quantised_tensors_are_reals_inside_and_rounded_outside() {
        let mut builder = Builder::default();
        let byte = |scale, zero_point| Spec {
            encoding: Some(Linear::whole(scale, zero_point)),
            ..Spec::plain(DType::U8, [3])
        };
        let a = builder.tensor(byte(0.5, 10));
        let b = builder
            .constant(Spec::plain(DType::F32, [1]), &f32s(&[0.3]))
            .unwrap();
        let y = builder.tensor(byte(0.25, 1));
        builder.step_to(Op::Add, Attributes::new(), &[Some(a), Some(b)], &[y]);
        let program = builder.finish(&[a], &[y]).unwrap();
        // reals 0, 1, 122.5; plus 0.3: 0.3 = 1.2 steps, 1.3 = 5.2, 122.8 is beyond
        let (out, _) = program.run(&[&[10, 12, 255]]).unwrap();
        assert_eq!(out, [vec![2, 6, 255]]);
    }

    #[test]
    fn scales_along_an_axis() {
        let spec = Spec {
            encoding: Some(Linear {
                axis: Some(1),
                scales: vec![0.5, 2.0],
                zero_points: vec![0, 1],
            }),
            ..Spec::plain(DType::I8, [2, 2, 1])
        };
        let reals = spec.load(&[2, 3, 254, 255]).unwrap();
        assert_eq!(reals.to_f64s().unwrap(), [1.0, 4.0, -1.0, -4.0]);
        assert_eq!(spec.store(&reals).unwrap(), [2, 3, 254, 255]);
    }

    #[test]
    fn halves_are_rounded_where_the_chip_stores_them_only() {
        let mut builder = Builder::default();
        let x = builder.tensor(Spec::plain(DType::F32, [1]));
        let third = builder
            .constant(Spec::plain(DType::F32, [1]), &f32s(&[1.0 / 3.0]))
            .unwrap();
        let between = builder.step(Op::Mul, Attributes::new(), &[x, third]);
        let half = builder.tensor(Spec::plain(DType::F16, [1]));
        builder.copy_to(between, half);
        let program = builder.finish(&[x], &[half]).unwrap();
        let (out, _) = program.run(&[&f32s(&[3.0])]).unwrap();
        assert_eq!(out[0], f16::from_f32(1.0).to_le_bytes());
    }

    #[test]
    fn work_counts_multiply_adds_and_bytes() {
        let mut builder = Builder::default();
        let x = builder.tensor(Spec::plain(DType::F32, [2, 3]));
        let w = builder
            .constant(Spec::plain(DType::F32, [3, 4]), &f32s(&[1.0; 12]))
            .unwrap();
        let y = builder.tensor(Spec::plain(DType::F32, [2, 4]));
        builder.step_to(Op::MatMul, Attributes::new(), &[Some(x), Some(w)], &[y]);
        let program = builder.finish(&[x], &[y]).unwrap();
        let (out, work) = program.run(&[&f32s(&[1.0; 6])]).unwrap();
        assert_eq!(out[0], f32s(&[3.0; 8]));
        assert_eq!((work.macs, work.bytes), (24, 4 * (6 + 12 + 8)));
    }

    #[test]
    fn a_step_out_of_order_is_refused() {
        let mut builder = Builder::default();
        let x = builder.tensor(Spec::plain(DType::F32, [1]));
        let y = builder.tensor(Spec::plain(DType::F32, [1]));
        let late = builder.between();
        builder.step_to(Op::Add, Attributes::new(), &[Some(x), Some(late)], &[y]);
        builder.step_to(Op::Neg, Attributes::new(), &[Some(x)], &[late]);
        assert!(builder.finish(&[x], &[y]).is_err());
    }
}
