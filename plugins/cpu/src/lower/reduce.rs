//! Reductions over any set of axes, in the layout that the operand has.

use polychip_cpu_kernels::reduce::{Reduce, ReducePlan};
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator;
use polychip_ops::{Op, axis};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error};
use crate::part::Node;
use crate::work::Class;

/// What an op makes of the elements that it reduces.
pub(super) fn function(op: Op) -> Option<Reduce> {
    Some(match op {
        Op::ReduceSum => Reduce::Sum,
        Op::ReduceMean => Reduce::Mean,
        Op::ReduceMax => Reduce::Max,
        Op::ReduceMin => Reduce::Min,
        Op::ReduceProd => Reduce::Prod,
        Op::ReduceL1 => Reduce::L1,
        Op::ReduceL2 => Reduce::L2,
        Op::ReduceSumSquare => Reduce::SumSquare,
        Op::ReduceLogSum => Reduce::LogSum,
        _ => return None,
    })
}

/// Lowers Reduce*, but for the logarithm of a sum of exponentials.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let Some(function) = function(node.op) else {
        return Ok(false);
    };
    if !l.is_f32(x) || !l.is_f32(y) {
        return Ok(false);
    }
    let rank = l.shape(x)?.len();
    let axes = match node.input(1) {
        Some(t) => match l.part.integers(t) {
            Some(axes) => axes,
            None => return Ok(false),
        },
        None => Vec::new(),
    };
    let Ok(attributes) = node.typed::<operator::Reduce>() else {
        return Ok(false);
    };
    let keeps = attributes.keepdims;
    if axes.is_empty() && attributes.noop_with_empty_axes {
        return Ok(false);
    }
    let axes = if axes.is_empty() {
        (0..rank).collect()
    } else {
        axis::normalise_all(&axes, rank)
            .ok_or_else(|| Error::bad_argument(format!("axes {axes:?} of a tensor of rank {rank}")))?
    };
    let (mut layout, mut dims) = l.keep(x)?;
    // without the reduced axes, what is left of a channels-last tensor is in ONNX order only if one of
    // channels and spatial axes is gone
    let spatial_gone = (2..rank).all(|axis| axes.contains(&axis));
    if layout == Layout::ChannelsLast && !keeps && !spatial_gone && !axes.contains(&1) {
        layout = Layout::RowMajor;
        dims = l.shape(x)?.to_vec();
    }
    let mut reduced = vec![false; rank];
    for &axis in &axes {
        reduced[layout.place(axis, rank)] = true;
    }
    let plan = ReducePlan::new(&dims, &reduced).map_err(kernel_error)?;
    let isa = l.isa;
    let input = l.read(x, layout, Storage::Real)?;
    let out = l.shape(y)?;
    let left: usize = dims
        .iter()
        .zip(&reduced)
        .filter(|(_, gone)| !**gone)
        .map(|(size, _)| size)
        .product();
    if left != out.iter().product::<usize>() {
        return Err(Error::bad_argument(format!(
            "reducing {dims:?} over {axes:?} does not give {out:?}"
        )));
    }
    let target = if keeps { layout } else { Layout::RowMajor };
    let output = l.write(y, target, Storage::Real)?;
    debug_assert!(target == Layout::RowMajor || l.value_shape(output) == target.dims(out));
    l.step(
        "reduce",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            plan.run(isa, o.pool, function, o.read(0), o.write(0));
            Ok(())
        }),
    )
    .does(Class::Reduce, dims.iter().product());
    Ok(true)
}
