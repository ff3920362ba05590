//! Rows of the op table: changes of element type.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::cast`).

use super::row::*;

rows! {
    class ElementWise;
    BitCast 26 (input: T1) -> (output: T2)
        where (
            T1: tensors(WIDE.without(set(&[String]))),
            T2: tensors(WIDE.without(set(&[String]))),
        ) with (To: required int);
    Cast 28 (input: T1) -> (output: T2)
        where (
            T1: tensors(ALL.without(set(&[C64, C128]))),
            T2: tensors(ALL.without(set(&[C64, C128]))),
        ) with (RoundMode: string = "up", Saturate: int = 1, To: required int);
    CastLike 25 (input: T1, target_type: T2) -> (output: T2)
        where (
            T1: tensors(WIDE.without(set(&[C64, C128]))),
            T2: tensors(WIDE.without(set(&[C64, C128]))),
        ) with (RoundMode: string = "up", Saturate: int = 1);
}
