//! The checks of a flat graph.
//!
//! Invariant: whatever `graph.rs` later reads with `expect` was read here first, in the same way.

use polychip_abi as abi;
use polychip_abi::POLYCHIP_NO_INDEX;
use polychip_ops::{BlockLayout, DType, Literal, Op};

use crate::raw::{self, Rows};
use crate::{Error, Result};

/// Graphs inside graphs beyond this depth are refused: a pointer cycle would have no end.
const MAX_DEPTH: usize = 32;
/// Limit on nodes and tensors in total, bodies included: if each level contained the next one
/// twice, the total would grow without end.
const MAX_ITEMS: u64 = 1 << 26;

/// Work left in one check.
pub(super) struct Budget(u64);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(MAX_ITEMS)
    }

    fn take(&mut self, items: u64) -> Result<()> {
        self.0 = self.0.checked_sub(items).ok_or_else(|| {
            Error::bad_argument(format!("the graph has more than {MAX_ITEMS} nodes and tensors"))
        })?;
        Ok(())
    }
}

/// A graph that was checked.
pub(super) struct Checked<'a> {
    pub(super) raw: abi::polychip_graph,
    inputs: &'a [u32],
    outputs: &'a [u32],
}

/// Checks a graph and all inside it.
///
/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
pub(super) unsafe fn graph<'a>(
    graph: *const abi::polychip_graph,
    budget: &mut Budget,
    depth: usize,
) -> Result<Checked<'a>> {
    if depth > MAX_DEPTH {
        return Err(Error::bad_argument(format!(
            "graphs are nested deeper than {MAX_DEPTH}"
        )));
    }
    // SAFETY: every pointer is readable for the count beside it, as the caller promises; the same
    // holds for each unsafe call in this file.
    let raw = unsafe { raw::read(graph) }?;
    // SAFETY: as above.
    unsafe { raw::text(raw.name, "graph name") }?;
    let nodes = Rows::new(raw.nodes, raw.node_count, raw.node_stride)?;
    let tensors = Rows::new(raw.tensors, raw.tensor_count, raw.tensor_stride)?;
    if raw.tensor_count >= u64::from(POLYCHIP_NO_INDEX) || raw.node_count >= u64::from(POLYCHIP_NO_INDEX) {
        return Err(Error::bad_argument(
            "the graph has more nodes or tensors than indices",
        ));
    }
    budget.take(raw.node_count.saturating_add(raw.tensor_count))?;

    let mut ready = vec![false; tensors.len()];
    for (index, ready) in ready.iter_mut().enumerate() {
        // SAFETY: as above.
        *ready = unsafe { tensor(&tensors, index) }.map_err(|error| error.at_tensor(index as u32))?;
    }

    // SAFETY: as above.
    let inputs = unsafe { raw::slice(raw.inputs, raw.input_count, "graph inputs") }?;
    let mut is_input = vec![false; tensors.len()];
    for &input in inputs {
        let seen = is_input.get_mut(input as usize).ok_or_else(|| {
            Error::bad_argument(format!("graph input is tensor {input} of {}", tensors.len()))
        })?;
        if std::mem::replace(seen, true) {
            return Err(Error::bad_argument("a tensor is twice an input of the graph").at_tensor(input));
        }
        ready[input as usize] = true;
    }

    for index in 0..nodes.len() {
        // SAFETY: as above.
        unsafe { node(&nodes, index, &mut ready, budget, depth) }
            .map_err(|error| error.at_node(index as u32))?;
    }

    // SAFETY: as above.
    let outputs = unsafe { raw::slice(raw.outputs, raw.output_count, "graph outputs") }?;
    for &output in outputs {
        match ready.get(output as usize) {
            Some(true) => {}
            Some(false) => {
                return Err(Error::bad_argument("an output of the graph is never produced").at_tensor(output));
            }
            None => {
                return Err(Error::bad_argument(format!(
                    "graph output is tensor {output} of {}",
                    tensors.len()
                )));
            }
        }
    }

    // SAFETY: as above.
    unsafe { groups(&raw, nodes.len()) }?;

    // SAFETY: as above.
    let states = unsafe { raw::slice(raw.states, raw.state_count, "states") }?;
    for state in states {
        if !inputs.contains(&state.input) || !outputs.contains(&state.output) {
            return Err(Error::bad_argument(format!(
                "state of tensors {} and {} is not an input and an output of the graph",
                state.input, state.output
            )));
        }
    }
    Ok(Checked { raw, inputs, outputs })
}

