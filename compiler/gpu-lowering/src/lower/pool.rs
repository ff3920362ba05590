//! Pooling over windows and over whole images, channels last.

use polychip_gpu_kernels::{GlobalPool, Pool, PoolKind, Scalar};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::{Op, Operator};

use super::builder::Lowering;
use super::image;
use super::values::is_float;

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.outputs.first().copied().flatten()) else {
        return Ok(false);
    };
    match node.op {
        Op::MaxPool | Op::AveragePool => windows(l, node, x, y)?,
        Op::GlobalAveragePool | Op::GlobalMaxPool => {
            let kind = if node.op == Op::GlobalMaxPool {
                PoolKind::Max
            } else {
                PoolKind::Average { count_padding: false }
            };
            whole(l, kind, x, y)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn windows(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    if node.output(1).is_some() {
        return Err(Refusal::op("the indices of MaxPool are not offered"));
    }
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    let (stated, kind) = match node.operator()? {
        Operator::MaxPool(pool) => (pool.window, PoolKind::Max),
        Operator::AveragePool(pool) => {
            let count_padding = pool.count_include_pad;
            (pool.window, PoolKind::Average { count_padding })
        }
        _ => return Err(Refusal::op(node.op_name.clone())),
    };
    let (window, ceil) = image::window(&stated.stated()?, dims, out)?;
    // the largest integer encodes the largest real, where both have one encoding
    let carries = kind == PoolKind::Max && l.part.tensors[x].encoding == l.part.tensors[y].encoding;
    let element = if carries { Storage::Stored } else { Storage::Real };
    let element = if l.outer_kind(x) == Storage::Real {
        Storage::Real
    } else {
        element
    };
    let from = l.get(x, Layout::ChannelsLast, element)?;
    let scalar = l.stored(from).scalar;
    let bytes = kind == PoolKind::Max && matches!(scalar, Scalar::I8 | Scalar::U8);
    if !bytes && !matches!(scalar, Scalar::F32 | Scalar::F16) {
        return Err(Refusal::dtype(format!(
            "{} of {} is not offered",
            node.op_name,
            scalar.name()
        )));
    }
    let pool = Pool {
        image: image::image(dims)?,
        window,
        ceil,
        kind,
        scalar,
    };
    let (_, result) = l.destination(y, Layout::ChannelsLast, element)?;
    l.define(y, Layout::ChannelsLast, element, result)?;
    l.launch(&pool, &[from, result])
}

/// The mean or largest value of each channel.
pub(super) fn whole(l: &mut Lowering<'_>, kind: PoolKind, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    if !is_float(l.part.real(x)) || dims.len() < 2 {
        return Err(Refusal::dtype(format!(
            "a global pool of {} and rank {} is not offered",
            l.part.real(x).name(),
            dims.len()
        )));
    }
    let spatial: usize = dims[2..].iter().product();
    let from = l.channels(x)?;
    let pool = GlobalPool {
        image: image::image(&[dims[0], dims[1], spatial])?,
        kind,
        scalar: l.stored(from).scalar,
    };
    let result = l.result(y, Layout::ChannelsLast)?;
    l.launch(&pool, &[from, result])
}
