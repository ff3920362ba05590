//! The structural rules of a graph, checked: what passes and devices may rely on.
//!
//! Invariants that hold of a graph that passes:
//! 1. Every tensor that is read or given back is an input, a constant, or made by an earlier node.
//! 2. Inputs are neither constants nor made by a node; constants have the bytes of their type.
//! 3. Bodies read outer tensors by captures only, which are their last inputs, in order; a
//!    decomposition has the node's present inputs and outputs.
//! 4. Encodings, groups and states fit the tensors and nodes they speak of.
//!
//! Not here: rules of single ops (`infer` checks those).

use std::collections::{BTreeMap, BTreeSet};

use polychip_ops::{Attr, DType, Op};

use crate::describe::describe;
use crate::{Container, Encoding, EncodingAxis, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Checks a graph and all graphs inside it.
///
/// # Errors
/// If a rule is broken; the message names the node or tensor.
pub fn verify(graph: &Graph) -> Result<(), Error> {
    ports(graph)?;
    for (id, tensor) in graph.tensors() {
        self::tensor(graph, id, tensor)?;
    }
    let mut known = vec![false; graph.tensor_count()];
    for &input in &graph.inputs {
        known[input.index()] = true;
    }
    for (id, tensor) in graph.tensors() {
        known[id.index()] |= tensor.is_constant();
    }
    for (id, node) in graph.nodes() {
        let what = || format!("node {}", describe(graph, node));
        for read in node.reads() {
            check_id(graph, read, &what)?;
            if !known[read.index()] {
                return Err(unmade(graph, read, &what(), graph.producer(read).is_some()));
            }
        }
        for write in node.writes() {
            check_id(graph, write, &what)?;
            known[write.index()] = true;
        }
        self::node(graph, id, node)?;
    }
    for &output in &graph.outputs {
        if !known[output.index()] {
            return Err(unmade(graph, output, &format!("graph \"{}\"", graph.name), false));
        }
    }
    groups(graph)
}

fn unmade(graph: &Graph, id: TensorId, reader: &str, later: bool) -> Error {
    let name = &graph.tensor(id).name;
    let why = if later {
        "which is made only later"
    } else {
        "which nothing makes"
    };
    Error::invalid(format!("{reader} needs tensor \"{name}\", {why}"))
}

fn check_id(graph: &Graph, id: TensorId, what: &dyn Fn() -> String) -> Result<(), Error> {
    if id.index() < graph.tensor_count() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} names {id}, but there are {} tensors",
        what(),
        graph.tensor_count()
    )))
}

fn ports(graph: &Graph) -> Result<(), Error> {
    let what = || format!("graph \"{}\"", graph.name);
    for &id in graph.inputs.iter().chain(&graph.outputs) {
        check_id(graph, id, &what)?;
    }
    let mut names = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for &id in &graph.inputs {
        let tensor = graph.tensor(id);
        if !seen.insert(id) || !names.insert(&tensor.name) {
            return Err(Error::invalid(format!(
                "input \"{}\" is listed twice",
                tensor.name
            )));
        }
        if tensor.is_constant() {
            return Err(Error::invalid(format!("input \"{}\" is a constant", tensor.name)));
        }
        if let Some(node) = graph.producer(id) {
            let node = describe(graph, graph.node(node));
            return Err(Error::invalid(format!(
                "input \"{}\" is made by node {node}",
                tensor.name
            )));
        }
    }
    let mut outputs: BTreeMap<&str, TensorId> = BTreeMap::new();
    for &id in &graph.outputs {
        let name = graph.tensor(id).name.as_str();
        if outputs.insert(name, id).is_some_and(|before| before != id) {
            return Err(Error::invalid(format!("two outputs are called \"{name}\"")));
        }
    }
    for state in &graph.states {
        if !graph.inputs.contains(&state.input) || !graph.outputs.contains(&state.output) {
            return Err(Error::invalid(format!(
                "a state joins {} and {}, which are not an input and an output",
                state.input, state.output
            )));
        }
        let (input, output) = (graph.tensor(state.input), graph.tensor(state.output));
        if input.ty.dtype != output.ty.dtype {
            return Err(Error::invalid(format!(
                "state \"{}\" is {}, but its next value \"{}\" is {}",
                input.name, input.ty.dtype, output.name, output.ty.dtype
            )));
        }
    }
    Ok(())
}

