//! Softmax and its logarithm along one axis.

use polychip_cpu_kernels::softmax as kernel;
use polychip_ops::{Attr, Op, axis};
use polychip_sdk::{Error, Result};

use super::Lowering;
use super::movement::{keep, place};
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
    let along = node.attributes.int(Attr::Axis).unwrap_or(-1);
    if rank == 0 {
        return Ok(false);
    }
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {rank}")))?;
    let (form, dims) = keep(l, x)?;
    let at = place(form, axis, rank);
    let sizes = [
        dims[..at].iter().product(),
        dims[at],
        dims[at + 1..].iter().product(),
    ];
    let isa = l.isa;
    let logarithm = node.op == Op::LogSoftmax;
    let brief = l.stays_brief(x, &[Some(y)]);
    let (input, output) = (l.form_as(x, form, brief)?, l.result_as(y, form, brief)?);
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
