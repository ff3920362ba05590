//! A part as the runtime sees it: tensors and operations, plain data.
//!
//! Invariants:
//! 1. Operations stand in an order in which each tensor is written before it is read.
//! 2. A parameter is a tensor with the role that names it, of the type that the role asks for.
//!
//! Not here: how nodes become operations (`lower`), the runtime's calls (`api`).

use polychip_sys::nnrt::bindings as sys;
use serde::{Deserialize, Serialize};

/// Index of a tensor in its program.
pub(crate) type TensorId = usize;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    F32,
    F16,
    I32,
    Bool,
}

impl Type {
    /// The runtime's code.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Type::F32 => sys::OH_NN_FLOAT32,
            Type::F16 => sys::OH_NN_FLOAT16,
            Type::I32 => sys::OH_NN_INT32,
            Type::Bool => sys::OH_NN_BOOL,
        }
    }

    /// Bytes of an element.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Type::F32 | Type::I32 => 4,
            Type::F16 => 2,
            Type::Bool => 1,
        }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F16)
    }
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
    pub(crate) value: Option<Vec<u8>>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) code: u32,
    pub(crate) params: Vec<TensorId>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// The node it was made for; `None` for what the border of the part needs.
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
                value,
            } = &self.tensors[id];
            // of data only that it is constant; parameters are the question
            let value = value.as_ref().map(|bytes| match *role {
                sys::OH_NN_TENSOR => &[],
                _ => &bytes[..],
            });
            format!("{code} {dims:?} {role} {image} {value:?}")
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

    /// Makes a Relu or Relu6 the own activation of the operation before it, where nobody else reads what is between.
    pub(crate) fn fuse(&mut self) {
        let mut readers = vec![0usize; self.tensors.len()];
        let reads = self.operations.iter().flat_map(|operation| &operation.inputs);
        for &id in reads.chain(&self.outputs) {
            readers[id] += 1;
        }
        let mut kept: Vec<Operation> = Vec::with_capacity(self.operations.len());
        for operation in std::mem::take(&mut self.operations) {
            let code = match operation.code {
                sys::OH_NN_OPS_RELU => Some(sys::OH_NN_FUSED_RELU),
                sys::OH_NN_OPS_RELU6 => Some(sys::OH_NN_FUSED_RELU6),
                _ => None,
            };
            let before = code.and_then(|code| {
                let between = operation.inputs[0];
                let at = kept.iter().position(|before| before.outputs == [between])?;
                let activation = *kept[at].params.iter().find(|&&id| {
                    let tensor = &self.tensors[id];
                    ACTIVATIONS.contains(&tensor.role) && tensor.value.as_deref() == Some(&NO_ACTIVATION)
                })?;
                (readers[between] == 1).then_some((at, activation, code))
            });
            match before {
                Some((at, activation, code)) => {
                    self.tensors[activation].value = Some(vec![code as u8]);
                    kept[at].outputs = operation.outputs;
                }
                None => kept.push(operation),
            }
        }
        self.operations = kept;
    }
}

/// Roles of parameters that say what is done to a result.
const ACTIVATIONS: [u32; 9] = [
    sys::OH_NN_ADD_ACTIVATIONTYPE,
    sys::OH_NN_SUB_ACTIVATIONTYPE,
    sys::OH_NN_MUL_ACTIVATION_TYPE,
    sys::OH_NN_DIV_ACTIVATIONTYPE,
    sys::OH_NN_CONV2D_ACTIVATION_TYPE,
    sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE,
    sys::OH_NN_FULL_CONNECTION_ACTIVATIONTYPE,
    sys::OH_NN_AVG_POOL_ACTIVATION_TYPE,
    sys::OH_NN_MAX_POOL_ACTIVATION_TYPE,
];

/// The value of an activation that does nothing.
pub(crate) const NO_ACTIVATION: [u8; 1] = [sys::OH_NN_FUSED_NONE as u8];
