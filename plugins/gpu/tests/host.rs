//! The gpu plugin through the host: reasons of refusals, a run, blobs cached, torn and of another build.
//!
//! Skipped, with the reason, where no GPU's driver is installed.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
use polychip_host::{
    Access, Buffer, CompileOptions, Device, ErrorKind, Executable, FlatGraph, Host, Memory, Submission,
};
use polychip_needs::{Need, skipped};
use polychip_ops::{Attributes, DType, Op, TensorType};

fn main() {
    let arguments = Arguments::from_args();
    let host = Host::builder().linked(polychip_gpu::query).build();
    let missing = host.refusals().first().map(ToString::to_string);
    let trial = |name: &str, test: fn()| match &missing {
        Some(why) => skipped(name, Need::Vulkan, why),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    };
    let trials = vec![
        trial(
            "a_part_compiles_loads_and_runs_more_than_once",
            a_part_compiles_loads_and_runs_more_than_once,
        ),
        trial(
            "commands_encoded_for_each_run_give_the_same",
            commands_encoded_for_each_run_give_the_same,
        ),
        trial(
            "runs_over_the_same_memory_may_be_under_way_together",
            runs_over_the_same_memory_may_be_under_way_together,
        ),
        trial(
            "cached_bytes_load_and_changed_ones_are_refused",
            cached_bytes_load_and_changed_ones_are_refused,
        ),
        trial("each_refusal_has_its_reason", each_refusal_has_its_reason),
        trial(
            "a_quarantined_kernel_is_refused_with_its_reason",
            a_quarantined_kernel_is_refused_with_its_reason,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn device() -> Device {
    let host = Host::builder().linked(polychip_gpu::query).build();
    assert_eq!(host.refusals(), []);
    host.devices()[0].clone()
}

fn tensor(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize]) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(dtype, sizes)))
}

