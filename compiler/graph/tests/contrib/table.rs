//! All ops of ONNX Runtime 1.32's domain `com.microsoft`, and what becomes of each: `docs/contrib-ops.md`.
//!
//! Invariants:
//! 1. An op that the table says runs has a case in `cases.txt`; one that it says does not is left as it is by the importer.
//! 2. `docs/contrib-ops.md` is what the table says. `POLYCHIP_BLESS=1 cargo test -p polychip-graph --test contrib` writes it.
//!
//! Source of the names: the schemas that ONNX Runtime 1.32 registers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use polychip_ops::Op;

use super::{cases, one_node};

/// What becomes of an op.
enum Said {
    /// It is ONNX's op of that name.
    Same,
    /// The importer expands it to ops of ONNX, with these limits.
    InOps(&'static str),
    /// It is left as it is, for this reason.
    Not(&'static str),
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contrib-ops.md");

#[rustfmt::skip]
const OPS: &[(&str, Said)] = &[
    ("Attention", Said::InOps("not with `do_rotary`, a shared buffer for past and present, or a four-dimensional mask")),
    ("AttnLSTM", Said::Not("recurrence with attention in each step; only CNTK converters wrote it, until 2019")),
    ("BeamSearch", Said::Not("a token search that runs subgraphs of the model; `polychip generate` has its own search")),
    ("BiasAdd", Said::InOps("")),
    ("BiasDropout", Said::Not("a training op")),
    ("BiasGelu", Said::InOps("")),
    ("BiasSoftmax", Said::InOps("")),
    ("BiasSplitGelu", Said::InOps("")),
    ("BifurcationDetector", Said::Not("rolls back speculative decoding in buffers that the caller owns")),
    ("BitmaskBiasDropout", Said::Not("a training op")),
    ("BitmaskDropout", Said::Not("a training op")),
    ("BranchwiseRMSNorm", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("CDist", Said::InOps("")),
    ("CausalConvWithState", Said::Not("not yet compared with the ONNX op of this name")),
    ("ComplexMul", Said::InOps("")),
    ("ComplexMulConj", Said::InOps("")),
    ("ConvStateReplay", Said::Not("rolls back speculative decoding in buffers that the caller owns")),
    ("ConvTransposeWithDynamicPads", Said::InOps("the padding must be a constant")),
    ("CropAndResize", Said::InOps("the crop size must be a constant")),
    ("DecoderAttention", Said::Not("its inputs select a code path at run time; replaced by MultiHeadAttention in ONNX Runtime 1.13")),
    ("DecoderMaskedMultiHeadAttention", Said::InOps("not with a shared buffer for past and present, or with inputs of beam search")),
    ("DecoderMaskedSelfAttention", Said::Not("past and present share one buffer, which an ONNX graph cannot express")),
    ("DequantizeBFP", Said::Not("4-bit and 8-bit numbers with block scales; ONNX Runtime has no CPU kernel")),
    ("DequantizeLinear", Said::Same),
    ("DequantizeWithOrder", Said::Not("a data layout for one vendor's matrix units")),
    ("DynamicQuantizeLSTM", Said::InOps("input and state stay floats (see [Differences](differences.md))")),
    ("DynamicQuantizeMatMul", Said::InOps("")),
    ("DynamicSparseAttention", Said::Not("attention whose sparsity pattern is an input; no ONNX op has one")),
    ("DynamicTimeWarping", Said::Not("finds a path through a matrix; no ONNX op does")),
    ("EPContext", Said::Not("holds a part compiled for another vendor's library")),
    ("EmbedLayerNormalization", Said::InOps("")),
    ("EngramGate", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("ExpandDims", Said::InOps("")),
    ("FastGelu", Said::InOps("")),
    ("FusedConv", Said::InOps("not with the activation ThresholdedRelu")),
    ("FusedGemm", Said::InOps("not with the activation ThresholdedRelu")),
    ("FusedMatMul", Said::InOps("")),
    ("FusedMatMulActivation", Said::InOps("not with the activation ThresholdedRelu")),
    ("GatedAdd", Said::InOps("not with a gate projection")),
    ("GatedDeltaNet", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("GatedDeltaNetStateReplay", Said::Not("rolls back speculative decoding in buffers that the caller owns")),
    ("GatedRMSNorm", Said::InOps("")),
    ("GatedRelativePositionBias", Said::InOps("not with token offsets")),
    ("GatherBlockQuantized", Said::InOps("`data` must be a constant")),
    ("GatherND", Said::InOps("")),
    ("GatherPacked", Said::Not("a data layout for one vendor's matrix units")),
    ("Gelu", Said::Same),
    ("GemmFastGelu", Said::InOps("")),
    ("GemmFloat8", Said::Not("4-bit and 8-bit numbers with block scales; ONNX Runtime has no CPU kernel")),
    ("GemmaRotaryEmbedding", Said::InOps("")),
    ("GreedySearch", Said::Not("a token search that runs subgraphs of the model; `polychip generate` has its own search")),
    ("GridSample", Said::InOps("")),
    ("GroupNorm", Said::InOps("")),
    ("GroupQueryAttention", Said::InOps("not with quantised or windowed caches, or padded chunks; `polychip generate` keeps the KV cache itself")),
    ("HyperConnectionLowRankMix", Said::Not("several matrix products fused; only one vendor's library writes and runs it")),
    ("HyperConnectionPostMix", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("HyperConnectionPreMix", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("Inverse", Said::InOps("the matrix size must be known, at most 64")),
    ("Irfft", Said::Not("ONNX Runtime has no CPU kernel; ONNX's DFT returns real values only from full spectra")),
    ("IsAllFinite", Said::InOps("")),
    ("LinearAttention", Said::Not("not yet compared with the ONNX op of this name")),
    ("LinearAttentionGate", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("LongformerAttention", Said::Not("attention whose sparsity pattern is an input; no ONNX op has one")),
    ("MRotaryEmbedding", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("Mamba2Verify", Said::Not("rolls back speculative decoding in buffers that the caller owns")),
    ("MatMulBlockQuantizedFp4Weight", Said::Not("4-bit and 8-bit numbers with block scales; ONNX Runtime has no CPU kernel")),
    ("MatMulBlockQuantizedFp8Weight", Said::Not("4-bit and 8-bit numbers with block scales; ONNX Runtime has no CPU kernel")),
    ("MatMulBnb4", Said::InOps("")),
    ("MatMulFpQ4", Said::Not("a data layout for one vendor's matrix units")),
    ("MatMulInteger16", Said::InOps("")),
    ("MatMulIntegerToFloat", Said::InOps("")),
    ("MatMulNBits", Said::InOps("2, 4 and 8 bits; not with a column order (`g_idx`)")),
    ("MatMulNBitsMlp", Said::Not("several matrix products fused; only one vendor's library writes and runs it")),
    ("MatMulNBitsQLoRA", Said::Not("several matrix products fused; only one vendor's library writes and runs it")),
    ("MatMulNBitsQkv", Said::Not("several matrix products fused; only one vendor's library writes and runs it")),
    ("MatMulPacked", Said::Not("a data layout for one vendor's matrix units")),
    ("MaxpoolWithMask", Said::Not("internal to ONNX Runtime's tests")),
    ("MoE", Said::InOps("not with `use_sparse_mixer`; computes all experts")),
    ("MoEGroupRouter", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("MoEPacked", Said::Not("a data layout for one vendor's matrix units")),
    ("MulInteger", Said::InOps("")),
    ("MultiHeadAttention", Said::InOps("not with a shared buffer for past and present, or with inputs of beam search")),
    ("MurmurHash3", Said::InOps("numbers only; no ONNX op reads the bytes of a string")),
    ("NGramHashMapping", Said::Not("specific to one model family, new in ONNX Runtime 1.31; no exporter writes it yet")),
    ("NGramRepeatBlock", Said::Not("part of a token search; reads n-grams of the whole prompt")),
    ("NhwcConv", Said::InOps("")),
    ("NhwcFusedConv", Said::InOps("")),
    ("NhwcMaxPool", Said::InOps("")),
    ("PackedAttention", Said::Not("sequences packed without padding; no ONNX op takes a length per row")),
    ("PackedMultiHeadAttention", Said::Not("sequences packed without padding; no ONNX op takes a length per row")),
    ("PackedSparseAttentionIndexer", Said::Not("attention whose sparsity pattern is an input; no ONNX op has one")),
    ("PackedSparseAttentionIndexerMerge", Said::Not("attention whose sparsity pattern is an input; no ONNX op has one")),
    ("Pad", Said::InOps("")),
    ("PagedAttention", Said::Not("a KV cache in pages that a server allocates")),
    ("QAttention", Said::InOps("not with `do_rotary`")),
    ("QEmbedLayerNormalization", Said::InOps("")),
    ("QGemm", Said::InOps("")),
    ("QLinearAdd", Said::InOps("")),
    ("QLinearAveragePool", Said::InOps("")),
    ("QLinearConcat", Said::InOps("")),
    ("QLinearConv", Said::InOps("")),
    ("QLinearGlobalAveragePool", Said::InOps("")),
    ("QLinearLeakyRelu", Said::InOps("")),
    ("QLinearMul", Said::InOps("")),
    ("QLinearReduceMean", Said::InOps("")),
    ("QLinearSigmoid", Said::InOps("")),
    ("QLinearSoftmax", Said::InOps("")),
    ("QLinearWhere", Said::InOps("")),
    ("QMoE", Said::InOps("constant weights of 2, 4 or 8 bits; computes all experts")),
    ("QOrderedAttention", Said::Not("a data layout for one vendor's matrix units")),
    ("QOrderedGelu", Said::Not("a data layout for one vendor's matrix units")),
    ("QOrderedLayerNormalization", Said::Not("a data layout for one vendor's matrix units")),
    ("QOrderedLongformerAttention", Said::Not("a data layout for one vendor's matrix units")),
    ("QOrderedMatMul", Said::Not("a data layout for one vendor's matrix units")),
    ("QuantizeBFP", Said::Not("4-bit and 8-bit numbers with block scales; ONNX Runtime has no CPU kernel")),
    ("QuantizeLinear", Said::Same),
    ("QuantizeWithOrder", Said::Not("a data layout for one vendor's matrix units")),
    ("QuickGelu", Said::InOps("")),
    ("RMSNormRotary", Said::Not("several matrix products fused; only one vendor's library writes and runs it")),
    ("Range", Said::InOps("")),
    ("ReduceSumInteger", Said::InOps("")),
    ("RelativePositionBias", Said::InOps("")),
    ("RemovePadding", Said::Not("sequences packed without padding; no ONNX op takes a length per row")),
    ("RestorePadding", Said::Not("sequences packed without padding; no ONNX op takes a length per row")),
    ("Rfft", Said::InOps("one-dimensional only")),
    ("RotaryEmbedding", Said::InOps("not with a scale or packed rows")),
    ("RouterGateUpProj", Said::Not("several matrix products fused; only one vendor's library writes and runs it")),
    ("SampleOp", Said::InOps("")),
    ("Sampling", Said::Not("a token search that runs subgraphs of the model; `polychip generate` has its own search")),
    ("ScaledSiLU", Said::InOps("")),
    ("SkipGroupNorm", Said::InOps("")),
    ("SkipLayerNormalization", Said::InOps("")),
    ("SkipSimplifiedLayerNormalization", Said::InOps("")),
    ("Snpe", Said::Not("holds a part compiled for another vendor's library")),
    ("SparseAttention", Said::Not("attention whose sparsity pattern is an input; no ONNX op has one")),
    ("SparseAttentionIndexer", Said::Not("attention whose sparsity pattern is an input; no ONNX op has one")),
    ("SparsePagedAttention", Said::Not("a KV cache in pages that a server allocates")),
    ("SparseToDenseMatMul", Said::Not("takes a sparse tensor")),
    ("SpeculativePrefixCommit", Said::Not("rolls back speculative decoding in buffers that the caller owns")),
    ("SwiGLU", Said::InOps("")),
    ("Tokenizer", Said::Not("tokenizes text; Polychip's tokenizers run outside the graph")),
    ("TorchEmbedding", Said::InOps("")),
    ("TransposeMatMul", Said::InOps("")),
    ("Trilu", Said::Same),
    ("UnfoldTensor", Said::InOps("the axis must have a known size")),
    ("Unique", Said::InOps("")),
    ("VarlenCausalConvWithState", Said::Not("sequences packed without padding; no ONNX op takes a length per row")),
    ("VarlenNGramHashMapping", Said::Not("sequences packed without padding; no ONNX op takes a length per row")),
    ("WhisperBeamSearch", Said::Not("a token search that runs subgraphs of the model; `polychip generate` has its own search")),
    ("WordConvEmbedding", Said::Not("convolves words of varying length one by one")),
];

fn page() -> String {
    let count = |of: fn(&Said) -> bool| OPS.iter().filter(|(_, said)| of(said)).count();
    let same = count(|said| matches!(said, Said::Same));
    let expanded = count(|said| matches!(said, Said::InOps(_)));
    let mut page = format!(
        "# ONNX Runtime's own ops\n\n\
         ONNX Runtime's exporters, optimisers and quantisers write ops of the domain `com.microsoft`. The\n\
         importer expands them into ops of the default ONNX domain, which plugins know. Of the {} ops that\n\
         ONNX Runtime 1.32 registers, {} run: {expanded} are expanded, and {same} are the ONNX op of the same name.\n\
         The other {} do not run. Outputs equal ONNX Runtime's within 1e-4, and within one step for\n\
         quantised types.\n\n\
         Ops of `com.microsoft.nchwc` do not run: their data have a layout for the CPU that saved the\n\
         file. Save such a model again at the level EXTENDED (`graph_optimization_level =\n\
         ORT_ENABLE_EXTENDED`).\n\n\
         A test of the importer generates this page and checks it against the importer.\n\n\
         | op | runs | limits, or why not |\n|---|---|---|\n",
        OPS.len(),
        same + expanded,
        OPS.len() - same - expanded,
    );
    for (name, said) in OPS {
        let (runs, words) = match said {
            Said::Same => ("as the ONNX op", ""),
            Said::InOps(limits) => ("as ONNX ops", *limits),
            Said::Not(why) => ("no", *why),
        };
        writeln!(page, "| `{name}` | {runs} | {words} |").unwrap();
    }
    page
}

#[test]
fn the_page_is_what_the_table_says() {
    let text = page();
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        std::fs::write(PAGE, &text).unwrap();
    }
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        committed == text,
        "{PAGE} is out of date; run the test with POLYCHIP_BLESS=1"
    );
}

#[test]
fn the_table_is_what_the_importer_does() {
    let tried: BTreeSet<String> = cases().into_iter().map(|case| case.op).collect();
    for (name, said) in OPS {
        match said {
            Said::Same | Said::InOps(_) => assert!(tried.contains(*name), "{name} has no case"),
            Said::Not(_) => {
                let graph = one_node("com.microsoft", name).unwrap();
                let left = graph.nodes().any(|(_, node)| node.op == Op::Custom);
                assert!(left, "the importer expands {name}");
            }
        }
    }
    let names: BTreeSet<&str> = OPS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), OPS.len());
    for op in tried {
        assert!(names.contains(&*op), "{op} is not in the table");
    }
}
