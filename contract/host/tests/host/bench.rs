//! What the tests of the host share: hosts of scripted devices, small graphs, and one run of a part.

use std::sync::Arc;
use std::time::Duration;

use polychip_graph::{Graph, Node, Tensor, TensorId};
use polychip_host::{
    Access, Buffer, Clock, CompileOptions, Device, Executable, Fence, FlatGraph, Host, Memory, Result,
    Submission,
};
use polychip_ops::{DType, Op, TensorType};

/// A host of scripted devices on virtual time.
pub(crate) fn host(script: &str) -> Host {
    let host = Host::builder()
        .linked(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .clock(Clock::virtual_time())
        .configure("null", "script", script)
        .build();
    assert_eq!(host.refusals(), [], "script {script}");
    host
}

/// The first device of a script of one.
pub(crate) fn device(script: &str) -> Device {
    host(&format!("[[device]]\n{script}")).devices()[0].clone()
}

/// A tensor of a graph.
pub(crate) fn tensor(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize]) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(dtype, sizes)))
}

/// A node of a graph.
pub(crate) fn node(graph: &mut Graph, op: Op, inputs: &[TensorId], output: TensorId) {
    let name = format!("{}-{}", op.name(), graph.node_count());
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.add_node(Node::new(op, inputs, vec![Some(output)]).named(name));
}

/// `y = relu(x + b)` over four floats.
pub(crate) fn add_relu() -> Graph {
    let mut graph = Graph::new("add-relu");
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let b = tensor(&mut graph, "b", DType::F32, &[4]);
    let sum = tensor(&mut graph, "sum", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    node(&mut graph, Op::Add, &[x, b], sum);
    node(&mut graph, Op::Relu, &[sum], y);
    graph.inputs = vec![x, b];
    graph.outputs = vec![y];
    graph
}

/// Floats as bytes.
pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Bytes as floats.
pub(crate) fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect()
}

/// A loaded part with shared memory at each port.
pub(crate) struct Bench {
    pub(crate) executable: Executable,
    pub(crate) buffers: Vec<Arc<Buffer>>,
    pub(crate) submission: Submission,
}

impl Bench {
    pub(crate) fn new(device: &Device, graph: &Graph) -> Result<Bench> {
        Bench::with(device, graph, &CompileOptions::default())
    }

    pub(crate) fn with(device: &Device, graph: &Graph, options: &CompileOptions) -> Result<Bench> {
        let flat = FlatGraph::new(graph, &[])?;
        let blob = device.compile(&flat, options)?;
        Bench::of(device, device.load(blob, &flat, 1)?)
    }

    pub(crate) fn of(device: &Device, executable: Executable) -> Result<Bench> {
        let mut submission = Submission::new(&executable, 4);
        let mut buffers: Vec<Arc<Buffer>> = Vec::new();
        for (number, port) in executable.ports().iter().enumerate() {
            let buffer = match port.state_port {
                Some(other) if (other as usize) < number => Arc::clone(&buffers[other as usize]),
                _ => Arc::new(device.import_buffer(&Memory::new(port.bytes)?)?),
            };
            submission.bind(number as u32, &buffer, 0)?;
            buffers.push(buffer);
        }
        Ok(Bench {
            executable,
            buffers,
            submission,
        })
    }

    pub(crate) fn write(&self, port: usize, bytes: &[u8]) {
        let mut access = self.buffers[port]
            .access(Access::Write, 0, bytes.len() as u64)
            .unwrap();
        access.copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, port: usize) -> Vec<u8> {
        let bytes = self.executable.ports()[port].bytes;
        self.buffers[port]
            .access(Access::Read, 0, bytes)
            .unwrap()
            .to_vec()
    }

    pub(crate) fn start(&mut self) -> Result<Fence> {
        self.executable.execute(&mut self.submission, &[])
    }

    /// Writes the inputs, runs, and gives the fence, which has signalled.
    pub(crate) fn run(&mut self, inputs: &[Vec<u8>]) -> Result<Fence> {
        for (port, bytes) in inputs.iter().enumerate() {
            self.write(port, bytes);
        }
        let fence = self.start()?;
        fence.wait(Duration::MAX)?;
        Ok(fence)
    }
}
