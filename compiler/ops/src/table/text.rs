//! Rows of the op table: text.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::text`).

use super::row::*;

rows! {
    class Text;
    RegexFullMatch 20 (X: T1) -> (Y: T2) where (T1: tensors(TEXT), T2: tensors(BOOL))
        with (Pattern: string);
    StringConcat 20 (X: T, Y: T) -> (Z: T) where (T: tensors(TEXT));
    StringNormalizer 10 (X: string) -> (Y: string)
        with (
            CaseChangeAction: string = "NONE", IsCaseSensitive: int = 0, Locale: string,
            Stopwords: strings,
        );
    StringSplit 20 (X: T1) -> (Y: T2, Z: T3)
        where (T1: tensors(TEXT), T2: tensors(TEXT), T3: tensors(I64S))
        with (Delimiter: string, Maxsplit: int);
    TfIdfVectorizer 9 as Other (X: T) -> (Y: T1)
        where (T: tensors(INDEX.with(set(&[String]))), T1: tensors(F32S))
        with (
            MaxGramLength: required int, MaxSkipCount: required int,
            MinGramLength: required int, Mode: required string, NgramCounts: required ints,
            NgramIndexes: required ints, PoolInt64s: ints, PoolStrings: strings,
            Weights: floats,
        );
}
