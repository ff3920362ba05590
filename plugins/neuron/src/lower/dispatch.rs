//! What lowers each op: the one table of what is offered, for support as for programs.

use polychip_lowering::{Layout, Node, OpClass, Outcome, Refusal};
use polychip_ops::Op;
use polychip_sdk::Reason;

use super::builder::Lower;

/// What lowers a node in an order of axes.
type Rule<'a> = fn(&mut Lower<'a>, &Node, Layout) -> Outcome<()>;

/// What lowers an op; nothing where it is not offered.
fn rule<'a>(op: Op) -> Option<Rule<'a>> {
    Some(match op {
        Op::Conv => |l, node, _| l.conv(node),
        Op::ConvTranspose => |l, node, _| l.conv_transpose(node),
        Op::Gemm => |l, node, _| l.gemm(node),
        Op::MatMul => |l, node, _| l.matmul(node),
        Op::MaxPool | Op::AveragePool | Op::GlobalMaxPool | Op::GlobalAveragePool => {
            |l, node, _| l.pool(node)
        }
        Op::Resize => |l, node, _| l.resize(node),
        Op::DepthToSpace | Op::SpaceToDepth => |l, node, _| l.depth_space(node),
        Op::BatchNormalization => |l, node, _| l.batch_norm(node),
        Op::Softmax => Lower::softmax,
        Op::ReduceMean | Op::ReduceMax | Op::ReduceMin | Op::ReduceSum => Lower::reduce,
        Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten => |l, node, _| l.reshape(node),
        Op::Transpose => |l, node, _| l.transpose(node),
        Op::Concat => Lower::concat,
        Op::Split => Lower::split,
        Op::Slice => Lower::slice,
        Op::Pad => Lower::pad,
        Op::Tile | Op::Expand => Lower::tile,
        Op::Gather => |l, node, _| l.gather(node),
        Op::QuantizeLinear | Op::DequantizeLinear => Lower::border_of_integers,
        Op::Cast => Lower::cast,
        _ if OpClass::of(op) == OpClass::ElementWise || matches!(op, Op::Identity | Op::Dropout) => {
            return super::elementwise::rule(op);
        }
        _ => return None,
    })
}

/// Whether an op has a rule at all.
pub(super) fn offers(op: Op) -> bool {
    rule(op).is_some()
}

/// Lowers one node in its planned order.
pub(super) fn node(l: &mut Lower<'_>, node: &Node, layout: Layout) -> Outcome<()> {
    l.current = Some(node.index);
    if !node.bodies.is_empty() {
        return Err(Refusal::new(Reason::Body, node.op_name.clone()));
    }
    let Some(rule) = rule(node.op) else {
        return Err(Refusal::op(node.op_name.clone()));
    };
    let stored = matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear);
    let (mut quantised, mut float) = (None, None);
    for tensor in node.writes().chain(node.inputs.iter().copied().flatten()) {
        let info = l.info(tensor)?;
        if l.part.is_constant(tensor) || stored {
            continue;
        }
        let name = &l.view(tensor).name;
        if info.borrowed {
            let what = format!("tensor {name} is of plain integers here, and stands for reals elsewhere");
            return Err(Refusal::encoding(what));
        }
        let seen = if info.ty.is_quantised() {
            &mut quantised
        } else {
            &mut float
        };
        if info.ty.is_float() || info.ty.is_quantised() {
            let first = *seen.get_or_insert(info.ty);
            if first != info.ty && node.op != Op::Cast {
                let what = format!(
                    "tensor {name} is of {:?}, others of the node of {first:?}",
                    info.ty
                );
                return Err(Refusal::dtype(what));
            }
        }
    }
    if let (Some(quantised), Some(float)) = (quantised, float)
        && !stored
    {
        let what = format!(
            "some tensors of {} are of {float:?}, others quantised to {quantised:?}",
            node.op_name
        );
        return Err(Refusal::encoding(what));
    }
    polychip_lowering::check(l.part, node)?;
    rule(l, node, layout)
}