/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn groups(raw: &abi::polychip_graph, nodes: usize) -> Result<()> {
    let rows = Rows::new(raw.groups, raw.group_count, raw.group_stride)?;
    let mut grouped = vec![false; if rows.len() == 0 { 0 } else { nodes }];
    for index in 0..rows.len() {
        // SAFETY: as above.
        let group = unsafe { rows.read(index) }?;
        // SAFETY: as above.
        let members = unsafe { raw::slice(group.nodes, group.node_count, "group nodes") }?;
        for &member in members {
            let seen = grouped.get_mut(member as usize).ok_or_else(|| {
                Error::bad_argument(format!("group {index} names node {member} of {nodes}"))
            })?;
            if std::mem::replace(seen, true) {
                return Err(Error::bad_argument("a node is in two groups").at_node(member));
            }
        }
    }
    Ok(())
}

/// Checks a tensor of a graph, and returns whether it is a constant.
///
/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn tensor(rows: &Rows<'_, abi::polychip_tensor>, index: usize) -> Result<bool> {
    // SAFETY: as above.
    let raw = unsafe { rows.read(index) }?;
    // SAFETY: as above.
    unsafe { tensor_of(&raw) }
}

/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn tensor_of(raw: &abi::polychip_tensor) -> Result<bool> {
    // SAFETY: as above.
    let name = unsafe { raw::text(raw.name, "tensor name") }?;
    let dtype = DType::from_code(raw.dtype)
        .ok_or_else(|| Error::bad_argument(format!("tensor {name} has unknown data type {}", raw.dtype)))?;
    // SAFETY: as above.
    let dims = unsafe { raw::slice(raw.dims, u64::from(raw.rank), "tensor extents") }?;
    if let Some(dim) = dims.iter().find(|&&dim| dim < abi::POLYCHIP_DIM_UNKNOWN) {
        return Err(Error::bad_argument(format!("tensor {name} has extent {dim}")));
    }
    let unranked = raw.flags & abi::POLYCHIP_TENSOR_UNRANKED != 0;
    if unranked && raw.rank != 0 {
        return Err(Error::bad_argument(format!(
            "tensor {name} of unknown rank has rank {}",
            raw.rank
        )));
    }
    let shape: Option<Vec<usize>> = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let constant = raw.flags & abi::POLYCHIP_TENSOR_CONSTANT != 0;
    if constant {
        let (Some(shape), false) = (&shape, unranked) else {
            return Err(Error::bad_argument(format!(
                "constant {name} has an unknown extent"
            )));
        };
        // SAFETY: as above.
        let data = unsafe { raw::slice(raw.data, raw.data_bytes, "constant data") }?;
        // SAFETY: as above.
        let layout = unsafe { block_layout(raw.encoding, name) }?;
        let whole = match dtype {
            _ if layout.is_some() => layout.and_then(|layout| layout.byte_len(shape)) == Some(data.len()),
            DType::String => Literal::new(dtype, shape.clone(), data).is_some(),
            _ => elements(shape).and_then(|elements| dtype.byte_len(elements)) == Some(data.len()),
        };
        if !whole {
            return Err(Error::bad_argument(format!(
                "constant {name} of type {dtype} and shape {shape:?} has {} bytes",
                data.len()
            )));
        }
    }
    if !raw.encoding.is_null() {
        // SAFETY: as above.
        unsafe { encoding(raw.encoding, name, dims, (unranked, constant, dtype)) }?;
    }
    Ok(constant)
}

fn elements(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))
}

/// The layout of blocks that hold their own scales.
///
/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn block_layout(encoding: *const abi::polychip_encoding, name: &str) -> Result<Option<BlockLayout>> {
    if encoding.is_null() {
        return Ok(None);
    }
    // SAFETY: as above.
    let raw = unsafe { raw::read(encoding) }?;
    if raw.kind != abi::POLYCHIP_ENCODING_BLOCKS {
        return Ok(None);
    }
    match BlockLayout::from_code(raw.block_layout) {
        Some(layout) => Ok(Some(layout)),
        None => Err(Error::bad_argument(format!(
            "encoding of tensor {name} is of unknown block layout {}",
            raw.block_layout
        ))),
    }
}

