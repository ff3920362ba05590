//! Runs a graph once on one device, without the runtime, with inputs chosen by the test.
//!
//! Invariant: only the device's own calls are between inputs and outputs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use polychip_graph::{Graph, NodeId, TensorId, extract};
use polychip_host::{Access, CompileOptions, Device, Executable, FlatGraph, MAX_RANK, Memory, Submission};
use polychip_ops::{Literal, axis};

/// Longest that a part may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The nodes of a graph as a graph of their own that holds its constants itself.
///
/// # Errors
/// Never for the nodes of a sorted graph.
pub fn cut(graph: &Graph, nodes: &[NodeId], inputs: &[TensorId], outputs: &[TensorId]) -> Result<Graph> {
    let mut part = extract(graph, nodes, inputs, outputs);
    for index in 0..part.tensor_count() {
        if let Some(data) = &mut part.tensor_mut(TensorId::new(index)).data {
            data.file = None;
        }
    }
    part.sort()?;
    Ok(part)
}

/// A node with all that it reads and gives.
///
/// # Errors
/// As [`cut`].
pub fn node(graph: &Graph, id: NodeId) -> Result<Graph> {
    let node = graph.node(id);
    let mut inputs: Vec<TensorId> = node
        .reads()
        .filter(|&read| !graph.tensor(read).is_constant())
        .collect();
    inputs.sort_unstable();
    inputs.dedup();
    let outputs: Vec<TensorId> = node.writes().collect();
    cut(graph, &[id], &inputs, &outputs)
}

/// Compiles, loads and runs a graph; inputs and outputs in the graph's order, integers as they are stored.
///
/// # Errors
/// Whatever the device says.
pub fn run(device: &Device, graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>> {
    let flat = FlatGraph::new(graph, &[])?;
    let options = CompileOptions {
        threads: 1,
        ..CompileOptions::default()
    };
    let blob = device.compile(&flat, &options)?;
    run_loaded(device, &device.load(blob, &flat, 1)?, inputs)
}

/// Runs a loaded part.
///
/// # Errors
/// Whatever the device says.
pub fn run_loaded(device: &Device, executable: &Executable, inputs: &[Literal]) -> Result<Vec<Literal>> {
    let given = executable.info().inputs as usize;
    ensure!(
        given == inputs.len(),
        "{given} inputs instead of {}",
        inputs.len()
    );
    let mut submission = Submission::new(executable, 0);
    let mut buffers = Vec::new();
    for (index, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes)?)?);
        if let Some(input) = inputs.get(index) {
            ensure!(
                input.dtype == port.dtype && input.bytes.len() as u64 == port.bytes,
                "input {index} is {} {:?}, the port {}",
                input.dtype.name(),
                input.shape,
                port.dtype.name()
            );
            buffer.access(Access::Write, 0, port.bytes)?[..].copy_from_slice(&input.bytes);
        }
        submission.bind(u32::try_from(index)?, &buffer, 0)?;
        buffers.push(buffer);
    }
    let fence = executable.execute(&mut submission, &[])?;
    fence.wait(PATIENCE)?;
    let mut outputs = Vec::new();
    for (index, port) in executable.ports().iter().enumerate().skip(given) {
        let mut dims = [0; MAX_RANK];
        let sizes = if port.upper_bound {
            let rank = fence.output_dims(u32::try_from(index)?, &mut dims)?;
            &dims[..rank]
        } else {
            &port.dims
        };
        let shape: Vec<usize> = sizes
            .iter()
            .map(|&size| usize::try_from(size))
            .collect::<Result<_, _>>()?;
        let bytes = axis::product(&shape).and_then(|count| port.dtype.byte_len(count));
        let bytes = bytes.context("an output without a size")?;
        let guard = buffers[index].access(Access::Read, 0, bytes as u64)?;
        outputs.push(Literal::new(port.dtype, shape, &guard[..]).context("an output of another size")?);
    }
    Ok(outputs)
}
