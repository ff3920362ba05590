//! Rows of the op table: spectra.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::signal`).

use super::row::*;

rows! {
    class Signal;
    DFT 20 (input: T1, dft_length: opt T2, axis: opt i64) -> (output: T1)
        where (T1: tensors(FLOATS), T2: tensors(INDEX))
        with (Inverse: int = 0, Onesided: int = 0);
    STFT 17 (signal: T1, frame_step: T2, window: opt T1, frame_length: opt T2) -> (output: T1)
        where (T1: tensors(FLOATS), T2: tensors(INDEX)) with (Onesided: int = 1);
}
