//! Rows of the op table: products and other ops on matrices.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::matrix`).

use super::row::*;

rows! {
    class Product;
    Det 22 as Other (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Einsum 28 (Inputs: many T) -> (Output: T) where (T: tensors(NUMERIC))
        with (Equation: required string);
    Gemm 13 (A: T, B: T, C: opt T) -> (Y: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Alpha: float = 1.0, Beta: float = 1.0, TransA: int = 0, TransB: int = 0);
    MatMul 13 (A: T, B: T) -> (Y: T) where (T: tensors(FLOATS_OR_WORDS));
    MatMulInteger 10 (A: T1, B: T2, a_zero_point: opt T1, b_zero_point: opt T2) -> (Y: T3)
        where (T1: tensors(BYTES), T2: tensors(BYTES), T3: tensors(set(&[I32])));
    Trilu 14 as Movement (input: T, k: opt i64) -> (output: T) where (T: tensors(CLASSIC))
        with (Upper: int = 1);
}
