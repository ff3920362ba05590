//! Sizes and types of outputs, one test per class.
//!
//! Invariant: each class is tried on odd shapes: empty, rank 0, named and unknown sizes.
//! Not here: values (`values`), errors (`errors`).

use super::*;

fn ints(attr: Attr, values: &[i64]) -> Attributes {
    none().with_ints(attr, values)
}

#[test]
fn elementwise() {
    gives(Op::Relu, &none(), &["f32[n, 0]"], "f32[n, 0]");
    gives(Op::Add, &none(), &["f32[n, 1]", "f32[4]"], "f32[n, 4]");
    gives(Op::Add, &none(), &["f32[..]", "f32[4]"], "f32[..]");
    gives(Op::Less, &none(), &["f32[2]", "f32[]"], "bool[2]");
    gives(
        Op::Where,
        &none(),
        &["bool[2, 1]", "i8[3]", "i8[1, 1, 1]"],
        "i8[1, 2, 3]",
    );
    gives(Op::Clip, &none(), &["i8[3]", "-", "i8[]"], "i8[3]");
    gives(Op::PRelu, &none(), &["f32[2, 3, 4]", "f32[3, 1]"], "f32[2, 3, 4]");
    gives(Op::Max, &none(), &["f32[1]", "f32[0]", "f32[2, 1]"], "f32[2, 0]");
    gives(Op::Pow, &none(), &["f32[3]", "i32[]"], "f32[3]");
    gives(Op::IsNaN, &none(), &["f16[3]"], "bool[3]");
    gives(Op::CastLike, &none(), &["f32[3]", "u8[9]"], "u8[3]");
    gives(Op::BitCast, &none().with_int(Attr::To, 12), &["f32[3]"], "u32[3]");
}

#[test]
fn reductions() {
    gives(Op::ReduceSum, &none(), &["f32[2, 3]"], "f32[1, 1]");
    let drop = none().with_int(Attr::Keepdims, 0);
    gives(
        Op::ReduceMean,
        &drop,
        &["f32[n, 3, 4]", "i64[1] = {-1}"],
        "f32[n, 3]",
    );
    gives(Op::ReduceMax, &drop, &["f32[n, 3, 4]", "i64[2]"], "f32[?]");
    gives(Op::ReduceMax, &none(), &["f32[n, 3]", "i64[?]"], "f32[?, ?]");
    let noop = none().with_int(Attr::NoopWithEmptyAxes, 1);
    gives(Op::ReduceSum, &noop, &["f32[2, 3]", "i64[0] = {}"], "f32[2, 3]");
    gives(Op::ArgMax, &axis(-1), &["f32[n, 5]"], "i64[n, 1]");
    gives(Op::CumSum, &none(), &["f32[n, 5]", "i32[] = {1}"], "f32[n, 5]");
    gives(
        Op::TopK,
        &none(),
        &["f32[n, 9]", "i64[1] = {4}"],
        "f32[n, 4]; i64[n, 4]",
    );
    gives(Op::NonZero, &none(), &["f32[2, 3]"], "<= i64[2, 6]");
    gives(
        Op::Unique,
        &none(),
        &["f32[2, 3]"],
        "<= f32[6]; <= i64[6]; i64[6]; <= i64[6]",
    );
    gives(Op::Unique, &axis(1), &["f32[2, 3]"], "<= f32[2, 3]");
}

#[test]
fn matrices() {
    gives(
        Op::MatMul,
        &none(),
        &["f32[n, 1, 2, 3]", "f32[5, 3, 4]"],
        "f32[n, 5, 2, 4]",
    );
    gives(Op::MatMul, &none(), &["f32[3]", "f32[3]"], "f32[]");
    gives(Op::MatMul, &none(), &["f32[3]", "f32[2, 3, 4]"], "f32[2, 4]");
    let gemm = none().with_int(Attr::TransA, 1).with_int(Attr::TransB, 1);
    gives(
        Op::Gemm,
        &gemm,
        &["f32[3, n]", "f32[4, 3]", "f32[4]"],
        "f32[n, 4]",
    );
    let equation = |text| none().with_str(Attr::Equation, text);
    gives(
        Op::Einsum,
        &equation("bij, bjk -> bik"),
        &["f32[n, 2, 3]", "f32[n, 3, 4]"],
        "f32[n, 2, 4]",
    );
    gives(
        Op::Einsum,
        &equation("...ij,...jk"),
        &["f32[7, 2, 3]", "f32[1, 3, 4]"],
        "f32[7, 2, 4]",
    );
    gives(Op::Einsum, &equation("ii->"), &["f32[3, 3]"], "f32[]");
    gives(Op::Einsum, &equation("ba"), &["f32[2, 3]"], "f32[3, 2]");
    gives(Op::Det, &none(), &["f32[5, 2, 2]"], "f32[5]");
    gives(Op::MatMulInteger, &none(), &["u8[2, 3]", "i8[3, 4]"], "i32[2, 4]");
    gives(Op::Trilu, &none(), &["f32[2, 3]"], "f32[2, 3]");
}

