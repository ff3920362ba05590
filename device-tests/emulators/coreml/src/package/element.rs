//! Types of elements, by their codes.

use polychip_ops::DType;

/// Type of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Bool,
    Text,
    F16,
    F32,
    I32,
    I8,
    U8,
}

impl Type {
    pub(super) fn of(code: u64) -> Result<Type, String> {
        Ok(match code {
            1 => Type::Bool,
            2 => Type::Text,
            10 => Type::F16,
            11 => Type::F32,
            21 => Type::I8,
            23 => Type::I32,
            31 => Type::U8,
            other => return Err(format!("data type {other} is not executed here")),
        })
    }

    pub(super) fn of_array(code: u64) -> Result<Type, String> {
        Ok(match code {
            65552 => Type::F16,
            65568 => Type::F32,
            131_104 => Type::I32,
            other => return Err(format!("array type {other}")),
        })
    }

    pub(crate) fn dtype(self) -> Option<DType> {
        match self {
            Type::F16 => Some(DType::F16),
            Type::F32 => Some(DType::F32),
            Type::I32 => Some(DType::I32),
            Type::I8 => Some(DType::I8),
            Type::U8 => Some(DType::U8),
            Type::Bool | Type::Text => None,
        }
    }
}
