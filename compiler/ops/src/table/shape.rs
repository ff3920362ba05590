//! Rows of the op table: ops that move elements or read shapes.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::shape`).

use super::row::*;

rows! {
    class Movement;
    CenterCropPad 18 (input_data: T, shape: Tind) -> (output_data: T)
        where (T: tensors(CLASSIC), Tind: tensors(INDEX)) with (Axes: ints);
    Concat 13 (inputs: many T) -> (concat_result: T) where (T: tensors(CLASSIC))
        with (Axis: required int);
    DepthToSpace 28 (input: T) -> (output: T) where (T: tensors(CLASSIC))
        with (Blocksize: required int, Mode: string = "DCR");
    Expand 13 (input: T, shape: i64) -> (output: T) where (T: tensors(CLASSIC));
    Flatten 25 (input: T) -> (output: T) where (T: tensors(WIDE)) with (Axis: int = 1);
    Pad 25 (data: T, pads: i64, constant_value: opt T, axes: opt Tind) -> (output: T)
        where (T: tensors(WIDE), Tind: tensors(INDEX)) with (Mode: string = "constant");
    Reshape 25 (data: T, shape: i64) -> (reshaped: T) where (T: tensors(WIDE))
        with (Allowzero: int = 0);
    ReverseSequence 28 (input: T, sequence_lens: i64) -> (Y: T) where (T: tensors(CLASSIC))
        with (BatchAxis: int = 1, TimeAxis: int = 0);
    Shape 25 (data: T) -> (shape: T1) where (T: tensors(WIDE), T1: tensors(I64S))
        with (End: int, Start: int = 0);
    Size 25 (data: T) -> (size: T1) where (T: tensors(WIDE), T1: tensors(I64S));
    Slice 13 (data: T, starts: Tind, ends: Tind, axes: opt Tind, steps: opt Tind) -> (output: T)
        where (T: tensors(CLASSIC), Tind: tensors(INDEX));
    SpaceToDepth 28 (input: T) -> (output: T) where (T: tensors(CLASSIC))
        with (Blocksize: required int, Mode: string = "DCR");
    Split 18 (input: T, split: opt i64) -> (outputs: many T) where (T: tensors(CLASSIC))
        with (Axis: int = 0, NumOutputs: int);
    Squeeze 25 (data: T, axes: opt i64) -> (squeezed: T) where (T: tensors(WIDE));
    Tile 13 (input: T, repeats: T1) -> (output: T)
        where (T: tensors(CLASSIC), T1: tensors(I64S));
    Transpose 25 (data: T) -> (transposed: T) where (T: tensors(WIDE)) with (Perm: ints);
    Unsqueeze 25 (data: T, axes: i64) -> (expanded: T) where (T: tensors(WIDE));
}
