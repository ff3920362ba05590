//! Pooling, channels last.

use polychip_cpu_kernels::pool::{PoolPlan, Pooling};
use polychip_lowering::Layout;
use polychip_ops::{Op, Operator};
use polychip_sdk::Result;

use super::builder::{Lowering, image, kernel_error};
use super::window;
use crate::part::Node;
use crate::work::Class;

/// Lowers MaxPool, AveragePool and the global pools.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let is_global = matches!(node.op, Op::GlobalAveragePool | Op::GlobalMaxPool);
    let is_window = matches!(node.op, Op::AveragePool | Op::MaxPool);
    let rank = l.shape(x)?.len();
    // the indices of MaxPool's second output are the reference's
    if !(is_global || is_window) || !l.all_f32(node) || !(3..=5).contains(&rank) || node.output(1).is_some() {
        return Ok(false);
    }
    let dims = l.shape(x)?;
    let [n, c, spatial] = image(dims)?;
    let (plan, pooling) = if is_global {
        let pooling = if node.op == Op::GlobalMaxPool {
            Pooling::Max
        } else {
            Pooling::Average
        };
        (PoolPlan::global(n, spatial, c).map_err(kernel_error)?, pooling)
    } else {
        let pooling = match node.operator() {
            Ok(Operator::MaxPool(_)) => Pooling::MaxByComparing,
            Ok(Operator::AveragePool(pool)) if pool.count_include_pad => Pooling::AverageCountPadding,
            Ok(Operator::AveragePool(_)) => Pooling::Average,
            _ => return Ok(false),
        };
        let params = window::pool(l, node, x, y)?;
        (PoolPlan::new(params).map_err(kernel_error)?, pooling)
    };
    let isa = l.isa;
    let seen = window::taps(l.shape(x)?, l.shape(y)?, node);
    let storage = l.kept(x, &[Some(y)]);
    let (input, stride) = l.image(x, storage)?;
    let plan = plan.with_strides(stride, c).map_err(kernel_error)?;
    let output = l.write(y, Layout::ChannelsLast, storage)?;
    l.step(
        "pool",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            plan.run(isa, o.pool, pooling, o.slice(0), o.slice_mut(0));
            Ok(())
        }),
    )
    .does(Class::Pool, seen);
    Ok(true)
}
