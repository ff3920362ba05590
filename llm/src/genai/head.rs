//! Which rows' logits the graph gives: the row is chosen before the head, so that no other one's product is computed.
//!
//! Invariant: where the head is not found, rows are chosen behind it: answers are the same, and take longer.

use polychip_graph::{Graph, NodeId, TensorId};
use polychip_ops::{Attr, Attributes, DType, Op};

use super::tensors::{dims, is_float};
use crate::build::draft::Draft;
use crate::build::{Logits, Shape};
use crate::{Error, Result};

/// How far a constant may be from what is made of it.
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

/// The product with the head's weights, behind which are only ops that know nothing of rows.
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

/// What a choice of the last row chooses from, where a tensor is one.
fn chosen(graph: &Graph, x: TensorId) -> Option<TensorId> {
    let node = graph.node(graph.producer(x)?);
    let gather = match node.op {
        Op::Unsqueeze => graph.node(graph.producer(node.input(0)?)?),
        _ => node,
    };
    let axis = gather.attributes.int(Attr::Axis).unwrap_or(0);
    if gather.op != Op::Gather || axis != 1 {
        return None;
    }
    let (from, index) = (gather.input(0)?, gather.input(1)?);
    let tensor = graph.tensor(index);
    let index = tensor.data.as_ref()?.to_literal(&tensor.ty)?.as_i64s()?;
    (index == [-1] && dims(graph, from)?.len() == 3).then_some(from)
}

/// Chooses rows before the head.
pub(super) fn choose(graph: Graph, shape: Shape, vocabulary: usize) -> Result<Graph> {
    let logits = graph.outputs[0];
    let Some(head) = product(&graph, logits) else {
        return match dims(&graph, logits) {
            Some(found) if found == [1, shape.rows, vocabulary] => Ok(graph),
            found => Err(Error::unsupported(format!(
                "logits of shape {found:?}, whose head is not found: [1, {}, {vocabulary}] is needed",
                shape.rows
            ))),
        };
    };
    let x = graph.node(head).input(0);
    let x = x.ok_or_else(|| Error::malformed("the head has no input"))?;
    let from = chosen(&graph, x).unwrap_or(x);
    let (found, dtype) = (dims(&graph, from), graph.tensor(from).ty.dtype);
    let Some(&[1, rows, width]) = found.as_deref().filter(|_| is_float(dtype)) else {
        return Err(Error::unsupported(format!(
            "the head multiplies {found:?}: [1, rows, width] is needed"
        )));
    };
    if rows != shape.rows {
        return Err(Error::unsupported(format!(
            "the head multiplies {rows} rows of {}",
            shape.rows
        )));
    }
    let last = graph.input_named("last");
    let mut draft = Draft::over(graph);
    let rows = match (shape.logits, last) {
        (Logits::Last, Some(last)) => {
            let axis = Attributes::new().with_int(Attr::Axis, 1);
            draft.node(Op::Gather, &[from, last], axis, dtype, &[1, 1, width])
        }
        _ => from,
    };
    draft
        .graph_mut()
        .edit_node(head, |node| node.inputs[0] = Some(rows));
    let mut graph = draft.finish();
    graph.remove_dead();
    Ok(graph)
}

/// Makes the logits the port that ours are.
pub(super) fn give(graph: Graph, shape: Shape, vocabulary: usize) -> Result<Graph> {
    let logits = graph.outputs[0];
    let kept: Vec<TensorId> = graph.outputs[1..].to_vec();
    let rows = match shape.logits {
        Logits::Last => 1,
        Logits::All => shape.rows,
    };
    let (found, dtype) = (dims(&graph, logits), graph.tensor(logits).ty.dtype);
    if !is_float(dtype) {
        return Err(Error::unsupported(format!(
            "logits of {dtype:?} are not supported"
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
                "logits of shape {found:?}: [1, {rows}, {vocabulary}] is needed"
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
