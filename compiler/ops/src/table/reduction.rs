//! Rows of the op table: reductions, running totals, and selections along axes.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::reduction`).

use super::row::*;

rows! {
    class Reduction;
    ArgMax 13 (data: T) -> (reduced: i64) where (T: tensors(NUMERIC))
        with (Axis: int = 0, Keepdims: int = 1, SelectLastIndex: int = 0);
    ArgMin 13 (data: T) -> (reduced: i64) where (T: tensors(NUMERIC))
        with (Axis: int = 0, Keepdims: int = 1, SelectLastIndex: int = 0);
    CumProd 26 (x: T, axis: T2) -> (y: T)
        where (T: tensors(FLOATS_OR_WORDS), T2: tensors(INDEX))
        with (Exclusive: int = 0, Reverse: int = 0);
    CumSum 14 (x: T, axis: T2) -> (y: T) where (T: tensors(FLOATS_OR_WORDS), T2: tensors(INDEX))
        with (Exclusive: int = 0, Reverse: int = 0);
    NonZero 13 as Sort (X: T) -> (Y: i64) where (T: tensors(CLASSIC));
    ReduceL1 18 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceL2 18 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceLogSum 28 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceLogSumExp 28 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceMax 20 (data: T, axes: opt i64) -> (reduced: T)
        where (T: tensors(PLAIN.without(set(&[U16, I16]))))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceMean 18 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceMin 20 (data: T, axes: opt i64) -> (reduced: T)
        where (T: tensors(PLAIN.without(set(&[U16, I16]))))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceProd 18 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceSum 13 (data: T, axes: opt i64) -> (reduced: T) where (T: tensors(FLOATS_OR_WORDS))
        with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    ReduceSumSquare 18 (data: T, axes: opt i64) -> (reduced: T)
        where (T: tensors(FLOATS_OR_WORDS)) with (Keepdims: int = 1, NoopWithEmptyAxes: int = 0);
    TopK 24 as Sort (X: T, K: i64) -> (Values: T, Indices: I)
        where (T: tensors(NUMERIC), I: tensors(I64S))
        with (Axis: int = -1, Largest: int = 1, Sorted: int = 1);
    Unique 28 as Sort (X: T) -> (Y: T, indices: opt i64, inverse_indices: opt i64, counts: opt i64)
        where (T: tensors(CLASSIC)) with (Axis: int, Sorted: int = 1);
}
