//! Supported nodes: our table of the ops that the vendor's toolkit reads and puts on the NPU.
//!
//! The toolkit is not queried here: a query takes a second, and it places a node by its surrounding
//! pattern. A part whose nodes are all in the table is compiled. If the toolkit refuses it, or puts
//! it on a CPU, `lower` refuses it with the toolkit's message, and the host plans again.
//!
//! Conditions on a node beyond its op are in `polychip_lowering::vendor_compiler`.
//!
//! 8-bit integers keep their scales: the toolkit's op list has QuantizeLinear and DequantizeLinear,
//! and it builds such a model without quantising it (`do_quantization=False`). Loading a part
//! checks the resulting ports.
//!
//! Invariant: an op is in the table only if it means the same in opset 19, which the toolkit reads,
//! as in the newest opset, with the same inputs and attributes.

use polychip_lowering::vendor_compiler::{Outcome, Quantised, Rules, rounds};
use polychip_ops::Op;
use polychip_sdk::{GraphView, NodeView, Reason, Support};

use crate::shared::Shared;

/// Parts that may be passed to the toolkit.
pub(crate) const RULES: Rules = Rules {
    axes: 4,
    constants,
    quantised: Quantised::Kept(integers),
};

/// Support of all nodes of a graph.
pub(crate) fn support(shared: &Shared, graph: &GraphView<'_>) -> Vec<Support> {
    let answer = |node: NodeView<'_>| match node_support(shared, graph, &node) {
        Ok(()) => Support::Yes,
        Err((reason, detail)) => Support::no(reason, detail),
    };
    graph.nodes().map(answer).collect()
}

fn node_support(shared: &Shared, graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    RULES.check(graph, node)?;
    if shared.settings.quantise.is_some() && is_quantised(graph, node) {
        let what = "quantized_dtype lets the toolkit find scales, and the model has its own";
        return Err((Reason::Encoding, what.to_owned()));
    }
    if !shared.settings.reduced && rounds(graph, node) {
        let what = "f32: the NPU computes it in 16 bits, which needs precision=reduced";
        return Err((Reason::DType, what.to_owned()));
    }
    match &shared.toolkit {
        Ok(_) => Ok(()),
        Err(why) => Err((Reason::Vendor, format!("no compiler: {why}"))),
    }
}

/// Whether a node reads or writes integers that stand for reals, other than constants.
pub(crate) fn is_quantised(graph: &GraphView<'_>, node: &NodeView<'_>) -> bool {
    let mut tensors = node.inputs().chain(node.outputs()).flatten();
    tensors.any(|tensor| {
        let tensor = graph.tensor(tensor);
        !tensor.is_constant() && tensor.encoding().is_some()
    })
}

/// Whether the op may have integers that stand for reals; norms and sums stay in floats.
fn integers(op: Op) -> bool {
    !matches!(
        op,
        Op::BatchNormalization
            | Op::Gelu
            | Op::LayerNormalization
            | Op::ReduceMax
            | Op::ReduceMean
            | Op::ReduceMin
            | Op::ReduceSum
    )
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
        Op::DequantizeLinear | Op::QuantizeLinear => &[1, 2],
        Op::Clip | Op::Conv | Op::ConvTranspose | Op::Gemm | Op::LayerNormalization => &[1, 2],
        Op::Resize => &[1, 2, 3],
        Op::BatchNormalization | Op::Slice => &[1, 2, 3, 4],
        _ => return None,
    })
}
