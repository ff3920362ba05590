//! A part as the library sees it: operands and operations, plain data.
//!
//! Invariants:
//! 1. Operations are sorted so that each operand is written before it is read.
//! 2. A scalar has no extents and a value; a tensor has one extent at least.
//!
//! Not here: how nodes become operations (`lower`), the library's calls (`api`).

use std::fmt::Write as _;

/// Index of an operand in its program.
pub(crate) type OperandId = usize;

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
    /// The node it was made for; `None` for conversions at the border of the part.
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
}

/// A whole number as a parameter.
pub(crate) fn number(value: i32) -> Value {
    Value::Parameter(value.to_le_bytes().to_vec())
}
