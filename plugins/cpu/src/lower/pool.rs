//! Pooling, channels last.

use polychip_cpu_kernels::pool::{PoolParams, PoolPlan, Pooling};
use polychip_ops::{Attr, Op, geometry};
use polychip_sdk::{Error, Result};

use super::{Form, Lowering, image, kernel_error, shape_error};
use crate::part::{Node, TensorIndex};
use crate::work::Class;

/// The window of MaxPool or AveragePool.
pub(super) fn params(l: &Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<PoolParams> {
    let dims = l.shape(x)?;
    let [n, c, _] = image(dims)?;
    let kernel: Vec<usize> = node
        .attributes
        .ints(Attr::KernelShape)
        .unwrap_or(&[])
        .iter()
        .map(|&size| usize::try_from(size).unwrap_or(0))
        .collect();
    let window = geometry::Window::new(node.op, &node.attributes, &kernel).map_err(shape_error)?;
    let placement = window.resolve(&dims[2..]).map_err(shape_error)?;
    if placement.output[..] != l.shape(y)?[2..] {
        return Err(Error::bad_argument(format!(
            "pooling {dims:?} does not give {:?}",
            l.shape(y)?
        )));
    }
    let mut pads_end = [0; 3];
    pads_end[3 - placement.end.len()..].copy_from_slice(&placement.end);
    Ok(PoolParams {
        batch: n,
        channels: c,
        window: super::conv::window(&window, &dims[2..], &placement)?,
        pads_end,
    })
}

/// Elements that the windows of a pool see.
pub(super) fn taps(input: &[usize], output: &[usize], node: &Node) -> usize {
    match node.attributes.ints(Attr::KernelShape) {
        Some(kernel) => {
            let taps: usize = kernel.iter().map(|&size| size.max(1) as usize).product();
            output.iter().product::<usize>().saturating_mul(taps)
        }
        None => input.iter().product(),
    }
}

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
        let pooling = match node.op {
            Op::MaxPool => Pooling::Max,
            _ if node.attributes.int(Attr::CountIncludePad).unwrap_or(0) != 0 => Pooling::AverageCountPadding,
            _ => Pooling::Average,
        };
        let params = params(l, node, x, y)?;
        (PoolPlan::new(params).map_err(kernel_error)?, pooling)
    };
    let isa = l.isa;
    let seen = taps(l.shape(x)?, l.shape(y)?, node);
    let brief = l.stays_brief(x, &[Some(y)]);
    let (input, stride) = l.image(x, brief)?;
    let plan = plan.with_strides(stride, c).map_err(kernel_error)?;
    let output = l.result_as(y, Form::Channels, brief)?;
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