/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn encoding(
    encoding: *const abi::polychip_encoding,
    name: &str,
    dims: &[i64],
    (unranked, constant, dtype): (bool, bool, DType),
) -> Result<()> {
    // SAFETY: as above.
    let raw = unsafe { raw::read(encoding) }?;
    // SAFETY: as above.
    let scales = unsafe { raw::slice(raw.scales, raw.scale_count, "scales") }?;
    // SAFETY: as above.
    let zero_points = unsafe { raw::slice(raw.zero_points, raw.zero_point_count, "zero points") }?;
    let bad = |what: String| Err(Error::bad_argument(format!("encoding of tensor {name} {what}")));
    if raw.kind == abi::POLYCHIP_ENCODING_BLOCKS {
        let plain = constant && dtype == DType::U8 && raw.real_dtype == DType::F32.code();
        if !plain || !scales.is_empty() || !zero_points.is_empty() {
            return bad("is blocks, which are constants of u8, encode f32 and have no other scales".into());
        }
        return Ok(());
    }
    if !zero_points.is_empty() && zero_points.len() != scales.len() {
        return bad(format!(
            "has {} scales and {} zero points",
            scales.len(),
            zero_points.len()
        ));
    }
    if DType::from_code(raw.real_dtype).is_none() {
        return bad(format!("has unknown real data type {}", raw.real_dtype));
    }
    let axis = match raw.kind {
        abi::POLYCHIP_ENCODING_PER_TENSOR => None,
        abi::POLYCHIP_ENCODING_PER_AXIS | abi::POLYCHIP_ENCODING_PER_BLOCK => Some(raw.axis as usize),
        kind => return bad(format!("is of unknown kind {kind}")),
    };
    let blocks = raw.kind == abi::POLYCHIP_ENCODING_PER_BLOCK;
    if blocks && raw.block_size == 0 {
        return bad("has blocks of 0 elements".into());
    }
    let expected = match axis {
        None => Some(1),
        Some(_) if unranked => None,
        Some(axis) => match dims.get(axis) {
            None => return bad(format!("is along axis {axis} of rank {}", dims.len())),
            Some(_) if blocks => dims
                .iter()
                .enumerate()
                .map(|(place, &dim)| {
                    let dim = usize::try_from(dim).ok()?;
                    Some(if place == axis {
                        dim.div_ceil(raw.block_size as usize)
                    } else {
                        dim
                    })
                })
                .collect::<Option<Vec<_>>>()
                .map(|shape| elements(&shape).unwrap_or(usize::MAX)),
            Some(&dim) => usize::try_from(dim).ok(),
        },
    };
    match expected {
        Some(expected) if expected != scales.len() => {
            bad(format!("has {} scales instead of {expected}", scales.len()))
        }
        _ => Ok(()),
    }
}

