//! The CPU plugin through the host: linked and loaded, blobs cached and torn, runs in flight, quantised ports,
//! runs beside each other, bodies, loops without end, outputs whose shape depends on data.

mod bench;
mod beside;
mod control;

use std::time::Duration;

use polychip_graph::{Body, Capture, Constant, Encoding, EncodingAxis, Graph, Node, Tensor, TensorId};
use polychip_host::{CompileOptions, FlatGraph, Host};
use polychip_ops::{Attr, Attributes, DType, Op, TensorType};
use polychip_test_requirements::libraries;

use bench::{Bench, floats, linked, to_floats};

fn tensor(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize]) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(dtype, sizes)))
}

fn constant(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize], bytes: Vec<u8>) -> TensorId {
    let data = Constant {
        bytes: bytes.into(),
        file: None,
    };
    graph.add_tensor(Tensor::constant(name, TensorType::known(dtype, sizes), data))
}

fn node(graph: &mut Graph, op: Op, attributes: Attributes, inputs: &[TensorId], output: TensorId) {
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.add_node(Node::new(op, inputs, vec![Some(output)]).with(attributes));
}

fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 23) as f32 / 11.0 - 1.0).collect()
}

/// `y = relu(conv(x)) + x`, `x` of `[1, 4, 5, 5]`.
fn conv_graph() -> Graph {
    conv_graph_of(5)
}

