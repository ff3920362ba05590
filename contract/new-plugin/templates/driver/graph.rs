//! What is passed to the driver's compiler.

use std::ptr;

use serde::{Deserialize, Serialize};

use super::api::{RawGraph, RawOperation, RawTensor};

/// Largest rank of a tensor.
pub(crate) const MAX_RANK: usize = 4;

/// The window of a pool, by axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) kernel: [u32; 2],
    pub(crate) strides: [u32; 2],
    pub(crate) dilations: [u32; 2],
    /// Before the image.
    pub(crate) pads: [u32; 2],
}

/// An operation of the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Copy,
    Relu,
    Add,
    MaxPool(Pool),
}

impl Operation {
    /// The name that `polychip bench --per-op` shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Copy => "copy",
            Operation::Relu => "relu",
            Operation::Add => "add",
            Operation::MaxPool(_) => "max_pool",
        }
    }

    fn raw(self, inputs: &[u32], output: u32) -> RawOperation {
        let mut raw = RawOperation {
            inputs: [inputs[0], inputs.get(1).copied().unwrap_or(0)],
            output,
            ..RawOperation::default()
        };
        raw.kind = match self {
            Operation::Copy => 1,
            Operation::Relu => 2,
            Operation::Add => 3,
            Operation::MaxPool(pool) => {
                (raw.kernel, raw.strides) = (pool.kernel, pool.strides);
                (raw.dilations, raw.pads) = (pool.dilations, pool.pads);
                4
            }
        };
        raw
    }
}

/// A tensor of f32.
#[derive(Debug)]
pub(crate) struct Tensor {
    /// At most [`MAX_RANK`].
    pub(crate) dims: Vec<u32>,
    pub(crate) is_constant: bool,
    /// Elements of a constant; may be empty for a check.
    pub(crate) elements: Vec<f32>,
}

/// Operations over numbered tensors.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) tensors: Vec<Tensor>,
    /// Operation, tensors that it reads, tensor that it writes.
    pub(crate) operations: Vec<(Operation, Vec<u32>, u32)>,
    /// Tensors bound at each run, none twice.
    pub(crate) ports: Vec<u32>,
}

impl Graph {
    /// Calls `used` with the graph as the driver reads it.
    pub(super) fn with_raw<T>(&self, used: impl FnOnce(&RawGraph) -> T) -> T {
        let tensors: Vec<RawTensor> = self
            .tensors
            .iter()
            .map(|tensor| {
                let mut dims = [0; MAX_RANK];
                dims[..tensor.dims.len()].copy_from_slice(&tensor.dims);
                RawTensor {
                    rank: tensor.dims.len() as u32,
                    dims,
                    is_constant: tensor.is_constant.into(),
                    elements: if tensor.elements.is_empty() {
                        ptr::null()
                    } else {
                        tensor.elements.as_ptr()
                    },
                }
            })
            .collect();
        let operations: Vec<RawOperation> = self
            .operations
            .iter()
            .map(|(operation, inputs, output)| operation.raw(inputs, *output))
            .collect();
        used(&RawGraph {
            tensors: tensors.as_ptr(),
            tensor_count: tensors.len() as u32,
            operations: operations.as_ptr(),
            operation_count: operations.len() as u32,
            ports: self.ports.as_ptr(),
            port_count: self.ports.len() as u32,
        })
    }
}
