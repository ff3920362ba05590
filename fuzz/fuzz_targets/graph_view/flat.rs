//! Builds a flat graph from arbitrary numbers.
//!
//! Invariants:
//! 1. Every pointer is null, or leads into [`Keep`] and is readable for the count, size or stride beside it.
//! 2. Sizes and strides may be smaller than our structs; they are larger only as far as memory goes.
//!
//! Not here: validity, which the view checks.

use std::any::Any;

use arbitrary::{Arbitrary, Result, Unstructured};
use polychip_abi::{self as abi, Sized};
use polychip_ops::DType;

/// Bodies and decompositions nest at most so deep.
const DEEPEST: usize = 3;

/// Owns what the pointers lead to; nothing in it moves or changes.
#[derive(Default)]
pub struct Keep(Vec<Box<dyn Any>>);

impl Keep {
    fn array<T: 'static>(&mut self, values: Vec<T>) -> (*const T, u64) {
        let values: Box<Vec<T>> = Box::new(values);
        let array = (values.as_ptr(), values.len() as u64);
        self.0.push(values);
        array
    }

    fn one<T: 'static>(&mut self, value: T) -> *const T {
        self.array(vec![value]).0
    }
}

/// At most `most` things.
fn several<'a, T>(
    u: &mut Unstructured<'a>,
    most: usize,
    mut one: impl FnMut(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| one(u)).collect()
}

/// Mostly the usual value, sometimes any.
fn mostly<'a, T: Arbitrary<'a>>(u: &mut Unstructured<'a>, usual: T) -> Result<T> {
    if u.ratio(1, 24)? { u.arbitrary() } else { Ok(usual) }
}

/// An index near the valid ones, none, or any.
fn index(u: &mut Unstructured<'_>) -> Result<u32> {
    match u.int_in_range(0..=31u32)? {
        30 => Ok(abi::POLYCHIP_NO_INDEX),
        31 => u.arbitrary(),
        near => Ok(near / 4),
    }
}

fn indices(u: &mut Unstructured<'_>, keep: &mut Keep) -> Result<(*const u32, u64)> {
    let values = several(u, 4, index)?;
    Ok(keep.array(values))
}

fn text(u: &mut Unstructured<'_>, keep: &mut Keep) -> Result<abi::polychip_text> {
    let bytes = if u.ratio(1, 24)? {
        several(u, 6, |u| u.arbitrary())?
    } else {
        several(u, 3, |u| u.int_in_range(b'a'..=b'z'))?
    };
    let (data, len) = keep.array(bytes);
    Ok(abi::polychip_text { data, len })
}

/// Where the array starts, its length and its stride: ours, doubled, or one that cannot be right.
fn rows<T: 'static>(
    u: &mut Unstructured<'_>,
    keep: &mut Keep,
    values: Vec<T>,
) -> Result<(*const T, u64, u64)> {
    let (first, count) = keep.array(values);
    let size = size_of::<T>() as u64;
    Ok(match u.int_in_range(0..=31u32)? {
        0 => (first, count / 2, 2 * size),
        // one element only: a second would begin inside the first
        1 => (first, count.min(1), u.int_in_range(0..=size)?),
        2 => (std::ptr::null(), count, size),
        3 => (first, 0, u.arbitrary()?),
        _ => (first, count, size),
    })
}

