//! Rows of the op table: sequences and optionals.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::sequence`).

use super::row::*;

rows! {
    class Container;
    ConcatFromSequence 11 (input_sequence: S) -> (concat_result: T)
        where (S: sequences(BEFORE_BF16), T: tensors(BEFORE_BF16))
        with (Axis: required int, NewAxis: int = 0);
    Optional 28 (input: opt V) -> (output: O)
        where (V: tensors_or_sequences(ALL), O: optionals(ALL)) with (Type: type_proto);
    OptionalGetElement 28 (input: O) -> (output: V)
        where (O: anything(ALL), V: tensors_or_sequences(ALL));
    OptionalHasElement 28 (input: opt O) -> (output: B)
        where (O: anything(ALL), B: tensors(BOOL));
    SequenceAt 11 (input_sequence: S, position: I) -> (tensor: T)
        where (S: sequences(BEFORE_BF16), T: tensors(BEFORE_BF16), I: tensors(INDEX));
    SequenceConstruct 11 (inputs: many T) -> (output_sequence: S)
        where (T: tensors(BEFORE_BF16), S: sequences(BEFORE_BF16));
    SequenceEmpty 11 () -> (output: S) where (S: sequences(BEFORE_BF16)) with (Dtype: int);
    SequenceErase 11 (input_sequence: S, position: opt I) -> (output_sequence: S)
        where (S: sequences(BEFORE_BF16), I: tensors(INDEX));
    SequenceInsert 11 (input_sequence: S, tensor: T, position: opt I) -> (output_sequence: S)
        where (T: tensors(BEFORE_BF16), S: sequences(BEFORE_BF16), I: tensors(INDEX));
    SequenceLength 11 (input_sequence: S) -> (length: I)
        where (S: sequences(BEFORE_BF16), I: tensors(I64S));
    SequenceMap 17 as Control (input_sequence: S, additional_inputs: each0 V) -> (out_sequence: each S)
        where (S: sequences(BEFORE_BF16), V: tensors_or_sequences(BEFORE_BF16))
        with (Body: required graph);
    SplitToSequence 24 (input: T, split: opt I) -> (output_sequence: S)
        where (T: tensors(CLASSIC), I: tensors(INDEX), S: sequences(CLASSIC))
        with (Axis: int = 0, Keepdims: int = 1);
}
