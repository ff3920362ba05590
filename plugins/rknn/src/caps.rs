//! What the chips support: a table of our own, of what the vendor's toolkit is known to take and to put on the NPU.
//!
//! The toolkit is not asked here: it takes a second per question, and places a node by the pattern that it stands in.
//! A part whose nodes are all in the table is compiled; what the toolkit then refuses, or puts on a processor, is refused
//! by its words in `lower`, and the host plans anew.
//!
//! Quantised tensors are refused: the toolkit finds scales of its own, and whether it keeps those of a model that
//! quantises is not proved. So are element types but f32: their ports are not proved either.
//!
//! Invariants:
//! 1. An op is in the table only where it means in opset 19, which the toolkit reads, what it means in the newest one,
//!    with the same inputs and attributes.
//! 2. The first reason that is true is given.

use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_sdk::{Error, GraphView, NodeView, Reason, Result, Support, TensorView};

use crate::shared::Shared;

/// The greatest rank of tensors that are computed.
const MOST_AXES: usize = 4;

type Outcome = std::result::Result<(), (Reason, String)>;

/// Answers for all nodes of a graph.
pub(crate) fn support(shared: &Shared, graph: &GraphView<'_>) -> Vec<Support> {
    let answer = |node: NodeView<'_>| match node_support(shared, graph, &node) {
        Ok(()) => Support::Yes,
        Err((reason, detail)) => Support::no(reason, detail),
    };
    graph.nodes().map(answer).collect()
}

/// What a compilation may be given, in a session that lets f32 be computed in 16 bits or does not.
pub(crate) fn promised(graph: &GraphView<'_>, node: &NodeView<'_>) -> Result<()> {
    ours(graph, node).map_err(|(reason, detail)| {
        let what = format!("{} {}: {reason:?}: {detail}", node.op_name(), node.name());
        Error::unsupported(what).at_node(node.index())
    })
}

fn node_support(shared: &Shared, graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    ours(graph, node)?;
    if !shared.settings.reduced {
        let what = "f32: the NPU computes it in 16 bits, which needs precision=reduced";
        return Err((Reason::DType, what.to_owned()));
    }
    match &shared.toolkit {
        Ok(_) => Ok(()),
        Err(why) => Err((Reason::Vendor, format!("no compiler: {why}"))),
    }
}

/// Whether a node is written as the nodes that it was recomposed from: what opset 19 has no op for.
pub(crate) fn decompose(node: &NodeView<'_>) -> bool {
    node.op() == Op::Gelu
}

fn ours(graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    if node.op() == Op::Custom {
        return no(Reason::Op, format!("{}.{}", node.domain(), node.op_name()));
    }
    if node.bodies().len() > 0 {
        return no(Reason::Body, "bodies are not handed over");
    }
    let constants = constants(node.op()).ok_or_else(|| (Reason::Op, node.op_name().to_owned()))?;
    for (place, tensor) in node.inputs().enumerate() {
        let Some(tensor) = tensor.map(|tensor| graph.tensor(tensor)) else {
            continue;
        };
        if tensor.is_constant() && place > 0 && matches!(tensor.dtype(), DType::I64 | DType::I32) {
            // axes, extents and the like
            continue;
        }
        real(&tensor)?;
        if !tensor.is_constant() && constants.contains(&place) {
            return no(Reason::NotConstant, format!("input {place}"));
        }
    }
    if node
        .inputs()
        .flatten()
        .all(|tensor| graph.tensor(tensor).is_constant())
    {
        return no(Reason::NotConstant, "an input that is no constant is needed");
    }
    for tensor in node.outputs().flatten() {
        real(&graph.tensor(tensor))?;
    }
    attributes(graph, node)
}

fn no(reason: Reason, detail: impl Into<String>) -> Outcome {
    Err((reason, detail.into()))
}

/// A tensor that the chip computes on.
fn real(tensor: &TensorView<'_>) -> Outcome {
    let name = tensor.name();
    if !tensor.is_plain() {
        return no(Reason::DType, format!("tensor {name} is no plain tensor"));
    }
    if tensor.encoding().is_some() {
        let what = format!("tensor {name}: the toolkit would find scales of its own");
        return no(Reason::Encoding, what);
    }
    if tensor.dtype() != DType::F32 {
        return no(Reason::DType, format!("tensor {name} is of {}", tensor.dtype()));
    }
    let Some(shape) = tensor.shape().filter(|_| !tensor.is_upper_bound()) else {
        let what = format!("the shape of tensor {name} is known only after the run");
        return no(Reason::DynamicShape, what);
    };
    if shape.len() > MOST_AXES {
        return no(Reason::Rank, format!("rank {}, at most {MOST_AXES}", shape.len()));
    }
    if tensor.is_constant() {
        return Ok(());
    }
    if shape.is_empty() {
        return no(Reason::Rank, format!("tensor {name} has no axes"));
    }
    let bytes = shape
        .iter()
        .try_fold(4usize, |bytes, &extent| bytes.checked_mul(extent));
    match bytes {
        Some(1..) if bytes <= Some(i32::MAX as usize) => Ok(()),
        _ => no(
            Reason::Shape,
            format!("tensor {name} of {shape:?} is empty or too large"),
        ),
    }
}

