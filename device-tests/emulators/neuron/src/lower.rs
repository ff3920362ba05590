//! Operations as steps of ONNX ops. Images are transposed to channels first and back.
//!
//! Invariants:
//! 1. An operation with a wrong type, extent or parameter is refused here.
//! 2. A result is rounded if an operand of the model stores it; with relaxed floats, also to 16
//!    bits.
//!
//! Start reading at [`program`].

mod elementwise;
mod image;
mod movement;
mod product;

use polychip_emulator_chip::program::{Builder, Id, Linear, Program, Spec};
use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};
use polychip_sys::neuron::bindings as sys;

use crate::model::{Model, Operand, Operation};

/// Why an operation is refused, as text for debugging.
pub(crate) type Outcome<T> = Result<T, String>;

/// State of the conversion of a model to a program.
pub(crate) struct Lower<'a> {
    model: &'a Model,
    builder: Builder,
    ids: Vec<Option<Id>>,
    /// Operands of the operation.
    inputs: &'a [u32],
    outputs: &'a [u32],
}

/// Spec of an operand.
fn spec(operand: &Operand) -> Outcome<Spec> {
    let shape = operand.shape();
    let linear = || Some(Linear::whole(operand.scale, operand.zero));
    let (dtype, encoding) = match operand.ty {
        sys::NEURON_TENSOR_FLOAT32 => (DType::F32, None),
        sys::NEURON_TENSOR_FLOAT16 => (DType::F16, None),
        sys::NEURON_TENSOR_INT32 if operand.scale > 0.0 => (DType::I32, linear()),
        sys::NEURON_TENSOR_INT32 => (DType::I32, None),
        sys::NEURON_TENSOR_BOOL8 => (DType::Bool, None),
        sys::NEURON_TENSOR_QUANT8_ASYMM => (DType::U8, linear()),
        sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED | sys::NEURON_TENSOR_QUANT8_SYMM => (DType::I8, linear()),
        sys::NEURON_TENSOR_QUANT16_SYMM => (DType::I16, linear()),
        sys::NEURON_TENSOR_QUANT16_ASYMM => (DType::U16, linear()),
        sys::NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL => {
            let (axis, scales) = operand
                .channels
                .as_ref()
                .ok_or("weights per channel without scales")?;
            let encoding = Linear {
                axis: Some(*axis as usize),
                scales: scales.clone(),
                zero_points: vec![0; scales.len()],
            };
            (DType::I8, Some(encoding))
        }
        ty => return Err(format!("an operand of type {ty} is no tensor")),
    };
    Ok(Spec {
        dtype,
        shape,
        encoding,
    })
}

/// Converts a model to a program.
pub(crate) fn program(model: &Model) -> Outcome<Program> {
    let mut lower = Lower {
        model,
        builder: Builder::default(),
        ids: vec![None; model.operands.len()],
        inputs: &[],
        outputs: &[],
    };
    let mut ports = Vec::new();
    for &input in &model.inputs {
        let id = lower.builder.tensor(spec(&model.operands[input as usize])?);
        lower.ids[input as usize] = Some(id);
        ports.push(id);
    }
    for operation in &model.operations {
        lower.operation(operation)?;
    }
    let outputs: Option<Vec<Id>> = model.outputs.iter().map(|&id| lower.ids[id as usize]).collect();
    lower
        .builder
        .finish(&ports, &outputs.ok_or("an output is made by nothing")?)
}

/// Whether the chip computes an operation of a model.
pub(crate) fn supports(model: &Model, operation: &Operation) -> bool {
    // alone, over operands that are fed
    let mut alone = Model {
        operands: model.operands.clone(),
        operations: vec![operation.clone()],
        outputs: operation.outputs.clone(),
        relaxed: model.relaxed,
        ..Model::default()
    };
    for &input in &operation.inputs {
        let operand = &model.operands[input as usize];
        if operand.value.is_none() && !alone.inputs.contains(&input) {
            alone.inputs.push(input);
        }
    }
    program(&alone).is_ok()
}

