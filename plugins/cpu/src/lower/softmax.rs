//! Softmax and its logarithm along one axis.

use polychip_cpu_kernels::softmax as kernel;
use polychip_ops::operator::Along;
use polychip_ops::{Op, axis};
use polychip_sdk::{Error, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::work::Class;

/// Lowers Softmax and LogSoftmax.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if !matches!(node.op, Op::Softmax | Op::LogSoftmax) || !l.all_f32(node) {
        return Ok(false);
    }
    let rank = l.shape(x)?.len();
    let Ok(Along { axis: along }) = node.typed() else {
        return Ok(false);
    };
    if rank == 0 {
        return Ok(false);
    }
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {rank}")))?;
    let (layout, dims) = l.keep(x)?;
    let at = layout.place(axis, rank);
    let sizes = [
        dims[..at].iter().product(),
        dims[at],
        dims[at + 1..].iter().product(),
    ];
    let isa = l.isa;
    let logarithm = node.op == Op::LogSoftmax;
    let storage = l.kept(x, &[Some(y)]);
    let (input, output) = (l.read(x, layout, storage)?, l.write(y, layout, storage)?);
    let step = l.step(
        "softmax",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            if logarithm {
                kernel::log_softmax(isa, o.pool, sizes, o.slice(0), o.slice_mut(0));
            } else if o.shared().is_some() {
                kernel::softmax_in_place(isa, o.pool, sizes, o.slice_mut(0));
            } else {
                kernel::softmax(isa, o.pool, sizes, o.slice(0), o.slice_mut(0));
            }
            Ok(())
        }),
    );
    step.is(Class::Softmax);
    if !logarithm {
        step.may_share = vec![0];
    }
    Ok(true)
}
