//! Rows of the op table: ops that make tensors from sizes, seeds and attributes.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format. Ops of random
//! numbers have two inputs more, which no file may give (`graph::random` documents them).
//! Not here: the shapes that come out (`infer::generate`).

use super::row::*;

rows! {
    class Generate;
    Bernoulli 22 (input: T1, run: opt I, stream: opt I) -> (output: T2)
        where (T1: tensors(FLOATS), T2: tensors(PLAIN), I: tensors(I64S))
        with (Dtype: int, Seed: float);
    BlackmanWindow 17 (size: T1) -> (output: T2)
        where (T1: tensors(INDEX), T2: tensors(NUMERIC))
        with (OutputDatatype: int = 1, Periodic: int = 1);
    Constant 25 () -> (output: T) where (T: tensors(WIDE))
        with (
            SparseValue: sparse_tensor, Value: tensor, ValueFloat: float, ValueFloats: floats,
            ValueInt: int, ValueInts: ints, ValueString: string, ValueStrings: strings,
        );
    ConstantOfShape 25 (input: T1) -> (output: T2)
        where (T1: tensors(I64S), T2: tensors(WIDE.without(set(&[String, C64, C128]))))
        with (Value: tensor);
    EyeLike 22 (input: T1) -> (output: T2) where (T1: tensors(PLAIN), T2: tensors(PLAIN))
        with (Dtype: int, K: int = 0);
    HammingWindow 17 (size: T1) -> (output: T2) where (T1: tensors(INDEX), T2: tensors(NUMERIC))
        with (OutputDatatype: int = 1, Periodic: int = 1);
    HannWindow 17 (size: T1) -> (output: T2) where (T1: tensors(INDEX), T2: tensors(NUMERIC))
        with (OutputDatatype: int = 1, Periodic: int = 1);
    MelWeightMatrix 17 (
        num_mel_bins: T1, dft_length: T1, sample_rate: T1, lower_edge_hertz: T2,
        upper_edge_hertz: T2,
    ) -> (output: T3) where (T1: tensors(INDEX), T2: tensors(FLOATS), T3: tensors(NUMERIC))
        with (OutputDatatype: int = 1);
    Multinomial 22 (input: T1, run: opt I, stream: opt I) -> (output: T2)
        where (T1: tensors(FLOATS), T2: tensors(INDEX), I: tensors(I64S))
        with (Dtype: int = 6, SampleSize: int = 1, Seed: float);
    OneHot 28 as Gather (indices: T1, depth: T2, values: T3) -> (output: T3)
        where (
            T1: tensors(NUMERIC.without(set(&[BF16]))),
            T2: tensors(NUMERIC.without(set(&[BF16]))), T3: tensors(CLASSIC),
        ) with (Axis: int = -1);
    RandomNormal 22 (run: opt I, stream: opt I) -> (output: T)
        where (T: tensors(FLOATS), I: tensors(I64S))
        with (
            Dtype: int = 1, Mean: float = 0.0, Scale: float = 1.0, Seed: float,
            Shape: required ints,
        );
    RandomNormalLike 22 (input: T1, run: opt I, stream: opt I) -> (output: T2)
        where (T1: tensors(CLASSIC), T2: tensors(FLOATS), I: tensors(I64S))
        with (Dtype: int, Mean: float = 0.0, Scale: float = 1.0, Seed: float);
    RandomUniform 22 (run: opt I, stream: opt I) -> (output: T)
        where (T: tensors(FLOATS), I: tensors(I64S))
        with (
            Dtype: int = 1, High: float = 1.0, Low: float = 0.0, Seed: float,
            Shape: required ints,
        );
    RandomUniformLike 22 (input: T1, run: opt I, stream: opt I) -> (output: T2)
        where (T1: tensors(CLASSIC), T2: tensors(FLOATS), I: tensors(I64S))
        with (Dtype: int, High: float = 1.0, Low: float = 0.0, Seed: float);
    Range 27 (start: T, limit: T, delta: T) -> (output: T)
        where (T: tensors(FLOATS.with(set(&[I16, I32, I64])))) with (StashType: int = 1);
}