impl Lower<'_> {
    // ---- operands

    fn operand(&self, place: usize) -> Outcome<&Operand> {
        let id = self
            .inputs
            .get(place)
            .ok_or_else(|| format!("input {place} is left out"))?;
        Ok(&self.model.operands[*id as usize])
    }

    fn shape(&self, place: usize) -> Outcome<Vec<usize>> {
        Ok(self.operand(place)?.shape())
    }

    fn out(&self) -> &Operand {
        &self.model.operands[self.outputs[0] as usize]
    }

    /// An integer.
    fn int(&self, place: usize) -> Outcome<i64> {
        let operand = self.operand(place)?;
        let value = operand
            .value
            .as_deref()
            .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        match (operand.ty, value) {
            (sys::NEURON_INT32, Some(bytes)) => Ok(i32::from_le_bytes(bytes).into()),
            (ty, _) => Err(format!("input {place} of type {ty} is no known number")),
        }
    }

    fn size(&self, place: usize) -> Outcome<usize> {
        usize::try_from(self.int(place)?).map_err(|_| format!("input {place} is below 0"))
    }

    /// A boolean; false if it is omitted.
    fn truth(&self, place: usize) -> Outcome<bool> {
        if place >= self.inputs.len() {
            return Ok(false);
        }
        let operand = self.operand(place)?;
        match (operand.ty, operand.value.as_deref()) {
            (sys::NEURON_BOOL, Some([value])) => Ok(*value != 0),
            (ty, _) => Err(format!("input {place} of type {ty} is no known truth value")),
        }
    }

    fn real(&self, place: usize) -> Outcome<f32> {
        let operand = self.operand(place)?;
        match (operand.ty, operand.value.as_deref()) {
            (sys::NEURON_FLOAT32, Some(&[a, b, c, d])) => Ok(f32::from_le_bytes([a, b, c, d])),
            (sys::NEURON_FLOAT16, Some(&[a, b])) => Ok(half::f16::from_le_bytes([a, b]).to_f32()),
            (ty, _) => Err(format!("input {place} of type {ty} is no known real number")),
        }
    }

    /// A constant list of integers.
    fn list(&self, place: usize) -> Outcome<Vec<i64>> {
        let operand = self.operand(place)?;
        match (operand.ty, operand.value.as_deref()) {
            (sys::NEURON_TENSOR_INT32, Some(bytes)) => {
                let words = bytes.as_chunks::<4>().0;
                Ok(words
                    .iter()
                    .map(|word| i32::from_le_bytes(*word).into())
                    .collect())
            }
            (ty, _) => Err(format!("input {place} of type {ty} is no known list")),
        }
    }

    /// Whether an input is boolean, which distinguishes two signatures.
    fn is_truth(&self, place: usize) -> bool {
        self.operand(place)
            .is_ok_and(|operand| operand.ty == sys::NEURON_BOOL)
    }

    /// A tensor as a value of the program.
    fn value(&mut self, place: usize) -> Outcome<Id> {
        let index = *self
            .inputs
            .get(place)
            .ok_or_else(|| format!("input {place} is left out"))? as usize;
        if let Some(id) = self.ids[index] {
            return Ok(id);
        }
        let operand = &self.model.operands[index];
        let bytes = operand
            .value
            .as_deref()
            .ok_or_else(|| format!("input {place} is made by nothing"))?;
        let id = self.builder.constant(spec(operand)?, bytes)?;
        self.ids[index] = Some(id);
        Ok(id)
    }

    /// Integers that are a step's operand.
    fn known(&mut self, values: &[i64]) -> Outcome<Id> {
        self.builder.literal(&Literal::i64s(values))
    }

    // ---- results

    fn step(&mut self, op: Op, attributes: Attributes, inputs: &[Id]) -> Id {
        self.builder.step(op, attributes, inputs)
    }

    /// Applies the activation before the result is stored.
    fn activated(&mut self, value: Id, place: usize) -> Outcome<Id> {
        let code = u32::try_from(self.int(place)?).unwrap_or(u32::MAX);
        self.clamped(value, code)
    }

    fn clamped(&mut self, value: Id, code: u32) -> Outcome<Id> {
        let (low, high) = match code {
            sys::NEURON_FUSED_NONE => return Ok(value),
            sys::NEURON_FUSED_RELU => return Ok(self.step(Op::Relu, Attributes::new(), &[value])),
            sys::NEURON_FUSED_RELU1 => (-1.0, 1.0),
            sys::NEURON_FUSED_RELU6 => (0.0, 6.0),
            code => return Err(format!("activation {code} is not known")),
        };
        let low = self.builder.literal(&Literal::scalar_f32(low))?;
        let high = self.builder.literal(&Literal::scalar_f32(high))?;
        Ok(self.step(Op::Clip, Attributes::new(), &[value, low, high]))
    }

    /// Stores a value as an output.
    fn give(&mut self, value: Id, place: usize) -> Outcome<()> {
        let index = *self
            .outputs
            .get(place)
            .ok_or_else(|| format!("output {place} is left out"))? as usize;
        let spec = spec(&self.model.operands[index])?;
        let out = self.builder.output(value, spec, self.model.relaxed);
        self.ids[index] = Some(out);
        Ok(())
    }

    /// Checks that the result has these extents.
    fn fits(&self, wanted: &[usize]) -> Outcome<()> {
        let own = self.out().shape();
        if own != wanted {
            return Err(format!("the result has {own:?}, declared as {wanted:?}"));
        }
        Ok(())
    }

    /// Checks that the operand has the type and encoding of the result.
    fn alike(&self, place: usize) -> Outcome<()> {
        let (from, to) = (self.operand(place)?, self.out());
        if (from.ty, from.scale, from.zero) != (to.ty, to.scale, to.zero) {
            return Err("operand and result have different types or encodings".to_owned());
        }
        Ok(())
    }

    /// Checks that a tensor and the result hold floats or quantised integers.
    fn reals(&self, place: usize) -> Outcome<()> {
        for operand in [self.operand(place)?, self.out()] {
            if !(is_float(operand) || is_quantised(operand)) {
                return Err(format!("a tensor of type {} where reals are wanted", operand.ty));
            }
        }
        if is_float(self.operand(place)?) != is_float(self.out()) {
            return Err("floats and integers in one operation".to_owned());
        }
        Ok(())
    }
}

