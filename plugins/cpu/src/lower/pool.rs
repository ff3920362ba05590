//! Pooling, channels last.

use polychip_cpu_kernels::pool::{PoolPlan, Pooling};
use polychip_lowering::Layout;
use polychip_ops::Operator;
use polychip_sdk::Result;

use super::builder::{Lowering, image, kernel_error};
use super::window;
use crate::part::Node;
use crate::work::Class;

/// A norm of this order; `None` where the kernels have none.
fn norm(p: i64) -> Option<Pooling> {
    match p {
        1 => Some(Pooling::Norm1),
        2 => Some(Pooling::Norm2),
        _ => None,
    }
}

/// Lowers MaxPool, AveragePool, LpPool and the global pools.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let (pooling, is_global) = match node.operator() {
        Ok(Operator::MaxPool(_)) => (Some(Pooling::MaxByComparing), false),
        Ok(Operator::AveragePool(pool)) if pool.count_include_pad => {
            (Some(Pooling::AverageCountPadding), false)
        }
        Ok(Operator::AveragePool(_)) => (Some(Pooling::Average), false),
        Ok(Operator::LpPool(pool)) => (norm(pool.p), false),
        Ok(Operator::GlobalMaxPool) => (Some(Pooling::Max), true),
        Ok(Operator::GlobalAveragePool) => (Some(Pooling::Average), true),
        Ok(Operator::GlobalLpPool(pool)) => (norm(pool.p), true),
        _ => return Ok(false),
    };
    let Some(pooling) = pooling else {
        return Ok(false);
    };
    let rank = l.shape(x)?.len();
    // the indices of MaxPool's second output are the reference's
    if !l.all_f32(node) || !(3..=5).contains(&rank) || node.output(1).is_some() {
        return Ok(false);
    }
    let dims = l.shape(x)?;
    let [n, c, spatial] = image(dims)?;
    let plan = if is_global {
        PoolPlan::global(n, spatial, c)
    } else {
        PoolPlan::new(window::pool(l, node, x, y)?)
    };
    let plan = plan.map_err(kernel_error)?;
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
