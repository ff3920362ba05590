//! Rows of the op table: pools over windows, whole images and regions.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::pooling`).

use super::row::*;

rows! {
    class Pooling;
    AveragePool 22 (X: T) -> (Y: T) where (T: tensors(FLOATS))
        with (
            AutoPad: string = "NOTSET", CeilMode: int = 0, CountIncludePad: int = 0,
            Dilations: ints, KernelShape: required ints, Pads: ints, Strides: ints,
        );
    GlobalAveragePool 22 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    GlobalLpPool 22 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (P: int = 2);
    GlobalMaxPool 22 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    LpPool 22 (X: T) -> (Y: T) where (T: tensors(FLOATS))
        with (
            AutoPad: string = "NOTSET", CeilMode: int = 0, Dilations: ints,
            KernelShape: required ints, P: int = 2, Pads: ints, Strides: ints,
        );
    MaxPool 22 (X: T) -> (Y: T, Indices: opt I)
        where (T: tensors(FLOATS.with(set(&[U8, I8]))), I: tensors(I64S))
        with (
            AutoPad: string = "NOTSET", CeilMode: int = 0, Dilations: ints,
            KernelShape: required ints, Pads: ints, StorageOrder: int = 0, Strides: ints,
        );
    MaxRoiPool 22 as Resize (X: T, rois: T) -> (Y: T) where (T: tensors(FLOATS))
        with (PooledShape: required ints, SpatialScale: float = 1.0);
    MaxUnpool 22 (X: T1, I: T2, output_shape: opt T2) -> (output: T1)
        where (T1: tensors(FLOATS), T2: tensors(I64S))
        with (KernelShape: required ints, Pads: ints, Strides: ints);
    RoiAlign 22 as Resize (X: T1, rois: T1, batch_indices: T2) -> (Y: T1)
        where (T1: tensors(FLOATS), T2: tensors(I64S))
        with (
            CoordinateTransformationMode: string = "half_pixel", Mode: string = "avg",
            OutputHeight: int = 1, OutputWidth: int = 1, SamplingRatio: int = 0,
            SpatialScale: float = 1.0,
        );
}
