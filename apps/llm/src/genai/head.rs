//! Selects the rows whose logits the graph outputs, before the head, so that the products of other
//! rows are not computed.
//!
//! Invariant: if the head is not found, rows are selected after it; results are the same and take
//! longer.

use polychip_graph::{Graph, Node, NodeId, TensorId};
use polychip_ops::operator::Along;
use polychip_ops::{Attr, Attributes, DType, Op};

use super::tensors::{dims, is_float};
use crate::build::draft::Draft;
use crate::build::{Logits, Shape};
use crate::{Error, Result};

/// Most ops between a constant and its use.
const DEEP: usize = 6;

fn is_fixed(graph: &Graph, id: TensorId, deep: usize) -> bool {
    if graph.tensor(id).is_constant() {
        return true;
    }
    let Some(node) = graph.producer(id).filter(|_| deep > 0) else {
        return false;
    };
    let mut reads = graph.node(node).reads();
    reads.all(|read| is_fixed(graph, read, deep - 1))
}

/// The product with the head's weights, followed only by ops that treat rows alike.
fn product(graph: &Graph, logits: TensorId) -> Option<NodeId> {
    let mut at = logits;
    loop {
        let id = graph.producer(at)?;
        let node = graph.node(id);
        let open = || {
            let mut open = node.reads().filter(|&read| !is_fixed(graph, read, DEEP));
            let first = open.next()?;
            open.next().is_none().then_some(first)
        };
        match node.op {
            Op::MatMul if is_fixed(graph, node.input(1)?, DEEP) => return Some(id),
            Op::Cast
            | Op::Identity
            | Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Tanh
            | Op::Where
            | Op::Clip => at = open()?,
            _ => return None,
        }
        // what has more axes, or is broadcast along rows, is not of the kind
        if dims(graph, at)?.len() != 3 {
            return None;
        }
    }
}

/// From this value on, the end of a slice means the end of the axis.
const END: i64 = 1 << 30;

/// If a node selects the last of `rows` rows and keeps the axis: the tensor it selects from, and
/// its width.
fn chosen(graph: &Graph, node: &Node, rows: usize) -> Option<(TensorId, usize)> {
    let choice = match node.op {
        Op::Unsqueeze => graph.node(graph.producer(node.input(0)?)?),
        _ => node,
    };
    let ints = |slot: usize| {
        let tensor = graph.tensor(choice.input(slot)?);
        tensor.data.as_ref()?.to_literal(&tensor.ty)?.as_i64s()
    };
    let is_last = match choice.op {
        Op::Gather => choice.typed::<Along>().ok()?.axis == 1 && ints(1)? == [-1],
        Op::Slice => {
            let ends = ints(2)?;
            let is_by_one = choice.input(4).is_none() || ints(4)? == [1];
            ints(1)? == [-1] && ends.len() == 1 && ends[0] >= END && ints(3)? == [1] && is_by_one
        }
        _ => false,
    };
    let from = choice.input(0).filter(|_| is_last)?;
    let &[1, count, width] = dims(graph, from)?.as_slice() else {
        return None;
    };
    let keeps = dims(graph, node.output(0)?)? == [1, 1, width];
    (keeps && count == rows).then_some((from, width))
}

/// Makes the graph's own selections of the last row, which in a chunk may lie beyond its tokens,
/// select the wanted rows; returns whether there are any.
pub(super) fn last_rows(graph: Graph, shape: Shape) -> (Graph, bool) {
    let mut any = false;
    let last = graph.input_named("last").filter(|_| shape.logits == Logits::Last);
    let nodes = graph.node_ids();
    let mut draft = Draft::over(graph);
    for id in nodes {
        let graph = draft.graph();
        let node = graph.node(id);
        let (Some((from, width)), Some(output)) = (chosen(graph, node, shape.rows), node.output(0)) else {
            continue;
        };
        let dtype = graph.tensor(from).ty.dtype;
        let rows = match last {
            Some(last) => {
                let axis = Attributes::new().with_int(Attr::Axis, 1);
                draft.node(Op::Gather, &[from, last], axis, dtype, &[1, 1, width])
            }
            None => from,
        };
        draft.graph_mut().replace_uses(output, rows);
        any = true;
    }
    let mut graph = draft.finish();
    graph.remove_dead();
    (graph, any)
}

