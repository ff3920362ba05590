//! Rows of the op table: convolutions and their relatives.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::convolution`).

use super::row::*;

rows! {
    class Convolution;
    CausalConvWithState 27 (input: T, weight: T, bias: opt T, past_state: opt T) -> (output: T, present_state: T)
        where (T: tensors(SHORT_FLOATS)) with (Activation: string = "none");
    Col2Im 18 as Pooling (input: T, image_shape: i64, block_shape: i64) -> (output: T)
        where (T: tensors(CLASSIC)) with (Dilations: ints, Pads: ints, Strides: ints);
    Conv 22 (X: T, W: T, B: opt T) -> (Y: T) where (T: tensors(FLOATS))
        with (
            AutoPad: string = "NOTSET", Dilations: ints, Group: int = 1, KernelShape: ints,
            Pads: ints, Strides: ints,
        );
    ConvInteger 10 (x: T1, w: T2, x_zero_point: opt T1, w_zero_point: opt T2) -> (y: T3)
        where (T1: tensors(BYTES), T2: tensors(BYTES), T3: tensors(set(&[I32])))
        with (
            AutoPad: string = "NOTSET", Dilations: ints, Group: int = 1, KernelShape: ints,
            Pads: ints, Strides: ints,
        );
    ConvTranspose 22 (X: T, W: T, B: opt T) -> (Y: T) where (T: tensors(FLOATS))
        with (
            AutoPad: string = "NOTSET", Dilations: ints, Group: int = 1, KernelShape: ints,
            OutputPadding: ints, OutputShape: ints, Pads: ints, Strides: ints,
        );
    DeformConv 22 (X: T, W: T, offset: T, B: opt T, mask: opt T) -> (Y: T)
        where (T: tensors(FLOATS))
        with (
            Dilations: ints, Group: int = 1, KernelShape: ints, OffsetGroup: int = 1,
            Pads: ints, Strides: ints,
        );
}