/// Inputs of an op that must be constants; none for an op that is not offered.
fn constants(op: Op) -> Option<&'static [usize]> {
    Some(match op {
        Op::Abs
        | Op::Add
        | Op::AveragePool
        | Op::Concat
        | Op::DepthToSpace
        | Op::Div
        | Op::Elu
        | Op::Flatten
        | Op::Gelu
        | Op::GlobalAveragePool
        | Op::GlobalMaxPool
        | Op::HardSigmoid
        | Op::HardSwish
        | Op::LeakyRelu
        | Op::MatMul
        | Op::Max
        | Op::MaxPool
        | Op::Min
        | Op::Mul
        | Op::Neg
        | Op::Relu
        | Op::Sigmoid
        | Op::Softmax
        | Op::Softplus
        | Op::Sqrt
        | Op::Sub
        | Op::Tanh
        | Op::Transpose => &[],
        Op::PRelu | Op::ReduceMean | Op::ReduceMax | Op::ReduceMin | Op::ReduceSum => &[1],
        Op::Reshape | Op::Split | Op::Squeeze | Op::Unsqueeze => &[1],
        Op::Clip | Op::Conv | Op::ConvTranspose | Op::Gemm | Op::LayerNormalization => &[1, 2],
        Op::Resize => &[1, 2, 3],
        Op::BatchNormalization | Op::Slice => &[1, 2, 3, 4],
        _ => return None,
    })
}

fn attributes(graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    let shape = |tensor: Option<u32>| tensor.and_then(|tensor| graph.tensor(tensor).shape());
    let rank = shape(node.input(0)).map_or(0, |shape| shape.len());
    let refuse = |attr: Attr| no(Reason::Attribute, attr.name());
    let needs = |attr: Attr, holds: bool| if holds { Ok(()) } else { refuse(attr) };
    let is = |attr: Attr, value: i64| needs(attr, node.int(attr).is_none_or(|found| found == value));
    let ones = |attr: Attr| {
        needs(
            attr,
            node.ints(attr).is_none_or(|all| all.iter().all(|&one| one == 1)),
        )
    };
    let text = |attr: Attr| match node.attribute(attr).map(|attribute| attribute.value()) {
        Some(AttrValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    let one_of =
        |attr: Attr, known: &[&str]| needs(attr, text(attr).is_none_or(|found| known.contains(&&*found)));
    let planes = |op: &str| match rank {
        4 => Ok(()),
        rank => no(
            Reason::Rank,
            format!("rank {rank}; {op} is offered on planes, rank 4"),
        ),
    };
    match node.op() {
        Op::Conv | Op::ConvTranspose => {
            planes(node.op_name())?;
            one_of(Attr::AutoPad, &["NOTSET"])?;
            needs(
                Attr::OutputShape,
                node.ints(Attr::OutputShape).is_none_or(<[_]>::is_empty),
            )
        }
        Op::MaxPool | Op::AveragePool => {
            planes(node.op_name())?;
            one_of(Attr::AutoPad, &["NOTSET"])?;
            ones(Attr::Dilations)?;
            is(Attr::CeilMode, 0)?;
            is(Attr::StorageOrder, 0)?;
            is(Attr::CountIncludePad, 0)?;
            match node.output(1) {
                None => Ok(()),
                Some(_) => no(Reason::Attribute, "places of the greatest elements"),
            }
        }
        Op::GlobalAveragePool | Op::GlobalMaxPool | Op::DepthToSpace => planes(node.op_name()),
        Op::BatchNormalization => {
            is(Attr::TrainingMode, 0)?;
            planes(node.op_name())
        }
        Op::LayerNormalization => match node.output(1).or(node.output(2)) {
            None => is(Attr::Axis, -1).or_else(|_| is(Attr::Axis, rank as i64 - 1)),
            Some(_) => no(Reason::Attribute, "means and deviations as outputs"),
        },
        Op::Gelu => {
            one_of(Attr::Approximate, &["none"])?;
            match node.decomposition() {
                Some(_) => Ok(()),
                None => no(Reason::Op, "Gelu that the model does not write out"),
            }
        }
        Op::Max | Op::Min => match node.inputs().len() {
            2 => Ok(()),
            count => no(Reason::Shape, format!("{count} inputs, two are offered")),
        },
        Op::Gemm => needs(
            Attr::TransA,
            node.int(Attr::TransA).is_none_or(|transposed| transposed == 0),
        ),
        Op::Reshape => is(Attr::Allowzero, 0),
        Op::ReduceMean | Op::ReduceMax | Op::ReduceMin | Op::ReduceSum => is(Attr::NoopWithEmptyAxes, 0),
        Op::Resize => {
            planes("Resize")?;
            is(Attr::Antialias, 0)?;
            one_of(Attr::KeepAspectRatioPolicy, &["stretch"])?;
            needs(Attr::Axes, node.ints(Attr::Axes).is_none_or(<[_]>::is_empty))?;
            let how = [
                text(Attr::Mode).unwrap_or_else(|| "nearest".to_owned()),
                text(Attr::CoordinateTransformationMode).unwrap_or_else(|| "half_pixel".to_owned()),
                text(Attr::NearestMode).unwrap_or_else(|| "round_prefer_floor".to_owned()),
            ];
            let held = planes_only(graph, node);
            match [&*how[0], &*how[1], &*how[2]] {
                _ if !held => no(Reason::Shape, "images and channels change in number"),
                ["nearest", "asymmetric", "floor"] | ["nearest", "half_pixel", "round_prefer_floor"] => {
                    Ok(())
                }
                [
                    "linear",
                    "half_pixel" | "pytorch_half_pixel" | "align_corners" | "asymmetric",
                    _,
                ] => Ok(()),
                how => no(Reason::Attribute, how.join(" ")),
            }
        }
        _ => Ok(()),
    }
}

/// Whether images and channels stay as many.
fn planes_only(graph: &GraphView<'_>, node: &NodeView<'_>) -> bool {
    let shape = |tensor: Option<u32>| tensor.and_then(|tensor| graph.tensor(tensor).shape());
    match (shape(node.input(0)), shape(node.output(0))) {
        (Some(from), Some(to)) => from.get(..2) == to.get(..2),
        _ => false,
    }
}