#[test]
fn convolutions() {
    gives(
        Op::Conv,
        &none(),
        &["f32[n, 3, 8]", "f32[4, 3, 3]", "f32[4]"],
        "f32[n, 4, 6]",
    );
    let same = ints(Attr::Pads, &[1, 1, 1, 1, 1, 1]);
    gives(
        Op::Conv,
        &same,
        &["f32[1, 2, 4, 5, h]", "f32[6, 2, 3, 3, 3]"],
        "f32[1, 6, 4, 5, h]",
    );
    let grouped = none().with_int(Attr::Group, 4);
    gives(
        Op::Conv,
        &grouped,
        &["f32[0, 8, 9, 9]", "f32[4, 2, 3, 3]"],
        "f32[0, 4, 7, 7]",
    );
    gives(
        Op::Conv,
        &none(),
        &["f32[..]", "f32[4, 2, 3, 3]"],
        "f32[?, 4, ?, ?]",
    );
    gives(
        Op::ConvInteger,
        &none(),
        &["u8[1, 1, 5, 5]", "i8[1, 1, 2, 2]"],
        "i32[1, 1, 4, 4]",
    );
    let up = ints(Attr::Strides, &[2, 2]).with_ints(Attr::OutputPadding, &[1, 0]);
    gives(
        Op::ConvTranspose,
        &up,
        &["f32[1, 3, 4, 4]", "f32[3, 5, 3, 3]"],
        "f32[1, 5, 10, 9]",
    );
    let inputs = ["f32[1, 5, 5]", "i64[2] = {5, 5}", "i64[2] = {1, 5}"];
    gives(Op::Col2Im, &none(), &inputs, "f32[1, 1, 5, 5]");
    let deform = [
        "f32[1, 1, 3, 3]",
        "f32[1, 1, 2, 2]",
        "f32[1, 8, 2, 2]",
        "f32[1]",
        "f32[1, 4, 2, 2]",
    ];
    gives(Op::DeformConv, &none(), &deform, "f32[1, 1, 2, 2]");
    let causal = ["f32[n, 4, 7]", "f32[4, 1, 3]"];
    gives(
        Op::CausalConvWithState,
        &none(),
        &causal,
        "f32[n, 4, 7]; f32[n, 4, 2]",
    );
}

#[test]
fn pools() {
    let kernel = ints(Attr::KernelShape, &[2, 2]).with_ints(Attr::Strides, &[2, 2]);
    gives(
        Op::MaxPool,
        &kernel,
        &["f32[n, 3, 7, 8]"],
        "f32[n, 3, 3, 4]; i64[n, 3, 3, 4]",
    );
    let ceil = kernel.clone().with_int(Attr::CeilMode, 1);
    gives(Op::AveragePool, &ceil, &["f32[n, 3, 7, 8]"], "f32[n, 3, 4, 4]");
    gives(
        Op::LpPool,
        &ints(Attr::KernelShape, &[3]),
        &["f32[1, 1, 5]"],
        "f32[1, 1, 3]",
    );
    gives(
        Op::GlobalAveragePool,
        &none(),
        &["f32[n, 3, h, 8]"],
        "f32[n, 3, 1, 1]",
    );
    let unpool = ["f32[1, 1, 2, 2]", "i64[1, 1, 2, 2]"];
    gives(Op::MaxUnpool, &kernel, &unpool, "f32[1, 1, 4, 4]");
    let stated = ["f32[1, 1, 2, 2]", "i64[1, 1, 2, 2]", "i64[4] = {1, 1, 5, 5}"];
    gives(Op::MaxUnpool, &kernel, &stated, "f32[1, 1, 5, 5]");
    let roi = none()
        .with_int(Attr::OutputHeight, 5)
        .with_int(Attr::OutputWidth, 6);
    gives(
        Op::RoiAlign,
        &roi,
        &["f32[1, 3, 8, 8]", "f32[k, 4]", "i64[k]"],
        "f32[k, 3, 5, 6]",
    );
    let pooled = ints(Attr::PooledShape, &[2, 3]);
    gives(
        Op::MaxRoiPool,
        &pooled,
        &["f32[1, 3, 8, 8]", "f32[7, 5]"],
        "f32[7, 3, 2, 3]",
    );
}