fn node(graph: &mut Graph, op: Op, inputs: &[TensorId], output: TensorId) {
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.add_node(Node::new(op, inputs, vec![Some(output)]).with(Attributes::new()));
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y = relu(x + c)`, all of `[4]`.
fn graph() -> Graph {
    let mut graph = Graph::new("sum");
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let data = Constant {
        bytes: floats(&[1.0, -1.0, 0.5, -8.0]).into(),
        file: None,
    };
    let c = graph.add_tensor(Tensor::constant("c", TensorType::known(DType::F32, &[4]), data));
    let sum = tensor(&mut graph, "sum", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    node(&mut graph, Op::Add, &[x, c], sum);
    node(&mut graph, Op::Relu, &[sum], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

/// Runs the part on `x` of `[4]`.
fn run(device: &Device, executable: &Executable, x: &[f32; 4]) -> Vec<u8> {
    let mut submission = Submission::new(executable, 4);
    let mut buffers: Vec<Arc<Buffer>> = Vec::new();
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
        submission.bind(number as u32, &buffer, 0).unwrap();
        buffers.push(buffer);
    }
    let mut access = buffers[0].access(Access::Write, 0, 16).unwrap();
    access.copy_from_slice(&floats(x));
    drop(access);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    let (start_ns, end_ns) = fence.timing().unwrap().span_ns.unwrap();
    assert!(start_ns <= end_ns);
    buffers[1].access(Access::Read, 0, 16).unwrap().to_vec()
}

fn a_part_compiles_loads_and_runs_more_than_once() {
    let (device, graph) = (device(), graph());
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let y = run(&device, &executable, &[1.0, 0.5, -0.25, 9.0]);
    assert_eq!(y, floats(&[2.0, 0.0, 0.25, 1.0]));
    let y = run(&device, &executable, &[-2.0, 3.0, 0.0, 8.0]);
    assert_eq!(y, floats(&[0.0, 2.0, 0.5, 0.0]));
}

/// As on Metal and Direct3D, where nothing is recorded.
fn commands_encoded_for_each_run_give_the_same() {
    let host = Host::builder()
        .linked(polychip_gpu::query)
        .configure("gpu", "record", "off")
        .build();
    let (device, graph) = (&host.devices()[0], graph());
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let y = run(device, &executable, &[1.0, 0.5, -0.25, 9.0]);
    assert_eq!(y, floats(&[2.0, 0.0, 0.25, 1.0]));
    let y = run(device, &executable, &[-2.0, 3.0, 0.0, 8.0]);
    assert_eq!(y, floats(&[0.0, 2.0, 0.5, 0.0]));
}

fn runs_over_the_same_memory_may_be_under_way_together() {
    let (device, graph) = (device(), graph());
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let buffer = |bytes| Arc::new(device.import_buffer(&Memory::new(bytes).unwrap()).unwrap());
    let (x, y) = (buffer(16), buffer(16));
    x.access(Access::Write, 0, 16)
        .unwrap()
        .copy_from_slice(&floats(&[1.0, 2.0, 3.0, 4.0]));
    for _ in 0..3 {
        let mut fences = Vec::new();
        for _ in 0..12 {
            let mut submission = Submission::new(&executable, 4);
            submission.bind(0, &x, 0).unwrap();
            submission.bind(1, &y, 0).unwrap();
            fences.push(executable.execute(&mut submission, &[]).unwrap());
        }
        // what a run holds goes when it ends, and not before: the last ones are waited for first
        for fence in fences.iter().rev() {
            fence.wait(Duration::from_secs(60)).unwrap();
        }
        let seen = y.access(Access::Read, 0, 16).unwrap().to_vec();
        assert_eq!(seen, floats(&[2.0, 1.0, 3.5, 0.0]));
    }
    // the part goes while its run may be under way
    let mut submission = Submission::new(&executable, 4);
    submission.bind(0, &x, 0).unwrap();
    submission.bind(1, &y, 0).unwrap();
    let fence = executable.execute(&mut submission, &[]).unwrap();
    drop(submission);
    drop(executable);
    fence.wait(Duration::from_secs(60)).unwrap();
}

fn cached_bytes_load_and_changed_ones_are_refused() {
    let (device, graph) = (device(), graph());
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let executable = device.load_bytes(bytes.clone().into(), &flat, 1).unwrap();
    let y = run(&device, &executable, &[0.0; 4]);
    assert_eq!(y, floats(&[1.0, 0.0, 0.5, 0.0]));
    for index in [0, 20, 40, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let refused = device.load_bytes(changed.into(), &flat, 1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadBlob, "byte {index}");
    }
}

fn each_refusal_has_its_reason() {
    let device = device();
    let reason = |op: Op, dtype: DType, left: &[usize], right: &[usize]| {
        let mut graph = Graph::new("refused");
        let x = tensor(&mut graph, "x", dtype, left);
        let c = tensor(&mut graph, "c", dtype, right);
        let y = tensor(&mut graph, "y", dtype, left);
        node(&mut graph, op, &[x, c], y);
        graph.inputs = vec![x, c];
        graph.outputs = vec![y];
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let supported = device.query_support(&flat).unwrap()[0].reason;
        let compiled = device.compile(&flat, &CompileOptions::default()).is_ok();
        assert_eq!(compiled, supported == polychip_abi::POLYCHIP_SUPPORT_YES);
        supported
    };
    let (op, dtype, shape) = (
        polychip_abi::POLYCHIP_SUPPORT_OP,
        polychip_abi::POLYCHIP_SUPPORT_DTYPE,
        polychip_abi::POLYCHIP_SUPPORT_SHAPE,
    );
    assert_eq!(reason(Op::Add, DType::F32, &[2, 3], &[2, 3]), 0);
    assert_eq!(reason(Op::Einsum, DType::F32, &[2, 3], &[2, 3]), op);
    assert_eq!(reason(Op::Add, DType::F64, &[2, 3], &[2, 3]), dtype);
    assert_eq!(reason(Op::Add, DType::F32, &[2, 3], &[2]), shape);
}

/// A store in which every kernel was found wrong.
struct Wrong;

impl polychip_host::Store for Wrong {
    fn read(&self, _: &str, key: &str) -> Option<Vec<u8>> {
        key.starts_with("guard ").then(|| b"wrong by decree".to_vec())
    }

    fn write(&self, _: &str, _: &str, _: &[u8]) -> bool {
        true
    }
}

fn a_quarantined_kernel_is_refused_with_its_reason() {
    let host = Host::builder()
        .linked(polychip_gpu::query)
        .store(Arc::new(Wrong))
        .build();
    let device = &host.devices()[0];
    let flat = FlatGraph::new(&graph(), &[]).unwrap();
    for support in device.query_support(&flat).unwrap() {
        assert_eq!(support.reason, polychip_abi::POLYCHIP_SUPPORT_QUARANTINED);
        assert!(support.detail.contains("by decree"), "{}", support.detail);
    }
    let compiled = device.compile(&flat, &CompileOptions::default());
    let error = compiled.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("is quarantined: "), "{error}");
}
