//! Rows of the op table: quantised tensors.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::quantise`).

use super::row::*;

rows! {
    class Quantise;
    DequantizeLinear 28 (x: T1, x_scale: T2, x_zero_point: opt T1) -> (y: T3)
        where (
            T1: tensors(QUANTISED.with(set(&[I32]))),
            T2: tensors(SHORT_FLOATS.with(set(&[F8E8M0]))), T3: tensors(SHORT_FLOATS),
        ) with (Axis: int = 1, BlockSize: int = 0, OutputDtype: int = 0);
    DynamicQuantizeLinear 11 (x: T1) -> (y: T2, y_scale: f32, y_zero_point: T2)
        where (T1: tensors(F32S), T2: tensors(set(&[U8])));
    QLinearConv 10 as Convolution (
        x: T1, x_scale: f32, x_zero_point: T1, w: T2, w_scale: f32, w_zero_point: T2,
        y_scale: f32, y_zero_point: T3, B: opt T4,
    ) -> (y: T3)
        where (
            T1: tensors(BYTES), T2: tensors(BYTES), T3: tensors(BYTES),
            T4: tensors(set(&[I32])),
        )
        with (
            AutoPad: string = "NOTSET", Dilations: ints, Group: int = 1, KernelShape: ints,
            Pads: ints, Strides: ints,
        );
    QLinearMatMul 21 as Product (
        a: T1, a_scale: TS, a_zero_point: T1, b: T2, b_scale: TS, b_zero_point: T2,
        y_scale: TS, y_zero_point: T3,
    ) -> (y: T3)
        where (
            TS: tensors(SHORT_FLOATS), T1: tensors(F8.with(set(&[U8, I8]))),
            T2: tensors(F8.with(set(&[U8, I8]))), T3: tensors(F8.with(set(&[U8, I8]))),
        );
    QuantizeLinear 28 (x: T1, y_scale: T2, y_zero_point: opt T3) -> (y: T3)
        where (
            T1: tensors(SHORT_FLOATS.with(set(&[I32]))),
            T2: tensors(SHORT_FLOATS.with(set(&[I32, F8E8M0]))), T3: tensors(QUANTISED),
        )
        with (
            Axis: int = 1, BlockSize: int = 0, OutputDtype: int = 0, Precision: int = 0,
            Saturate: int = 1,
        );
}
