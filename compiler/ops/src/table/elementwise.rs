//! Rows of the op table: ops whose every output element depends on one element of each input.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::elementwise`).

use super::row::*;

rows! {
    class ElementWise;
    Abs 13 (X: T) -> (Y: T) where (T: tensors(NUMERIC));
    Acos 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Acosh 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Add 14 (A: T, B: T) -> (C: T) where (T: tensors(NUMERIC));
    And 7 (A: T, B: T) -> (C: T1) where (T: tensors(BOOL), T1: tensors(BOOL));
    Asin 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Asinh 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Atan 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Atanh 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    BitShift 28 (X: T, Y: T) -> (Z: T) where (T: tensors(INTS))
        with (Direction: required string);
    BitwiseAnd 18 (A: T, B: T) -> (C: T) where (T: tensors(INTS));
    BitwiseNot 18 (X: T) -> (Y: T) where (T: tensors(INTS));
    BitwiseOr 18 (A: T, B: T) -> (C: T) where (T: tensors(INTS));
    BitwiseXor 18 (A: T, B: T) -> (C: T) where (T: tensors(INTS));
    Ceil 13 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Celu 28 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (Alpha: float = 1.0);
    Clip 13 (input: T, min: opt T, max: opt T) -> (output: T) where (T: tensors(NUMERIC));
    Cos 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Cosh 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Div 14 (A: T, B: T) -> (C: T) where (T: tensors(NUMERIC));
    Elu 22 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (Alpha: float = 1.0);
    Equal 19 (A: T, B: T) -> (C: T1)
        where (T: tensors(PLAIN.with(set(&[String]))), T1: tensors(BOOL));
    Erf 13 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Exp 13 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Floor 13 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Gelu 20 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (Approximate: string = "none");
    Greater 13 (A: T, B: T) -> (C: T1) where (T: tensors(NUMERIC), T1: tensors(BOOL));
    GreaterOrEqual 16 (A: T, B: T) -> (C: T1) where (T: tensors(NUMERIC), T1: tensors(BOOL));
    HardSigmoid 22 (X: T) -> (Y: T) where (T: tensors(FLOATS))
        with (Alpha: float = 0.2, Beta: float = 0.5);
    HardSwish 22 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Identity 25 as Movement (input: V) -> (output: V) where (V: anything(WIDE));
    IsInf 20 (X: T1) -> (Y: T2) where (T1: tensors(FLOATS_AND_F8), T2: tensors(BOOL))
        with (DetectNegative: int = 1, DetectPositive: int = 1);
    IsNaN 20 (X: T1) -> (Y: T2) where (T1: tensors(FLOATS_AND_F8), T2: tensors(BOOL));
    LeakyRelu 16 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (Alpha: float = 0.01);
    Less 13 (A: T, B: T) -> (C: T1) where (T: tensors(NUMERIC), T1: tensors(BOOL));
    LessOrEqual 16 (A: T, B: T) -> (C: T1) where (T: tensors(NUMERIC), T1: tensors(BOOL));
    Log 13 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Max 13 (data_0: many T) -> (max: T) where (T: tensors(NUMERIC));
    Mean 13 (data_0: many T) -> (mean: T) where (T: tensors(FLOATS));
    Min 13 (data_0: many T) -> (min: T) where (T: tensors(NUMERIC));
    Mish 22 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Mod 28 (A: T, B: T) -> (C: T) where (T: tensors(NUMERIC)) with (Fmod: int = 0);
    Mul 14 (A: T, B: T) -> (C: T) where (T: tensors(NUMERIC));
    Neg 13 (X: T) -> (Y: T) where (T: tensors(FLOATS.with(set(&[I8, I16, I32, I64]))));
    Not 1 (X: T) -> (Y: T) where (T: tensors(BOOL));
    Or 7 (A: T, B: T) -> (C: T1) where (T: tensors(BOOL), T1: tensors(BOOL));
    PRelu 16 (X: T, slope: T) -> (Y: T) where (T: tensors(FLOATS_OR_WORDS));
    Pow 15 (X: T, Y: T1) -> (Z: T)
        where (T: tensors(FLOATS.with(set(&[I32, I64]))), T1: tensors(NUMERIC));
    Reciprocal 13 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Relu 14 (X: T) -> (Y: T) where (T: tensors(FLOATS.with(set(&[I8, I16, I32, I64]))));
    Round 22 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Selu 22 (X: T) -> (Y: T) where (T: tensors(FLOATS))
        with (Alpha: float = 1.6732632, Gamma: float = 1.050701);
    Shrink 9 (input: T) -> (output: T) where (T: tensors(NUMERIC.without(set(&[BF16]))))
        with (Bias: float = 0.0, Lambd: float = 0.5);
    Sigmoid 13 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Sign 13 (input: T) -> (output: T) where (T: tensors(NUMERIC));
    Sin 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Sinh 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Softplus 22 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Softsign 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Sqrt 13 (X: T) -> (Y: T) where (T: tensors(FLOATS));
    Sub 14 (A: T, B: T) -> (C: T) where (T: tensors(NUMERIC));
    Sum 13 (data_0: many T) -> (sum: T) where (T: tensors(FLOATS));
    SwiGLU 28 (A: T, B: T) -> (Y: T) where (T: tensors(FLOATS)) with (Alpha: float = 1.0);
    Swish 24 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (Alpha: float = 1.0);
    Tan 22 (input: T) -> (output: T) where (T: tensors(FLOATS));
    Tanh 13 (input: T) -> (output: T) where (T: tensors(FLOATS));
    ThresholdedRelu 22 (X: T) -> (Y: T) where (T: tensors(FLOATS)) with (Alpha: float = 1.0);
    Where 16 (condition: B, X: T, Y: T) -> (output: T)
        where (B: tensors(BOOL), T: tensors(CLASSIC));
    Xor 7 (A: T, B: T) -> (C: T1) where (T: tensors(BOOL), T1: tensors(BOOL));
}
