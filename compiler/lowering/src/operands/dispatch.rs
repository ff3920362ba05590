//! What lowers each op: the one table of what there is, for support as for programs.

use polychip_ops::{Op, OpClass};
use polychip_sdk::Reason;

use super::builder::{Domain, Lower, Vendor};
use crate::{Layout, Node, Outcome, Refusal};

/// How a node is lowered.
enum Rule<'a> {
    /// Between types, which it judges itself.
    Typed(fn(&mut Lower<'a>, &Node, Layout) -> Outcome<()>),
    /// On its domain.
    Domain(fn(&mut Lower<'a>, &Node, Layout, Domain) -> Outcome<()>),
}

/// What lowers an op; nothing where there is no such step.
fn rule<'a>(op: Op) -> Option<Rule<'a>> {
    use Rule::{Domain, Typed};
    Some(match op {
        Op::QuantizeLinear | Op::DequantizeLinear => Typed(Lower::border_of_integers),
        Op::Cast => Typed(Lower::cast),
        Op::QLinearConv => Typed(|l, node, _| l.integer_conv(node)),
        Op::QLinearMatMul => Typed(|l, node, _| l.integer_matmul(node)),
        Op::Conv => Domain(|l, node, _, _| l.conv(node)),
        Op::ConvTranspose => Domain(|l, node, _, _| l.conv_transpose(node)),
        Op::MaxPool | Op::AveragePool | Op::GlobalMaxPool | Op::GlobalAveragePool => {
            Domain(|l, node, _, _| l.pool(node))
        }
        Op::Resize => Domain(|l, node, _, _| l.resize(node)),
        Op::DepthToSpace | Op::SpaceToDepth => Domain(|l, node, _, _| l.blocks(node)),
        Op::LRN => Domain(|l, node, _, _| l.lrn(node)),
        Op::GridSample => Domain(|l, node, _, _| l.grid_sample(node)),
        Op::Gemm => Domain(|l, node, _, domain| l.gemm(node, domain)),
        Op::MatMul => Domain(|l, node, _, domain| l.matmul(node, domain)),
        Op::LayerNormalization | Op::RMSNormalization => {
            Domain(|l, node, _, domain| l.layer_norm(node, domain))
        }
        Op::InstanceNormalization | Op::GroupNormalization => {
            Domain(|l, node, _, domain| l.group_norm(node, domain))
        }
        Op::BatchNormalization => Domain(|l, node, _, domain| l.batch_norm(node, domain)),
        Op::Softmax | Op::LogSoftmax => Domain(|l, node, order, _| l.softmax(node, order)),
        Op::ReduceMax
        | Op::ReduceMin
        | Op::ReduceMean
        | Op::ReduceSum
        | Op::ReduceSumSquare
        | Op::ReduceProd => Domain(Lower::reduce),
        Op::ArgMax | Op::ArgMin => Domain(|l, node, order, _| l.arg(node, order)),
        Op::TopK => Domain(|l, node, _, _| l.top_k(node)),
        Op::CumSum => Domain(|l, node, order, _| l.cum_sum(node, order)),
        Op::LpNormalization => Domain(|l, node, order, _| l.lp_normalise(node, order)),
        Op::ScatterElements | Op::ScatterND => Domain(|l, node, _, _| l.scatter(node)),
        Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten => Domain(|l, node, _, _| l.reshape(node)),
        Op::Transpose => Domain(|l, node, _, _| l.transpose(node)),
        Op::Concat => Domain(|l, node, order, _| l.concat(node, order)),
        Op::Split => Domain(|l, node, order, _| l.split(node, order)),
        Op::Slice => Domain(|l, node, order, _| l.slice(node, order)),
        Op::Pad => Domain(|l, node, order, _| l.pad(node, order)),
        Op::Tile | Op::Expand => Domain(|l, node, order, _| l.tile(node, order)),
        Op::Gather | Op::GatherElements | Op::GatherND => Domain(|l, node, _, _| l.gather(node)),
        Op::Clip => Domain(Lower::clip),
        Op::Dropout | Op::Identity => Domain(|l, node, order, _| l.same(node, order)),
        Op::Mean => Domain(Lower::mean),
        Op::Swish => Domain(Lower::swish),
        Op::Where => Domain(Lower::select),
        Op::Add
        | Op::And
        | Op::Div
        | Op::Equal
        | Op::Greater
        | Op::GreaterOrEqual
        | Op::Less
        | Op::LessOrEqual
        | Op::Max
        | Op::Min
        | Op::Mod
        | Op::Mul
        | Op::Or
        | Op::Pow
        | Op::PRelu
        | Op::Sub
        | Op::Sum
        | Op::Xor => Domain(Lower::binary),
        _ if op.class() == OpClass::ElementWise => Domain(Lower::unary),
        _ => return None,
    })
}

/// Whether an op is lowered for a chip, as a step of its own or as several that every chip has.
pub fn offers(op: Op, vendor: &dyn Vendor) -> bool {
    let made = matches!(
        op,
        Op::Clip | Op::LeakyRelu | Op::Reciprocal | Op::HardSigmoid | Op::BatchNormalization
    );
    let moves = matches!(
        op,
        Op::Identity | Op::Dropout | Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten
    );
    (made || moves || vendor.has(op)) && rule(op).is_some()
}

/// Lowers one node in its planned order.
pub(super) fn node(l: &mut Lower<'_>, node: &Node, order: Layout) -> Outcome<()> {
    l.begin(node);
    if !node.bodies.is_empty() {
        return Err(Refusal::new(Reason::Body, node.op_name.clone()));
    }
    let rule = rule(node.op).filter(|_| offers(node.op, l.vendor));
    let rule = rule.ok_or_else(|| Refusal::op(node.op_name.clone()))?;
    for tensor in node.reads().chain(node.writes()) {
        l.info(tensor)?;
    }
    crate::check(l.part, node)?;
    match rule {
        Rule::Typed(lower) => {
            l.vendor.check(l, node, None)?;
            lower(l, node, order)
        }
        Rule::Domain(lower) => {
            let domain = l.domain(node)?;
            l.vendor.check(l, node, Some(domain))?;
            let first = l.program.steps.len();
            lower(l, node, order, domain)?;
            l.vendor.unify(l, first)
        }
    }
}
