//! Rows of the op table: losses.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::loss`).

use super::row::*;

rows! {
    class Reduction;
    NegativeLogLikelihoodLoss 22 (input: T, target: Tind, weight: opt T) -> (loss: T)
        where (T: tensors(FLOATS), Tind: tensors(INDEX))
        with (IgnoreIndex: int, Reduction: string = "mean");
    SoftmaxCrossEntropyLoss 13 (scores: T, labels: Tind, weights: opt T) -> (output: T, log_prob: opt T)
        where (T: tensors(FLOATS), Tind: tensors(INDEX))
        with (IgnoreIndex: int, Reduction: string = "mean");
}
