//! Converts an ONNX model for a vendor's compiler to steps over 16-bit floats. Tensors with fake
//! quantisation become integers.
//!
//! Invariants:
//! 1. Every float constant, and every float tensor that a node writes, is rounded to 16 bits,
//!    except dequantised integers.
//! 2. Dequantised tensors, and tensors that are quantised immediately, are rounded only by the
//!    quantisation, because the chip's sums are wide.

use std::collections::BTreeMap;

use polychip_graph::{Graph, Node, NodeId, TensorId, infer, onnx};
use polychip_ops::{Attr, AttrValue, DType, Op};

use crate::program::{Builder, Id, Linear, Program, Spec};

/// Newest model format that a compiler reads.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    /// The opset of ONNX's own ops.
    pub opset: i64,
    /// The file format's version.
    pub ir: i64,
}

/// A model ready to run.
pub struct Model {
    /// Its steps.
    pub program: Program,
    /// Names of inputs and outputs.
    pub names: (Vec<String>, Vec<String>),
    /// Text that the compiler was asked to write into the file.
    pub mark: String,
    /// Bytes of constants and of intermediate tensors on the chip.
    pub memory: (u32, u32),
    /// Whether its products are computed in integers.
    pub integers: bool,
}

/// Reads the graph of a model and infers all shapes.
///
/// # Errors
/// The bytes are not a model, the model is of a newer release, or a shape cannot be inferred.
pub fn graph(bytes: Vec<u8>, newest: Newest) -> Result<Graph, String> {
    let words = |error: polychip_graph::Error| error.to_string();
    let header = onnx::read_header(bytes.clone().into()).map_err(words)?;
    let opset = header.opsets.get("").copied().unwrap_or(0);
    let ir = header.ir_version.unwrap_or(0);
    if opset > newest.opset || ir > newest.ir {
        return Err(format!(
            "opset {opset} in format {ir}: at most {} in {} are read",
            newest.opset, newest.ir
        ));
    }
    let mut graph =
        onnx::import(bytes.into(), &onnx::NoExternalData, &onnx::Options::default()).map_err(words)?;
    infer(&mut graph).map_err(words)?;
    Ok(graph)
}

/// Extents of a tensor.
///
/// # Errors
/// An extent is unknown.
pub fn shape(graph: &Graph, id: TensorId) -> Result<Vec<usize>, String> {
    let tensor = graph.tensor(id);
    tensor
        .ty
        .sizes()
        .ok_or_else(|| format!("the shape of {} is not known", tensor.name))
}

/// Type, shape and encoding of a tensor on the chip.
fn spec(graph: &Graph, id: TensorId) -> Result<Spec, String> {
    let dtype = match graph.tensor(id).ty.dtype {
        DType::F32 => DType::F16,
        other => other,
    };
    Ok(Spec::plain(dtype, shape(graph, id)?))
}

/// The scale and the zero point that a node quantises or dequantises by, and the type of its integers.
///
/// # Errors
/// They are not constants, or not signed bytes.
fn linear(graph: &Graph, node: &Node) -> Result<(DType, Linear), String> {
    let constant = |place: usize| {
        let id = node.input(place)?;
        let data = graph.tensor(id).data.as_ref()?;
        Some((graph.tensor(id).ty.dtype, &data.bytes[..]))
    };
    let name = &node.name;
    let (_, scales) = constant(1).ok_or_else(|| format!("{name} has no constant scale"))?;
    let (dtype, zeros) = constant(2).ok_or_else(|| format!("{name} has no constant zero point"))?;
    if dtype != DType::I8 {
        return Err(format!("{name} is about {dtype}: signed bytes are taken"));
    }
    let scales: Vec<f32> = scales
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    let axis = match node.attributes.get(Attr::Axis) {
        Some(AttrValue::Int(axis)) if scales.len() > 1 => usize::try_from(*axis).ok(),
        _ => None,
    };
    Ok((
        dtype,
        Linear {
            axis,
            zero_points: zeros.iter().map(|&byte| i32::from(byte as i8)).collect(),
            scales,
        },
    ))
}

/// Whether a tensor holds dequantised integers.
#[must_use]
pub fn is_dequantised(graph: &Graph, id: TensorId) -> bool {
    let made = graph.producer(id).map(|node| graph.node(node).op);
    made == Some(Op::DequantizeLinear)
}

fn is_product_of_integers(graph: &Graph, node: &Node) -> bool {
    let product = matches!(node.op, Op::Conv | Op::ConvTranspose | Op::Gemm | Op::MatMul);
    product && node.input(0).is_some_and(|id| is_dequantised(graph, id))
}

