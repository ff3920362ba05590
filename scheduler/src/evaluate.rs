//! The constant folder: computes a node on a device, through the same calls as any other part.
//!
//! Invariant: a node that the device refuses or fails stays in the graph; folding is never an error.

use std::sync::Arc;
use std::time::Duration;

use polychip_graph::{Evaluate, Graph, Node, Tensor, TensorId, infer};
use polychip_host::{Access, CompileOptions, Device, FlatGraph, Memory, Submission};
use polychip_ops::{DType, Literal};

/// Longest time to wait for a constant.
const PATIENCE: Duration = Duration::from_secs(60);

/// Computes nodes on one device.
pub(crate) struct DeviceEvaluator {
    device: Device,
}

impl DeviceEvaluator {
    pub(crate) fn new(device: Device) -> DeviceEvaluator {
        DeviceEvaluator { device }
    }

    fn try_evaluate(&self, node: &Node, inputs: &[Option<Literal>]) -> Option<Vec<Literal>> {
        let fits = |literal: &Literal| literal.dtype != DType::String;
        if !node.bodies.is_empty() || !inputs.iter().flatten().all(fits) {
            return None;
        }
        let graph = one_node(node, inputs)?;
        let flat = FlatGraph::new(&graph, &[]).ok()?;
        if self
            .device
            .query_support(&flat)
            .ok()?
            .iter()
            .any(|support| support.reason != 0)
        {
            return None;
        }
        let options = CompileOptions {
            threads: 1,
            ..CompileOptions::default()
        };
        let blob = self.device.compile(&flat, &options).ok()?;
        let executable = self.device.load(blob, &flat, 1).ok()?;
        let mut submission = Submission::new(&executable, 0);
        let mut buffers = Vec::new();
        for (index, port) in executable.ports().iter().enumerate() {
            let buffer = Arc::new(self.device.import_buffer(&Memory::new(port.bytes).ok()?).ok()?);
            submission.bind(u32::try_from(index).ok()?, &buffer, 0).ok()?;
            buffers.push(buffer);
        }
        let fence = executable.execute(&mut submission, &[]).ok()?;
        fence.wait(PATIENCE).ok()?;
        let given = executable.info().inputs as usize;
        let mut outputs = Vec::new();
        for (index, port) in executable.ports().iter().enumerate().skip(given) {
            let mut dims = [0; polychip_host::MAX_RANK];
            let sizes = if port.upper_bound {
                let rank = fence.output_dims(u32::try_from(index).ok()?, &mut dims).ok()?;
                &dims[..rank]
            } else {
                &port.dims
            };
            let shape: Vec<usize> = sizes
                .iter()
                .map(|size| usize::try_from(*size).ok())
                .collect::<Option<_>>()?;
            let bytes = port.dtype.byte_len(polychip_ops::axis::product(&shape)?)?;
            let guard = buffers[index].access(Access::Read, 0, bytes as u64).ok()?;
            outputs.push(Literal::new(port.dtype, shape, &guard[..])?);
        }
        Some(outputs)
    }
}

impl Evaluate for DeviceEvaluator {
    fn evaluate(&self, node: &Node, inputs: &[Option<Literal>]) -> Option<Vec<Literal>> {
        // unused outputs have no port: such a node is not evaluated
        node.outputs.iter().all(Option::is_some).then_some(())?;
        self.try_evaluate(node, inputs)
    }
}

/// A graph of this node alone, whose inputs are constants: shapes may depend on their values.
fn one_node(node: &Node, inputs: &[Option<Literal>]) -> Option<Graph> {
    let mut graph = Graph::new("constant folding");
    let mut copy = Node {
        inputs: Vec::new(),
        outputs: Vec::new(),
        name: String::new(),
        ..node.clone()
    };
    copy.decomposition = None;
    for (index, input) in inputs.iter().enumerate() {
        let id = input.as_ref().map(|literal| {
            let tensor = Tensor::constant(
                format!("in{index}"),
                literal.ty(),
                polychip_graph::Constant::from_literal(literal),
            );
            graph.add_tensor(tensor)
        });
        copy.inputs.push(id);
    }
    let outputs: Vec<TensorId> = (0..node.outputs.len())
        .map(|index| graph.add_tensor(Tensor::untyped(format!("out{index}"))))
        .collect();
    copy.outputs = outputs.iter().copied().map(Some).collect();
    graph.add_node(copy);
    graph.outputs = outputs;
    infer(&mut graph).ok()?;
    Some(graph)
}
