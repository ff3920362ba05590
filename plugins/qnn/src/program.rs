//! A part as QNN sees it: tensors and operations, plain data.
//!
//! Invariants:
//! 1. Operations stand in an order in which each tensor is written before it is read.
//! 2. `inputs` and `outputs` are tensors of the roles [`Role::Write`] and [`Role::Read`], in the order of ports.
//! 3. Names of tensors and operations are unique in a program.
//!
//! Not here: how nodes become operations (`lower`), the vendor's structs (`session`).

use std::fmt::Write as _;

/// Index of a tensor in its program.
pub(crate) type TensorId = usize;

/// Type of stored elements; the `fixed` ones are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Float16,
    Float32,
    Sfixed8,
    Sfixed16,
    Sfixed32,
    Ufixed8,
    Ufixed16,
    Bool8,
}

impl Type {
    /// QNN's code of the type: sort in the high byte, bits as two decimal digits in the low one.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Type::Int8 => 0x0008,
            Type::Int16 => 0x0016,
            Type::Int32 => 0x0032,
            Type::Int64 => 0x0064,
            Type::Uint8 => 0x0108,
            Type::Uint16 => 0x0116,
            Type::Uint32 => 0x0132,
            Type::Float16 => 0x0216,
            Type::Float32 => 0x0232,
            Type::Sfixed8 => 0x0308,
            Type::Sfixed16 => 0x0316,
            Type::Sfixed32 => 0x0332,
            Type::Ufixed8 => 0x0408,
            Type::Ufixed16 => 0x0416,
            Type::Bool8 => 0x0508,
        }
    }

    /// The type with this code.
    pub(crate) const fn from_code(code: u32) -> Option<Type> {
        Some(match code {
            0x0008 => Type::Int8,
            0x0016 => Type::Int16,
            0x0032 => Type::Int32,
            0x0064 => Type::Int64,
            0x0108 => Type::Uint8,
            0x0116 => Type::Uint16,
            0x0132 => Type::Uint32,
            0x0216 => Type::Float16,
            0x0232 => Type::Float32,
            0x0308 => Type::Sfixed8,
            0x0316 => Type::Sfixed16,
            0x0332 => Type::Sfixed32,
            0x0408 => Type::Ufixed8,
            0x0416 => Type::Ufixed16,
            0x0508 => Type::Bool8,
            _ => return None,
        })
    }

    /// Bytes of one element.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Type::Int8 | Type::Uint8 | Type::Sfixed8 | Type::Ufixed8 | Type::Bool8 => 1,
            Type::Int16 | Type::Uint16 | Type::Float16 | Type::Sfixed16 | Type::Ufixed16 => 2,
            Type::Int32 | Type::Uint32 | Type::Float32 | Type::Sfixed32 => 4,
            Type::Int64 => 8,
        }
    }

    /// Whether elements stand for reals through an encoding.
    pub(crate) const fn is_quantised(self) -> bool {
        matches!(
            self,
            Type::Sfixed8 | Type::Sfixed16 | Type::Sfixed32 | Type::Ufixed8 | Type::Ufixed16
        )
    }

    /// Whether elements are floats.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Type::Float16 | Type::Float32)
    }

    /// Least and largest stored integer; `None` for floats, bools and 64 bits.
    pub(crate) const fn range(self) -> Option<(i64, i64)> {
        Some(match self {
            Type::Sfixed8 | Type::Int8 => (-128, 127),
            Type::Ufixed8 | Type::Uint8 => (0, 255),
            Type::Sfixed16 | Type::Int16 => (-32768, 32767),
            Type::Ufixed16 | Type::Uint16 => (0, 65535),
            Type::Sfixed32 | Type::Int32 => (i32::MIN as i64, i32::MAX as i64),
            _ => return None,
        })
    }
}

/// How stored integers stand for reals: (stored + offset) × scale. QNN's offset is minus the zero point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quant {
    /// They do not.
    None,
    /// One scale.
    PerTensor { scale: f32, offset: i32 },
    /// One scale per index of `axis`.
    PerAxis { axis: u32, pairs: Vec<(f32, i32)> },
    /// One scale per index of `axis`, and only the low `bits` of each stored element.
    BitsPerAxis {
        bits: u32,
        axis: u32,
        scales: Vec<f32>,
        offsets: Vec<i32>,
    },
}

impl Quant {
    /// Scale and offset, where there is one.
    pub(crate) fn per_tensor(&self) -> Option<(f32, i32)> {
        match *self {
            Quant::PerTensor { scale, offset } => Some((scale, offset)),
            _ => None,
        }
    }
}

/// What a tensor is for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Role {
    /// An input port.
    Write,
    /// An output port.
    Read,
    /// Between operations.
    Native,
    /// A constant: its elements, row-major. Empty where a program is only asked about.
    Static(Vec<u8>),
}

/// One tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) quant: Quant,
    /// Extents, outermost first; never empty.
    pub(crate) dims: Vec<u32>,
    pub(crate) role: Role,
}

impl Tensor {
    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> usize {
        self.dims.iter().map(|&dim| dim as usize).product::<usize>() * self.ty.bytes()
    }
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
    /// The node it was made for; `None` for what the border of the part needs.
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
                dims.iter()
                    .map(|&dim| u64::from(dim))
                    .fold(1u64, u64::saturating_mul)
            };
            let out = operation.outputs.first().map_or(0, elements);
            let weights = operation.inputs.get(1).map(|id| &self.tensors[*id].dims);
            let per_output = match (operation.kind, weights) {
                ("Conv2d" | "DepthWiseConv2d", Some(dims)) => {
                    dims[..3].iter().map(|&dim| u64::from(dim)).product()
                }
                ("TransposeConv2d", Some(dims)) => dims[..3].iter().map(|&dim| u64::from(dim)).product(),
                ("FullyConnected", Some(dims)) => u64::from(*dims.last().unwrap_or(&1)),
                ("MatMul", _) => {
                    let dims = &self.tensors[operation.inputs[0]].dims;
                    u64::from(*dims.last().unwrap_or(&1))
                }
                _ => 1,
            };
            macs = macs.saturating_add(out.saturating_mul(per_output));
            for id in operation.inputs.iter().chain(&operation.outputs) {
                bytes = bytes.saturating_add(self.tensors[*id].bytes() as u64);
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
                let constant = matches!(tensor.role, Role::Static(_));
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
    fn codes_come_back() {
        for code in 0..0x600 {
            if let Some(ty) = Type::from_code(code) {
                assert_eq!(ty.code(), code);
                let digits = format!("{:02x}", code & 0xff).parse::<usize>().unwrap();
                assert_eq!(ty.bytes() * 8, digits);
            }
        }
    }
}
