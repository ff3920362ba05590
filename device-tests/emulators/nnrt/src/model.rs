//! Models: tensors, operations, ports, and the states between calls.
//!
//! Invariants:
//! 1. A finished model never changes.
//! 2. Each tensor of a finished model is a port, a constant, or written by one operation before it is read.

use polychip_emulator_chip::file;
use serde::{Deserialize, Serialize};

use polychip_sys::nnrt::bindings as sys;

use crate::code::{Code, Result};

/// Bytes of an element of a type.
pub(crate) fn width(ty: u32) -> Option<usize> {
    Some(match ty {
        sys::OH_NN_BOOL | sys::OH_NN_INT8 | sys::OH_NN_UINT8 => 1,
        sys::OH_NN_INT16 | sys::OH_NN_UINT16 | sys::OH_NN_FLOAT16 => 2,
        sys::OH_NN_INT32 | sys::OH_NN_UINT32 | sys::OH_NN_FLOAT32 => 4,
        sys::OH_NN_INT64 | sys::OH_NN_UINT64 | sys::OH_NN_FLOAT64 => 8,
        _ => return None,
    })
}

/// Quantisation of a tensor, per tensor or per channel, and the width of its integers in bits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quant {
    pub(crate) scales: Vec<f64>,
    pub(crate) zeros: Vec<i32>,
    pub(crate) bits: Vec<u32>,
}

impl Quant {
    /// Checks what the runtime checks: lists of equal length, and 8 bits.
    fn checked(self) -> Result<Quant> {
        let lengths = [self.zeros.len(), self.bits.len()];
        let alike = lengths == [self.scales.len(); 2];
        let fits = alike && !self.scales.is_empty() && self.bits.iter().all(|&bits| bits == 8);
        fits.then_some(self).ok_or(Code::INVALID)
    }
}

/// A tensor, or the description of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tensor {
    pub(crate) ty: u32,
    pub(crate) dims: Vec<i32>,
    pub(crate) role: u32,
    /// Scales and as many zero points; none for plain values.
    pub(crate) quant: Option<Quant>,
    pub(crate) value: Option<Vec<u8>>,
}

impl Tensor {
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|&dim| dim as usize).collect()
    }

    /// Bytes of all elements; `None` without a type or beyond the address space.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let count = |product: usize, &dim: &i32| product.checked_mul(usize::try_from(dim).ok()?);
        let elements = self.dims.iter().try_fold(1usize, count)?;
        elements.checked_mul(width(self.ty)?)
    }
}

/// An operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) code: u32,
    pub(crate) params: Vec<u32>,
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
}

/// A model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
    pub(crate) finished: bool,
    pub(crate) reduced: bool,
}

impl Model {
    pub(crate) fn tensor(&self, id: u32) -> Result<&Tensor> {
        self.tensors.get(id as usize).ok_or(Code::INVALID)
    }

    fn open(&self) -> Result<()> {
        if self.finished {
            Err(Code::FORBIDDEN)
        } else {
            Ok(())
        }
    }

