//! The table of lowerings per op: the single source of support and programs.

use polychip_lowering::{Node, Outcome, Refusal};
use polychip_ops::Op;
use polychip_sdk::Reason;

use super::builder::Lower;

pub(super) type Rule = fn(&mut Lower<'_>, &Node) -> Outcome<()>;

/// The lowering of an op; `None` if it is not offered.
fn rule(op: Op) -> Option<Rule> {
    let rule: Rule = match op {
        Op::Conv => |l, node| l.conv(node),
        Op::ConvTranspose => |l, node| l.conv_transpose(node),
        Op::MaxPool | Op::AveragePool => |l, node| l.pool(node),
        Op::GlobalMaxPool | Op::GlobalAveragePool => |l, node| l.global_pool(node),
        Op::Resize => |l, node| l.resize(node),
        Op::DepthToSpace | Op::SpaceToDepth => |l, node| l.depth_space(node),
        Op::Gemm => |l, node| l.gemm(node),
        Op::MatMul => |l, node| l.matmul(node),
        Op::Softmax | Op::LogSoftmax => |l, node| l.softmax(node),
        Op::LayerNormalization => |l, node| l.layer_norm(node),
        Op::RMSNormalization => |l, node| l.rms_norm(node),
        Op::InstanceNormalization => |l, node| l.instance_norm(node),
        Op::BatchNormalization => |l, node| l.batch_norm(node),
        Op::ReduceMax
        | Op::ReduceMin
        | Op::ReduceMean
        | Op::ReduceSum
        | Op::ReduceProd
        | Op::ReduceSumSquare
        | Op::ReduceL1
        | Op::ReduceL2
        | Op::ReduceLogSum
        | Op::ReduceLogSumExp => |l, node| l.reduce(node),
        Op::Identity => |l, node| l.pass(node),
        Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten => |l, node| l.pass(node),
        Op::Transpose => |l, node| l.transpose(node),
        Op::Concat => |l, node| l.concat(node),
        Op::Split => |l, node| l.split(node),
        Op::Slice => |l, node| l.slice(node),
        Op::Pad => |l, node| l.pad(node),
        Op::Expand | Op::Tile => |l, node| l.tile(node),
        Op::Gather => |l, node| l.gather(node),
        Op::Cast => |l, node| l.cast_node(node),
        Op::QuantizeLinear | Op::DequantizeLinear => |l, node| l.border_of_integers(node),
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Pow | Op::Max | Op::Min | Op::Sum => {
            |l, node| l.binary(node)
        }
        Op::Abs
        | Op::Acos
        | Op::Asin
        | Op::Atan
        | Op::Atanh
        | Op::Ceil
        | Op::Cos
        | Op::Cosh
        | Op::Erf
        | Op::Exp
        | Op::Floor
        | Op::Log
        | Op::Neg
        | Op::Reciprocal
        | Op::Relu
        | Op::Round
        | Op::Sigmoid
        | Op::Sign
        | Op::Sin
        | Op::Sinh
        | Op::Softplus
        | Op::Softsign
        | Op::Sqrt
        | Op::Tan
        | Op::Tanh
        | Op::Clip
        | Op::Elu
        | Op::Gelu
        | Op::HardSigmoid
        | Op::HardSwish
        | Op::LeakyRelu
        | Op::Mish
        | Op::PRelu
        | Op::Selu
        | Op::Swish => |l, node| l.unary(node),
        _ => return None,
    };
    Some(rule)
}

/// Whether an op is lowered as it is.
pub(super) fn is_offered(op: Op) -> bool {
    rule(op).is_some()
}

/// The lowering of a node, independent of its tensors.
pub(super) fn offered(node: &Node) -> Outcome<Rule> {
    if !node.bodies.is_empty() {
        return Err(Refusal::new(Reason::Body, node.op_name.clone()));
    }
    rule(node.op).ok_or_else(|| Refusal::op(node.op_name.clone()))
}

/// Lowers one node.
pub(super) fn node(l: &mut Lower<'_>, node: &Node) -> Outcome<()> {
    l.current = Some(node.index);
    let rule = offered(node)?;
    let computed = node.inputs.iter().copied().flatten();
    for tensor in computed
        .filter(|&tensor| !l.part.is_constant(tensor))
        .chain(node.writes())
    {
        l.check(tensor)?;
    }
    rule(l, node)
}
