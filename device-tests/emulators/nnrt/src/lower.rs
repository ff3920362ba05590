//! Operations as steps of ONNX ops. Images are transposed to channels first and back.
//!
//! Invariants:
//! 1. An operation with a wrong parameter, or a parameter of a type that the runtime's checks
//!    refuse, is refused.
//! 2. A result is rounded if a tensor of the model stores it; if 16-bit floats are allowed, to 16
//!    bits.
//!
//! Start reading at [`program`].

mod images;
mod params;
mod plain;

use polychip_emulator_chip::program::{Builder, Id, Linear, Program, Spec};
use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};
use polychip_sys::nnrt::bindings as sys;

use crate::code::{Code, Result};
use crate::model::{Model, Operation, Quant, Tensor};
pub(crate) use params::Outcome;
use params::Params;

/// State of the conversion of a model to a program.
struct Lower<'a> {
    model: &'a Model,
    builder: Builder,
    ids: Vec<Option<Id>>,
    operation: &'a Operation,
}

fn spec(tensor: &Tensor) -> Outcome<Spec> {
    if let Some(quant) = &tensor.quant {
        return encoded(tensor, quant);
    }
    let dtype = match tensor.ty {
        sys::OH_NN_FLOAT32 => DType::F32,
        sys::OH_NN_FLOAT16 => DType::F16,
        sys::OH_NN_INT32 => DType::I32,
        sys::OH_NN_INT64 => DType::I64,
        sys::OH_NN_BOOL => DType::Bool,
        ty => return Err(format!("tensors of type {ty} are not computed on")),
    };
    Ok(Spec::plain(dtype, tensor.shape()))
}

/// Spec of a quantised tensor. Scales per channel belong to the first axis, as in weights.
fn encoded(tensor: &Tensor, quant: &Quant) -> Outcome<Spec> {
    let dtype = match tensor.ty {
        sys::OH_NN_INT8 => DType::I8,
        sys::OH_NN_UINT8 => DType::U8,
        ty => return Err(format!("tensors of type {ty} with an encoding")),
    };
    let shape = tensor.shape();
    let count = quant.scales.len();
    let known = quant.scales.iter().all(|scale| scale.is_finite() && *scale > 0.0);
    if !known || (count > 1 && (tensor.value.is_none() || shape.first() != Some(&count))) {
        return Err(format!("{count} scales {:?} of {shape:?}", quant.scales));
    }
    Ok(Spec {
        encoding: Some(Linear {
            axis: (count > 1).then_some(0),
            scales: quant.scales.iter().map(|&scale| scale as f32).collect(),
            zero_points: quant.zeros.clone(),
        }),
        ..Spec::plain(dtype, shape)
    })
}

