//! A row of the evaluator's table, and the sets of element types that rows share.
//!
//! Invariant: nothing here names an op; a file per op class gives its rows, `table` gathers them.

use polychip_ops::{DType, DTypes};

use crate::call::{Call, Outputs};

/// One row: the element types of each input (the last entry serves all further inputs), and what computes.
pub(crate) struct Row {
    pub(crate) takes: &'static [DTypes],
    pub(crate) run: fn(&Call<'_>) -> Outputs,
}

/// Real floats of 16 bits and more: the types in which ONNX computes.
pub(crate) const FLOATS: DTypes = DTypes::of(&[DType::F16, DType::BF16, DType::F32, DType::F64]);
/// Integers of 8 bits and more.
pub(crate) const INTS: DTypes = DTypes::of(&[
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
]);
/// Floats and integers in which ONNX computes.
pub(crate) const NUMBERS: DTypes = FLOATS.with(INTS);
/// Truth values.
pub(crate) const BOOL: DTypes = DTypes::of(&[DType::Bool]);
/// Numbers and truth values.
pub(crate) const NUMBERS_AND_BOOL: DTypes = NUMBERS.with(BOOL);
/// Indices and sizes.
pub(crate) const INDEX: DTypes = DTypes::of(&[DType::I32, DType::I64]);
/// Text.
pub(crate) const TEXT: DTypes = DTypes::of(&[DType::String]);
/// Every type.
pub(crate) const ANY: DTypes = DTypes::ALL;