#[test]
fn normalisations_and_losses() {
    let vector = "f32[3]";
    let inputs = ["f32[n, 3, 4]", vector, vector, vector, vector];
    gives(Op::BatchNormalization, &none(), &inputs, "f32[n, 3, 4]");
    let train = none().with_int(Attr::TrainingMode, 1);
    gives(
        Op::BatchNormalization,
        &train,
        &inputs,
        "f32[n, 3, 4]; f32[3]; f32[3]",
    );
    let layer = ["f16[n, 3, 4]", "f16[4]", "f16[4]"];
    gives(
        Op::LayerNormalization,
        &none(),
        &layer,
        "f16[n, 3, 4]; f32[n, 3, 1]; f32[n, 3, 1]",
    );
    gives(
        Op::RMSNormalization,
        &none(),
        &["f32[n, 4]", "f32[4]"],
        "f32[n, 4]",
    );
    let groups = none().with_int(Attr::NumGroups, 2);
    gives(
        Op::GroupNormalization,
        &groups,
        &["f32[1, 4, 2]", "f32[4]", "f32[4]"],
        "f32[1, 4, 2]",
    );
    gives(
        Op::InstanceNormalization,
        &none(),
        &["f32[1, 4, 2]", "f32[4]", "f32[4]"],
        "f32[1, 4, 2]",
    );
    gives(Op::Softmax, &none(), &["f32[]"], "f32[]");
    gives(Op::Dropout, &none(), &["f32[n, 2]"], "f32[n, 2]; bool[n, 2]");
    gives(
        Op::LRN,
        &none().with_int(Attr::Size, 3),
        &["f32[1, 5, 2, 2]"],
        "f32[1, 5, 2, 2]",
    );
    let scores = ["f32[n, 5, 2]", "i64[n, 2]"];
    gives(
        Op::SoftmaxCrossEntropyLoss,
        &none(),
        &scores,
        "f32[]; f32[n, 5, 2]",
    );
    let each = none().with_str(Attr::Reduction, "none");
    gives(Op::NegativeLogLikelihoodLoss, &each, &scores, "f32[n, 2]");
}

#[test]
fn reshapes() {
    let reshape = |from: &str, to: &str, expected: &str| {
        let count = to.split(',').filter(|item| !item.is_empty()).count();
        gives(
            Op::Reshape,
            &none(),
            &[from, &format!("i64[{count}] = {{{to}}}")],
            expected,
        );
    };
    reshape("f32[2, 3, 4]", "0,-1", "f32[2, 12]");
    reshape("f32[n, 3, 4]", "0,0,2,2", "f32[n, 3, 2, 2]");
    reshape("f32[n, 3, 4]", "-1,12", "f32[n, 12]");
    reshape("f32[n, m, 4]", "-1,4", "f32[?, 4]");
    reshape("f32[0, 3]", "3,-1", "f32[3, 0]");
    reshape("f32[]", "1,1", "f32[1, 1]");
    reshape("f32[1]", "", "f32[]");
    reshape("f32[..]", "2,-1", "f32[2, ?]");
    let zero = none().with_int(Attr::Allowzero, 1);
    gives(Op::Reshape, &zero, &["f32[0, 3]", "i64[2] = {5, 0}"], "f32[5, 0]");
    gives(Op::Reshape, &none(), &["f32[2]", "i64[3]"], "f32[?, ?, ?]");
    gives(Op::Flatten, &axis(2), &["f32[2, 3, n]"], "f32[6, n]");
    gives(Op::Flatten, &axis(0), &["f32[]"], "f32[1, 1]");
    gives(Op::Squeeze, &none(), &["f32[1, 3, 1]"], "f32[3]");
    gives(
        Op::Squeeze,
        &none(),
        &["f32[1, n, 1]", "i64[1] = {-1}"],
        "f32[1, n]",
    );
    gives(
        Op::Unsqueeze,
        &none(),
        &["f32[n, 3]", "i64[2] = {-1, 0}"],
        "f32[1, n, 3, 1]",
    );
    gives(Op::Transpose, &none(), &["f32[n, 3, 4]"], "f32[4, 3, n]");
    gives(
        Op::Transpose,
        &ints(Attr::Perm, &[0, 2, 1]),
        &["f32[n, 3, 4]"],
        "f32[n, 4, 3]",
    );
}