/// Converts a model to a program.
pub(crate) fn program(model: &Model) -> Outcome<Program> {
    let nothing = Operation {
        code: 0,
        params: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    let mut lower = Lower {
        model,
        builder: Builder::default(),
        ids: vec![None; model.tensors.len()],
        operation: &nothing,
    };
    let mut ports = Vec::new();
    for &input in &model.inputs {
        let id = lower.builder.tensor(spec(&model.tensors[input as usize])?);
        lower.ids[input as usize] = Some(id);
        ports.push(id);
    }
    for operation in &model.operations {
        lower.operation = operation;
        lower
            .step_of()
            .map_err(|why| format!("operation {}: {why}", operation.code))?;
    }
    let outputs: Option<Vec<Id>> = model.outputs.iter().map(|&id| lower.ids[id as usize]).collect();
    lower
        .builder
        .finish(&ports, &outputs.ok_or("an output is made by nothing")?)
}

/// Checks that an operation's parameters belong to it and have the right types.
pub(crate) fn checked(model: &Model, operation: &Operation) -> Result<()> {
    Params::of(model, operation).map(drop).map_err(|why| {
        eprintln!("emulated libneural_network_runtime: {why}");
        Code::INVALID
    })
}

/// Whether the chip computes an operation of a model.
pub(crate) fn supports(model: &Model, operation: &Operation) -> bool {
    let mut alone = Model {
        tensors: model.tensors.clone(),
        operations: vec![operation.clone()],
        outputs: operation.outputs.clone(),
        ..Model::default()
    };
    for &input in &operation.inputs {
        if model.tensors[input as usize].value.is_none() && !alone.inputs.contains(&input) {
            alone.inputs.push(input);
        }
    }
    program(&alone).is_ok()
}

/// Integers as an attribute.
fn ints(values: impl IntoIterator<Item = i64>) -> AttrValue {
    AttrValue::Ints(values.into_iter().collect())
}

impl Lower<'_> {
    fn params(&self) -> Outcome<Params> {
        Params::of(self.model, self.operation)
    }

    fn tensor(&self, place: usize) -> Outcome<&Tensor> {
        let id = self.operation.inputs.get(place);
        let id = id.ok_or_else(|| format!("input {place} is left out"))?;
        Ok(&self.model.tensors[*id as usize])
    }

    fn shape(&self, place: usize) -> Outcome<Vec<usize>> {
        Ok(self.tensor(place)?.shape())
    }

    fn out(&self) -> &Tensor {
        &self.model.tensors[self.operation.outputs[0] as usize]
    }

    /// Checks the number of inputs.
    fn takes(&self, count: usize) -> Outcome<()> {
        if self.operation.inputs.len() == count {
            Ok(())
        } else {
            Err(format!("{} inputs, not {count}", self.operation.inputs.len()))
        }
    }

    /// A constant list of integers.
    fn list(&self, place: usize) -> Outcome<Vec<i64>> {
        let tensor = self.tensor(place)?;
        match (tensor.ty, tensor.value.as_deref()) {
            (sys::OH_NN_INT32, Some(bytes)) => {
                let words = bytes.as_chunks::<4>().0.iter();
                Ok(words.map(|word| i32::from_le_bytes(*word).into()).collect())
            }
            (ty, _) => Err(format!("input {place} of type {ty} is no known list")),
        }
    }

    /// A tensor as a value of the program.
    fn value(&mut self, place: usize) -> Outcome<Id> {
        let id = self.operation.inputs.get(place).copied();
        let index = id.ok_or_else(|| format!("input {place} is left out"))? as usize;
        if let Some(id) = self.ids[index] {
            return Ok(id);
        }
        let tensor = &self.model.tensors[index];
        let bytes = tensor.value.as_deref();
        let bytes = bytes.ok_or_else(|| format!("input {place} is made by nothing"))?;
        let id = self.builder.constant(spec(tensor)?, bytes)?;
        self.ids[index] = Some(id);
        Ok(id)
    }

    /// Integers that are a step's operand.
    fn known(&mut self, values: &[i64]) -> Outcome<Id> {
        self.builder.literal(&Literal::i64s(values))
    }

    fn step(&mut self, op: Op, attributes: Attributes, inputs: &[Id]) -> Id {
        self.builder.step(op, attributes, inputs)
    }

    /// Checks that operand and result have one type: floats, or signed bytes that encode reals.
    fn reals(&self, place: usize) -> Outcome<()> {
        let (from, to) = (self.tensor(place)?, self.out());
        if is_encoded(from) && is_encoded(to) {
            Ok(())
        } else {
            self.floats(place)
        }
    }

    /// The bias of a product. For 8-bit products, it is a 32-bit integer with the scale of the
    /// product.
    fn bias(&mut self) -> Outcome<Id> {
        let (input, weights, bias) = (self.tensor(0)?, self.tensor(1)?, self.tensor(2)?);
        let (Some(left), Some(right), true) = (&input.quant, &weights.quant, is_encoded(weights)) else {
            let alike = [weights.ty, bias.ty] == [input.ty; 2];
            return if alike && !is_encoded(input) {
                self.value(2)
            } else {
                Err("weights and bias of other types than the input".to_owned())
            };
        };
        if bias.ty != sys::OH_NN_INT32 || bias.quant.is_some() {
            return Err(format!("a bias of type {} beside bytes", bias.ty));
        }
        let steps: Vec<f32> = right
            .scales
            .iter()
            .map(|scale| left.scales[0] as f32 * *scale as f32)
            .collect();
        let encoding = Linear {
            axis: (steps.len() > 1).then_some(0),
            zero_points: vec![0; steps.len()],
            scales: steps,
        };
        let spec = Spec {
            encoding: Some(encoding),
            ..Spec::plain(DType::I32, bias.shape())
        };
        let bytes = bias.value.clone().ok_or("a bias that is no constant")?;
        self.builder.constant(spec, &bytes)
    }

    /// Converts between 8-bit integers and floats, and between signed and unsigned integers. The
    /// two type numbers must match the tensors.
    fn convert(&mut self) -> Outcome<()> {
        self.takes(1)?;
        let params = self.params()?;
        let (from, to) = (self.tensor(0)?, self.out());
        for (tensor, role) in [
            (from, sys::OH_NN_QUANT_DTYPE_CAST_SRC_T),
            (to, sys::OH_NN_QUANT_DTYPE_CAST_DST_T),
        ] {
            let wanted = match tensor.ty {
                sys::OH_NN_INT8 => sys::NN_MINDSPORE_INT8,
                sys::OH_NN_UINT8 => sys::NN_MINDSPORE_UINT8,
                sys::OH_NN_FLOAT16 => sys::NN_MINDSPORE_FLOAT16,
                sys::OH_NN_FLOAT32 => sys::NN_MINDSPORE_FLOAT32,
                ty => return Err(format!("a conversion of type {ty}")),
            };
            if params.long(role)? != i64::from(wanted) {
                return Err(format!("parameter {role} names another type than {}", tensor.ty));
            }
            let byte = matches!(tensor.ty, sys::OH_NN_INT8 | sys::OH_NN_UINT8);
            if byte && tensor.quant.is_none() {
                return Err("bytes without an encoding".to_owned());
            }
        }
        if from.ty == to.ty || from.shape() != to.shape() {
            return Err(format!("{from:?} becomes {to:?}"));
        }
        let value = self.value(0)?;
        self.give(value, 0)
    }

    /// Converts plain numbers. The second input is the runtime's code of the result's type: a constant
    /// integer without axes.
    fn cast(&mut self) -> Outcome<()> {
        self.takes(2)?;
        let (from, ty, to) = (self.tensor(0)?, self.tensor(1)?, self.out());
        if !ty.dims.is_empty() || self.list(1)?[..] != [i64::from(to.ty)] {
            return Err(format!("the type operand does not name type {}", to.ty));
        }
        let is_plain = |tensor: &Tensor| {
            tensor.quant.is_none()
                && matches!(
                    tensor.ty,
                    sys::OH_NN_FLOAT32 | sys::OH_NN_FLOAT16 | sys::OH_NN_INT32 | sys::OH_NN_BOOL
                )
        };
        if !is_plain(from) || !is_plain(to) || from.shape() != to.shape() {
            return Err(format!("{from:?} becomes {to:?}"));
        }
        let value = self.value(0)?;
        self.give(value, 0)
    }

    /// Checks that operand and result have the same float type.
    fn floats(&self, place: usize) -> Outcome<()> {
        let (from, to) = (self.tensor(place)?.ty, self.out().ty);
        if from == to && matches!(from, sys::OH_NN_FLOAT32 | sys::OH_NN_FLOAT16) {
            Ok(())
        } else {
            Err(format!(
                "types {from} and {to} where floats of one type are wanted"
            ))
        }
    }

    /// Applies the activation to a result: none, Relu or Relu6.
    fn activated(&mut self, value: Id, activation: Option<u8>) -> Outcome<Id> {
        match u32::from(activation.unwrap_or(0)) {
            sys::OH_NN_FUSED_NONE => Ok(value),
            sys::OH_NN_FUSED_RELU => Ok(self.step(Op::Relu, Attributes::new(), &[value])),
            sys::OH_NN_FUSED_RELU6 => {
                let low = self.builder.literal(&Literal::scalar_f32(0.0))?;
                let high = self.builder.literal(&Literal::scalar_f32(6.0))?;
                Ok(self.step(Op::Clip, Attributes::new(), &[value, low, high]))
            }
            code => Err(format!("activation {code}")),
        }
    }

    /// Stores a value as an output. If its extents differ, the run fails.
    fn give(&mut self, value: Id, place: usize) -> Outcome<()> {
        let id = self.operation.outputs.get(place).copied();
        let index = id.ok_or_else(|| format!("output {place} is left out"))? as usize;
        let spec = spec(&self.model.tensors[index])?;
        let out = self.builder.output(value, spec, self.model.reduced);
        self.ids[index] = Some(out);
        Ok(())
    }

    /// The operation as steps.
    fn step_of(&mut self) -> Outcome<()> {
        match self.operation.code {
            sys::OH_NN_OPS_CONV2D | sys::OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE => self.conv(),
            sys::OH_NN_OPS_AVG_POOL | sys::OH_NN_OPS_MAX_POOL => self.pool(),
            sys::OH_NN_OPS_RESIZE_BILINEAR => self.resize(),
            sys::OH_NN_OPS_DEPTH_TO_SPACE | sys::OH_NN_OPS_SPACE_TO_DEPTH => self.blocks(),
            sys::OH_NN_OPS_BATCH_NORM => self.batch_norm(),
            sys::OH_NN_OPS_LAYER_NORM => self.layer_norm(),
            sys::OH_NN_OPS_FULL_CONNECTION => self.connected(),
            sys::OH_NN_OPS_MATMUL => self.matmul(),
            sys::OH_NN_OPS_SOFTMAX | sys::OH_NN_OPS_LOG_SOFTMAX => self.softmax(),
            sys::OH_NN_OPS_REDUCE_MEAN
            | sys::OH_NN_OPS_REDUCE_PROD
            | sys::OH_NN_OPS_REDUCE_MAX
            | sys::OH_NN_OPS_REDUCE_MIN
            | sys::OH_NN_OPS_REDUCE_SUM => self.reduce(),
            sys::OH_NN_OPS_QUANT_DTYPE_CAST => self.convert(),
            sys::OH_NN_OPS_CAST => self.cast(),
            sys::OH_NN_OPS_RESHAPE => self.reshape(),
            sys::OH_NN_OPS_TRANSPOSE => self.transpose(),
            sys::OH_NN_OPS_CONCAT => self.concat(),
            sys::OH_NN_OPS_SPLIT => self.split(),
            sys::OH_NN_OPS_SLICE => self.slice(),
            sys::OH_NN_OPS_STRIDED_SLICE => self.strided_slice(),
            sys::OH_NN_OPS_PAD => self.pad(),
            sys::OH_NN_OPS_TILE => self.tile(),
            sys::OH_NN_OPS_GATHER => self.gather(),
            sys::OH_NN_OPS_SELECT => self.select(),
            code => self.elementwise(code),
        }
    }
}

