//! Nodes that the library accepts but computes wrongly, found by the ONNX backend suite or by hand
//! with release 2026.4.1 on a CPU, and refused.
//!
//! Its CPU device computes 8-bit integers with saturation, compares and divides integers as f32,
//! keeps i64 in 32 bits, and ignores attributes of newer opsets. Not listed, because it concerns
//! every float op: NaN is not propagated through Relu, Max, Min, Exp and Softmax
//! (docs/decisions/2026-11-20-openvino-answers.md).
//!
//! Invariant: a node that passes here and is read by the library yields ONNX's result for finite
//! values, and for i64 that fits 32 bits, which `exec` checks.

use polychip_ops::operator::{BlockMode, RegionMode};
use polychip_ops::{Attr, DType, Op, Operator};
use polychip_sdk::{GraphView, NodeView, Reason, Support};

/// Ops that move or select elements as they are.
fn moves(op: Op) -> bool {
    matches!(
        op,
        Op::ArgMax
            | Op::ArgMin
            | Op::Clip
            | Op::Compress
            | Op::Concat
            | Op::ConstantOfShape
            | Op::DepthToSpace
            | Op::Expand
            | Op::EyeLike
            | Op::Flatten
            | Op::Gather
            | Op::GatherElements
            | Op::GatherND
            | Op::Identity
            | Op::Max
            | Op::MaxPool
            | Op::Min
            | Op::OneHot
            | Op::Pad
            | Op::ReduceMax
            | Op::ReduceMin
            | Op::Reshape
            | Op::ReverseSequence
            | Op::ScatterElements
            | Op::ScatterND
            | Op::Shape
            | Op::Sign
            | Op::Size
            | Op::Slice
            | Op::SpaceToDepth
            | Op::Split
            | Op::Squeeze
            | Op::Tile
            | Op::TopK
            | Op::Transpose
            | Op::Trilu
            | Op::Unsqueeze
            | Op::Where
    )
}

/// Ops whose results are integers by definition, of floats or of small integers.
fn quantises(op: Op) -> bool {
    matches!(
        op,
        Op::QuantizeLinear
            | Op::ConvInteger
            | Op::MatMulInteger
            | Op::QLinearConv
            | Op::QLinearMatMul
            | Op::Cast
            | Op::CastLike
    )
}

fn is_integer(dtype: DType) -> bool {
    !dtype.is_float() && !matches!(dtype, DType::Bool | DType::String)
}

