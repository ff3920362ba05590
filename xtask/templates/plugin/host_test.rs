//! The xyz plugin through the host: reasons of refusals, a run, blobs cached, torn and of another build.

use std::sync::Arc;
use std::time::Duration;

use polychip_graph::{Constant, Graph, Node, Tensor};
use polychip_host::{
    Access, Buffer, CompileOptions, Device, ErrorKind, Executable, FlatGraph, Host, Memory, Submission,
};
use polychip_ops::{DType, Op, TensorType};

fn device() -> Device {
    let host = Host::builder().linked(polychip_xyz::query).build();
    assert_eq!(host.refusals(), []);
    assert_eq!(host.devices().len(), 1);
    host.devices()[0].clone()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y = relu(op(left, right))` of one type; a right side that is given is a constant, another an input.
fn part(op: Op, dtype: DType, [left, right]: [&[usize]; 2], given: Option<&[f32]>) -> Graph {
    let mut graph = Graph::new("part");
    let mut add = |name, sizes: &[usize], data: Option<&[f32]>| {
        let of_type = TensorType::known(dtype, sizes);
        let constant = |values| Constant {
            bytes: floats(values).into(),
            file: None,
        };
        graph.add_tensor(match data {
            Some(values) => Tensor::constant(name, of_type, constant(values)),
            None => Tensor::new(name, of_type),
        })
    };
    let (x, c) = (add("x", left, None), add("c", right, given));
    let (z, y) = (add("z", left, None), add("y", left, None));
    graph.add_node(Node::new(op, vec![Some(x), Some(c)], vec![Some(z)]));
    graph.add_node(Node::new(Op::Relu, vec![Some(z)], vec![Some(y)]));
    graph.inputs = if given.is_some() { vec![x] } else { vec![x, c] };
    graph.outputs = vec![y];
    graph
}

/// `y = relu(x + c)`, all of `[4]`.
fn graph() -> Graph {
    part(Op::Add, DType::F32, [&[4], &[4]], Some(&[1.0, -1.0, 0.5, -8.0]))
}

/// Runs the part on `x` of `[4]`.
fn run(device: &Device, executable: &Executable, x: &[f32; 4]) -> Vec<u8> {
    let buffers: Vec<Arc<Buffer>> = executable
        .ports()
        .iter()
        .map(|port| Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap()))
        .collect();
    let mut submission = Submission::new(executable, 4);
    for (port, buffer) in (0..).zip(&buffers) {
        submission.bind(port, buffer, 0).unwrap();
    }
    buffers[0]
        .access(Access::Write, 0, 16)
        .unwrap()
        .copy_from_slice(&floats(x));
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    let (start_ns, end_ns) = fence.timing().unwrap().span_ns.unwrap();
    assert!(start_ns <= end_ns);
    buffers[1].access(Access::Read, 0, 16).unwrap().to_vec()
}

#[test]
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

#[test]
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

#[test]
fn each_refusal_has_its_reason() {
    let device = device();
    let reason = |op: Op, dtype: DType, left: &[usize], right: &[usize]| {
        let graph = part(op, dtype, [left, right], None);
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
    assert_eq!(reason(Op::Mul, DType::F32, &[2, 3], &[2, 3]), op);
    assert_eq!(reason(Op::Add, DType::I64, &[2, 3], &[2, 3]), dtype);
    assert_eq!(reason(Op::Add, DType::F32, &[2, 3], &[3]), shape);
}
