//! Rewrites products with 4-bit and 8-bit weights to the form that devices accept: rows by a matrix
//! whose codes stay in place.
//!
//! The importer writes MatMulNBits as DequantizeLinear, Transpose and MatMul; folding would
//! transpose a copy of the codes for each chunk size. Here codes get their scales as an encoding,
//! and stay `[columns, depth]`.
//!
//! Invariants:
//! 1. Products of another form are left alone.
//! 2. Codes have the encoding of their own scales and zero points, whatever else reads them and
//!    whatever tensors are called.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use half::{bf16, f16};
use polychip_graph::{Constant, Encoding, EncodingAxis, Graph, Node, NodeId, TensorId};
use polychip_ops::operator::{Dequantize, Transpose};
use polychip_ops::{Attr, Attributes, DType, Op};

use super::tensors::{dims, is_float};
use crate::Result;
use crate::build::draft::Draft;

/// Addresses and lengths of a matrix's codes, scales and zero points.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Parts {
    places: [(usize, usize); 3],
    dims: [usize; 2],
    block: usize,
}

/// An encoding, and the name of a constant with it.
#[derive(Debug)]
struct Named {
    name: String,
    encoding: Encoding,
    /// The content at those addresses, held so that they are not reused.
    _parts: [Bytes; 3],
}

/// Encodings made so far, which graphs of all sizes share.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<Parts, Named>>);

/// A matrix of codes.
struct Codes {
    name: String,
    dtype: DType,
    dims: [usize; 2],
    stored: Constant,
    encoding: Encoding,
}

fn made_by(graph: &Graph, id: TensorId, op: Op) -> Option<&Node> {
    let node = graph.node(graph.producer(id)?);
    (node.op == op).then_some(node)
}

/// The codes of a transposed matrix that is dequantized in blocks.
fn codes(graph: &Graph, weights: TensorId, known: &Known) -> Option<Codes> {
    let transposed = made_by(graph, weights, Op::Transpose)?;
    if transposed.typed::<Transpose>().ok()?.perm? != [1, 0] {
        return None;
    }
    let node = made_by(graph, transposed.input(0)?, Op::DequantizeLinear)?;
    let dequantize: Dequantize = node.typed().ok()?;
    let block = dequantize.block;
    if dequantize.axis != 1 || block == 0 {
        return None;
    }
    let (codes, scales, zeros) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let tensor = graph.tensor(codes);
    let (stored, dtype) = (tensor.data.clone()?, tensor.ty.dtype);
    let &[columns, depth] = tensor.ty.sizes()?.as_slice() else {
        return None;
    };
    let parts = [codes, scales, zeros].map(|id| Some(graph.tensor(id).data.as_ref()?.bytes.clone()));
    let [Some(codes), Some(scale_bytes), Some(zero_bytes)] = parts else {
        return None;
    };
    let parts = [codes, scale_bytes, zero_bytes];
    let key = Parts {
        places: [0, 1, 2].map(|part| (parts[part].as_ptr().addr(), parts[part].len())),
        dims: [columns, depth],
        block,
    };
    let codes = |named: &Named| Codes {
        name: named.name.clone(),
        dtype,
        dims: [columns, depth],
        stored,
        encoding: named.encoding.clone(),
    };
    let mut known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(named) = known.get(&key) {
        return Some(codes(named));
    }
    let count = columns.checked_mul(depth.div_ceil(block))?;
    let scales = floats(graph, scales)?;
    let zero_points = integers(graph, zeros, dtype, count)?;
    if scales.len() != count || zero_points.len() != count {
        return None;
    }
    let encoding = Encoding {
        axis: EncodingAxis::PerBlock { axis: 1, block },
        scales: scales.into(),
        zero_points: zero_points.into(),
        real: DType::F32,
    };
    // names are what a graph in the making knows constants by
    let mut name = format!("{} in blocks", tensor.name);
    while known.values().any(|named| named.name == name) {
        name.push_str(" again");
    }
    let named = Named {
        name,
        encoding,
        _parts: parts,
    };
    let made = codes(&named);
    known.insert(key, named);
    Some(made)
}

fn floats(graph: &Graph, id: TensorId) -> Option<Vec<f32>> {
    let tensor = graph.tensor(id);
    let bytes = &tensor.data.as_ref()?.bytes;
    match tensor.ty.dtype {
        DType::F32 => {
            let all = bytes.as_chunks().0.iter();
            Some(all.map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
        DType::F16 => {
            let all = bytes.as_chunks().0.iter();
            Some(all.map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect())
        }
        DType::BF16 => {
            let all = bytes.as_chunks().0.iter();
            Some(all.map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect())
        }
        _ => None,
    }
}

/// The first `count` unsigned integers of 4 or 8 bits.
fn integers(graph: &Graph, id: TensorId, dtype: DType, count: usize) -> Option<Vec<i32>> {
    let tensor = graph.tensor(id);
    let bytes = &tensor.data.as_ref().filter(|_| tensor.ty.dtype == dtype)?.bytes;
    let all: Vec<i32> = match dtype {
        DType::U8 => bytes.iter().map(|&byte| i32::from(byte)).collect(),
        DType::U4 => {
            let pairs = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
            pairs.map(i32::from).take(count).collect()
        }
        _ => return None,
    };
    Some(all)
}

/// Rewrites products with codes.
pub(super) fn blocks(graph: Graph, known: &Known) -> Result<Graph> {
    let nodes: Vec<NodeId> = graph.node_ids();
    let mut draft = Draft::over(graph);
    // products of the same rows read the same tensor, so that devices can take them together
    let mut rows_of: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    for id in nodes {
        let graph = draft.graph();
        let node = graph.node(id);
        let (Op::MatMul, Some(x), Some(weights), Some(y)) =
            (node.op, node.input(0), node.input(1), node.output(0))
        else {
            continue;
        };
        let (Some(shape), Some(matrix)) = (dims(graph, x), codes(graph, weights, known)) else {
            continue;
        };
        let [columns, depth] = matrix.dims;
        let Some((&last, before)) = shape.split_last() else {
            continue;
        };
        let dtype = graph.tensor(x).ty.dtype;
        if last != depth || !is_float(dtype) {
            continue;
        }
        let rows = before.iter().product::<usize>();
        let flat = match rows_of.get(&x) {
            Some(&known) => known,
            None => {
                let mut flat = draft.reshape(x, dtype, &[rows, depth]);
                if dtype != DType::F32 {
                    flat = draft.cast(flat, DType::F32, &[rows, depth]);
                }
                rows_of.insert(x, flat);
                flat
            }
        };
        let w = draft.constant_of(
            &matrix.name,
            matrix.dtype,
            &matrix.dims,
            matrix.stored,
            Some(matrix.encoding),
        );
        let by = Attributes::new().with_int(Attr::TransB, 1);
        let mut product = draft.node(Op::Gemm, &[flat, w], by, DType::F32, &[rows, columns]);
        if dtype != DType::F32 {
            product = draft.cast(product, dtype, &[rows, columns]);
        }
        let product = draft.reshape(product, dtype, &[before, &[columns]].concat());
        let graph = draft.graph_mut();
        graph.replace_uses(y, product);
    }
    let mut graph = draft.finish();
    graph.remove_dead();
    Ok(graph)
}

#[cfg(test)]
mod tests;
