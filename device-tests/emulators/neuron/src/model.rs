//! Models: operands, operations, ports, and the states between calls.
//!
//! Invariants:
//! 1. A finished model never changes.
//! 2. Each operand of a finished model is a port, a constant, or written by one operation before it is read.

use polychip_emulator_chip::file;
use serde::{Deserialize, Serialize};

use polychip_sys::neuron::bindings as sys;

use crate::code::{Code, Result};

/// The highest operation code.
const LAST: u32 = 109;
/// First code of extension operations. The library accepts them in models and supports none (seen:
/// LiteRT adds 10001).
const EXTENSIONS: u32 = 10_000;

/// An operand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Operand {
    pub(crate) ty: u32,
    pub(crate) dims: Vec<u32>,
    pub(crate) scale: f32,
    pub(crate) zero: i32,
    /// The axis of scales per channel, and the scales.
    pub(crate) channels: Option<(u32, Vec<f32>)>,
    pub(crate) value: Option<Vec<u8>>,
}

/// Biases of 32 bits with a scale per channel: an extension of the vendor's (seen in LiteRT's calls).
pub(crate) const BIAS_PER_CHANNEL: u32 = 9014;

/// Bytes of an element of a type.
pub(crate) fn width(ty: u32) -> Option<usize> {
    Some(match ty {
        sys::NEURON_FLOAT32 | sys::NEURON_INT32 | sys::NEURON_UINT32 => 4,
        sys::NEURON_TENSOR_FLOAT32 | sys::NEURON_TENSOR_INT32 | BIAS_PER_CHANNEL => 4,
        sys::NEURON_TENSOR_QUANT16_SYMM | sys::NEURON_TENSOR_FLOAT16 | sys::NEURON_FLOAT16 => 2,
        sys::NEURON_TENSOR_QUANT16_ASYMM => 2,
        sys::NEURON_TENSOR_QUANT8_ASYMM
        | sys::NEURON_BOOL
        | sys::NEURON_TENSOR_BOOL8
        | sys::NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL
        | sys::NEURON_TENSOR_QUANT8_SYMM
        | sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED => 1,
        _ => return None,
    })
}

fn is_per_channel(ty: u32) -> bool {
    matches!(ty, sys::NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL | BIAS_PER_CHANNEL)
}

impl Operand {
    /// Whether the type is one without extents.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(
            self.ty,
            sys::NEURON_FLOAT32
                | sys::NEURON_INT32
                | sys::NEURON_UINT32
                | sys::NEURON_BOOL
                | sys::NEURON_FLOAT16
        )
    }

    pub(crate) fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|&dim| dim as usize).collect()
    }

    /// Bytes of all elements; `None` beyond the address space.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let elements = self
            .dims
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim as usize))?;
        elements.checked_mul(width(self.ty)?)
    }

    fn checked(&self) -> Result<()> {
        let quantised = matches!(
            self.ty,
            sys::NEURON_TENSOR_QUANT8_ASYMM
                | sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED
                | sys::NEURON_TENSOR_QUANT16_SYMM
                | sys::NEURON_TENSOR_QUANT16_ASYMM
                | sys::NEURON_TENSOR_QUANT8_SYMM
        );
        let scaled = self.scale.is_finite() && self.scale >= 0.0 && (!quantised || self.scale > 0.0);
        let zero = match self.ty {
            sys::NEURON_TENSOR_QUANT8_ASYMM => (0..=255).contains(&self.zero),
            sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED => (-128..=127).contains(&self.zero),
            sys::NEURON_TENSOR_QUANT16_ASYMM => (0..=65535).contains(&self.zero),
            _ => self.zero == 0,
        };
        let extents = if self.is_scalar() {
            self.dims.is_empty()
        } else {
            !self.dims.contains(&0)
        };
        if self.bytes().is_none() || !scaled || !zero || !extents {
            return Err(Code::BAD_DATA);
        }
        Ok(())
    }
}

/// An operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) code: u32,
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
}

/// A model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) operands: Vec<Operand>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
    pub(crate) identified: bool,
    pub(crate) finished: bool,
    pub(crate) relaxed: bool,
}

impl Model {
    fn open(&self) -> Result<()> {
        if self.finished {
            Err(Code::BAD_STATE)
        } else {
            Ok(())
        }
    }

    /// An operand by its number.
    pub(crate) fn operand(&self, index: u32) -> Result<&Operand> {
        self.operands.get(index as usize).ok_or(Code::BAD_DATA)
    }

    fn operand_mut(&mut self, index: i32) -> Result<&mut Operand> {
        let index = usize::try_from(index).map_err(|_| Code::BAD_DATA)?;
        self.operands.get_mut(index).ok_or(Code::BAD_DATA)
    }

    pub(crate) fn add_operand(&mut self, operand: Operand) -> Result<()> {
        self.open()?;
        operand.checked()?;
        self.operands.push(operand);
        Ok(())
    }

    /// Sets the value of an operand; `None` removes it.
    pub(crate) fn set_value(&mut self, index: i32, value: Option<&[u8]>) -> Result<()> {
        self.open()?;
        let operand = self.operand_mut(index)?;
        if value.is_some_and(|value| operand.bytes() != Some(value.len())) {
            return Err(Code::BAD_DATA);
        }
        operand.value = value.map(<[u8]>::to_vec);
        Ok(())
    }