/// The same of `x` of `[1, 4, 5, columns]`.
fn conv_graph_of(columns: usize) -> Graph {
    let mut graph = Graph::new("conv");
    let shape = [1, 4, 5, columns];
    let x = tensor(&mut graph, "x", DType::F32, &shape);
    let w = constant(&mut graph, "w", DType::F32, &[4, 4, 3, 3], floats(&ramp(144)));
    let b = constant(&mut graph, "b", DType::F32, &[4], floats(&[0.5, -0.5, 0.0, 1.0]));
    let c = tensor(&mut graph, "c", DType::F32, &shape);
    let r = tensor(&mut graph, "r", DType::F32, &shape);
    let y = tensor(&mut graph, "y", DType::F32, &shape);
    node(
        &mut graph,
        Op::Conv,
        Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]),
        &[x, w, b],
        c,
    );
    node(&mut graph, Op::Relu, Attributes::new(), &[c], r);
    node(&mut graph, Op::Add, Attributes::new(), &[r, x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

/// The same by hand.
fn conv_by_hand(x: &[f32]) -> Vec<f32> {
    let w = ramp(144);
    let b = [0.5, -0.5, 0.0, 1.0];
    let mut y = Vec::new();
    for o in 0..4 {
        for row in 0..5i32 {
            for column in 0..5i32 {
                let mut sum = b[o];
                for i in 0..4 {
                    for (dr, dc) in (0..9).map(|tap| (tap / 3, tap % 3)) {
                        let (r, c) = (row + dr - 1, column + dc - 1);
                        if (0..5).contains(&r) && (0..5).contains(&c) {
                            sum += w[(o * 4 + i) * 9 + (dr * 3 + dc) as usize]
                                * x[i * 25 + (r * 5 + c) as usize];
                        }
                    }
                }
                y.push(sum.max(0.0) + x[o * 25 + (row * 5 + column) as usize]);
            }
        }
    }
    y
}

fn assert_close(have: &[f32], want: &[f32]) {
    assert_eq!(have.len(), want.len());
    for (have, want) in have.iter().zip(want) {
        assert!(
            (have - want).abs() <= 1e-4 * want.abs().max(1.0),
            "{have} is not {want}"
        );
    }
}

#[test]
fn an_empty_constant_may_lie_at_any_address() {
    let host = linked();
    let mut graph = Graph::new("empty");
    let x = tensor(&mut graph, "x", DType::F32, &[1]);
    let none = constant(&mut graph, "none", DType::F32, &[0], Vec::new());
    let r = tensor(&mut graph, "r", DType::F32, &[0]);
    let y = tensor(&mut graph, "y", DType::F32, &[0]);
    node(&mut graph, Op::Relu, Attributes::new(), &[none], r);
    node(&mut graph, Op::Add, Attributes::new(), &[r, x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let mut bench = Bench::new(&host.devices()[0], &graph);
    bench.run(&[floats(&[1.0])]);
    assert!(bench.read(1).is_empty());
}

#[test]
fn linked_and_loaded_give_the_same_bytes() {
    let loaded = Host::builder().file(libraries::plugin("cpu").unwrap()).build();
    assert_eq!(loaded.refusals(), []);
    let linked = linked();
    let x = ramp(100);
    let mut seen = Vec::new();
    for host in [&loaded, &linked] {
        let mut bench = Bench::new(&host.devices()[0], &conv_graph());
        let timing = bench.run(&[floats(&x)]).timing().unwrap();
        let (start, end) = timing.span_ns.unwrap();
        assert!(timing.queued_ns.unwrap() <= start && start <= end);
        seen.push(bench.read(1));
    }
    assert_eq!(seen[0], seen[1]);
    assert_close(&to_floats(&seen[0]), &conv_by_hand(&x));
    assert_eq!(
        loaded.plugins()[0].info().build_id,
        linked.plugins()[0].info().build_id
    );
}

#[test]
fn cached_blobs_load_and_damaged_ones_are_refused() {
    let host = linked();
    let device = &host.devices()[0];
    let graph = conv_graph();
    let flat = FlatGraph::new(&graph, &[])
        .unwrap()
        .with_fingerprints([1; 32], [2; 32]);
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let x = ramp(100);
    let mut bench = Bench::of(device, device.load_bytes(bytes.clone().into(), &flat, 1).unwrap());
    bench.run(&[floats(&x)]);
    assert_close(&to_floats(&bench.read(1)), &conv_by_hand(&x));

    let mut torn = bytes.clone();
    let last = torn.len() - 1;
    torn[last] ^= 1;
    let refused = device.load_bytes(torn.into(), &flat, 1).map(drop).unwrap_err();
    assert_eq!(refused.kind(), polychip_host::ErrorKind::BadBlob);
    let other = FlatGraph::new(&graph, &[])
        .unwrap()
        .with_fingerprints([1; 32], [3; 32]);
    let refused = device.load_bytes(bytes.into(), &other, 1).map(drop).unwrap_err();
    assert_eq!(refused.kind(), polychip_host::ErrorKind::BadBlob);
}

#[test]
fn lean_blob_loads_with_weights_packed_again() {
    let host = linked();
    let device = &host.devices()[0];
    let graph = conv_graph();
    let flat = FlatGraph::new(&graph, &[])
        .unwrap()
        .with_fingerprints([1; 32], [2; 32]);
    let options = |lean_blob| CompileOptions {
        lean_blob,
        ..CompileOptions::default()
    };
    let bytes = |lean| {
        let mut blob = device.compile(&flat, &options(lean)).unwrap();
        blob.bytes().unwrap().to_vec()
    };
    let (lean, whole) = (bytes(true), bytes(false));
    // the weights are 144 floats
    assert!(
        lean.len() + 4 * 144 <= whole.len(),
        "{} of {}",
        lean.len(),
        whole.len()
    );
    let x = floats(&ramp(100));
    let answer = |bytes: &[u8]| {
        let executable = device.load_bytes(bytes.to_vec().into(), &flat, 1).unwrap();
        let mut bench = Bench::of(device, executable);
        bench.run(std::slice::from_ref(&x));
        bench.read(1)
    };
    assert_eq!(answer(&lean), answer(&whole));
    let refused = |device: &polychip_host::Device, bytes: &[u8], flat: &FlatGraph| {
        let loaded = device.load_bytes(bytes.to_vec().into(), flat, 1).map(drop);
        assert_eq!(loaded.unwrap_err().kind(), polychip_host::ErrorKind::BadBlob);
    };
    let mut torn = lean.clone();
    torn[lean.len() - 1] ^= 1;
    refused(device, &torn, &flat);
    let other = FlatGraph::new(&graph, &[])
        .unwrap()
        .with_fingerprints([1; 32], [3; 32]);
    refused(device, &lean, &other);
    let scalar = Host::builder()
        .linked(polychip_cpu::query)
        .configure("cpu", "isa", "scalar")
        .build();
    if scalar.devices()[0].info().settings != device.info().settings {
        refused(&scalar.devices()[0], &lean, &flat);
    }
}

#[test]
fn unawaited_run_completes_and_runs_chain() {
    let host = linked();
    let device = &host.devices()[0];
    let x = ramp(100);
    let mut first = Bench::new(device, &conv_graph());
    let mut second = Bench::new(device, &conv_graph());
    // the second reads what the first writes
    second.submission.bind(0, &first.buffers[1], 0).unwrap();
    first.write(0, &floats(&x));
    let one = first.executable.execute(&mut first.submission, &[]).unwrap();
    let two = second
        .executable
        .execute(&mut second.submission, &[&one])
        .unwrap();
    two.wait(Duration::from_secs(60)).unwrap();
    assert_close(&to_floats(&second.read(1)), &conv_by_hand(&conv_by_hand(&x)));
    drop((one, two));

    // after one run that was waited for, and after many
    for before in [0, 1000, 0] {
        for _ in 0..before {
            let fence = first.executable.execute(&mut first.submission, &[]).unwrap();
            fence.wait(Duration::from_secs(60)).unwrap();
        }
        first.write(1, &floats(&[0.0; 100]));
        let fence = first.executable.execute(&mut first.submission, &[]).unwrap();
        // polling does not compute: only the device's own thread can end the run
        while fence.wait(Duration::ZERO).is_err() {
            std::thread::yield_now();
        }
        assert_close(&to_floats(&first.read(1)), &conv_by_hand(&x));
    }
}

#[test]
fn every_op_of_the_graph_is_supported_or_named() {
    let host = linked();
    let mut graph = conv_graph();
    let y = graph.outputs[0];
    let z = tensor(&mut graph, "z", DType::F32, &[1, 4, 5, 5]);
    graph.add_node(Node::custom(
        "com.example",
        "Secret",
        vec![Some(y)],
        vec![Some(z)],
    ));
    graph.outputs = vec![z];
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = host.devices()[0].query_support(&flat).unwrap();
    let reasons: Vec<u32> = support.iter().map(|support| support.reason).collect();
    assert_eq!(reasons, [0, 0, 0, polychip_abi::POLYCHIP_SUPPORT_OP]);
    let cost = host.devices()[0].estimate(&flat, &[0, 1, 2]).unwrap().unwrap();
    assert!(cost.time_ns.unwrap() > 0);
    assert!(
        host.devices()[0]
            .compile(&flat, &CompileOptions::default())
            .is_err()
    );
}

#[test]
fn quantised_ports_hold_integers() {
    let host = linked();
    let mut graph = Graph::new("quantised");
    let encoding = |scale: f32, zero: i32| Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [scale].into(),
        zero_points: [zero].into(),
        real: DType::F32,
    };
    let x = tensor(&mut graph, "x", DType::U8, &[2, 2]);
    let w = constant(&mut graph, "w", DType::I8, &[2, 2], vec![2, 0xff, 0, 4]);
    let y = tensor(&mut graph, "y", DType::I8, &[2, 2]);
    graph.tensor_mut(x).encoding = Some(encoding(0.5, 10));
    graph.tensor_mut(w).encoding = Some(encoding(0.25, 0));
    graph.tensor_mut(y).encoding = Some(encoding(0.5, -3));
    node(&mut graph, Op::MatMul, Attributes::new(), &[x, w], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let mut bench = Bench::new(&host.devices()[0], &graph);
    bench.run(&[vec![12, 14, 10, 250]]);
    // x = [1 2; 0 120], w = [0.5 -0.25; 0 1], x·w = [0.5 1.75; 0 120], over 0.5 less 3, clamped
    assert_eq!(bench.read(1), [(-2i8) as u8, 1, (-3i8) as u8, 127]);
}

#[test]
fn loop_runs_its_body_with_captures() {
    let host = linked();
    let mut inner = Graph::new("body");
    let trip = tensor(&mut inner, "i", DType::I64, &[]);
    let going = tensor(&mut inner, "c", DType::Bool, &[]);
    let sum = tensor(&mut inner, "s", DType::F32, &[2]);
    let step = tensor(&mut inner, "step", DType::F32, &[2]);
    let next = tensor(&mut inner, "n", DType::F32, &[2]);
    node(&mut inner, Op::Add, Attributes::new(), &[sum, step], next);
    let still = tensor(&mut inner, "still", DType::Bool, &[]);
    node(&mut inner, Op::Identity, Attributes::new(), &[going], still);
    let copy = tensor(&mut inner, "copy", DType::F32, &[2]);
    node(&mut inner, Op::Identity, Attributes::new(), &[next], copy);
    inner.inputs = vec![trip, going, sum, step];
    inner.outputs = vec![still, next, copy];

    let mut graph = Graph::new("loop");
    let count = constant(&mut graph, "count", DType::I64, &[], 3i64.to_le_bytes().to_vec());
    let x = tensor(&mut graph, "x", DType::F32, &[2]);
    let by = tensor(&mut graph, "by", DType::F32, &[2]);
    let last = tensor(&mut graph, "last", DType::F32, &[2]);
    let all = tensor(&mut graph, "all", DType::F32, &[3, 2]);
    let mut looped = Node::new(
        Op::Loop,
        vec![Some(count), None, Some(x)],
        vec![Some(last), Some(all)],
    );
    looped.bodies = vec![Body {
        attr: Attr::Body,
        graph: inner,
        captures: vec![Capture {
            outer: by,
            inner: step,
        }],
    }];
    graph.add_node(looped);
    graph.inputs = vec![x, by];
    graph.outputs = vec![last, all];
    let device = &host.devices()[0];
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    assert!(
        device
            .query_support(&flat)
            .unwrap()
            .iter()
            .all(|support| support.reason == 0)
    );
    let mut bench = Bench::new(device, &graph);
    bench.run(&[floats(&[1.0, 2.0]), floats(&[0.5, -1.0])]);
    assert_eq!(to_floats(&bench.read(2)), [2.5, -1.0]);
    assert_eq!(to_floats(&bench.read(3)), [1.5, 1.0, 2.0, 0.0, 2.5, -1.0]);
}

#[test]
fn data_dependent_output_reports_its_shape() {
    let host = linked();
    let mut graph = Graph::new("places");
    let x = tensor(&mut graph, "x", DType::F32, &[2, 3]);
    let places = tensor(&mut graph, "places", DType::I64, &[2, 6]);
    graph.tensor_mut(places).upper_bound = true;
    node(&mut graph, Op::NonZero, Attributes::new(), &[x], places);
    graph.inputs = vec![x];
    graph.outputs = vec![places];
    let mut bench = Bench::new(&host.devices()[0], &graph);
    let fence = bench.run(&[floats(&[0.0, 1.0, 0.0, 2.0, 0.0, 3.0])]);
    let mut dims = [0; 2];
    assert_eq!(fence.output_dims(1, &mut dims).unwrap(), 2);
    assert_eq!(dims, [2, 3]);
    let words: Vec<i64> = bench.read(1)[..48]
        .chunks_exact(8)
        .map(|b| i64::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(words, [0, 1, 1, 1, 0, 2]);
}

#[test]
fn part_beyond_available_memory_is_an_error() {
    let host = linked();
    let device = &host.devices()[0];
    // 256 TiB: above what a process addresses
    let len = 1usize << 46;
    let mut graph = Graph::new("huge");
    let typed = |name: &str, shape: &[usize]| Tensor::new(name, TensorType::known(DType::F32, shape));
    let x = graph.add_tensor(typed("x", &[1]));
    let shape = graph.add_tensor(Tensor::constant(
        "shape",
        TensorType::known(DType::I64, &[1]),
        Constant::new((len as i64).to_le_bytes().to_vec()),
    ));
    let large = graph.add_tensor(typed("large", &[len]));
    let y = graph.add_tensor(typed("y", &[]));
    graph.add_node(Node::new(
        Op::Expand,
        vec![Some(x), Some(shape)],
        vec![Some(large)],
    ));
    let mut sum = Node::new(Op::ReduceSum, vec![Some(large), None], vec![Some(y)]);
    sum.attributes
        .set(Attr::Keepdims, polychip_ops::AttrValue::Int(0));
    graph.add_node(sum);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let error = device
        .compile(&flat, &CompileOptions::default())
        .and_then(|blob| device.load(blob, &flat, 1))
        .err()
        .unwrap();
    assert_eq!(error.kind(), polychip_host::ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("intermediate tensors"), "{error}");
}

/// A body that runs for ever: it gives its condition and its state back, by a node or without any, or
/// after a loop inside that runs for ever.
fn endless(nodes: bool, depth: usize) -> Graph {
    let mut body = Graph::new("body");
    let trip = tensor(&mut body, "i", DType::I64, &[]);
    let going = tensor(&mut body, "c", DType::Bool, &[]);
    let state = tensor(&mut body, "s", DType::F32, &[2]);
    let mut next = state;
    if depth > 0 {
        next = tensor(&mut body, "n", DType::F32, &[2]);
        add_loop(&mut body, state, next, endless(nodes, depth - 1));
    } else if nodes {
        next = tensor(&mut body, "n", DType::F32, &[2]);
        node(&mut body, Op::Neg, Attributes::new(), &[state], next);
    }
    body.inputs = vec![trip, going, state];
    body.outputs = vec![going, next];
    body
}

fn add_loop(graph: &mut Graph, from: TensorId, to: TensorId, body: Graph) {
    let count = constant(graph, "count", DType::I64, &[], i64::MAX.to_le_bytes().to_vec());
    let mut looped = Node::new(Op::Loop, vec![Some(count), None, Some(from)], vec![Some(to)]);
    looped.bodies = vec![Body {
        attr: Attr::Body,
        graph: body,
        captures: Vec::new(),
    }];
    graph.add_node(looped);
}

fn endless_part(nodes: bool, depth: usize) -> Graph {
    let mut graph = Graph::new("endless");
    let x = tensor(&mut graph, "x", DType::F32, &[2]);
    let y = tensor(&mut graph, "y", DType::F32, &[2]);
    add_loop(&mut graph, x, y, endless(nodes, depth));
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

#[test]
fn endless_loop_can_be_cancelled() {
    let host = linked();
    let device = &host.devices()[0];
    // the last is a wait that many a run would be computed in
    for (nodes, depth, wait_ms) in [(true, 0, 20), (false, 0, 20), (true, 2, 20), (true, 0, 5000)] {
        let mut bench = Bench::new(device, &endless_part(nodes, depth));
        bench.write(0, &floats(&[1.0, 2.0]));
        let fence = bench.executable.execute(&mut bench.submission, &[]).unwrap();
        // it computes by now, or will
        let error = fence.wait(Duration::from_millis(wait_ms)).unwrap_err();
        assert_eq!(error.kind(), polychip_host::ErrorKind::Timeout, "{error}");
        fence.cancel().unwrap();
        let error = fence.wait(Duration::from_secs(600)).unwrap_err();
        assert_eq!(error.kind(), polychip_host::ErrorKind::Cancelled, "{error}");
    }
}

#[test]
fn wait_behind_an_endless_run_times_out() {
    let host = linked();
    let device = &host.devices()[0];
    let x = ramp(100);
    // a run that is known to be short would be computed in place
    let mut short = Bench::new(device, &conv_graph());
    for _ in 0..3 {
        short.run(&[floats(&x)]);
    }
    let mut long = Bench::new(device, &endless_part(true, 0));
    let first = long.executable.execute(&mut long.submission, &[]).unwrap();
    // sooner or later the long run has the device's turn, and a wait behind it runs out
    let second = loop {
        let second = short.executable.execute(&mut short.submission, &[]).unwrap();
        match second.wait(Duration::from_millis(100)) {
            Ok(()) => std::thread::yield_now(),
            Err(error) => {
                assert_eq!(error.kind(), polychip_host::ErrorKind::Timeout, "{error}");
                break second;
            }
        }
    };
    first.cancel().unwrap();
    second.wait(Duration::from_secs(600)).unwrap();
    assert_close(&to_floats(&short.read(1)), &conv_by_hand(&x));
}
