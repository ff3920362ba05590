//! Reductions along axes, and the places of extremes.

use polychip_gpu_kernels::{ArgReduce, PoolKind, Reduce, Reduction, Scalar};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::{Op, axis, operator};

use super::builder::Lowering;
use super::map::wide;
use super::movement::kept;
use super::pool;
use super::values::is_float;

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let reduction = match node.op {
        Op::ReduceSum => Reduction::Sum,
        Op::ReduceMean => Reduction::Mean,
        Op::ReduceMax => Reduction::Max,
        Op::ReduceMin => Reduction::Min,
        Op::ReduceProd => Reduction::Prod,
        Op::ReduceL1 => Reduction::L1,
        Op::ReduceL2 => Reduction::L2,
        Op::ReduceSumSquare => Reduction::SumSquare,
        Op::ReduceLogSum => Reduction::LogSum,
        Op::ReduceLogSumExp => Reduction::LogSumExp,
        Op::ArgMax | Op::ArgMin => {
            place_of_extreme(l, node)?;
            return Ok(true);
        }
        _ => return Ok(false),
    };
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Err(Refusal::op(format!("{} without operands", node.op_name)));
    };
    let dims = l.dims(x)?;
    let rank = dims.len();
    let listed =
        match node.input(1) {
            Some(t) => Some(l.part.integers(t).ok_or_else(|| {
                Refusal::constant(format!("the axes of {} come from the run", node.op_name))
            })?),
            None => None,
        };
    let axes: Vec<usize> = match listed.filter(|axes| !axes.is_empty()) {
        Some(axes) => axis::normalise_all(&axes, rank)
            .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of rank {rank}")))?,
        None if node.typed::<operator::Reduce>()?.noop_with_empty_axes => {
            return Err(Refusal::attribute("a reduction of nothing"));
        }
        None => (0..rank).collect(),
    };
    let remaining: usize = (0..rank)
        .filter(|axis| !axes.contains(axis))
        .map(|axis| dims[axis])
        .product();
    if remaining != l.dims(y)?.iter().product::<usize>() || dims.contains(&0) {
        return Err(Refusal::shape(format!(
            "{dims:?} reduced along {axes:?} is not {:?}",
            l.dims(y)?
        )));
    }
    let mut layout = kept(l, x)?;
    let spatial = rank >= 3 && (2..rank).all(|axis| axes.contains(&axis));
    if spatial
        && axes.len() == rank - 2
        && is_float(l.part.real(x))
        && let Reduction::Mean | Reduction::Max = reduction
        && layout == Layout::ChannelsLast
    {
        let kind = match reduction {
            Reduction::Max => PoolKind::Max,
            _ => PoolKind::Average { count_padding: false },
        };
        pool::whole(l, kind, x, y)?;
        return Ok(true);
    }
    // the remaining axes must be in ONNX order
    if layout == Layout::ChannelsLast && !(spatial || axes.contains(&1)) {
        layout = Layout::RowMajor;
    }
    let from = l.get(x, layout, Storage::Real)?;
    let scalar = l.stored(from).scalar;
    if !matches!(scalar, Scalar::F32 | Scalar::F16 | Scalar::I32 | Scalar::I64) {
        return Err(Refusal::dtype(format!(
            "{} of {} is not offered",
            node.op_name,
            scalar.name()
        )));
    }
    let target = l.result(y, Layout::RowMajor)?;
    if rank == 0 {
        return Err(Refusal::shape("a reduction of a scalar is not offered"));
    }
    let mut moved: Vec<usize> = axes.iter().map(|&axis| layout.place(axis, rank)).collect();
    moved.sort_unstable();
    let kernel = Reduce {
        scalar,
        shape: wide(&layout.dims(dims)),
        axes: moved,
        reduction,
    };
    l.launch(&kernel, &[from, target])?;
    Ok(true)
}

fn place_of_extreme(l: &mut Lowering<'_>, node: &Node) -> Outcome<()> {
    let (Some(x), Some(y)): (Option<TensorIndex>, Option<TensorIndex>) = (node.input(0), node.output(0))
    else {
        return Err(Refusal::op(format!("{} without operands", node.op_name)));
    };
    let dims = l.dims(x)?;
    let own: operator::ArgReduce = node.typed()?;
    let along = own.axis;
    let axis = axis::normalise(along, dims.len())
        .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of rank {}", dims.len())))?;
    let from = l.rows(x)?;
    let scalar = l.stored(from).scalar;
    if !matches!(
        scalar,
        Scalar::F32 | Scalar::F16 | Scalar::I32 | Scalar::I8 | Scalar::U8
    ) {
        return Err(Refusal::dtype(format!(
            "{} of {} is not offered",
            node.op_name,
            scalar.name()
        )));
    }
    let target = l.result(y, Layout::RowMajor)?;
    let kernel = ArgReduce {
        scalar,
        shape: wide(dims),
        axis,
        largest: node.op == Op::ArgMax,
        last: own.last,
        index: l.stored(target).scalar,
    };
    l.launch(&kernel, &[from, target])
}