fn tensor(graph: &Graph, id: TensorId, tensor: &Tensor) -> Result<(), Error> {
    let name = &tensor.name;
    let bad = |why: String| Err(Error::invalid(format!("tensor \"{name}\" {why}")));
    tensor.check_rank()?;
    if let Some(data) = &tensor.data {
        if graph.producer(id).is_some() {
            return bad("is a constant, but made by a node".to_owned());
        }
        let Some(elements) = tensor
            .ty
            .elements()
            .filter(|_| tensor.typed && tensor.container == Container::Tensor)
        else {
            return bad(format!("is a constant of type {}", tensor.ty));
        };
        let layout = tensor.encoding.as_ref().and_then(Encoding::block_layout);
        let needed = match layout {
            // a shape that fits no blocks is refused with the encoding
            Some(layout) => tensor.ty.sizes().and_then(|sizes| layout.byte_len(&sizes)),
            None => tensor.ty.dtype.byte_len(elements),
        };
        match needed {
            Some(bytes) if bytes != data.bytes.len() => {
                return bad(format!(
                    "of type {} needs {bytes} bytes, but has {}",
                    tensor.ty,
                    data.bytes.len()
                ));
            }
            None if layout.is_none() && data.to_literal(&tensor.ty).is_none() => {
                return bad(format!("of type {} holds other strings", tensor.ty));
            }
            _ => {}
        }
    }
    if let Some(encoding) = &tensor.encoding {
        self::encoding(tensor, encoding)?;
    }
    Ok(())
}

fn encoding(tensor: &Tensor, encoding: &Encoding) -> Result<(), Error> {
    let name = &tensor.name;
    let bad = |why: String| Err(Error::invalid(format!("encoding of tensor \"{name}\" {why}")));
    let sizes = tensor.ty.shape.as_deref();
    let axis = match encoding.axis {
        EncodingAxis::PerTensor => None,
        EncodingAxis::PerAxis(axis) => Some(axis),
        EncodingAxis::PerBlock { axis, block } => {
            if block == 0 {
                return bad("has blocks of 0 elements".to_owned());
            }
            Some(axis)
        }
        EncodingAxis::Blocks(layout) => {
            let sizes = tensor.ty.sizes().filter(|_| tensor.data.is_some());
            if sizes.and_then(|sizes| layout.byte_len(&sizes)).is_none()
                || tensor.ty.dtype != DType::U8
                || encoding.real != DType::F32
                || !encoding.scales.is_empty()
                || !encoding.zero_points.is_empty()
            {
                return bad(format!(
                    "is blocks of {layout}: the tensor must be a constant of u8, encode f32 without other scales, and its \
                     last size be a multiple of {}; it is {}",
                    layout.elements(),
                    tensor.ty
                ));
            }
            return Ok(());
        }
    };
    if let (Some(axis), Some(sizes)) = (axis, sizes)
        && axis >= sizes.len()
    {
        return bad(format!(
            "has axis {axis}, but the tensor has {} dimensions",
            sizes.len()
        ));
    }
    let expected = match (encoding.axis, sizes) {
        (EncodingAxis::PerTensor, _) => Some(1),
        (EncodingAxis::PerAxis(axis), Some(sizes)) => sizes[axis].known(),
        (EncodingAxis::PerBlock { axis, block }, Some(_)) => tensor.ty.sizes().and_then(|mut sizes| {
            sizes[axis] = sizes[axis].div_ceil(block);
            sizes
                .iter()
                .try_fold(1usize, |product, &size| product.checked_mul(size))
        }),
        (_, None) | (EncodingAxis::Blocks(_), _) => None,
    };
    if let Some(expected) = expected.filter(|&expected| expected != encoding.scales.len()) {
        return bad(format!(
            "needs {expected} scales, but has {}",
            encoding.scales.len()
        ));
    }
    if !encoding.zero_points.is_empty() && encoding.zero_points.len() != encoding.scales.len() {
        return bad(format!(
            "has {} scales, but {} zero points",
            encoding.scales.len(),
            encoding.zero_points.len()
        ));
    }
    Ok(())
}