    pub(crate) fn set_channels(&mut self, index: i32, axis: u32, scales: &[f32]) -> Result<()> {
        self.open()?;
        let operand = self.operand_mut(index)?;
        let extent = operand.dims.get(axis as usize).copied();
        let positive = scales.iter().all(|scale| scale.is_finite() && *scale > 0.0);
        if !is_per_channel(operand.ty) || extent != u32::try_from(scales.len()).ok() || !positive {
            return Err(Code::BAD_DATA);
        }
        operand.channels = Some((axis, scales.to_vec()));
        Ok(())
    }

    pub(crate) fn add_operation(&mut self, operation: Operation) -> Result<()> {
        self.open()?;
        for &id in operation.inputs.iter().chain(&operation.outputs) {
            self.operand(id)?;
        }
        if operation.outputs.is_empty() || (LAST + 1..EXTENSIONS).contains(&operation.code) {
            return Err(Code::BAD_DATA);
        }
        self.operations.push(operation);
        Ok(())
    }

    pub(crate) fn identify(&mut self, inputs: Vec<u32>, outputs: Vec<u32>) -> Result<()> {
        self.open()?;
        if inputs.is_empty() || outputs.is_empty() {
            return Err(Code::BAD_DATA);
        }
        for &id in inputs.iter().chain(&outputs) {
            if self.operand(id)?.is_scalar() || self.operand(id)?.value.is_some() {
                return Err(Code::BAD_DATA);
            }
        }
        (self.inputs, self.outputs, self.identified) = (inputs, outputs, true);
        Ok(())
    }

    /// Finishes the model. Every operand must be made once, before it is read.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.open()?;
        if !self.identified {
            return Err(Code::BAD_STATE);
        }
        let mut made: Vec<bool> = self
            .operands
            .iter()
            .map(|operand| operand.value.is_some())
            .collect();
        for &input in &self.inputs {
            if std::mem::replace(&mut made[input as usize], true) {
                return Err(Code::BAD_DATA);
            }
        }
        for operation in &self.operations {
            if operation.inputs.iter().any(|&id| !made[id as usize]) {
                return Err(Code::BAD_DATA);
            }
            for &output in &operation.outputs {
                if std::mem::replace(&mut made[output as usize], true) {
                    return Err(Code::BAD_DATA);
                }
            }
        }
        if self.outputs.iter().any(|&id| !made[id as usize]) {
            return Err(Code::BAD_DATA);
        }
        let bare = |operand: &Operand| is_per_channel(operand.ty) && operand.channels.is_none();
        if self.operands.iter().any(bare) {
            return Err(Code::BAD_DATA);
        }
        self.finished = true;
        Ok(())
    }
}

/// Magic number of a compiled network.
const MAGIC: &[u8; 16] = b"polychip neuron\x01";

/// A finished model as bytes with their hash.
pub(crate) fn write(model: &Model) -> Result<Vec<u8>> {
    file::seal(MAGIC, model).ok_or(Code::OP_FAILED)
}

/// Reads a model that [`write`] wrote.
pub(crate) fn read(bytes: &[u8]) -> Result<Model> {
    file::unseal(MAGIC, bytes).ok_or(Code::BAD_DATA)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relu() -> Model {
        let mut model = Model::default();
        for _ in 0..2 {
            let operand = Operand {
                ty: sys::NEURON_TENSOR_FLOAT32,
                dims: vec![1, 4],
                ..Operand::default()
            };
            model.add_operand(operand).unwrap();
        }
        let operation = Operation {
            code: sys::NEURON_RELU,
            inputs: vec![0],
            outputs: vec![1],
        };
        model.add_operation(operation).unwrap();
        model
    }

    #[test]
    fn states_and_operands_are_judged() {
        let mut model = relu();
        assert_eq!(model.finish(), Err(Code::BAD_STATE));
        model.identify(vec![0], vec![1]).unwrap();
        model.finish().unwrap();
        assert_eq!(model.finish(), Err(Code::BAD_STATE));
        assert_eq!(model.set_value(0, None), Err(Code::BAD_STATE));
        let mut unmade = relu();
        unmade.identify(vec![1], vec![1]).unwrap();
        assert_eq!(unmade.finish(), Err(Code::BAD_DATA));
        let bad = |ty, dims: &[u32], scale| {
            let operand = Operand {
                ty,
                dims: dims.to_vec(),
                scale,
                ..Operand::default()
            };
            relu().add_operand(operand).is_err()
        };
        assert!(bad(sys::NEURON_TENSOR_FLOAT32, &[0], 0.0) && bad(sys::NEURON_INT32, &[1], 0.0));
        assert!(bad(sys::NEURON_TENSOR_QUANT8_ASYMM, &[1], 0.0) && bad(99, &[1], 0.0));
    }

    #[test]
    fn networks_come_back_and_flipped_bytes_are_refused() {
        let mut model = relu();
        model.identify(vec![0], vec![1]).unwrap();
        model.finish().unwrap();
        let bytes = write(&model).unwrap();
        assert_eq!(read(&bytes).unwrap().operations.len(), 1);
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert!(read(&torn).is_err(), "byte {at}");
        }
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
    }
}