    pub(crate) fn add(&mut self, tensor: Tensor) -> Result<()> {
        self.open()?;
        if tensor.bytes().is_none() || tensor.dims.iter().any(|&dim| dim < 1) {
            return Err(Code::INVALID);
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// Sets the quantisation of a tensor.
    pub(crate) fn encode(&mut self, id: u32, quant: Quant) -> Result<()> {
        let quant = quant.checked()?;
        self.set(id, |tensor| {
            tensor.quant = Some(quant);
            Ok(())
        })
    }

    pub(crate) fn set(&mut self, id: u32, change: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
        self.open()?;
        change(self.tensors.get_mut(id as usize).ok_or(Code::INVALID)?)
    }

    pub(crate) fn add_operation(&mut self, operation: Operation) -> Result<()> {
        self.open()?;
        for &id in operation.inputs.iter().chain(&operation.outputs) {
            if self.tensor(id)?.role != sys::OH_NN_TENSOR {
                return Err(Code::INVALID);
            }
        }
        for &id in &operation.params {
            let param = self.tensor(id)?;
            if param.role == sys::OH_NN_TENSOR || param.value.is_none() {
                return Err(Code::INVALID);
            }
        }
        if operation.inputs.is_empty() || operation.outputs.is_empty() {
            return Err(Code::INVALID);
        }
        self.operations.push(operation);
        Ok(())
    }

    pub(crate) fn identify(&mut self, inputs: Vec<u32>, outputs: Vec<u32>) -> Result<()> {
        self.open()?;
        if inputs.is_empty() || outputs.is_empty() {
            return Err(Code::INVALID);
        }
        for &id in inputs.iter().chain(&outputs) {
            if self.tensor(id)?.value.is_some() {
                return Err(Code::INVALID);
            }
        }
        (self.inputs, self.outputs) = (inputs, outputs);
        Ok(())
    }

    /// Finishes the model. Every tensor must be made once, before it is read.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.open()?;
        if self.inputs.is_empty() {
            return Err(Code::FORBIDDEN);
        }
        let mut made: Vec<bool> = self.tensors.iter().map(|tensor| tensor.value.is_some()).collect();
        let mut make = |ids: &[u32]| {
            let twice = ids
                .iter()
                .any(|&id| std::mem::replace(&mut made[id as usize], true));
            if twice {
                Err(Code::INVALID)
            } else {
                Ok(made.clone())
            }
        };
        let mut there = make(&self.inputs)?;
        for operation in &self.operations {
            if operation.inputs.iter().any(|&id| !there[id as usize]) {
                return Err(Code::INVALID);
            }
            there = make(&operation.outputs)?;
        }
        if self.outputs.iter().any(|&id| !there[id as usize]) {
            return Err(Code::INVALID);
        }
        self.finished = true;
        Ok(())
    }
}

/// Magic number of a compiled network.
const MAGIC: &[u8; 16] = b"polychip nnrt\x01\0\0";

/// A built model as bytes, with their hash.
pub(crate) fn write(model: &Model) -> Result<Vec<u8>> {
    file::seal(MAGIC, model).ok_or(Code::FAILED)
}

/// Reads a model that [`write`] wrote.
pub(crate) fn read(bytes: &[u8]) -> Result<Model> {
    file::unseal(MAGIC, bytes).ok_or(Code::INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relu() -> Model {
        let mut model = Model::default();
        for _ in 0..2 {
            let tensor = Tensor {
                ty: sys::OH_NN_FLOAT32,
                dims: vec![1, 4],
                ..Tensor::default()
            };
            model.add(tensor).unwrap();
        }
        let operation = Operation {
            code: sys::OH_NN_OPS_RELU,
            params: vec![],
            inputs: vec![0],
            outputs: vec![1],
        };
        model.add_operation(operation).unwrap();
        model
    }

    #[test]
    fn states_and_tensors_are_judged() {
        let mut model = relu();
        assert_eq!(model.finish(), Err(Code::FORBIDDEN));
        model.identify(vec![0], vec![1]).unwrap();
        model.finish().unwrap();
        assert_eq!(model.finish(), Err(Code::FORBIDDEN));
        let mut unmade = relu();
        unmade.identify(vec![1], vec![1]).unwrap();
        assert_eq!(unmade.finish(), Err(Code::INVALID));
    }

    #[test]
    fn encodings_are_of_8_bits_and_lists_of_one_length() {
        let quant = |scales: &[f64], zeros: &[i32], bits: &[u32]| Quant {
            scales: scales.to_vec(),
            zeros: zeros.to_vec(),
            bits: bits.to_vec(),
        };
        let mut model = relu();
        assert_eq!(model.encode(0, quant(&[0.5], &[3], &[8])), Ok(()));
        assert_eq!(model.encode(0, quant(&[0.5], &[3], &[32])), Err(Code::INVALID));
        assert_eq!(model.encode(0, quant(&[0.5], &[], &[8])), Err(Code::INVALID));
        assert_eq!(model.encode(9, quant(&[0.5], &[3], &[8])), Err(Code::INVALID));
    }

    #[test]
    fn networks_come_back_and_flipped_bytes_are_refused() {
        let bytes = write(&relu()).unwrap();
        assert_eq!(read(&bytes).unwrap().operations.len(), 1);
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert!(read(&torn).is_err(), "byte {at}");
        }
    }
}