/// Selects rows before the head, unless the graph has `chosen` them.
pub(super) fn choose(graph: Graph, shape: Shape, vocabulary: usize, chosen: bool) -> Result<Graph> {
    let logits = graph.outputs[0];
    let wanted = match shape.logits {
        Logits::Last => 1,
        Logits::All | Logits::Hidden => shape.rows,
    };
    let Some(head) = product(&graph, logits) else {
        return match dims(&graph, logits) {
            Some(found) if found == [1, shape.rows, vocabulary] => Ok(graph),
            Some(found) if chosen && found == [1, wanted, vocabulary] => Ok(graph),
            found => Err(Error::unsupported(format!(
                "logits have shape {found:?}, and no output head was found: expected [1, {}, {vocabulary}]",
                shape.rows
            ))),
        };
    };
    let x = graph.node(head).input(0);
    let x = x.ok_or_else(|| Error::malformed("the output head has no input"))?;
    let (found, dtype) = (dims(&graph, x), graph.tensor(x).ty.dtype);
    let Some(&[1, rows, width]) = found.as_deref().filter(|_| is_float(dtype)) else {
        return Err(Error::unsupported(format!(
            "the output head multiplies {found:?}; expected [1, rows, width]"
        )));
    };
    if chosen && rows == wanted {
        return Ok(graph);
    }
    if rows != shape.rows {
        return Err(Error::unsupported(format!(
            "the output head multiplies {rows} rows of {}",
            shape.rows
        )));
    }
    let last = graph.input_named("last");
    let mut draft = Draft::over(graph);
    let rows = match (shape.logits, last) {
        (Logits::Last, Some(last)) => {
            let axis = Attributes::new().with_int(Attr::Axis, 1);
            draft.node(Op::Gather, &[x, last], axis, dtype, &[1, 1, width])
        }
        _ => x,
    };
    draft
        .graph_mut()
        .edit_node(head, |node| node.inputs[0] = Some(rows));
    let mut graph = draft.finish();
    graph.remove_dead();
    Ok(graph)
}

/// Makes the logits the port of our graphs.
pub(super) fn give(graph: Graph, shape: Shape, vocabulary: usize) -> Result<Graph> {
    let logits = graph.outputs[0];
    let kept: Vec<TensorId> = graph.outputs[1..].to_vec();
    let rows = match shape.logits {
        Logits::Last => 1,
        Logits::All | Logits::Hidden => shape.rows,
    };
    let (found, dtype) = (dims(&graph, logits), graph.tensor(logits).ty.dtype);
    if !is_float(dtype) {
        return Err(Error::unsupported(format!(
            "logits of type {dtype:?} are not supported"
        )));
    }
    let last = graph.input_named("last");
    let mut draft = Draft::over(graph);
    let mut x = match (found.as_deref(), last) {
        (Some(&[1, count, of]), _) if count == rows && of == vocabulary => logits,
        (Some(&[1, count, of]), Some(last)) if count == shape.rows && of == vocabulary => {
            let axis = Attributes::new().with_int(Attr::Axis, 1);
            draft.node(Op::Gather, &[logits, last], axis, dtype, &[1, 1, of])
        }
        _ => {
            return Err(Error::unsupported(format!(
                "logits have shape {found:?}; expected [1, {rows}, {vocabulary}]"
            )));
        }
    };
    if dtype != DType::F32 {
        x = draft.cast(x, DType::F32, &[1, rows, vocabulary]);
    }
    let x = draft.reshape(x, DType::F32, &[rows, vocabulary]);
    let was = std::mem::take(&mut draft.graph_mut().tensor_mut(logits).name);
    draft.graph_mut().tensor_mut(logits).name = format!("{was} of all axes");
    draft.graph_mut().outputs.clear();
    draft.output("logits", x);
    let mut graph = draft.finish();
    graph.outputs.extend(kept);
    Ok(graph)
}
