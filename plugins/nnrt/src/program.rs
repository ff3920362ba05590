//! A part as the runtime sees it: tensors and operations, plain data.
//!
//! Invariants:
//! 1. Operations are sorted so that each tensor is written before it is read.
//! 2. A parameter is a tensor with the role that names it, of the type that the role asks for.
//!
//! Not here: how nodes become operations (`lower`), the runtime's calls (`api`).

use polychip_sys::nnrt::bindings as sys;
use serde::{Deserialize, Serialize};

/// Index of a tensor in its program.
pub(crate) type TensorId = usize;

/// How a tensor's integers stand for reals: one scale, or one per channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quant {
    pub(crate) scales: Vec<f32>,
    /// As many zero points.
    pub(crate) zeros: Vec<i32>,
}

/// One tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tensor {
    /// The runtime's code of its type.
    pub(crate) code: u32,
    /// Extents; none of a single parameter.
    pub(crate) dims: Vec<usize>,
    /// What it is of an operation, where it is a parameter; else `OH_NN_TENSOR`.
    pub(crate) role: u32,
    /// Whether the axes are those of an image, channels last.
    pub(crate) image: bool,
    pub(crate) quant: Option<Quant>,
    pub(crate) value: Option<Vec<u8>>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) code: u32,
    pub(crate) params: Vec<TensorId>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// The node it was made for; `None` for conversions at the border of the part.
    pub(crate) node: Option<u32>,
}

/// A part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// Whether f32 may be computed in 16 bits.
    pub(crate) reduced: bool,
}

impl Program {
    /// Adds a tensor.
    pub(crate) fn add(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    /// What an operation is, without its data: operations of equal keys are answered alike.
    pub(crate) fn key(&self, operation: &Operation) -> [u8; 32] {
        let what = |&id: &TensorId| {
            let Tensor {
                code,
                dims,
                role,
                image,
                quant,
                value,
            } = &self.tensors[id];
            // of data only that it is constant; parameters are the question
            let value = value.as_ref().map(|bytes| match *role {
                sys::OH_NN_TENSOR => &[],
                _ => &bytes[..],
            });
            format!("{code} {dims:?} {role} {image} {quant:?} {value:?}")
        };
        let sides = [&operation.params, &operation.inputs, &operation.outputs];
        let sides = sides.map(|ids| ids.iter().map(what).collect::<Vec<_>>());
        let key = format!("{} {} {sides:?}", operation.code, self.reduced);
        *blake3::hash(key.as_bytes()).as_bytes()
    }

    /// Adds an operation of another program, with tensors of its own, its operands and results as ports.
    pub(crate) fn ask(&mut self, of: &Program, operation: &Operation) {
        let mut copy = |ids: &[TensorId]| -> Vec<TensorId> {
            ids.iter().map(|&id| self.add(of.tensors[id].clone())).collect()
        };
        let asked = Operation {
            params: copy(&operation.params),
            inputs: copy(&operation.inputs),
            outputs: copy(&operation.outputs),
            ..operation.clone()
        };
        let fed = |id: &&TensorId| self.tensors[**id].value.is_none();
        let fed: Vec<TensorId> = asked.inputs.iter().filter(fed).copied().collect();
        self.inputs.extend(fed);
        self.outputs.extend_from_slice(&asked.outputs);
        self.operations.push(asked);
    }
}
