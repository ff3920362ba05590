//! Rows of the op table: normalisations, softmaxes and dropout.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::normalisation`).

use super::row::*;

rows! {
    class Normalisation;
    BatchNormalization 15 (X: T, scale: T1, B: T1, input_mean: T2, input_var: T2) -> (Y: T, running_mean: opt T2, running_var: opt T2)
        where (T: tensors(FLOATS), T1: tensors(FLOATS), T2: tensors(FLOATS))
        with (Epsilon: float = 1e-05, Momentum: float = 0.9, TrainingMode: int = 0);
    Dropout 22 as Movement (data: T, ratio: opt T1, training_mode: opt T2, run: opt I, stream: opt I) -> (output: T, mask: opt T2)
        where (
            T: tensors(FLOATS_AND_F8), T1: tensors(FLOATS_AND_F8), T2: tensors(BOOL),
            I: tensors(I64S),
        )
        with (Seed: int);
    GroupNormalization 21 (X: T, scale: T, bias: T) -> (Y: T) where (T: tensors(FLOATS))
        with (Epsilon: float = 1e-05, NumGroups: required int, StashType: int = 1);
    Hardmax 13 (input: T) -> (output: T) where (T: tensors(FLOATS)) with (Axis: int = -1);
    InstanceNormalization 22 (input: T, scale: T, B: T) -> (output: T)
        where (T: tensors(FLOATS)) with (Epsilon: float = 1e-05);
    LRN 13 (X: T) -> (Y: T) where (T: tensors(FLOATS))
        with (Alpha: float = 1e-04, Beta: float = 0.75, Bias: float = 1.0, Size: required int);
    LayerNormalization 17 (X: T, Scale: T, B: opt T) -> (Y: T, Mean: opt U, InvStdDev: opt U)
        where (T: tensors(FLOATS), U: tensors(set(&[F32, BF16])))
        with (Axis: int = -1, Epsilon: float = 1e-05, StashType: int = 1);
    LogSoftmax 13 (input: T) -> (output: T) where (T: tensors(FLOATS)) with (Axis: int = -1);
    LpNormalization 22 (input: T) -> (output: T) where (T: tensors(FLOATS))
        with (Axis: int = -1, P: int = 2);
    MeanVarianceNormalization 13 (X: T) -> (Y: T) where (T: tensors(FLOATS))
        with (Axes: ints = &[0, 2, 3]);
    RMSNormalization 23 (X: T, scale: V) -> (Y: V)
        where (T: tensors(FLOATS), V: tensors(FLOATS))
        with (Axis: int = -1, Epsilon: float = 1e-05, StashType: int = 1);
    Softmax 13 (input: T) -> (output: T) where (T: tensors(FLOATS)) with (Axis: int = -1);
}
