//! A part as the library sees it: operands and operations, plain data.
//!
//! Invariants:
//! 1. Operations stand in an order in which each operand is written before it is read.
//! 2. A scalar has no extents and a value; a tensor has one extent at least.
//!
//! Not here: how nodes become operations (`lower`), the library's calls (`api`).

use std::fmt::Write as _;

use polychip_sys::neuron::bindings as sys;

/// Index of an operand in its program.
pub(crate) type OperandId = usize;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    F32,
    F16,
    I32,
    Bool,
    /// Unsigned integers that stand for reals.
    U8,
    /// Signed ones.
    S8,
}

impl Type {
    /// The library's code of a tensor of this type.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Type::F32 => sys::NEURON_TENSOR_FLOAT32,
            Type::F16 => sys::NEURON_TENSOR_FLOAT16,
            Type::I32 => sys::NEURON_TENSOR_INT32,
            Type::Bool => sys::NEURON_TENSOR_BOOL8,
            Type::U8 => sys::NEURON_TENSOR_QUANT8_ASYMM,
            Type::S8 => sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED,
        }
    }

    /// Bytes of an element.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Type::F32 | Type::I32 => 4,
            Type::F16 => 2,
            Type::Bool | Type::U8 | Type::S8 => 1,
        }
    }

    /// Whether elements stand for reals through an encoding.
    pub(crate) const fn is_quantised(self) -> bool {
        matches!(self, Type::U8 | Type::S8)
    }

    /// Whether elements are floats.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F16)
    }
}

/// How integers stand for reals: (stored - zero) × scale; a scale of 0 where they do not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Quant {
    pub(crate) scale: f32,
    pub(crate) zero: i32,
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operand {
    /// The library's code of its type.
    pub(crate) code: u32,
    /// Extents; none of a scalar.
    pub(crate) dims: Vec<u32>,
    pub(crate) quant: Quant,
    /// The axis of scales per channel, and the scales.
    pub(crate) channels: Option<(u32, Vec<f32>)>,
    /// A constant's elements.
    pub(crate) value: Option<Value>,
}

/// The elements of a constant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Numbers that the operation is made of.
    Parameter(Vec<u8>),
    /// Data; empty where a program is only named.
    Data(Vec<u8>),
}

impl Value {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Parameter(bytes) | Value::Data(bytes) => bytes,
        }
    }
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    /// The library's code.
    pub(crate) code: u32,
    pub(crate) inputs: Vec<OperandId>,
    pub(crate) outputs: Vec<OperandId>,
    /// The node it was made for; `None` for what the border of the part needs.
    pub(crate) node: Option<u32>,
}

/// A part.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Program {
    pub(crate) operands: Vec<Operand>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<OperandId>,
    pub(crate) outputs: Vec<OperandId>,
    /// Whether f32 may be computed in 16 bits.
    pub(crate) relaxed: bool,
}

impl Program {
    /// Adds an operand.
    pub(crate) fn operand(&mut self, operand: Operand) -> OperandId {
        self.operands.push(operand);
        self.operands.len() - 1
    }

    /// What an operation is, without its data: equal keys are answered alike by a library.
    pub(crate) fn key(&self, operation: &Operation) -> [u8; 32] {
        let mut key = format!("{} {}", operation.code, self.relaxed);
        for (side, ids) in [('<', &operation.inputs), ('>', &operation.outputs)] {
            for &id in ids {
                let operand = &self.operands[id];
                let _ = write!(
                    key,
                    "{side}{} {:?} {:?}",
                    operand.code, operand.dims, operand.quant
                );
                if let Some((axis, scales)) = &operand.channels {
                    let _ = write!(key, " {axis} {scales:?}");
                }
                match &operand.value {
                    Some(Value::Parameter(bytes)) => {
                        let _ = write!(key, " {bytes:?}");
                    }
                    Some(Value::Data(_)) => key.push('c'),
                    None => {}
                }
            }
        }
        *blake3::hash(key.as_bytes()).as_bytes()
    }

