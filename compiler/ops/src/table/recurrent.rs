//! Rows of the op table: recurrent layers.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::recurrent`).

use super::row::*;

rows! {
    class Recurrent;
    GRU 22 (X: T, W: T, R: T, B: opt T, sequence_lens: opt T1, initial_h: opt T) -> (Y: opt T, Y_h: opt T)
        where (T: tensors(FLOATS), T1: tensors(set(&[I32])))
        with (
            ActivationAlpha: floats, ActivationBeta: floats, Activations: strings, Clip: float,
            Direction: string = "forward", HiddenSize: int, Layout: int = 0,
            LinearBeforeReset: int = 0,
        );
    LSTM 22 (
        X: T, W: T, R: T, B: opt T, sequence_lens: opt T1, initial_h: opt T, initial_c: opt T,
        P: opt T,
    ) -> (Y: opt T, Y_h: opt T, Y_c: opt T) where (T: tensors(FLOATS), T1: tensors(set(&[I32])))
        with (
            ActivationAlpha: floats, ActivationBeta: floats, Activations: strings, Clip: float,
            Direction: string = "forward", HiddenSize: int, InputForget: int = 0,
            Layout: int = 0,
        );
    RNN 22 (X: T, W: T, R: T, B: opt T, sequence_lens: opt T1, initial_h: opt T) -> (Y: opt T, Y_h: opt T)
        where (T: tensors(FLOATS), T1: tensors(set(&[I32])))
        with (
            ActivationAlpha: floats, ActivationBeta: floats,
            Activations: strings = &["Tanh", "Tanh"], Clip: float,
            Direction: string = "forward", HiddenSize: int, Layout: int = 0,
        );
}