#[test]
fn moves() {
    gives(
        Op::Concat,
        &axis(-1),
        &["f32[n, 2]", "f32[n, 0]", "f32[n, 5]"],
        "f32[n, 7]",
    );
    gives(Op::Concat, &axis(0), &["f32[n, 2]", "f32[3, 2]"], "f32[?, 2]");
    gives(
        Op::Split,
        &axis(1),
        &["f32[n, 7]", "i64[2] = {3, 4}"],
        "f32[n, 3]; f32[n, 4]",
    );
    let three = none().with_int(Attr::NumOutputs, 3);
    gives(Op::Split, &three, &["f32[7]"], "f32[3]; f32[3]; f32[1]");
    let pads = ["f32[n, 4]", "i64[4] = {0, 2, 0, -1}"];
    gives(Op::Pad, &none(), &pads, "f32[n, 5]");
    let some = ["f32[n, 4]", "i64[2] = {1, 1}", "-", "i64[1] = {-1}"];
    gives(Op::Pad, &none(), &some, "f32[n, 6]");
    gives(Op::Tile, &none(), &["f32[n, 4]", "i64[2] = {1, 0}"], "f32[n, 0]");
    gives(
        Op::Expand,
        &none(),
        &["f32[3, 1]", "i64[3] = {2, 1, n}"],
        "f32[2, 3, n]",
    );
    let blocks = none().with_int(Attr::Blocksize, 2);
    gives(Op::DepthToSpace, &blocks, &["f32[n, 8, 2, 3]"], "f32[n, 2, 4, 6]");
    gives(Op::SpaceToDepth, &blocks, &["f32[n, 2, 4, 6]"], "f32[n, 8, 2, 3]");
    gives(
        Op::CenterCropPad,
        &ints(Attr::Axes, &[-1]),
        &["f32[n, 8]", "i64[1] = {5}"],
        "f32[n, 5]",
    );
    gives(
        Op::ReverseSequence,
        &none(),
        &["f32[7, n]", "i64[n]"],
        "f32[7, n]",
    );
    let slice = [
        "f32[n, 10]",
        "i64[2] = {0, -2}",
        "i64[2] = {9223372036854775807, -11}",
        "i64[2] = {0, 1}",
        "i64[2] = {1, -3}",
    ];
    gives(Op::Slice, &none(), &slice, "f32[n, 3]");
    gives(
        Op::Slice,
        &none(),
        &["f32[5]", "i64[1] = {7}", "i64[1] = {9}"],
        "f32[0]",
    );
    gives(
        Op::Slice,
        &none(),
        &["f32[0]", "i64[1] = {0}", "i64[1] = {9}"],
        "f32[0]",
    );
    gives(
        Op::Slice,
        &none(),
        &["f32[5, 6]", "i64[1]", "i64[1]", "i64[1] = {1}"],
        "f32[5, ?]",
    );
}

#[test]
fn reads_and_writes() {
    gives(
        Op::Gather,
        &axis(1),
        &["f32[n, 5, 2]", "i64[3, 4]"],
        "f32[n, 3, 4, 2]",
    );
    gives(Op::Gather, &none(), &["f32[5]", "i64[]"], "f32[]");
    gives(
        Op::GatherElements,
        &axis(0),
        &["f32[3, 4]", "i64[7, 4]"],
        "f32[7, 4]",
    );
    gives(Op::GatherND, &none(), &["f32[2, 3, 4]", "i64[5, 2]"], "f32[5, 4]");
    let batch = none().with_int(Attr::BatchDims, 1);
    gives(Op::GatherND, &batch, &["f32[2, 3, 4]", "i64[2, 1]"], "f32[2, 4]");
    gives(
        Op::ScatterElements,
        &none(),
        &["f32[3, 3]", "i64[2, 3]", "f32[2, 3]"],
        "f32[3, 3]",
    );
    gives(
        Op::ScatterND,
        &none(),
        &["f32[4, 4]", "i64[2, 1]", "f32[2, 4]"],
        "f32[4, 4]",
    );
    gives(Op::Compress, &axis(1), &["f32[3, 4]", "bool[3]"], "<= f32[3, 3]");
    gives(
        Op::Compress,
        &axis(1),
        &["f32[3, 4]", "bool[3] = {1, 0, 1}"],
        "f32[3, 2]",
    );
    gives(Op::Compress, &none(), &["f32[3, 4]", "bool[?]"], "<= f32[12]");
    let cache = ["f32[2, 3, 8, 4]", "f32[2, 3, 1, 4]", "i64[2]"];
    gives(Op::TensorScatter, &none(), &cache, "f32[2, 3, 8, 4]");
}

