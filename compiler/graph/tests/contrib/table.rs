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
    ("Attention", Said::InOps("without `do_rotary`, without buffers that past and present share, and without a mask of four dimensions")),
    ("AttnLSTM", Said::Not("a recurrence with attention in each step; converters of CNTK wrote it until 2019")),
    ("BeamSearch", Said::Not("a search that runs other graphs of the model by itself: `polychip generate` has its own")),
    ("BiasAdd", Said::InOps("")),
    ("BiasDropout", Said::Not("an op of training")),
    ("BiasGelu", Said::InOps("")),
    ("BiasSoftmax", Said::InOps("")),
    ("BiasSplitGelu", Said::InOps("")),
    ("BifurcationDetector", Said::Not("undoes guesses of a decoder: the state stays in the caller's buffers")),
    ("BitmaskBiasDropout", Said::Not("an op of training")),
    ("BitmaskDropout", Said::Not("an op of training")),
    ("BranchwiseRMSNorm", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("CDist", Said::InOps("")),
    ("CausalConvWithState", Said::Not("not yet compared with ONNX's op of this name")),
    ("ComplexMul", Said::InOps("")),
    ("ComplexMulConj", Said::InOps("")),
    ("ConvStateReplay", Said::Not("undoes guesses of a decoder: the state stays in the caller's buffers")),
    ("ConvTransposeWithDynamicPads", Said::InOps("where the padding is a constant")),
    ("CropAndResize", Said::InOps("where the size of crops is a constant")),
    ("DecoderAttention", Said::Not("its inputs choose between paths while running; replaced by MultiHeadAttention in ONNX Runtime 1.13")),
    ("DecoderMaskedMultiHeadAttention", Said::InOps("without buffers that past and present share, and without beams")),
    ("DecoderMaskedSelfAttention", Said::Not("past and present share one buffer, which a graph of ONNX cannot say")),
    ("DequantizeBFP", Said::Not("numbers of 4 and 8 bits with block scales: no kernel for the CPU in ONNX Runtime")),
    ("DequantizeLinear", Said::Same),
    ("DequantizeWithOrder", Said::Not("a layout of one vendor's matrix units")),
    ("DynamicQuantizeLSTM", Said::InOps("input and state stay real numbers (see [Differences](differences.md))")),
    ("DynamicQuantizeMatMul", Said::InOps("")),
    ("DynamicSparseAttention", Said::Not("attention whose pattern is an input: no op of ONNX has one")),
    ("DynamicTimeWarping", Said::Not("a path through a matrix: no op of ONNX finds one")),
    ("EPContext", Said::Not("a compiled part for another vendor's library")),
    ("EmbedLayerNormalization", Said::InOps("")),
    ("EngramGate", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("ExpandDims", Said::InOps("")),
    ("FastGelu", Said::InOps("")),
    ("FusedConv", Said::InOps("without the activation ThresholdedRelu")),
    ("FusedGemm", Said::InOps("without the activation ThresholdedRelu")),
    ("FusedMatMul", Said::InOps("")),
    ("FusedMatMulActivation", Said::InOps("without the activation ThresholdedRelu")),
    ("GatedAdd", Said::InOps("without a projection of the gate")),
    ("GatedDeltaNet", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("GatedDeltaNetStateReplay", Said::Not("undoes guesses of a decoder: the state stays in the caller's buffers")),
    ("GatedRMSNorm", Said::InOps("")),
    ("GatedRelativePositionBias", Said::InOps("without offsets of tokens")),
    ("GatherBlockQuantized", Said::InOps("`data` is a constant")),
    ("GatherND", Said::InOps("")),
    ("GatherPacked", Said::Not("a layout of one vendor's matrix units")),
    ("Gelu", Said::Same),
    ("GemmFastGelu", Said::InOps("")),
    ("GemmFloat8", Said::Not("numbers of 4 and 8 bits with block scales: no kernel for the CPU in ONNX Runtime")),
    ("GemmaRotaryEmbedding", Said::InOps("")),
    ("GreedySearch", Said::Not("a search that runs other graphs of the model by itself: `polychip generate` has its own")),
    ("GridSample", Said::InOps("")),
    ("GroupNorm", Said::InOps("")),
    ("GroupQueryAttention", Said::InOps("without caches of codes or of a window, and without padded chunks; `generate` keeps the cache itself")),
    ("HyperConnectionLowRankMix", Said::Not("only one vendor's library writes and runs it: several products in one")),
    ("HyperConnectionPostMix", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("HyperConnectionPreMix", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("Inverse", Said::InOps("matrices of a known size up to 64")),
    ("Irfft", Said::Not("no kernel for the CPU in ONNX Runtime; ONNX's DFT gives real numbers back only from whole spectra")),
    ("IsAllFinite", Said::InOps("")),
    ("LinearAttention", Said::Not("not yet compared with ONNX's op of this name")),
    ("LinearAttentionGate", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("LongformerAttention", Said::Not("attention whose pattern is an input: no op of ONNX has one")),
    ("MRotaryEmbedding", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("Mamba2Verify", Said::Not("undoes guesses of a decoder: the state stays in the caller's buffers")),
    ("MatMulBlockQuantizedFp4Weight", Said::Not("numbers of 4 and 8 bits with block scales: no kernel for the CPU in ONNX Runtime")),
    ("MatMulBlockQuantizedFp8Weight", Said::Not("numbers of 4 and 8 bits with block scales: no kernel for the CPU in ONNX Runtime")),
    ("MatMulBnb4", Said::InOps("")),
    ("MatMulFpQ4", Said::Not("a layout of one vendor's matrix units")),
    ("MatMulInteger16", Said::InOps("")),
    ("MatMulIntegerToFloat", Said::InOps("")),
    ("MatMulNBits", Said::InOps("2, 4 and 8 bits, without an order of columns")),
    ("MatMulNBitsMlp", Said::Not("only one vendor's library writes and runs it: several products in one")),
    ("MatMulNBitsQLoRA", Said::Not("only one vendor's library writes and runs it: several products in one")),
    ("MatMulNBitsQkv", Said::Not("only one vendor's library writes and runs it: several products in one")),
    ("MatMulPacked", Said::Not("a layout of one vendor's matrix units")),
    ("MaxpoolWithMask", Said::Not("an internal op of ONNX Runtime's tests")),
    ("MoE", Said::InOps("without `use_sparse_mixer`; all experts are computed")),
    ("MoEGroupRouter", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("MoEPacked", Said::Not("a layout of one vendor's matrix units")),
    ("MulInteger", Said::InOps("")),
    ("MultiHeadAttention", Said::InOps("without buffers that past and present share, and without beams")),
    ("MurmurHash3", Said::InOps("of numbers; text has no op of ONNX for it")),
    ("NGramHashMapping", Said::Not("of one model family, since ONNX Runtime 1.31; no exporter writes it yet")),
    ("NGramRepeatBlock", Said::Not("depends on n-grams of the whole prompt; part of a search")),
    ("NhwcConv", Said::InOps("")),
    ("NhwcFusedConv", Said::InOps("")),
    ("NhwcMaxPool", Said::InOps("")),
    ("PackedAttention", Said::Not("sequences packed without padding: each row has a length of its own, which no op of ONNX says")),
    ("PackedMultiHeadAttention", Said::Not("sequences packed without padding: each row has a length of its own, which no op of ONNX says")),
    ("PackedSparseAttentionIndexer", Said::Not("attention whose pattern is an input: no op of ONNX has one")),
    ("PackedSparseAttentionIndexerMerge", Said::Not("attention whose pattern is an input: no op of ONNX has one")),
    ("Pad", Said::InOps("")),
    ("PagedAttention", Said::Not("a cache in pages that a server allocates")),
    ("QAttention", Said::InOps("without `do_rotary`")),
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
    ("QMoE", Said::InOps("codes of 2, 4 and 8 bits that are constants; all experts are computed")),
    ("QOrderedAttention", Said::Not("a layout of one vendor's matrix units")),
    ("QOrderedGelu", Said::Not("a layout of one vendor's matrix units")),
    ("QOrderedLayerNormalization", Said::Not("a layout of one vendor's matrix units")),
    ("QOrderedLongformerAttention", Said::Not("a layout of one vendor's matrix units")),
    ("QOrderedMatMul", Said::Not("a layout of one vendor's matrix units")),
    ("QuantizeBFP", Said::Not("numbers of 4 and 8 bits with block scales: no kernel for the CPU in ONNX Runtime")),
    ("QuantizeLinear", Said::Same),
    ("QuantizeWithOrder", Said::Not("a layout of one vendor's matrix units")),
    ("QuickGelu", Said::InOps("")),
    ("RMSNormRotary", Said::Not("only one vendor's library writes and runs it: several products in one")),
    ("Range", Said::InOps("")),
    ("ReduceSumInteger", Said::InOps("")),
    ("RelativePositionBias", Said::InOps("")),
    ("RemovePadding", Said::Not("sequences packed without padding: each row has a length of its own, which no op of ONNX says")),
    ("RestorePadding", Said::Not("sequences packed without padding: each row has a length of its own, which no op of ONNX says")),
    ("Rfft", Said::InOps("one dimension")),
    ("RotaryEmbedding", Said::InOps("without a scale and without packed rows")),
    ("RouterGateUpProj", Said::Not("only one vendor's library writes and runs it: several products in one")),
    ("SampleOp", Said::InOps("")),
    ("Sampling", Said::Not("a search that runs other graphs of the model by itself: `polychip generate` has its own")),
    ("ScaledSiLU", Said::InOps("")),
    ("SkipGroupNorm", Said::InOps("")),
    ("SkipLayerNormalization", Said::InOps("")),
    ("SkipSimplifiedLayerNormalization", Said::InOps("")),
    ("Snpe", Said::Not("a compiled part for another vendor's library")),
    ("SparseAttention", Said::Not("attention whose pattern is an input: no op of ONNX has one")),
    ("SparseAttentionIndexer", Said::Not("attention whose pattern is an input: no op of ONNX has one")),
    ("SparsePagedAttention", Said::Not("a cache in pages that a server allocates")),
    ("SparseToDenseMatMul", Said::Not("sparse tensors")),
    ("SpeculativePrefixCommit", Said::Not("undoes guesses of a decoder: the state stays in the caller's buffers")),
    ("SwiGLU", Said::InOps("")),
    ("Tokenizer", Said::Not("text into tokens: `polychip` has tokenizers, graphs have not")),
    ("TorchEmbedding", Said::InOps("")),
    ("TransposeMatMul", Said::InOps("")),
    ("Trilu", Said::Same),
    ("UnfoldTensor", Said::InOps("where the axis has a known size")),
    ("Unique", Said::InOps("")),
    ("VarlenCausalConvWithState", Said::Not("sequences packed without padding: each row has a length of its own, which no op of ONNX says")),
    ("VarlenNGramHashMapping", Said::Not("sequences packed without padding: each row has a length of its own, which no op of ONNX says")),
    ("WhisperBeamSearch", Said::Not("a search that runs other graphs of the model by itself: `polychip generate` has its own")),
    ("WordConvEmbedding", Said::Not("words of varying length, each convolved by itself")),
];

fn page() -> String {
    let count = |of: fn(&Said) -> bool| OPS.iter().filter(|(_, said)| of(said)).count();
    let same = count(|said| matches!(said, Said::Same));
    let expanded = count(|said| matches!(said, Said::InOps(_)));
    let mut page = format!(
        "# ONNX Runtime's own ops\n\n\
         ONNX Runtime's exporters, optimisers and quantisers write ops of the domain `com.microsoft`. The\n\
         importer says them in ops of ONNX, which every device's plugin knows. Of the {} ops that ONNX\n\
         Runtime 1.32 registers, {} run: {expanded} in ops of ONNX, and {same} as the op of ONNX that they are. {} do\n\
         not. The answers are ONNX Runtime's within 1e-4, and within one step for codes.\n\n\
         Ops of `com.microsoft.nchwc` are in a layout for the CPU that saved the file. Save such a model\n\
         again at the level EXTENDED (`graph_optimization_level = ORT_ENABLE_EXTENDED`).\n\n\
         A test of the importer writes this page and holds it to what the importer does.\n\n\
         | op | runs | limits, or why not |\n|---|---|---|\n",
        OPS.len(),
        same + expanded,
        OPS.len() - same - expanded,
    );
    for (name, said) in OPS {
        let (runs, words) = match said {
            Said::Same => ("as ONNX's op", ""),
            Said::InOps(limits) => ("in ops of ONNX", *limits),
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
