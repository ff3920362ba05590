//! Ops that read or write where indices say.
//!
//! Invariant: indices follow ONNX; one outside its axis is no error that a device can give, and never leaves the
//! tensor.

use polychip_gpu_kernels::{Gather, GatherElements, GatherNd, Scalar, ScatterElements, ScatterNd};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::operator::{Along, ScatterReduction};
use polychip_ops::{Op, Operator, axis};

use super::builder::Lowering;
use super::map::wide;
use super::movement::carried;
use super::values::{ValueId, count};

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let (Some(x), Some(indices), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    if !matches!(
        node.op,
        Op::Gather | Op::GatherElements | Op::GatherND | Op::ScatterElements | Op::ScatterND
    ) {
        return Ok(false);
    }
    let dims = l.dims(x)?;
    let (along, batch, reduction) = match node.operator()? {
        Operator::Gather(Along { axis }) | Operator::GatherElements(Along { axis }) => (axis, 0, None),
        Operator::GatherND(own) => (0, own.batch_dims, None),
        Operator::ScatterElements(own) => (own.axis, 0, Some(own.reduction)),
        Operator::ScatterND(own) => (0, 0, Some(own.reduction)),
        _ => return Ok(false),
    };
    let axis = axis::normalise(along, dims.len().max(1))
        .filter(|&axis| axis < dims.len())
        .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of rank {}", dims.len())))?;
    let at = l.rows(indices)?;
    let index = l.stored(at).scalar;
    if !matches!(index, Scalar::I64 | Scalar::I32) {
        return Err(Refusal::dtype(format!(
            "indices of {} are not offered",
            index.name()
        )));
    }
    let places = l.dims(indices)?;
    if let Some(reduction) = reduction {
        if reduction != ScatterReduction::None {
            return Err(Refusal::attribute(format!(
                "{} with reduction '{}' is not offered",
                node.op_name,
                reduction.text()
            )));
        }
        scatter(l, node, x, axis, (at, index, places), y)?;
        return Ok(true);
    }
    if dims.contains(&0) {
        return Err(Refusal::shape(format!("{} of an empty tensor", node.op_name)));
    }
    let kind = carried(l, x, y);
    let value = l.get(x, Layout::RowMajor, kind)?;
    let (scalar, target) = l.destination(y, Layout::RowMajor, kind)?;
    l.define(y, Layout::RowMajor, kind, target)?;
    let values = [value, at, target];
    match node.op {
        Op::Gather => {
            let kernel = Gather {
                scalar,
                shape: wide(dims),
                axis,
                indices: count(places)?,
                index,
            };
            l.launch(&kernel, &values)?;
        }
        Op::GatherElements => {
            let kernel = GatherElements {
                scalar,
                shape: wide(dims),
                axis,
                indices: wide(places),
                index,
            };
            l.launch(&kernel, &values)?;
        }
        _ => {
            let kernel = GatherNd {
                scalar,
                shape: wide(dims),
                indices: wide(places),
                batch,
                index,
            };
            l.launch(&kernel, &values)?;
        }
    }
    Ok(true)
}

fn scatter(
    l: &mut Lowering<'_>,
    node: &Node,
    x: TensorIndex,
    axis: usize,
    (at, index, places): (ValueId, Scalar, &[usize]),
    y: TensorIndex,
) -> Outcome<()> {
    let Some(updates) = node.input(2) else {
        return Err(Refusal::op(format!("{} without updates", node.op_name)));
    };
    let dims = l.dims(x)?;
    let (value, updates) = (l.rows(x)?, l.rows(updates)?);
    let (scalar, target) = l.destination(y, Layout::RowMajor, Storage::Real)?;
    if scalar.bytes() < 4 {
        return Err(Refusal::dtype(format!(
            "{} of {} is not offered",
            node.op_name,
            scalar.name()
        )));
    }
    l.define(y, Layout::RowMajor, Storage::Real, target)?;
    l.relayout(value, dims, Layout::RowMajor, Layout::RowMajor, target)?;
    if places.contains(&0) {
        return Ok(());
    }
    let values = [at, updates, target];
    if node.op == Op::ScatterElements {
        let kernel = ScatterElements {
            scalar,
            shape: wide(dims),
            axis,
            indices: wide(places),
            index,
        };
        l.launch(&kernel, &values)
    } else {
        let kernel = ScatterNd {
            scalar,
            shape: wide(dims),
            indices: wide(places),
            index,
        };
        l.launch(&kernel, &values)
    }
}
