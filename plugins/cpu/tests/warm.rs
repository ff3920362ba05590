//! A warm run of known shapes allocates nothing, whatever kernel computes it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
use polychip_host::{Access, CompileOptions, FlatGraph, Host, Memory, Submission};
use polychip_ops::{Attr, Attributes, DType, Op, TensorType};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(data, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Convolution, residual sum, pooling, product and softmax.
fn network() -> Graph {
    let mut graph = Graph::new("warm");
    let mut tensor = |name: &str, sizes: &[usize]| -> TensorId {
        graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, sizes)))
    };
    let x = tensor("x", &[1, 8, 12, 12]);
    let c = tensor("c", &[1, 8, 12, 12]);
    let s = tensor("s", &[1, 8, 12, 12]);
    let p = tensor("p", &[1, 8, 1, 1]);
    let f = tensor("f", &[1, 8]);
    let g = tensor("g", &[1, 5]);
    let y = tensor("y", &[1, 5]);
    let mut weights = |name: &str, sizes: &[usize]| -> TensorId {
        let bytes = vec![0u8; 4 * sizes.iter().product::<usize>()];
        let data = Constant {
            bytes: bytes.into(),
            file: None,
        };
        graph.add_tensor(Tensor::constant(name, TensorType::known(DType::F32, sizes), data))
    };
    let w = weights("w", &[8, 8, 3, 3]);
    let m = weights("m", &[8, 5]);
    let mut node = |op: Op, attributes: Attributes, inputs: &[TensorId], output: TensorId| {
        let inputs = inputs.iter().copied().map(Some).collect();
        graph.add_node(Node::new(op, inputs, vec![Some(output)]).with(attributes));
    };
    node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]),
        &[x, w],
        c,
    );
    node(Op::Add, Attributes::new(), &[c, x], s);
    node(Op::GlobalAveragePool, Attributes::new(), &[s], p);
    node(Op::Flatten, Attributes::new(), &[p], f);
    node(Op::MatMul, Attributes::new(), &[f, m], g);
    node(Op::Softmax, Attributes::new(), &[g], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

#[test]
fn a_warm_run_allocates_nothing() {
    let host = Host::builder().linked(polychip_cpu::query).build();
    let device = &host.devices()[0];
    let graph = network();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 2).unwrap();
    let mut submission = Submission::new(&executable, 1);
    let mut buffers = Vec::new();
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
        submission.bind(number as u32, &buffer, 0).unwrap();
        buffers.push(buffer);
    }
    let mut run = |polls: bool| {
        let fence = executable.execute(&mut submission, &[]).unwrap();
        // a poll leaves the run to the device's own thread
        while polls && fence.timing().is_err() {
            std::thread::yield_now();
        }
        fence.wait(Duration::from_secs(60)).unwrap();
    };
    for round in 0..20 {
        run(round % 2 == 0);
    }
    COUNTS.store(true, Ordering::Relaxed);
    for _ in 0..50 {
        run(false);
    }
    COUNTS.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
    let access = buffers[1].access(Access::Read, 0, 20).unwrap();
    let values: Vec<f32> = access
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(values, [0.2; 5]);
}