/// Whether a constant is a scale or the bias of an integer product, which the chip stores in 32
/// bits.
fn stays_exact(graph: &Graph, id: TensorId) -> bool {
    let exact = |node: &Node| match node.op {
        Op::QuantizeLinear | Op::DequantizeLinear => node.input(1) == Some(id),
        _ => node.input(2) == Some(id) && is_product_of_integers(graph, node),
    };
    let mut readers = graph
        .consumers(id)
        .iter()
        .map(|&node| graph.node(node))
        .peekable();
    graph.tensor(id).ty.dtype == DType::F32 && readers.peek().is_some() && readers.all(exact)
}

/// The encoding of a tensor, if it is dequantised, or if its only reader quantises it.
///
/// # Errors
/// As [`linear`].
fn fake(graph: &Graph, id: TensorId) -> Result<Option<(DType, Linear)>, String> {
    let of = |node: NodeId, op: Op| Some(graph.node(node)).filter(|node| node.op == op);
    let made = graph.producer(id).and_then(|node| of(node, Op::DequantizeLinear));
    let read = graph
        .only_consumer(id)
        .and_then(|node| of(node, Op::QuantizeLinear));
    made.or(read).map(|node| linear(graph, node)).transpose()
}

impl Model {
    /// Converts a graph.
    ///
    /// # Errors
    /// Names the node or tensor that cannot be converted.
    pub fn new(graph: &Graph, mark: String) -> Result<Model, String> {
        let mut builder = Builder::default();
        let mut ids: BTreeMap<TensorId, Id> = BTreeMap::new();
        let (mut weights, mut between) = (0u64, 0u64);
        for (id, tensor) in graph.tensors() {
            let needed = graph.is_input(id)
                || graph.is_output(id)
                || graph.producer(id).is_some()
                || tensor.data.is_some();
            if !needed {
                continue;
            }
            let on_chip = spec(graph, id)?;
            let faked = fake(graph, id)?;
            let is_port = graph.is_input(id) || graph.is_output(id);
            if let Some((dtype, linear)) = faked.filter(|_| tensor.data.is_none()) {
                // its integers are counted where they stand
                let made = if is_port {
                    let encoding = Some(linear);
                    builder.tensor(Spec {
                        dtype,
                        encoding,
                        ..on_chip
                    })
                } else {
                    builder.between()
                };
                ids.insert(id, made);
                continue;
            }
            let bytes = on_chip.bytes() as u64;
            let made = match &tensor.data {
                Some(data) if stays_exact(graph, id) => {
                    let exact = Spec::plain(DType::F32, on_chip.shape.clone());
                    builder.constant(exact, &data.bytes)?
                }
                Some(data) if on_chip.dtype == DType::F16 => {
                    let exact = Spec::plain(DType::F32, on_chip.shape.clone()).load(&data.bytes)?;
                    let rounded = on_chip.store(&exact)?;
                    builder.constant(on_chip, &rounded)?
                }
                Some(data) => builder.constant(on_chip, &data.bytes)?,
                None => builder.tensor(on_chip),
            };
            match &tensor.data {
                Some(_) => weights += bytes,
                None => between += bytes,
            }
            ids.insert(id, made);
        }
        let of = |id: TensorId| {
            ids.get(&id)
                .copied()
                .ok_or("a tensor that nothing makes".to_owned())
        };
        for (_, node) in graph.nodes() {
            if !node.bodies.is_empty() {
                return Err(format!("{} has bodies", node.op_name));
            }
            let inputs = node.inputs.iter().map(|id| id.map(of).transpose());
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let outputs = node
                .outputs
                .iter()
                .map(|id| id.map_or(Err("an output is left out".to_owned()), of));
            let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
            builder.step_to(node.op, node.attributes.clone(), &inputs, &outputs);
        }
        let integers = graph.nodes().any(|(_, node)| is_product_of_integers(graph, node));
        let ports = |list: &[TensorId]| list.iter().map(|&id| of(id)).collect::<Result<Vec<_>, _>>();
        let names = |list: &[TensorId]| -> Vec<String> {
            list.iter().map(|&id| graph.tensor(id).name.clone()).collect()
        };
        Ok(Model {
            program: builder.finish(&ports(&graph.inputs)?, &ports(&graph.outputs)?)?,
            names: (names(&graph.inputs), names(&graph.outputs)),
            mark,
            memory: (narrow(weights), narrow(between)),
            integers,
        })
    }
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