#[test]
fn images() {
    let scales = ["f32[1, 1, 4, 5]", "-", "f32[4] = {1, 1, 0.6, 2}"];
    gives(Op::Resize, &none(), &scales, "f32[1, 1, 2, 10]");
    let sizes = ["f32[n, 1, 4, 5]", "-", "-", "i64[2] = {7, 8}"];
    gives(Op::Resize, &ints(Attr::Axes, &[2, 3]), &sizes, "f32[n, 1, 7, 8]");
    let policy = ints(Attr::Axes, &[2, 3]).with_str(Attr::KeepAspectRatioPolicy, "not_larger");
    gives(Op::Resize, &policy, &sizes, "f32[n, 1, 6, 8]");
    let empty = [
        "f32[1, 1, 4, 5]",
        "f32[0] = {}",
        "f32[0] = {}",
        "i64[4] = {1, 1, 8, 8}",
    ];
    gives(Op::Resize, &none(), &empty, "f32[1, 1, 8, 8]");
    gives(
        Op::Upsample,
        &none(),
        &["f32[1, 4]", "f32[2] = {1, 2}"],
        "f32[1, 8]",
    );
    gives(
        Op::GridSample,
        &none(),
        &["f32[n, 3, 4, 4]", "f32[n, 6, 7, 2]"],
        "f32[n, 3, 6, 7]",
    );
    gives(
        Op::AffineGrid,
        &none(),
        &["f32[2, 2, 3]", "i64[4] = {2, 3, 5, 6}"],
        "f32[2, 5, 6, 2]",
    );
    let boxes = ["f32[1, 6, 4]", "f32[1, 2, 6]", "i64[1] = {3}"];
    gives(Op::NonMaxSuppression, &none(), &boxes, "<= i64[6, 3]");
    gives(
        Op::NonMaxSuppression,
        &none(),
        &["f32[1, 6, 4]", "f32[1, 2, 6]", "i64[]"],
        "<= i64[12, 3]",
    );
}

#[test]
fn attention_of_both_ranks() {
    let qkv = ["f32[n, 8, 4, 16]", "f32[n, 2, 6, 16]", "f32[n, 2, 6, 10]"];
    gives(Op::Attention, &none(), &qkv, "f32[n, 8, 4, 10]");
    let heads = none().with_int(Attr::QNumHeads, 8).with_int(Attr::KvNumHeads, 2);
    let packed = [
        "f32[n, 4, 128]",
        "f32[n, 6, 32]",
        "f32[n, 6, 20]",
        "-",
        "f32[n, 2, 5, 16]",
        "f32[n, 2, 5, 10]",
    ];
    gives(
        Op::Attention,
        &heads,
        &packed,
        "f32[n, 4, 80]; f32[n, 2, 11, 16]; f32[n, 2, 11, 10]; f32[n, 8, 4, 11]",
    );
    let rope = ["f32[n, 3, 4, 8]", "f32[50, 4]", "f32[50, 4]", "i64[n, 4]"];
    gives(Op::RotaryEmbedding, &none(), &rope, "f32[n, 3, 4, 8]");
    let linear = heads.with_str(Attr::UpdateRule, "linear");
    let inputs = ["f32[n, 4, 128]", "f32[n, 4, 32]", "f32[n, 4, 20]"];
    gives(
        Op::LinearAttention,
        &linear,
        &inputs,
        "f32[n, 4, 80]; f32[n, 2, 16, 10]",
    );
}

#[test]
fn recurrent_layers() {
    let hidden = none().with_int(Attr::HiddenSize, 5);
    let lstm = ["f32[s, n, 3]", "f32[1, 20, 3]", "f32[1, 20, 5]"];
    gives(
        Op::LSTM,
        &hidden,
        &lstm,
        "f32[s, 1, n, 5]; f32[1, n, 5]; f32[1, n, 5]",
    );
    let both = none()
        .with_str(Attr::Direction, "bidirectional")
        .with_int(Attr::Layout, 1);
    let gru = ["f32[n, s, 3]", "f32[2, 15, 3]", "f32[2, 15, 5]", "f32[2, 30]"];
    gives(Op::GRU, &both, &gru, "f32[n, s, 2, 5]; f32[n, 2, 5]");
    gives(
        Op::RNN,
        &none(),
        &["f32[s, n, 3]", "f32[1, 5, 3]", "f32[1, 5, 5]"],
        "f32[s, 1, n, 5]",
    );
}

