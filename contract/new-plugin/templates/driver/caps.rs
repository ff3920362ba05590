//! The nodes that the chip supports, and the operation for each. `lower` derives support, estimates
//! and blobs from it.
//!
//! Invariant: a node for which [`operation`] returns an operation compiles, loads and runs, unless the
//! driver's compiler refuses it, which `lower` asks.

use polychip_lowering::{Node, Outcome, Part, Refusal, TensorIndex};
use polychip_ops::{Op, Operator};
use polychip_sdk::Reason;

use crate::driver::{MAX_RANK, Operation, Pool};
use crate::part;

/// Returns the operation for a node, or a refusal, whose reason and text `polychip explain` shows.
pub(crate) fn operation(part: &Part, node: &Node, memory_bytes: u64) -> Outcome<Operation> {
    let operands = match node.op {
        Op::Identity | Op::Relu | Op::MaxPool => 1,
        Op::Add => 2,
        _ => return Err(Refusal::op(node.op_name.clone())),
    };
    if node.reads().count() != operands || node.writes().count() != 1 {
        return Err(Refusal::op(format!("{} of other operands", node.op_name)));
    }
    for tensor in node.reads().chain(node.writes()) {
        check_tensor(part, tensor, memory_bytes)?;
    }
    if node.op == Op::MaxPool {
        return max_pool(part, node).map(Operation::MaxPool);
    }
    let out = node.output(0).and_then(|tensor| part.dims(tensor));
    if node.reads().any(|tensor| part.dims(tensor) != out) {
        return Err(Refusal::shape("broadcasting is not offered"));
    }
    Ok(match node.op {
        Op::Add => Operation::Add,
        Op::Relu => Operation::Relu,
        _ => Operation::Copy,
    })
}

/// Refuses a tensor that the chip cannot hold.
pub(crate) fn check_tensor(part: &Part, tensor: TensorIndex, memory_bytes: u64) -> Outcome<()> {
    part::check_tensor(part, tensor, MAX_RANK)?;
    let bytes = part.dims(tensor).and_then(part::elements).map_or(0, |count| 4 * count as u64);
    if bytes > memory_bytes {
        let name = &part.tensors[tensor].name;
        let words = format!("tensor {name} of {bytes} bytes; the chip has {memory_bytes}");
        return Err(Refusal::new(Reason::Memory, words));
    }
    Ok(())
}

/// The window of a pool. `polychip_ops::geometry` knows ONNX's rules: `auto_pad`, `ceil_mode`, defaults.
fn max_pool(part: &Part, node: &Node) -> Outcome<Pool> {
    let Operator::MaxPool(pool) = node.operator()? else {
        return Err(Refusal::op(node.op_name.clone()));
    };
    let dims = |tensor: Option<TensorIndex>| tensor.and_then(|tensor| part.dims(tensor));
    let (Some(&[n, c, height, width]), Some(out)) = (dims(node.input(0)), dims(node.output(0))) else {
        return Err(Refusal::new(Reason::Rank, "pools of images [n, c, h, w] only"));
    };
    let window = pool.window.stated()?;
    let placed = window.resolve(&[height, width])?;
    if *out != [n, c, placed.output[0], placed.output[1]] {
        return Err(Refusal::shape(format!("the output of shape {out:?} is not that of the window")));
    }
    Ok(Pool {
        kernel: both(&window.kernel)?,
        strides: both(&window.strides)?,
        dilations: both(&window.dilations)?,
        pads: both(&placed.begin)?,
    })
}

/// Figures of height and width as the driver takes them.
fn both(of: &[usize]) -> Outcome<[u32; 2]> {
    let short = |value: usize| u32::try_from(value).ok().filter(|&value| value < 1 << 16);
    match of {
        &[height, width] => short(height).zip(short(width)).map(<[u32; 2]>::from),
        _ => None,
    }
    .ok_or_else(|| Refusal::attribute(format!("window of {of:?}; the limit is 65535 for each of two axes")))
}
