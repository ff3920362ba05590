//! What lowers each op: the one table of what is offered, for support as for programs.

use polychip_lowering::{Layout, Node, Outcome, Refusal};
use polychip_ops::Op;
use polychip_sdk::Reason;

use super::builder::Lower;
use super::elementwise;

/// What lowers a node in an order of axes.
type Rule<'a> = fn(&mut Lower<'a>, &Node, Layout) -> Outcome<()>;

/// What lowers an op; nothing where it is not offered.
fn rule<'a>(op: Op) -> Option<Rule<'a>> {
    Some(match op {
        Op::Conv => |l, node, _| l.conv(node),
        Op::Gemm => |l, node, _| l.gemm(node),
        Op::MatMul => |l, node, _| l.matmul(node),
        Op::BatchNormalization => |l, node, _| l.batch_norm(node),
        Op::LayerNormalization => |l, node, _| l.layer_norm(node),
        Op::MaxPool | Op::AveragePool | Op::GlobalMaxPool | Op::GlobalAveragePool => {
            |l, node, _| l.pool(node)
        }
        Op::Resize => |l, node, _| l.resize(node),
        Op::DepthToSpace | Op::SpaceToDepth => |l, node, _| l.blocks(node),
        Op::Softmax | Op::LogSoftmax => Lower::softmax,
        Op::ReduceMean | Op::ReduceMax | Op::ReduceMin | Op::ReduceSum | Op::ReduceProd => Lower::reduce,
        Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten => |l, node, _| l.reshape(node),
        Op::Transpose => |l, node, _| l.transpose(node),
        Op::Concat => Lower::concat,
        Op::Split => Lower::split,
        Op::Slice => Lower::slice,
        Op::Pad => Lower::pad,
        Op::Tile | Op::Expand => Lower::tile,
        Op::Gather => |l, node, _| l.gather(node),
        _ => return elementwise::rule(op),
    })
}

/// Whether an op has a rule at all.
pub(super) fn offers(op: Op) -> bool {
    rule(op).is_some()
}

/// Lowers one node in its planned order.
pub(super) fn node(l: &mut Lower<'_>, node: &Node, layout: Layout) -> Outcome<()> {
    l.node = Some(node.index);
    let rule = match rule(node.op) {
        Some(rule) if node.bodies.is_empty() => rule,
        Some(_) => return Err(Refusal::new(Reason::Body, node.op_name.clone())),
        None => return Err(Refusal::op(node.op_name.clone())),
    };
    for tensor in node.reads().chain(node.writes()) {
        l.info(tensor)?;
        if l.part.tensors[tensor].encoding.is_some() {
            let what = format!("tensor {} is of encoded integers", l.name(tensor));
            return Err(Refusal::encoding(what));
        }
    }
    polychip_lowering::check(l.part, node)?;
    rule(l, node, layout)
}
