//! A part as QNN sees it: tensors and operations, plain data.
//!
//! Invariants:
//! 1. Operations are sorted so that each tensor is written before it is read.
//! 2. `inputs` and `outputs` are tensors of the roles [`Role::Input`] and [`Role::Output`], in the order of ports.
//! 3. Names of tensors and operations are unique in a program.
//!
//! Not here: how nodes become operations (`lower`), the vendor's structs (`session`).

use std::fmt::Write as _;

pub(crate) use polychip_lowering::operands::{Operand as Tensor, OperandId as TensorId, Quant, Role, Type};

/// QNN's codes of types: sort in the high byte, bits as two decimal digits in the low one.
const CODES: [(Type, u32); 15] = [
    (Type::Int8, 0x0008),
    (Type::Int16, 0x0016),
    (Type::Int32, 0x0032),
    (Type::Int64, 0x0064),
    (Type::Uint8, 0x0108),
    (Type::Uint16, 0x0116),
    (Type::Uint32, 0x0132),
    (Type::Float16, 0x0216),
    (Type::Float32, 0x0232),
    (Type::Sfixed8, 0x0308),
    (Type::Sfixed16, 0x0316),
    (Type::Sfixed32, 0x0332),
    (Type::Ufixed8, 0x0408),
    (Type::Ufixed16, 0x0416),
    (Type::Bool8, 0x0508),
];

/// QNN's code of a type.
pub(crate) fn code(ty: Type) -> u32 {
    CODES
        .iter()
        .find(|(own, _)| *own == ty)
        .map_or(0, |(_, code)| *code)
}

/// The type with this code.
pub(crate) fn from_code(code: u32) -> Option<Type> {
    CODES.iter().find(|(_, own)| *own == code).map(|(ty, _)| *ty)
}

/// Bytes of all elements of a tensor.
pub(crate) fn bytes_of(tensor: &Tensor) -> usize {
    tensor.dims.iter().product::<usize>() * tensor.ty.bytes()
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Param {
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// A constant tensor of 32-bit integers.
    U32s {
        dims: Vec<u32>,
        values: Vec<u32>,
    },
    /// As `U32s`, signed.
    I32s {
        dims: Vec<u32>,
        values: Vec<i32>,
    },
}

/// One operation of package `qti.aisw`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// The vendor's name of the op.
    pub(crate) kind: &'static str,
    pub(crate) params: Vec<(&'static str, Param)>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// The node it was made for; `None` for conversions at the border of the part.
    pub(crate) node: Option<u32>,
}

/// A part.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Program {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
}

impl Program {
    /// Multiply-adds of a run and bytes moved by it, for a roofline.
    pub(crate) fn work(&self) -> (u64, u64) {
        let (mut macs, mut bytes) = (0u64, 0u64);
        for operation in self
            .operations
            .iter()
            .filter(|operation| operation.node.is_some())
        {
            let elements = |id: &TensorId| {
                let dims = &self.tensors[*id].dims;
                dims.iter().map(|&dim| dim as u64).fold(1u64, u64::saturating_mul)
            };
            let out = operation.outputs.first().map_or(0, elements);
            let weights = operation.inputs.get(1).map(|id| &self.tensors[*id].dims);
            let per_output = match (operation.kind, weights) {
                ("Conv2d" | "DepthWiseConv2d", Some(dims)) => dims[..3].iter().product::<usize>() as u64,
                ("TransposeConv2d", Some(dims)) => dims[..3].iter().product::<usize>() as u64,
                ("FullyConnected", Some(dims)) => *dims.last().unwrap_or(&1) as u64,
                ("MatMul", _) => {
                    let dims = &self.tensors[operation.inputs[0]].dims;
                    *dims.last().unwrap_or(&1) as u64
                }
                _ => 1,
            };
            macs = macs.saturating_add(out.saturating_mul(per_output));
            for id in operation.inputs.iter().chain(&operation.outputs) {
                bytes = bytes.saturating_add(bytes_of(&self.tensors[*id]) as u64);
            }
        }
        (macs, bytes)
    }

    /// What one operation is, without its data and names: equal keys are answered alike by a library.
    pub(crate) fn key(&self, operation: &Operation) -> String {
        let mut key = String::from(operation.kind);
        for (name, param) in &operation.params {
            let _ = write!(key, " {name}={param:?}");
        }
        for (side, tensors) in [(" <", &operation.inputs), (" >", &operation.outputs)] {
            for &id in tensors {
                let tensor = &self.tensors[id];
                let constant = matches!(tensor.role, Role::Data(_));
                let _ = write!(
                    key,
                    "{side}{:?}{:?}{:?}{}",
                    tensor.ty,
                    tensor.dims,
                    tensor.quant,
                    if constant { "c" } else { "" }
                );
            }
        }
        key
    }

    /// Transposes between layouts and of the model.
    #[cfg(test)]
    pub(crate) fn transposes(&self) -> usize {
        self.operations
            .iter()
            .filter(|operation| operation.kind == "Transpose")
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for code in 0..0x600 {
            if let Some(ty) = from_code(code) {
                assert_eq!(self::code(ty), code);
                let digits = format!("{:02x}", code & 0xff).parse::<usize>().unwrap();
                assert_eq!(ty.bytes() * 8, digits);
            }
        }
    }
}