    /// A program of one operation alone, added to this one with operands of its own.
    pub(crate) fn ask(&mut self, of: &Program, operation: &Operation) {
        let mut copy = |id: &OperandId| {
            let operand = of.operands[*id].clone();
            let constant = operand.value.is_some();
            (self.operand(operand), constant)
        };
        let inputs: Vec<(OperandId, bool)> = operation.inputs.iter().map(&mut copy).collect();
        let outputs: Vec<OperandId> = operation.outputs.iter().map(|id| copy(id).0).collect();
        self.inputs
            .extend(inputs.iter().filter(|(_, constant)| !constant).map(|(id, _)| *id));
        self.outputs.extend_from_slice(&outputs);
        self.operations.push(Operation {
            code: operation.code,
            inputs: inputs.into_iter().map(|(id, _)| id).collect(),
            outputs,
            node: operation.node,
        });
    }

    /// Computes activations with the operation before them, where it has a code for that and nobody else reads what is
    /// between: a Relu of a sum becomes the sum's own.
    pub(crate) fn fuse(&mut self) {
        let mut readers = vec![0usize; self.operands.len()];
        for id in self.operations.iter().flat_map(|operation| &operation.inputs) {
            readers[*id] += 1;
        }
        for &id in &self.outputs {
            readers[id] += 1;
        }
        let mut at = 0;
        while at < self.operations.len() {
            let fused = fused(self.operations[at].code);
            let from = self.operations[at].inputs[0];
            let to = self.operations[at].outputs[0];
            let before = self.operations[..at]
                .iter()
                .position(|operation| operation.outputs == [from]);
            let same = self.operands[from].quant == self.operands[to].quant;
            let (Some(code), Some(before), true, 1) = (fused, before, same, readers[from]) else {
                at += 1;
                continue;
            };
            let Some(place) = activation(&self.operations[before]) else {
                at += 1;
                continue;
            };
            let scalar = self.operations[before].inputs[place];
            if self.operands[scalar].value != Some(number(sys::NEURON_FUSED_NONE as i32)) {
                at += 1;
                continue;
            }
            let activation = Operand {
                value: Some(number(code as i32)),
                ..self.operands[scalar].clone()
            };
            let activation = self.operand(activation);
            readers.push(1);
            self.operations[before].inputs[place] = activation;
            self.operations[before].outputs = vec![to];
            self.operations.remove(at);
        }
    }
}

/// The code that an operation has in front of others.
fn fused(code: u32) -> Option<u32> {
    match code {
        sys::NEURON_RELU => Some(sys::NEURON_FUSED_RELU),
        sys::NEURON_RELU1 => Some(sys::NEURON_FUSED_RELU1),
        sys::NEURON_RELU6 => Some(sys::NEURON_FUSED_RELU6),
        _ => None,
    }
}

/// Which input of an operation says what is done to its result.
fn activation(operation: &Operation) -> Option<usize> {
    match (operation.code, operation.inputs.len()) {
        (sys::NEURON_ADD | sys::NEURON_SUB | sys::NEURON_MUL | sys::NEURON_DIV, _) => Some(2),
        (sys::NEURON_FULLY_CONNECTED, _) => Some(3),
        (sys::NEURON_CONV_2D, 10) => Some(6),
        (sys::NEURON_CONV_2D, 13) => Some(9),
        (sys::NEURON_DEPTHWISE_CONV_2D, 11) => Some(7),
        (sys::NEURON_DEPTHWISE_CONV_2D, 14) => Some(10),
        (sys::NEURON_GROUPED_CONV_2D, 9) => Some(7),
        (sys::NEURON_GROUPED_CONV_2D, 12) => Some(10),
        (sys::NEURON_AVERAGE_POOL_2D | sys::NEURON_MAX_POOL_2D, 7) => Some(6),
        (sys::NEURON_AVERAGE_POOL_2D | sys::NEURON_MAX_POOL_2D, 10) => Some(9),
        _ => None,
    }
}

/// A whole number as a parameter.
pub(crate) fn number(value: i32) -> Value {
    Value::Parameter(value.to_le_bytes().to_vec())
}