/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn node(
    rows: &Rows<'_, abi::polychip_node>,
    index: usize,
    ready: &mut [bool],
    budget: &mut Budget,
    depth: usize,
) -> Result<()> {
    // SAFETY: as above.
    let raw = unsafe { rows.read(index) }?;
    // SAFETY: as above.
    unsafe { raw::text(raw.domain, "domain") }?;
    // SAFETY: as above.
    unsafe { raw::text(raw.op_name, "op name") }?;
    // SAFETY: as above.
    let name = unsafe { raw::text(raw.name, "node name") }?;
    let tensors = ready.len();
    // SAFETY: as above.
    let inputs = unsafe { raw::slice(raw.inputs, raw.input_count, "node inputs") }?;
    if let Some(op) = Op::from_code(raw.op)
        && let (_, Some(most)) = op.spec().input_arity()
        && inputs.len() > most
    {
        return Err(Error::bad_argument(format!(
            "node \"{name}\" has {} inputs, {op} takes at most {most}",
            inputs.len()
        )));
    }
    for &input in inputs.iter().filter(|&&input| input != POLYCHIP_NO_INDEX) {
        match ready.get(input as usize) {
            Some(true) => {}
            Some(false) => {
                return Err(Error::bad_argument(format!(
                    "node \"{name}\" reads tensor {input} before it is produced"
                )));
            }
            None => {
                return Err(Error::bad_argument(format!(
                    "node \"{name}\" reads tensor {input} of {tensors}"
                )));
            }
        }
    }

    // SAFETY: as above.
    unsafe { attributes(&raw) }?;

    let bodies = Rows::new(raw.bodies, raw.body_count, raw.body_stride)?;
    budget.take(raw.body_count)?;
    for body in 0..bodies.len() {
        // SAFETY: as above.
        let body = unsafe { bodies.read(body) }?;
        // SAFETY: as above.
        let inner = unsafe { graph(body.graph, budget, depth + 1) }?;
        // SAFETY: as above.
        let captures = unsafe { raw::slice(body.captures, body.capture_count, "captures") }?;
        for capture in captures {
            if !ready.get(capture.outer as usize).is_some_and(|&ready| ready) {
                return Err(Error::bad_argument(format!(
                    "node {name} captures tensor {} before it is produced",
                    capture.outer
                )));
            }
            if !inner.inputs.contains(&capture.inner) {
                return Err(Error::bad_argument(format!(
                    "node {name} captures into tensor {}, which is not an input of the body",
                    capture.inner
                )));
            }
        }
    }

    // SAFETY: as above.
    let outputs = unsafe { raw::slice(raw.outputs, raw.output_count, "node outputs") }?;
    for &output in outputs.iter().filter(|&&output| output != POLYCHIP_NO_INDEX) {
        match ready.get_mut(output as usize) {
            Some(ready @ false) => *ready = true,
            Some(true) => {
                return Err(Error::bad_argument(format!(
                    "node {name} writes tensor {output}, which is already produced"
                )));
            }
            None => {
                return Err(Error::bad_argument(format!(
                    "node {name} writes tensor {output} of {tensors}"
                )));
            }
        }
    }

    if !raw.decomposition.is_null() {
        // SAFETY: as above.
        let inner = unsafe { graph(raw.decomposition, budget, depth + 1) }?;
        let present = |list: &[u32]| list.iter().filter(|&&tensor| tensor != POLYCHIP_NO_INDEX).count();
        if inner.inputs.len() != present(inputs) || inner.outputs.len() != present(outputs) {
            return Err(Error::bad_argument(format!(
                "node {name} is decomposed into a graph of {} inputs and {} outputs",
                inner.inputs.len(),
                inner.outputs.len()
            )));
        }
    }
    Ok(())
}

/// # Safety
/// As for [`GraphView::new`](super::GraphView::new).
unsafe fn attributes(node: &abi::polychip_node) -> Result<()> {
    let rows = Rows::new(node.attributes, node.attribute_count, node.attribute_stride)?;
    let mut last: Option<(u32, &str)> = None;
    for index in 0..rows.len() {
        // SAFETY: as above.
        let raw = unsafe { rows.read(index) }?;
        // SAFETY: as above.
        let name = unsafe { raw::text(raw.name, "attribute name") }?;
        let key = (raw.code, if raw.code == 0 { name } else { "" });
        if last.is_some_and(|last| last >= key) {
            return Err(Error::bad_argument(format!("attribute {name} is out of order")));
        }
        last = Some(key);
        match raw.value_type {
            abi::POLYCHIP_ATTRIBUTE_TYPE_INTS => {
                // SAFETY: as above.
                unsafe { raw::slice(raw.data.cast::<i64>(), raw.count, "ints") }?;
            }
            abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS => {
                // SAFETY: as above.
                unsafe { raw::slice(raw.data.cast::<f32>(), raw.count, "floats") }?;
            }
            abi::POLYCHIP_ATTRIBUTE_TYPE_TEXTS => {
                // SAFETY: as above.
                let texts = unsafe { raw::slice(raw.data.cast::<abi::polychip_text>(), raw.count, "texts") }?;
                for &text in texts {
                    // SAFETY: as above.
                    unsafe { raw::text(text, "attribute text") }?;
                }
            }
            abi::POLYCHIP_ATTRIBUTE_TYPE_TENSOR => {
                // SAFETY: as above.
                let tensor = unsafe { raw::read(raw.data.cast::<abi::polychip_tensor>()) }?;
                // SAFETY: as above.
                if raw.count != 1 || !unsafe { tensor_of(&tensor) }? {
                    return Err(Error::bad_argument(format!(
                        "attribute {name} is not one constant tensor"
                    )));
                }
            }
            kind => {
                return Err(Error::bad_argument(format!(
                    "attribute {name} is of unknown type {kind}"
                )));
            }
        }
    }
    Ok(())
}