fn node(graph: &Graph, id: NodeId, node: &Node) -> Result<(), Error> {
    let bad = |why: String| Err(Error::invalid(format!("node {} {why}", describe(graph, node))));
    if node.inputs.last() == Some(&None) || node.outputs.last() == Some(&None) {
        return bad("ends in an input or output that is left out".to_owned());
    }
    if node.op != Op::Custom && (&*node.op_name != node.op.name() || !node.domain.is_empty()) {
        return bad(format!("is listed as {}", node.op));
    }
    // where a type is not known yet, no shape function has counted
    if node.op != Op::Custom
        && let (_, Some(most)) = node.op.spec().input_arity()
        && node.inputs.len() > most
    {
        let given = node.inputs.len();
        return bad(format!("has {given} inputs, {} takes at most {most}", node.op));
    }
    let needed: &[Attr] = match node.op {
        Op::If => &[Attr::ThenBranch, Attr::ElseBranch],
        Op::Loop | Op::Scan | Op::SequenceMap => &[Attr::Body],
        _ => &[],
    };
    if node.op != Op::Custom && !needed.iter().eq(node.bodies.iter().map(|body| &body.attr)) {
        return bad(format!(
            "has {} body graphs instead of {}",
            node.bodies.len(),
            needed.len()
        ));
    }
    for body in &node.bodies {
        let name = body.attr.name();
        let formals = body.formals().len();
        if formals + body.captures.len() != body.graph.inputs.len()
            || body.graph.inputs[formals..]
                .iter()
                .ne(body.captures.iter().map(|capture| &capture.inner))
        {
            return bad(format!("has a {name} whose last inputs are not its captures"));
        }
        for capture in &body.captures {
            let (outer, inner) = (graph.tensor(capture.outer), body.graph.tensor(capture.inner));
            if outer.typed && inner.typed && outer.ty.dtype != inner.ty.dtype {
                return bad(format!(
                    "captures tensor \"{}\" of {} as {}",
                    outer.name, outer.ty.dtype, inner.ty.dtype
                ));
            }
        }
        // how many inputs the op passes, and how many outputs of the body come before its own
        let passes = match node.op {
            Op::If => Some((0, 0)),
            Op::Loop => Some((node.inputs.len().max(2), 1)),
            Op::Scan => Some((node.inputs.len(), 0)),
            _ => None,
        };
        if let Some((inputs, first)) = passes {
            if formals != inputs {
                return bad(format!(
                    "passes {inputs} inputs to its {name}, which has {formals}"
                ));
            }
            let gives = body.graph.outputs.len();
            if gives < first + node.outputs.len() {
                let wants = first + node.outputs.len();
                return bad(format!("wants {wants} outputs of its {name}, which has {gives}"));
            }
        }
        verify(&body.graph)?;
    }
    if let Some(inner) = &node.decomposition {
        let (reads, writes) = (node.inputs.iter().flatten().count(), node.writes().count());
        if inner.inputs.len() != reads || inner.outputs.len() != writes {
            return bad(format!(
                "has {reads} inputs and {writes} outputs, but its decomposition {} and {}",
                inner.inputs.len(),
                inner.outputs.len()
            ));
        }
        verify(inner)?;
    }
    debug_assert!(node.writes().all(|output| graph.producer(output) == Some(id)));
    Ok(())
}

fn groups(graph: &Graph) -> Result<(), Error> {
    let mut member = BTreeSet::new();
    for group in &graph.groups {
        if group.nodes.is_empty() || !group.nodes.is_sorted() {
            return Err(Error::invalid(format!(
                "a {} group is empty or out of order",
                group.kind.name()
            )));
        }
        for &id in &group.nodes {
            let Some(node) = graph.find_node(id) else {
                return Err(Error::invalid(format!(
                    "a {} group names the removed node {id}",
                    group.kind.name()
                )));
            };
            if !member.insert(id) {
                return Err(Error::invalid(format!(
                    "node {} is in two groups",
                    describe(graph, node)
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