fn is_float(operand: &Operand) -> bool {
    matches!(
        operand.ty,
        sys::NEURON_TENSOR_FLOAT32 | sys::NEURON_TENSOR_FLOAT16
    )
}

fn is_quantised(operand: &Operand) -> bool {
    matches!(
        operand.ty,
        sys::NEURON_TENSOR_QUANT8_ASYMM
            | sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED
            | sys::NEURON_TENSOR_QUANT8_SYMM
            | sys::NEURON_TENSOR_QUANT16_SYMM
            | sys::NEURON_TENSOR_QUANT16_ASYMM
    )
}

fn ints(attr: Attr, values: Vec<usize>) -> (Attr, AttrValue) {
    (
        attr,
        AttrValue::Ints(values.into_iter().map(|value| value as i64).collect()),
    )
}

/// The row-major axis from the front.
fn from_front(axis: i64, rank: usize) -> Outcome<usize> {
    polychip_ops::axis::normalise(axis, rank).ok_or_else(|| format!("axis {axis} of {rank}"))
}

impl<'a> Lower<'a> {
    fn operation(&mut self, operation: &'a Operation) -> Outcome<()> {
        (self.inputs, self.outputs) = (&operation.inputs, &operation.outputs);
        let words = |why: String| format!("operation {}: {why}", operation.code);
        let done = match operation.code {
            sys::NEURON_CONV_2D | sys::NEURON_DEPTHWISE_CONV_2D | sys::NEURON_GROUPED_CONV_2D => {
                self.conv(operation.code)
            }
            sys::NEURON_TRANSPOSE_CONV_2D => self.conv_transpose(),
            sys::NEURON_FULLY_CONNECTED => self.connected(),
            sys::NEURON_BATCH_MATMUL => self.matmul(),
            sys::NEURON_AVERAGE_POOL_2D | sys::NEURON_MAX_POOL_2D => self.pool(operation.code),
            sys::NEURON_RESIZE_BILINEAR | sys::NEURON_RESIZE_NEAREST_NEIGHBOR => self.resize(operation.code),
            sys::NEURON_DEPTH_TO_SPACE | sys::NEURON_SPACE_TO_DEPTH => self.depth_space(operation.code),
            sys::NEURON_SOFTMAX => self.softmax(),
            sys::NEURON_MEAN | sys::NEURON_REDUCE_MAX | sys::NEURON_REDUCE_MIN | sys::NEURON_REDUCE_SUM => {
                self.reduce(operation.code)
            }
            sys::NEURON_CONCATENATION => self.concat(),
            sys::NEURON_RESHAPE | sys::NEURON_SQUEEZE | sys::NEURON_EXPAND_DIMS => self.reshape(),
            sys::NEURON_TRANSPOSE => self.transpose(),
            sys::NEURON_PAD | sys::NEURON_PAD_V2 => self.pad(),
            sys::NEURON_SLICE => self.slice(),
            sys::NEURON_STRIDED_SLICE => self.strided_slice(),
            sys::NEURON_SPLIT => self.split(),
            sys::NEURON_TILE => self.tile(),
            sys::NEURON_GATHER => self.gather(),
            sys::NEURON_QUANTIZE | sys::NEURON_DEQUANTIZE | sys::NEURON_CAST => self.convert(operation.code),
            sys::NEURON_SELECT => self.select(),
            code => self.elementwise(code),
        };
        done.map_err(words)
    }
}
