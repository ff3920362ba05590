//! Supported nodes: our table of the ops that the vendor's compiler reads.
//!
//! The compiler is not queried here: a query takes seconds. A part whose nodes are all in the table
//! is compiled. If the compiler refuses it, `lower` refuses it with the compiler's message, and the
//! host plans again. For quantised models, the vendor states that the compiler takes those that its
//! own tool rewrote (docs/vendors/ascend.md names the page). Conditions on a node beyond its op are
//! in `polychip_lowering::vendor_compiler`.
//!
//! Ops with discontinuous results (Ceil, Floor, Round, Sign) are not in the table: rounding to 16
//! bits before them changes their result by one.
//!
//! Invariant: an op is in the table only if it means the same in opset 18, the newest that the
//! compiler reads, as in the newest opset, with the same inputs and attributes.

use polychip_lowering::vendor_compiler::{Outcome, Quantised, Rules, refuse};
use polychip_ops::{Attr, Op};
use polychip_sdk::{CompileOptions, GraphView, NodeView, Reason, Result, Support};

use crate::shared::Common;

/// What the compiler may be given.
const RULES: Rules = Rules {
    // what the vendor's list of ops states for most
    axes: 8,
    constants,
    quantised: Quantised::Refused(
        "the compiler takes no model quantised by ONNX's ops, only what AMCT made of it",
    ),
};

/// Support of all nodes of a graph.
pub(crate) fn support(common: &Common, graph: &GraphView<'_>) -> Vec<Support> {
    let answer = |node| match ours(graph, &node).and_then(|()| allowed(common)) {
        Ok(()) => Support::Yes,
        Err((reason, detail)) => Support::no(reason, detail),
    };
    graph.nodes().map(answer).collect()
}

/// Whether a part may be compiled, in a session that lets f32 be computed in 16 bits or does not.
pub(crate) fn admit(common: &Common, graph: &GraphView<'_>, options: &CompileOptions) -> Result<()> {
    graph.nodes().try_for_each(|node| promised(graph, &node))?;
    RULES.admit(graph, options, common.settings.reduced)
}

/// A node that is not supported, as an error.
pub(crate) fn promised(graph: &GraphView<'_>, node: &NodeView<'_>) -> Result<()> {
    RULES.promised(graph, node)?;
    younger(node).map_err(|(_, detail)| polychip_sdk::Error::unsupported(detail).at_node(node.index()))
}

/// What holds for the whole device.
fn allowed(common: &Common) -> Outcome {
    match &common.atc {
        _ if !common.settings.reduced => refuse(
            Reason::DType,
            "f32: the cores compute it in 16 bits, which needs precision=reduced",
        ),
        Err(why) => refuse(Reason::Vendor, format!("no compiler: {why}")),
        Ok(_) => Ok(()),
    }
}

fn ours(graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    RULES.check(graph, node)?;
    younger(node)
}

/// An attribute that opset 18 does not have.
fn younger(node: &NodeView<'_>) -> Outcome {
    match node.op() {
        Op::AveragePool if node.ints(Attr::Dilations).is_some() => {
            refuse(Reason::Attribute, "dilations, which opset 18 has not")
        }
        _ => Ok(()),
    }
}

/// Inputs of an op that must be constants; none for an op that is not offered.
fn constants(op: Op) -> Option<&'static [usize]> {
    use Op::*;

    let of_data: &[Op] = &[
        Abs,
        Add,
        AveragePool,
        Concat,
        Cos,
        DepthToSpace,
        Div,
        Elu,
        Erf,
        Exp,
        Flatten,
        Gelu,
        GlobalAveragePool,
        GlobalMaxPool,
        HardSigmoid,
        HardSwish,
        LeakyRelu,
        Log,
        MatMul,
        Max,
        MaxPool,
        Min,
        Mul,
        Neg,
        Pow,
        Reciprocal,
        Relu,
        Sigmoid,
        Sin,
        Softmax,
        Softplus,
        Sqrt,
        Sub,
        Tanh,
        Transpose,
    ];
    let of_axes: &[Op] = &[
        PRelu, ReduceMax, ReduceMean, ReduceMin, ReduceSum, Reshape, Split, Squeeze, Tile, Unsqueeze, Expand,
    ];
    let of_weights: &[Op] = &[Clip, Conv, ConvTranspose, Gemm, LayerNormalization];
    match op {
        op if of_data.contains(&op) => Some(&[]),
        op if of_axes.contains(&op) => Some(&[1]),
        op if of_weights.contains(&op) => Some(&[1, 2]),
        Resize => Some(&[1, 2, 3]),
        BatchNormalization | Slice => Some(&[1, 2, 3, 4]),
        _ => None,
    }
}