/// A refusal, where the answer would be wrong.
pub(super) fn known(graph: &GraphView<'_>, node: &NodeView<'_>) -> Option<Support> {
    let wrong = |what: &str| Some(Support::no(Reason::Quarantined, what.to_owned()));
    let attribute = |what: &str| Some(Support::no(Reason::Attribute, what.to_owned()));
    // encoded tensors are computed on as the reals that they encode
    let seen = |tensor: u32| {
        let view = graph.tensor(tensor);
        view.encoding()
            .map_or(view.dtype(), |encoding| encoding.real_dtype())
    };
    let input = |place: usize| node.input(place).map(seen);
    let output = |place: usize| node.output(place).map(seen);
    for tensor in node.inputs().chain(node.outputs()).flatten() {
        let view = graph.tensor(tensor);
        let stored_16 = matches!(view.dtype(), DType::U16 | DType::I16);
        if view.encoding().is_some() && stored_16 {
            return wrong("quantising to 16 bits is off by one");
        }
    }
    match node.op() {
        Op::Bernoulli
        | Op::Multinomial
        | Op::RandomNormal
        | Op::RandomNormalLike
        | Op::RandomUniform
        | Op::RandomUniformLike => return wrong("random numbers of a seed are others"),
        Op::Dropout => return wrong("an op that does nothing leaves its output unwritten"),
        Op::Max | Op::Min | Op::Sum | Op::Mean if node.inputs().len() < 2 => {
            return wrong("an op that does nothing leaves its output unwritten");
        }
        Op::BitShift if input(0).is_none_or(|dtype| !matches!(dtype, DType::U8 | DType::U16)) => {
            return wrong("shifts of signed integers saturate");
        }
        Op::DFT | Op::STFT => return wrong("axis and inverse are read as another opset has them"),
        Op::DynamicQuantizeLinear => return wrong("its rounding is off by one"),
        Op::QuantizeLinear if matches!(output(0), Some(DType::U16 | DType::I16)) => {
            return wrong("quantising to 16 bits is off by one");
        }
        Op::ReduceMax | Op::ReduceMin if output(0).is_some_and(DType::is_float) => {
            return wrong("infinities only give the largest finite number");
        }
        Op::Attention => return attention(node),
        _ => {}
    }
    match node.operator() {
        Ok(Operator::LRN(lrn)) if lrn.size.get().is_multiple_of(2) => {
            return wrong("a window of even size begins one channel early");
        }
        Ok(Operator::Resize(resize)) if resize.antialias => {
            return wrong("antialiasing takes other weights");
        }
        Ok(Operator::RoiAlign(align)) if align.mode == RegionMode::Max => {
            return wrong("mode max takes other samples");
        }
        Ok(Operator::SpaceToDepth(blocks)) if blocks.mode != BlockMode::Dcr => {
            return attribute("mode is not read");
        }
        Ok(_) => {}
        Err(error) => return attribute(&error.to_string()),
    }
    if matches!(
        node.op(),
        Op::Equal | Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual
    ) && matches!(input(0), Some(DType::I32 | DType::I64))
    {
        return wrong("integers are compared as f32");
    }
    for place in 0..node.outputs().len() {
        let Some(dtype) = output(place) else { continue };
        let op = node.op();
        if matches!(op, Op::Cast | Op::CastLike) {
            let from = input(0).unwrap_or(DType::F32);
            match (from, dtype) {
                (from, DType::I64) if from.is_float() => return wrong("i64 is kept in 32 bits"),
                (from, DType::Bool) if from.is_float() || from == DType::I32 => {
                    return wrong("NaN and the least integer become false");
                }
                _ => continue,
            }
        }
        if !is_integer(dtype) || moves(op) || quantises(op) {
            continue;
        }
        let exact = matches!(dtype, DType::I32 | DType::I16 | DType::U16)
            && matches!(op, Op::Abs | Op::Add | Op::Mul | Op::Neg | Op::Sub);
        let bits = matches!(
            op,
            Op::BitwiseAnd | Op::BitwiseNot | Op::BitwiseOr | Op::BitwiseXor | Op::BitShift
        );
        if !(exact || bits && dtype != DType::I64) {
            return Some(Support::no(
                Reason::DType,
                format!("arithmetic on {dtype} saturates, or goes through f32"),
            ));
        }
    }
    None
}

/// What the library's attention does not have.
fn attention(node: &NodeView<'_>) -> Option<Support> {
    const KNOWN: [Attr; 6] = [
        Attr::IsCausal,
        Attr::KvNumHeads,
        Attr::QNumHeads,
        Attr::Scale,
        Attr::Softcap,
        Attr::SoftmaxPrecision,
    ];
    for view in node.attribute_views() {
        let known = KNOWN.iter().any(|attr| view.name() == attr.name());
        // 0 is the default of the only other attribute that opset 23 has
        let plain = view.name() == Attr::QkMatmulOutputMode.name() && view.ints() == Some(&[0]);
        if !known && !plain {
            return Some(Support::no(
                Reason::Attribute,
                format!("attribute {} is not read", view.name()),
            ));
        }
    }
    if node.outputs().flatten().count() > 1 || node.inputs().len() > 4 {
        return Some(Support::no(
            Reason::Quarantined,
            "attention with a cache or a second output is wrong where it is causal",
        ));
    }
    None
}
