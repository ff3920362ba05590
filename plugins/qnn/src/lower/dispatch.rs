//! What lowers each op: the one table of what is offered, for support as for programs.

use polychip_lowering::{Layout, Node, Outcome, Refusal};
use polychip_ops::Op;
use polychip_sdk::Reason;

use super::builder::{Compute, Lower};
use super::elementwise;

/// How a node is lowered.
enum Rule<'a> {
    /// Between types, which it judges itself.
    Typed(fn(&mut Lower<'a>, &Node, Layout) -> Outcome<()>),
    /// On its domain, with operands of one type.
    Domain(Compute<'a>),
}

/// What lowers an op; nothing where it is not offered.
fn rule<'a>(op: Op) -> Option<Rule<'a>> {
    let compute: Compute<'a> = match op {
        Op::QuantizeLinear | Op::DequantizeLinear => return Some(Rule::Typed(Lower::border_of_integers)),
        Op::Cast => return Some(Rule::Typed(Lower::cast)),
        Op::QLinearConv => return Some(Rule::Typed(|l, node, _| l.integer_conv(node))),
        Op::QLinearMatMul => return Some(Rule::Typed(|l, node, _| l.integer_matmul(node))),
        Op::Conv => |l, node, _, domain| l.conv(node, domain),
        Op::ConvTranspose => |l, node, _, domain| l.conv_transpose(node, domain),
        Op::MaxPool | Op::AveragePool | Op::GlobalMaxPool | Op::GlobalAveragePool => {
            |l, node, _, _| l.pool(node)
        }
        Op::Resize => |l, node, _, _| l.resize(node),
        Op::DepthToSpace | Op::SpaceToDepth => |l, node, _, _| l.depth_space(node),
        Op::LRN => |l, node, _, _| l.lrn(node),
        Op::Gemm => |l, node, _, domain| l.gemm(node, domain),
        Op::MatMul => |l, node, _, domain| l.matmul(node, domain),
        Op::LayerNormalization | Op::RMSNormalization => |l, node, _, domain| l.layer_norm(node, domain),
        Op::InstanceNormalization | Op::GroupNormalization => |l, node, _, domain| l.group_norm(node, domain),
        Op::BatchNormalization => |l, node, _, domain| l.batch_norm(node, domain),
        Op::Softmax | Op::LogSoftmax => |l, node, layout, _| l.softmax(node, layout),
        Op::ReduceMax
        | Op::ReduceMin
        | Op::ReduceMean
        | Op::ReduceSum
        | Op::ReduceSumSquare
        | Op::ReduceProd => |l, node, layout, _| l.reduce(node, layout),
        Op::ArgMax | Op::ArgMin => |l, node, layout, _| l.arg(node, layout),
        Op::TopK => |l, node, _, _| l.top_k(node),
        Op::CumSum => |l, node, layout, _| l.cum_sum(node, layout),
        Op::LpNormalization => |l, node, layout, _| l.lp_normalise(node, layout),
        Op::GridSample => |l, node, _, _| l.grid_sample(node),
        Op::ScatterElements | Op::ScatterND => |l, node, _, _| l.scatter(node),
        Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten => |l, node, _, _| l.reshape(node),
        Op::Transpose => |l, node, _, _| l.transpose(node),
        Op::Concat => |l, node, layout, _| l.concat(node, layout),
        Op::Split => |l, node, layout, _| l.split(node, layout),
        Op::Slice => |l, node, layout, _| l.slice(node, layout),
        Op::Pad => Lower::pad,
        Op::Tile | Op::Expand => |l, node, layout, _| l.tile(node, layout),
        Op::Gather | Op::GatherElements | Op::GatherND => |l, node, _, _| l.gather(node),
        _ => elementwise::compute(op)?,
    };
    Some(Rule::Domain(compute))
}

/// Lowers one node in its planned order.
pub(super) fn node(l: &mut Lower<'_>, node: &Node, layout: Layout) -> Outcome<()> {
    l.current = Some(node.index);
    if !node.bodies.is_empty() {
        return Err(Refusal::new(Reason::Body, node.op_name.clone()));
    }
    let rule = rule(node.op).ok_or_else(|| Refusal::op(format!("op not offered: {}", node.op_name)))?;
    for tensor in node.inputs.iter().copied().flatten().chain(node.writes()) {
        l.info(tensor)?;
    }
    polychip_lowering::check(l.part, node)?;
    match rule {
        Rule::Typed(lower) => lower(l, node, layout),
        Rule::Domain(compute) => {
            let domain = l.domain(node)?;
            let first = l.program.operations.len();
            compute(l, node, layout, domain)?;
            l.unify(first)
        }
    }
}