/// A whole graph.
pub fn graph(u: &mut Unstructured<'_>, keep: &mut Keep, depth: usize) -> Result<abi::polychip_graph> {
    let tensors = several(u, 8, |u| tensor(u, keep))?;
    let nodes = several(u, 5, |u| node(u, keep, depth))?;
    let groups = several(u, 2, |u| {
        let (nodes, node_count) = indices(u, keep)?;
        Ok(abi::polychip_group {
            struct_size: size::<abi::polychip_group>(u)?,
            kind: u.int_in_range(0..=5)?,
            nodes,
            node_count,
        })
    })?;
    let states = several(u, 2, |u| {
        let (input, output) = (index(u)?, index(u)?);
        Ok(abi::polychip_state { input, output })
    })?;
    let mut graph = abi::polychip_graph {
        name: text(u, keep)?,
        structure_fingerprint: [1; 32],
        ..Sized::sized()
    };
    graph.struct_size = size::<abi::polychip_graph>(u)?;
    (graph.nodes, graph.node_count, graph.node_stride) = rows(u, keep, nodes)?;
    (graph.tensors, graph.tensor_count, graph.tensor_stride) = rows(u, keep, tensors)?;
    let mut inputs = several(u, 4, index)?;
    inputs.sort_unstable();
    inputs.dedup();
    (graph.inputs, graph.input_count) = keep.array(inputs);
    (graph.outputs, graph.output_count) = indices(u, keep)?;
    (graph.groups, graph.group_count, graph.group_stride) = rows(u, keep, groups)?;
    (graph.states, graph.state_count) = keep.array(states);
    Ok(graph)
}

/// Our size, or any: readers go by the smaller of it and their own.
fn size<T>(u: &mut Unstructured<'_>) -> Result<u32> {
    let ours = size_of::<T>() as u32;
    match u.int_in_range(0..=31u32)? {
        0 => u.arbitrary(),
        1 => Ok(ours / 16 * 8),
        _ => Ok(ours),
    }
}

fn tensor(u: &mut Unstructured<'_>, keep: &mut Keep) -> Result<abi::polychip_tensor> {
    let mut dims: Vec<i64> = several(u, 4, |u| u.int_in_range(-1..=4))?;
    for dim in &mut dims {
        *dim = mostly(u, *dim)?;
    }
    let dtype = u.int_in_range(0..=29)?;
    let flags = *u.choose(&[0, 0, 1, 1, 2, 4, 12, 20])?;
    let mut data: Vec<u8> = several(u, 32, |u| u.arbitrary())?;
    if let Some(bytes) = constant_bytes(dtype, &dims)
        && u.ratio(7, 8)?
    {
        data.resize(bytes, 0);
    }
    let encoding = if u.ratio(1, 4)? {
        let encoding = encoding(u, keep, &dims)?;
        keep.one(encoding)
    } else {
        std::ptr::null()
    };
    let (dims, rank) = keep.array(dims);
    let (data, data_bytes) = keep.array(data);
    Ok(abi::polychip_tensor {
        struct_size: size::<abi::polychip_tensor>(u)?,
        dtype,
        flags: mostly(u, flags)?,
        rank: rank as u32,
        dims,
        name: text(u, keep)?,
        encoding,
        data,
        data_bytes,
        fd: u.arbitrary()?,
        fd_offset: u.arbitrary()?,
    })
}

/// What a constant of these extents takes, where that is little.
fn constant_bytes(dtype: u32, dims: &[i64]) -> Option<usize> {
    let mut elements = 1usize;
    for &dim in dims {
        elements = elements.checked_mul(usize::try_from(dim).ok()?)?;
    }
    let bytes = DType::from_code(dtype)?.byte_len(elements)?;
    (bytes <= 1 << 12).then_some(bytes)
}

fn encoding(u: &mut Unstructured<'_>, keep: &mut Keep, dims: &[i64]) -> Result<abi::polychip_encoding> {
    let kind = u.int_in_range(0..=4)?;
    let axis = index(u)?;
    let mut scales: Vec<f32> = several(u, 4, |u| u.arbitrary())?;
    if u.ratio(3, 4)? {
        let along = dims
            .get(axis as usize)
            .map_or(1, |&dim| dim.clamp(0, 64) as usize);
        scales.resize(
            if kind == abi::POLYCHIP_ENCODING_PER_AXIS {
                along
            } else {
                1
            },
            1.0,
        );
    }
    let mut zero_points: Vec<i32> = several(u, 4, |u| u.arbitrary())?;
    if u.ratio(1, 2)? {
        zero_points.resize(scales.len(), 0);
    }
    let (scales, scale_count) = keep.array(scales);
    let (zero_points, zero_point_count) = keep.array(zero_points);
    Ok(abi::polychip_encoding {
        struct_size: size::<abi::polychip_encoding>(u)?,
        kind,
        axis,
        block_size: index(u)?,
        scales,
        scale_count,
        zero_points,
        zero_point_count,
        real_dtype: u.int_in_range(0..=29)?,
        block_layout: u.int_in_range(0..=12)?,
    })
}