#[test]
fn quantised_tensors() {
    gives(Op::QuantizeLinear, &none(), &["f32[n, 3]", "f32[]"], "u8[n, 3]");
    gives(
        Op::QuantizeLinear,
        &none(),
        &["f32[n, 3]", "f32[3]", "i8[3]"],
        "i8[n, 3]",
    );
    let int4 = none()
        .with_int(Attr::OutputDtype, 22)
        .with_int(Attr::BlockSize, 2);
    gives(Op::QuantizeLinear, &int4, &["f32[n, 4]", "f32[n, 2]"], "i4[n, 4]");
    gives(Op::DequantizeLinear, &none(), &["i8[n, 3]", "f16[]"], "f16[n, 3]");
    // a list of one, whose length is not known yet, is one value of a scalar
    gives(Op::DequantizeLinear, &none(), &["i8[]", "f32[s]"], "f32[]");
    gives(
        Op::DynamicQuantizeLinear,
        &none(),
        &["f32[n]"],
        "u8[n]; f32[]; u8[]",
    );
    let s = "f32[]";
    let conv = [
        "u8[1, 3, 5, 5]",
        s,
        "u8[]",
        "i8[4, 3, 3, 3]",
        "f32[4]",
        "i8[4]",
        s,
        "u8[]",
        "i32[4]",
    ];
    gives(Op::QLinearConv, &none(), &conv, "u8[1, 4, 3, 3]");
    let matmul = ["u8[2, 3]", s, "u8[]", "i8[3, 4]", s, "i8[]", s, "i8[]"];
    gives(Op::QLinearMatMul, &none(), &matmul, "i8[2, 4]");
    assert!(run(Op::QuantizeLinear, &none(), &["f32[2, 3]", "f32[4]"], 1).is_err());
}

#[test]
fn made_tensors() {
    gives(
        Op::EyeLike,
        &none().with_int(Attr::Dtype, 7),
        &["f32[n, 3]"],
        "i64[n, 3]",
    );
    gives(Op::RandomNormal, &ints(Attr::Shape, &[2, 0]), &[], "f32[2, 0]");
    gives(Op::RandomUniformLike, &none(), &["f16[n]"], "f16[n]");
    gives(Op::Bernoulli, &none(), &["f32[n]"], "f32[n]");
    gives(
        Op::Multinomial,
        &none().with_int(Attr::SampleSize, 4),
        &["f32[n, 9]"],
        "i32[n, 4]",
    );
    let one_hot = ["i64[n, 2]", "i64[] = {5}", "f32[2]"];
    gives(Op::OneHot, &axis(1), &one_hot, "f32[n, 5, 2]");
    gives(Op::OneHot, &none(), &["i64[]", "f32[1] = {3}", "i8[2]"], "i8[3]");
    gives(Op::HannWindow, &none(), &["i64[] = {10}"], "f32[10]");
    let mel = ["i64[] = {8}", "i64[] = {16}", "i64[]", "f32[]", "f32[]"];
    gives(Op::MelWeightMatrix, &none(), &mel, "f32[9, 8]");
}

#[test]
fn spectra_and_text() {
    gives(Op::DFT, &none(), &["f32[n, 10, 1]"], "f32[n, 10, 2]");
    let onesided = none().with_int(Attr::Onesided, 1);
    gives(Op::DFT, &onesided, &["f32[n, 10, 1]"], "f32[n, 6, 2]");
    gives(
        Op::DFT,
        &onesided,
        &["f32[n, 10, 1]", "i64[] = {4}", "i64[] = {1}"],
        "f32[n, 3, 2]",
    );
    let back = onesided.with_int(Attr::Inverse, 1);
    gives(Op::DFT, &back, &["f32[n, 6, 2]"], "f32[n, 10, 1]");
    let stft = ["f32[n, 128, 1]", "i64[] = {8}", "f32[16]"];
    gives(Op::STFT, &none(), &stft, "f32[n, 15, 9, 2]");
    gives(
        Op::StringConcat,
        &none(),
        &["string[n, 1]", "string[3]"],
        "string[n, 3]",
    );
    gives(Op::StringSplit, &none(), &["string[n]"], "string[n, ?]; i64[n]");
    gives(Op::RegexFullMatch, &none(), &["string[n]"], "bool[n]");
    gives(Op::OptionalHasElement, &none(), &[], "bool[]");
}