/// Whether a tensor holds quantised signed bytes.
fn is_encoded(tensor: &Tensor) -> bool {
    tensor.ty == sys::OH_NN_INT8 && tensor.quant.is_some()
}

/// The axis from the front.
fn from_front(axis: i64, rank: usize) -> Outcome<usize> {
    polychip_ops::axis::normalise(axis, rank).ok_or_else(|| format!("axis {axis} of {rank}"))
}

fn with_axis(axis: usize) -> Attributes {
    Attributes::new().with_int(Attr::Axis, axis as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_operand_of_a_cast_names_the_result() {
        let cast = |dims: &[i32], value: Option<i32>, to: u32| {
            let tensor = |ty: u32, dims: &[i32], value: Option<i32>| Tensor {
                ty,
                dims: dims.to_vec(),
                value: value.map(|value| value.to_le_bytes().to_vec()),
                ..Tensor::default()
            };
            let model = Model {
                tensors: vec![
                    tensor(sys::OH_NN_INT32, &[2], None),
                    tensor(sys::OH_NN_INT32, dims, value),
                    tensor(to, &[2], None),
                ],
                ..Model::default()
            };
            let operation = Operation {
                code: sys::OH_NN_OPS_CAST,
                params: vec![],
                inputs: vec![0, 1],
                outputs: vec![2],
            };
            supports(&model, &operation)
        };
        let (float, half) = (sys::OH_NN_FLOAT32, sys::OH_NN_FLOAT16);
        assert!(cast(&[], Some(float as i32), float));
        assert!(!cast(&[], Some(half as i32), float));
        assert!(!cast(&[1], Some(float as i32), float));
        assert!(!cast(&[], None, float));
    }

    #[test]
    fn a_parameter_is_one_of_its_operation_and_of_its_type() {
        let param = |ty: u32, bytes: usize| Model {
            tensors: vec![Tensor {
                ty,
                role: sys::OH_NN_SOFTMAX_AXIS,
                value: Some(vec![0; bytes]),
                ..Tensor::default()
            }],
            ..Model::default()
        };
        let with = |code| Operation {
            code,
            params: vec![0],
            inputs: vec![],
            outputs: vec![],
        };
        let long = param(sys::OH_NN_INT64, 8);
        assert_eq!(checked(&long, &with(sys::OH_NN_OPS_SOFTMAX)), Ok(()));
        assert_eq!(checked(&long, &with(sys::OH_NN_OPS_RELU)), Err(Code::INVALID));
        let int = param(sys::OH_NN_INT32, 4);
        assert_eq!(checked(&int, &with(sys::OH_NN_OPS_SOFTMAX)), Err(Code::INVALID));
    }
}
