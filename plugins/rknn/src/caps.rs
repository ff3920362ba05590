//! What the chips support: a table of our own, of what the vendor's toolkit is known to take and to put on the NPU.
//!
//! The toolkit is not asked here: it takes a second per question, and places a node by the pattern that it stands in.
//! A part whose nodes are all in the table is compiled; what the toolkit then refuses, or puts on a processor, is refused
//! by its words in `lower`, and the host plans anew.
//!
//! What of a node is asked beside its op stands in `polychip_lowering::handed`.
//!
//! Invariant: an op is in the table only where it means in opset 19, which the toolkit reads, what it means in the newest one,
//!    with the same inputs and attributes.

use polychip_lowering::handed::{Outcome, Rules};
use polychip_ops::Op;
use polychip_sdk::{GraphView, NodeView, Reason, Support};

use crate::shared::Shared;

/// What the toolkit may be given.
pub(crate) const RULES: Rules = Rules {
    axes: 4,
    constants,
    quantised: "the toolkit would find scales of its own",
};

/// Answers for all nodes of a graph.
pub(crate) fn support(shared: &Shared, graph: &GraphView<'_>) -> Vec<Support> {
    let answer = |node: NodeView<'_>| match node_support(shared, graph, &node) {
        Ok(()) => Support::Yes,
        Err((reason, detail)) => Support::no(reason, detail),
    };
    graph.nodes().map(answer).collect()
}

fn node_support(shared: &Shared, graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    RULES.check(graph, node)?;
    if !shared.settings.reduced {
        let what = "f32: the NPU computes it in 16 bits, which needs precision=reduced";
        return Err((Reason::DType, what.to_owned()));
    }
    match &shared.toolkit {
        Ok(_) => Ok(()),
        Err(why) => Err((Reason::Vendor, format!("no compiler: {why}"))),
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
