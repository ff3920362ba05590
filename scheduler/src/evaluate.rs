//! The constant folder: computes a node on a device, through the same calls as any other part.
//!
//! Invariant: a node that the device refuses or fails stays in the graph; folding is never an error.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polychip_graph::{Evaluate, Graph, Node, Tensor, TensorId, infer};
use polychip_host::{
    Access, Buffer, CompileOptions, Device, DeviceKind, FlatGraph, Memory, Port, Submission,
};
use polychip_ops::{DType, Literal};

/// Longest time to wait for a constant.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of the memory that one small result after the other is written to. To map and unmap memory takes a fifth of the
/// time of such a result.
const SCRATCH_BYTES: u64 = 64 << 10;

/// Alignment of results in that memory: a cache line.
const SCRATCH_ALIGN: u64 = 64;

/// Computes nodes on one device.
pub(crate) struct DeviceEvaluator {
    device: Device,
    scratch: Mutex<Option<Arc<Buffer>>>,
}

/// Memory of an executable's ports: by port, the buffer and the offset in it.
type PortMemory = Vec<(Arc<Buffer>, u64)>;

impl DeviceEvaluator {
    pub(crate) fn new(device: Device) -> DeviceEvaluator {
        DeviceEvaluator {
            device,
            scratch: Mutex::default(),
        }
    }

    fn memory(&self, bytes: u64) -> Option<Arc<Buffer>> {
        let memory = Memory::new(bytes).ok()?;
        Some(Arc::new(self.device.import_buffer(&memory).ok()?))
    }

    /// Memory of ports: the scratch memory if all are small and it is free.
    fn memory_of(&self, ports: &[Port]) -> Option<PortMemory> {
        let mut end = 0u64;
        let mut offsets = Vec::with_capacity(ports.len());
        for port in ports {
            end = end.checked_next_multiple_of(SCRATCH_ALIGN.max(port.alignment))?;
            offsets.push(end);
            end = end.checked_add(port.bytes)?;
        }
        let info = self.device.info();
        let may_share = info.kind == DeviceKind::Cpu && !info.emulated;
        if !may_share || end > SCRATCH_BYTES || ports.iter().any(|port| port.bytes == 0) {
            let each = ports.iter().map(|port| Some((self.memory(port.bytes)?, 0)));
            return each.collect();
        }
        let free = self.scratch().take();
        let buffer = match free {
            Some(buffer) => buffer,
            None => self.memory(SCRATCH_BYTES)?,
        };
        let each = offsets.into_iter().map(|offset| (Arc::clone(&buffer), offset));
        Some(each.collect())
    }

    /// Keeps the scratch memory for the next node, after a run that has ended.
    fn keep(&self, memory: PortMemory) {
        let first = memory.into_iter().map(|(buffer, _)| buffer).next();
        if let Some(buffer) = first.filter(|buffer| buffer.bytes() == SCRATCH_BYTES) {
            *self.scratch() = Some(buffer);
        }
    }

    fn scratch(&self) -> std::sync::MutexGuard<'_, Option<Arc<Buffer>>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
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
        let memory = self.memory_of(executable.ports())?;
        for (index, (buffer, offset)) in memory.iter().enumerate() {
            submission
                .bind(u32::try_from(index).ok()?, buffer, *offset)
                .ok()?;
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
            let (buffer, offset) = &memory[index];
            // what follows belongs to another port
            if bytes as u64 > port.bytes {
                return None;
            }
            let guard = buffer.access(Access::Read, *offset, bytes as u64).ok()?;
            outputs.push(Literal::new(port.dtype, shape, &guard[..])?);
        }
        self.keep(memory);
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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use polychip_ops::Op;

    use super::*;

    #[test]
    fn small_results_are_written_to_the_same_memory() {
        let runtime = crate::Runtime::builder().only_given_folders().build().unwrap();
        let evaluator = DeviceEvaluator::new(runtime.devices()[0].clone());
        let ids = [0, 1, 2].map(|id| Some(TensorId::new(id)));
        let sum = |values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let literal = Literal::new(DType::F32, vec![values.len()], bytes);
            let node = Node::new(Op::Add, ids[..2].to_vec(), ids[2..].to_vec());
            let found = evaluator.evaluate(&node, &[literal.clone(), literal]).unwrap();
            found[0].as_f64s().unwrap()
        };
        let scratch = || evaluator.scratch().clone();
        assert!(scratch().is_none());
        assert_eq!(sum(&[1.0, 2.5]), [2.0, 5.0]);
        let first = scratch().unwrap();
        assert_eq!(sum(&[-3.0]), [-6.0]);
        assert!(Arc::ptr_eq(&first, &scratch().unwrap()));
        // larger results have memory of their own
        assert_eq!(sum(&vec![0.5; 1 << 15]), vec![1.0; 1 << 15]);
        assert!(
            Arc::ptr_eq(&first, &scratch().unwrap()),
            "the large one replaced it"
        );
    }
}
