//! An ONNX model, as a vendor's compiler is handed one, as steps over 16-bit floats.
//!
//! Invariant: every tensor of reals that a node writes, and every constant of reals, is rounded to 16 bits.

use std::collections::BTreeMap;

use crate::program::{Builder, Id, Program, Spec};
use polychip_graph::{Graph, TensorId, infer, onnx};
use polychip_ops::DType;

/// What a compiler reads at most.
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
    /// What the compiler was told to write into the file.
    pub mark: String,
    /// Bytes of constants and of tensors in between, on the chip.
    pub memory: (u32, u32),
}

/// The graph of a model, with all shapes known.
///
/// # Errors
/// The bytes are no model, it is of a newer release, or a shape in it cannot be inferred.
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
/// They are not known.
pub fn shape(graph: &Graph, id: TensorId) -> Result<Vec<usize>, String> {
    let tensor = graph.tensor(id);
    tensor
        .ty
        .sizes()
        .ok_or_else(|| format!("the shape of {} is not known", tensor.name))
}

/// What a tensor is on the chip.
fn spec(graph: &Graph, id: TensorId) -> Result<Spec, String> {
    let dtype = match graph.tensor(id).ty.dtype {
        DType::F32 => DType::F16,
        other => other,
    };
    Ok(Spec::plain(dtype, shape(graph, id)?))
}

impl Model {
    /// Makes a model of a graph.
    ///
    /// # Errors
    /// A node or tensor that has no steps; it is named.
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
            let bytes = on_chip.bytes() as u64;
            let made = match &tensor.data {
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
        let ports = |list: &[TensorId]| list.iter().map(|&id| of(id)).collect::<Result<Vec<_>, _>>();
        let names = |list: &[TensorId]| -> Vec<String> {
            list.iter().map(|&id| graph.tensor(id).name.clone()).collect()
        };
        Ok(Model {
            program: builder.finish(&ports(&graph.inputs)?, &ports(&graph.outputs)?)?,
            names: (names(&graph.inputs), names(&graph.outputs)),
            mark,
            memory: (narrow(weights), narrow(between)),
        })
    }
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