fn node(u: &mut Unstructured<'_>, keep: &mut Keep, depth: usize) -> Result<abi::polychip_node> {
    let mut attributes = several(u, 3, |u| attribute(u, keep))?;
    if u.ratio(7, 8)? {
        attributes.sort_by_key(|attribute| attribute.code);
        attributes.dedup_by_key(|attribute| attribute.code);
    }
    let bodies = several(u, if depth < DEEPEST { 2 } else { 0 }, |u| {
        let inner = graph(u, keep, depth + 1)?;
        let captures = several(u, 2, |u| {
            let (outer, inner) = (index(u)?, index(u)?);
            Ok(abi::polychip_capture { outer, inner })
        })?;
        let (captures, capture_count) = keep.array(captures);
        Ok(abi::polychip_body {
            struct_size: size::<abi::polychip_body>(u)?,
            attribute: u.int_in_range(0..=300)?,
            graph: if u.ratio(1, 24)? {
                std::ptr::null()
            } else {
                keep.one(inner)
            },
            captures,
            capture_count,
        })
    })?;
    let decomposition = if depth < DEEPEST && u.ratio(1, 8)? {
        let inner = graph(u, keep, depth + 1)?;
        keep.one(inner)
    } else {
        std::ptr::null()
    };
    let mut node = abi::polychip_node {
        op: u.int_in_range(0..=300)?,
        domain: text(u, keep)?,
        op_name: text(u, keep)?,
        name: text(u, keep)?,
        decomposition,
        ..Sized::sized()
    };
    node.struct_size = size::<abi::polychip_node>(u)?;
    (node.inputs, node.input_count) = indices(u, keep)?;
    (node.outputs, node.output_count) = indices(u, keep)?;
    (node.attributes, node.attribute_count, node.attribute_stride) = rows(u, keep, attributes)?;
    (node.bodies, node.body_count, node.body_stride) = rows(u, keep, bodies)?;
    Ok(node)
}

fn attribute(u: &mut Unstructured<'_>, keep: &mut Keep) -> Result<abi::polychip_attribute> {
    let near = index(u)?;
    let code = mostly(u, near)?;
    let value_type = u.int_in_range(0..=5)?;
    let (data, count) = match value_type {
        abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS => {
            let (data, count) = keep.array::<f32>(several(u, 3, |u| u.arbitrary())?);
            (data.cast(), count)
        }
        abi::POLYCHIP_ATTRIBUTE_TYPE_TEXTS => {
            let texts = several(u, 3, |u| text(u, keep))?;
            let (data, count) = keep.array(texts);
            (data.cast(), count)
        }
        abi::POLYCHIP_ATTRIBUTE_TYPE_TENSOR => {
            let tensor = tensor(u, keep)?;
            (keep.one(tensor).cast(), mostly(u, 1)?)
        }
        _ => {
            let (data, count) = keep.array::<i64>(several(u, 3, |u| u.arbitrary())?);
            (data.cast(), count)
        }
    };
    Ok(abi::polychip_attribute {
        struct_size: size::<abi::polychip_attribute>(u)?,
        code,
        name: text(u, keep)?,
        value_type,
        flags: u.int_in_range(0..=1)?,
        data,
        count,
    })
}
