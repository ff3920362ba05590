//! Rows of the op table: resampling and boxes.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::image`).

use super::row::*;

rows! {
    class Resize;
    AffineGrid 20 (theta: T1, size: T2) -> (grid: T1)
        where (T1: tensors(FLOATS), T2: tensors(I64S)) with (AlignCorners: int = 0);
    GridSample 22 (X: T1, grid: T2) -> (Y: T1) where (T1: tensors(CLASSIC), T2: tensors(FLOATS))
        with (AlignCorners: int = 0, Mode: string = "linear", PaddingMode: string = "zeros");
    ImageDecoder 20 as Other (encoded_stream: T1) -> (image: T2)
        where (T1: tensors(set(&[U8])), T2: tensors(set(&[U8])))
        with (PixelFormat: string = "RGB");
    NonMaxSuppression 11 as Sort (
        boxes: f32, scores: f32, max_output_boxes_per_class: opt i64, iou_threshold: opt f32,
        score_threshold: opt f32,
    ) -> (selected_indices: i64) with (CenterPointBox: int = 0);
    Resize 19 (X: T1, roi: opt T2, scales: opt f32, sizes: opt i64) -> (Y: T1)
        where (T1: tensors(CLASSIC), T2: tensors(FLOATS.without(set(&[BF16]))))
        with (
            Antialias: int = 0, Axes: ints,
            CoordinateTransformationMode: string = "half_pixel", CubicCoeffA: float = -0.75,
            ExcludeOutside: int = 0, ExtrapolationValue: float = 0.0,
            KeepAspectRatioPolicy: string = "stretch", Mode: string = "nearest",
            NearestMode: string = "round_prefer_floor",
        );
    Upsample 10 (X: T, scales: f32) -> (Y: T) where (T: tensors(BEFORE_BF16))
        with (Mode: string = "nearest");
}
