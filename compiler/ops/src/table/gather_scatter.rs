//! Rows of the op table: reads and writes by index.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::gather_scatter`).

use super::row::*;

rows! {
    class Gather;
    Compress 28 as Sort (input: T, condition: T1) -> (output: T)
        where (T: tensors(CLASSIC), T1: tensors(BOOL)) with (Axis: int);
    Gather 13 (data: T, indices: Tind) -> (output: T)
        where (T: tensors(CLASSIC), Tind: tensors(INDEX)) with (Axis: int = 0);
    GatherElements 13 (data: T, indices: Tind) -> (output: T)
        where (T: tensors(CLASSIC), Tind: tensors(INDEX)) with (Axis: int = 0);
    GatherND 13 (data: T, indices: i64) -> (output: T) where (T: tensors(CLASSIC))
        with (BatchDims: int = 0);
    Scatter 11 (data: T, indices: Tind, updates: T) -> (output: T)
        where (T: tensors(BEFORE_BF16), Tind: tensors(INDEX)) with (Axis: int = 0);
    ScatterElements 18 (data: T, indices: Tind, updates: T) -> (output: T)
        where (T: tensors(CLASSIC), Tind: tensors(INDEX))
        with (Axis: int = 0, Reduction: string = "none");
    ScatterND 18 (data: T, indices: i64, updates: T) -> (output: T) where (T: tensors(CLASSIC))
        with (Reduction: string = "none");
    TensorScatter 24 (past_cache: T, update: T, write_indices: opt i64) -> (present_cache: T)
        where (T: tensors(WIDE.without(set(&[U2, I2]))))
        with (Axis: int = -2, Mode: string = "linear");
}
