//! Rows of the op table: attention and positions.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::attention`).

use super::row::*;

rows! {
    class Attention;
    Attention 25 (
        Q: T1, K: T1, V: T2, attn_mask: opt U, past_key: opt T1, past_value: opt T2,
        nonpad_kv_seqlen: opt i64,
    ) -> (Y: T1, present_key: opt T1, present_value: opt T2, qk_matmul_output: opt T1)
        where (T1: tensors(FLOATS), T2: tensors(FLOATS), U: tensors(PLAIN))
        with (
            IsCausal: int = 0, KvNumHeads: int, LeftWindowSize: int = -1, QNumHeads: int,
            QkMatmulOutputMode: int = 0, RightWindowSize: int = -1, Scale: float,
            Softcap: float = 0.0, SoftmaxPrecision: int,
        );
    LinearAttention 27 (
        query: T, key: T, value: T, past_state: opt S, decay: opt T, beta: opt T,
    ) -> (output: T, present_state: S)
        where (T: tensors(SHORT_FLOATS), S: tensors(SHORT_FLOATS))
        with (
            ChunkSize: int = 64, KvNumHeads: required int, QNumHeads: required int,
            Scale: float = 0.0, UpdateRule: string = "gated_delta",
        );
    RotaryEmbedding 23 (X: T, cos_cache: T, sin_cache: T, position_ids: opt M) -> (Y: T)
        where (T: tensors(SHORT_FLOATS), M: tensors(I64S))
        with (Interleaved: int = 0, NumHeads: int, RotaryEmbeddingDim: int = 0);
}
