//! Every feature of the contract, through the host, on scripted devices linked into the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::bench::{Bench, add_relu, device, floats, host, node, tensor, to_floats};
use polychip_graph::{Body, Capture, Constant, Encoding, EncodingAxis, Graph, Node, State, Tensor};
use polychip_host::{
    Access, CompileOptions, Device, ErrorKind, FlatGraph, Layout, Memory, Signal, Submission,
};
use polychip_ops::{Attr, Attributes, DType, Op, TensorType};

fn inputs() -> [Vec<u8>; 2] {
    [floats(&[1.0, -2.0, 3.0, -4.0]), floats(&[0.5, 0.5, 0.5, 5.0])]
}

#[test]
fn outputs_are_right_and_times_follow_the_script() {
    let device = device(
        "name = \"npu\"\nlaunch_ns = 700\ncost = { fixed_ns = 1000, ps_per_byte = 0.0, fixed_nj = 3000 }",
    );
    assert!(device.info().emulated);
    let graph = add_relu();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    assert!(
        device
            .query_support(&flat)
            .unwrap()
            .iter()
            .all(|support| support.reason == 0)
    );
    let cost = device.estimate(&flat, &[0, 1]).unwrap().unwrap();
    assert_eq!(
        (cost.time_ns, cost.launch_ns, cost.energy_uj),
        (Some(2000), Some(700), Some(6))
    );
    assert!(cost.emulated);

    let mut bench = Bench::new(&device, &graph).unwrap();
    for round in 0..3 {
        let fence = bench.run(&inputs()).unwrap();
        assert_eq!(to_floats(&bench.read(2)), [1.5, 0.0, 3.5, 1.0]);
        let timing = fence.timing().unwrap();
        assert_eq!(timing.span_ns, Some((round * 2700, (round + 1) * 2700)));
        assert_eq!(timing.energy_uj, Some(6));
    }
}

#[test]
fn each_refusal_has_its_reason() {
    let reason_of = |script: &str| {
        let device = device(script);
        let support = device
            .query_support(&FlatGraph::new(&add_relu(), &[]).unwrap())
            .unwrap();
        assert!(support[0].reason == 0, "{script}");
        let words = format!("{:?}", support[1]);
        assert!(support[1].reason != 0, "{words}");
        let error = Bench::new(&device, &add_relu()).err().unwrap();
        assert_eq!((error.kind(), error.node()), (ErrorKind::Unsupported, Some(1)));
        words
    };
    assert!(reason_of("ops = [\"Add\"]").contains("Relu"));
    assert!(reason_of("without_ops = [\"Relu\"]").contains("Relu"));
    let vendor = reason_of("refuse = [{ node = \"Relu*\", reason = \"vendor\", detail = \"too slow\" }]");
    assert!(vendor.contains("too slow"), "{vendor}");
    for (script, words) in [
        ("dtypes = [\"i8\"]", "f32"),
        ("max_rank = 0", "rank 1"),
        ("memory_bytes = 8", "bytes"),
    ] {
        let flat = FlatGraph::new(&add_relu(), &[]).unwrap();
        let support = device(script).query_support(&flat).unwrap();
        assert!(format!("{:?}", support[0]).contains(words), "{:?}", support[0]);
    }
}

#[test]
fn operating_points_change_time_and_energy() {
    let device = device(
        "cost = { fixed_ns = 1000, ps_per_byte = 0.0, fixed_nj = 4000, pj_per_byte = 0.0 }\n\
         operating_point = [{ name = \"fast\", frequency_khz = 900000 },\n\
         { name = \"slow\", time_permille = 3000, energy_permille = 500 }]",
    );
    let points = device.operating_points().unwrap();
    assert_eq!(
        (points[0].name.as_str(), points[0].frequency_khz),
        ("fast", Some(900_000))
    );
    let mut bench = Bench::new(&device, &add_relu()).unwrap();
    let mut spent = || {
        let timing = bench.run(&inputs()).unwrap().timing().unwrap();
        let (start, end) = timing.span_ns.unwrap();
        (end - start, timing.energy_uj.unwrap())
    };
    assert_eq!(spent(), (2000, 8));
    device.set_operating_point(1).unwrap();
    assert_eq!(spent(), (6000, 4));
    assert_eq!(
        device.set_operating_point(2).unwrap_err().kind(),
        ErrorKind::BadArgument
    );
}

#[test]
fn work_heats_the_device_and_heat_slows_it() {
    let device = device(
        "cost = { fixed_ns = 1e6, fixed_nj = 2e6 }\n\
         heat = { mc_per_mw = 20.0, settle_ms = 10.0, throttle_mc = 50000, throttle_permille = 4000 }",
    );
    let cold = device.telemetry().unwrap();
    assert_eq!((cold.temperature_mc, cold.throttle), (Some(25_000), Some(0)));
    let mut bench = Bench::new(&device, &add_relu()).unwrap();
    let spans: Vec<u64> = (0..20)
        .map(|_| {
            let (start, end) = bench.run(&inputs()).unwrap().timing().unwrap().span_ns.unwrap();
            end - start
        })
        .collect();
    let hot = device.telemetry().unwrap();
    assert!(hot.temperature_mc.unwrap() > 30_000, "{hot:?}");
    assert!(hot.energy_uj.unwrap() >= 20 * 4000, "{hot:?}");
    assert!(spans.iter().max().unwrap() > &(spans[0] * 3), "{spans:?}");
}

#[test]
fn faults_occur_as_scripted() {
    let class = device("fault = [{ kind = \"compile\", class = \"out_of_memory\" }]");
    assert_eq!(
        Bench::new(&class, &add_relu()).err().unwrap().kind(),
        ErrorKind::OutOfMemory
    );
    assert!(Bench::new(&class, &add_relu()).is_ok());

    let mut bench = Bench::new(
        &device("fault = [{ kind = \"error\", at = 1, class = \"transient\" }]"),
        &add_relu(),
    )
    .unwrap();
    bench.run(&inputs()).unwrap();
    assert_eq!(bench.run(&inputs()).err().unwrap().kind(), ErrorKind::Transient);
    bench.run(&inputs()).unwrap();

    let lies = device("fault = [{ kind = \"wrong_size\" }]");
    let error = Bench::new(&lies, &add_relu()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::BadPlugin);
    assert!(error.to_string().contains("[5]"), "{error}");

    let small = device("memory_bytes = 60");
    assert_eq!(
        Bench::new(&small, &add_relu()).err().unwrap().kind(),
        ErrorKind::OutOfMemory
    );
}

#[test]
fn unwinding_plugin_is_an_error() {
    let mut bench = Bench::new(&device("fault = [{ kind = \"panic\" }]"), &add_relu()).unwrap();
    let error = bench.start().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Persistent);
    assert!(error.to_string().contains("scripted panic of run 0"), "{error}");
    bench.run(&inputs()).unwrap();
}

#[test]
fn reset_ends_a_hang_and_invalidates_executables() {
    let device = device("fault = [{ kind = \"hang\" }]");
    let mut bench = Bench::new(&device, &add_relu()).unwrap();
    let fence = bench.start().unwrap();
    let error = fence.wait(Duration::from_millis(30)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(fence.poll(Duration::from_millis(1)).is_none());
    let access = bench.buffers[2].access(Access::Read, 0, 4);
    assert_eq!(access.err().unwrap().kind(), ErrorKind::InUse);
    device.quarantine();
    assert_eq!(bench.start().err().unwrap().kind(), ErrorKind::DeviceLost);
    device.reset().unwrap();
    assert!(!device.is_quarantined());
    assert_eq!(
        fence.wait(Duration::MAX).unwrap_err().kind(),
        ErrorKind::DeviceLost
    );
    let ended = fence.poll(Duration::MAX).unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::DeviceLost);
    device.reset().unwrap();
    // what hung might still write
    let access = bench.buffers[2].access(Access::Read, 0, 4);
    assert_eq!(access.err().unwrap().kind(), ErrorKind::InUse);
    let error = bench.start().err().unwrap();
    assert!(
        error.to_string().contains("before the device was reset"),
        "{error}"
    );
    Bench::new(&device, &add_relu()).unwrap().run(&inputs()).unwrap();
}

#[test]
fn lost_device_is_quarantined_until_reset() {
    let device = device("fault = [{ kind = \"lost\", at = 1 }]");
    let mut bench = Bench::new(&device, &add_relu()).unwrap();
    bench.run(&inputs()).unwrap();
    assert_eq!(bench.run(&inputs()).err().unwrap().kind(), ErrorKind::DeviceLost);
    assert!(device.is_quarantined());
    assert_eq!(
        Bench::new(&device, &add_relu()).err().unwrap().kind(),
        ErrorKind::DeviceLost
    );
    device.reset().unwrap();
    Bench::new(&device, &add_relu()).unwrap().run(&inputs()).unwrap();
}

#[test]
fn cancelled_run_reports_it_and_callbacks_signal_the_end() {
    let device = device("cost = { fixed_ns = 5e6 }");
    let mut bench = Bench::new(&device, &add_relu()).unwrap();
    let fence = bench.start().unwrap();
    fence.cancel().unwrap();
    assert_eq!(
        fence.wait(Duration::MAX).unwrap_err().kind(),
        ErrorKind::Cancelled
    );

    let told = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&told);
    let signal = Signal::new(move |failure| {
        counter.fetch_add(if failure.is_none() { 1 } else { 100 }, Ordering::SeqCst);
    });
    let fence = bench.start().unwrap();
    assert!(fence.on_signal(&signal).unwrap());
    fence.wait(Duration::MAX).unwrap();
    assert!(fence.on_signal(&signal).unwrap());
    for _ in 0..5000 {
        if told.load(Ordering::SeqCst) == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(told.load(Ordering::SeqCst), 2);
}

#[test]
fn devices_overlap_and_wait_for_each_other_on_virtual_time() {
    let host = host(
        "[[device]]\ncost = { fixed_ns = 1000, ps_per_byte = 0.0 }\n[[device]]\ncost = { fixed_ns = 5000, ps_per_byte = 0.0 }",
    );
    let [first, second] = host.devices() else {
        panic!("two devices")
    };
    let mut a = Bench::new(first, &add_relu()).unwrap();
    let mut b = Bench::new(second, &add_relu()).unwrap();
    let one = b.start().unwrap();
    let two = a.start().unwrap();
    let three = a
        .executable
        .execute(&mut Bench::new(first, &add_relu()).unwrap().submission, &[]);
    assert_eq!(three.err().unwrap().kind(), ErrorKind::BadArgument);
    one.wait(Duration::MAX).unwrap();
    two.wait(Duration::MAX).unwrap();
    assert_eq!(one.timing().unwrap().span_ns, Some((0, 10_000)));
    assert_eq!(two.timing().unwrap().span_ns, Some((0, 2000)));
    assert_eq!(host.clock().now_ns(), 10_000);

    let slow = b.start().unwrap();
    let behind = a.executable.clone().execute(&mut a.submission, &[&slow]).unwrap();
    behind.wait(Duration::MAX).unwrap();
    assert_eq!(behind.timing().unwrap().span_ns, Some((20_000, 22_000)));
    slow.wait(Duration::MAX).unwrap();
}

#[test]
fn state_stays_on_the_device_between_runs() {
    let mut graph = Graph::new("accumulate");
    let state = tensor(&mut graph, "state", DType::F32, &[2]);
    let x = tensor(&mut graph, "x", DType::F32, &[2]);
    let next = tensor(&mut graph, "next", DType::F32, &[2]);
    node(&mut graph, Op::Add, &[state, x], next);
    graph.inputs = vec![state, x];
    graph.outputs = vec![next];
    graph.states = vec![State {
        input: state,
        output: next,
    }];
    let mut bench = Bench::new(&device(""), &graph).unwrap();
    let ports = bench.executable.ports();
    assert_eq!(
        (ports[0].state_port, ports[1].state_port, ports[2].state_port),
        (Some(2), None, Some(0))
    );
    bench.write(1, &floats(&[1.0, 10.0]));
    for _ in 0..3 {
        bench.start().unwrap().wait(Duration::MAX).unwrap();
    }
    assert_eq!(to_floats(&bench.read(2)), [3.0, 30.0]);
}

#[test]
fn requested_layout_is_granted_or_refused() {
    let mut graph = Graph::new("layout");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 2, 1, 2]);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 2, 1, 2]);
    node(&mut graph, Op::Neg, &[x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let options = CompileOptions {
        layouts: vec![(1, Layout::ChannelsLast)],
        ..CompileOptions::default()
    };
    let x = [floats(&[1.0, 2.0, 3.0, 4.0])];
    let mut plain = Bench::with(&device(""), &graph, &options).unwrap();
    assert_eq!(plain.executable.ports()[1].layout, Layout::RowMajor);
    plain.run(&x).unwrap();
    assert_eq!(to_floats(&plain.read(1)), [-1.0, -2.0, -3.0, -4.0]);
    let granting = device("layouts = [\"row_major\", \"channels_last\"]");
    let mut last = Bench::with(&granting, &graph, &options).unwrap();
    assert_eq!(last.executable.ports()[1].layout, Layout::ChannelsLast);
    last.run(&x).unwrap();
    assert_eq!(to_floats(&last.read(1)), [-1.0, -3.0, -2.0, -4.0]);
}

#[test]
fn data_dependent_shape_has_a_bound_and_an_actual_value() {
    let mut graph = Graph::new("bounded");
    let x = tensor(&mut graph, "x", DType::F32, &[5]);
    let mut bounded = Tensor::new("where", TensorType::known(DType::I64, &[1, 5]));
    bounded.upper_bound = true;
    let y = graph.add_tensor(bounded);
    node(&mut graph, Op::NonZero, &[x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let mut bench = Bench::new(&device(""), &graph).unwrap();
    assert!(bench.executable.ports()[1].upper_bound);
    let fence = bench.run(&[floats(&[0.0, 7.0, 0.0, 0.0, 8.0])]).unwrap();
    let mut dims = [0; 4];
    let rank = fence.output_dims(1, &mut dims).unwrap();
    assert_eq!(dims[..rank], [1, 2]);
    let found = bench.read(1);
    assert_eq!((found[0], found[8]), (1, 4));

    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = device("dynamic_shapes = false").query_support(&flat).unwrap();
    assert!(support[0].reason != 0, "{support:?}");
}

#[test]
fn encodings_reach_the_device_and_appear_at_ports() {
    let mut graph = Graph::new("quantised");
    let x = tensor(&mut graph, "x", DType::U8, &[4]);
    let w = tensor(&mut graph, "w", DType::I8, &[4]);
    let y = tensor(&mut graph, "y", DType::U8, &[4]);
    let per_tensor = |scale: f32, zero_point: i32| Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [scale].into(),
        zero_points: [zero_point].into(),
        real: DType::F32,
    };
    graph.tensor_mut(x).encoding = Some(per_tensor(0.5, 10));
    graph.tensor_mut(y).encoding = Some(per_tensor(1.0, 100));
    graph.tensor_mut(w).data = Some(Constant::new(vec![1u8, 1, 1, 1]));
    graph.tensor_mut(w).encoding = Some(Encoding {
        axis: EncodingAxis::PerBlock { axis: 0, block: 3 },
        scales: [2.0, 8.0].into(),
        zero_points: [].into(),
        real: DType::F32,
    });
    node(&mut graph, Op::Add, &[x, w], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let mut bench = Bench::new(&device(""), &graph).unwrap();
    assert_eq!(bench.executable.ports()[1].encoding, graph.tensor(y).encoding);
    bench.run(&[vec![10, 12, 14, 20]]).unwrap();
    // real: 0, 1, 2, 5 plus 2, 2, 2, 8
    assert_eq!(bench.read(1), [102, 103, 104, 113]);

    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = device("encodings = [\"tensor\"]").query_support(&flat).unwrap();
    assert!(format!("{:?}", support[0]).contains("per block"), "{support:?}");
}

#[test]
fn bodies_run_with_their_captures() {
    let branch = |op: Op| {
        let mut body = Graph::new("branch");
        let inner = tensor(&mut body, "inner", DType::F32, &[2]);
        let result = tensor(&mut body, "result", DType::F32, &[2]);
        node(&mut body, op, &[inner], result);
        body.inputs = vec![inner];
        body.outputs = vec![result];
        (body, inner)
    };
    let mut graph = Graph::new("if");
    let condition = tensor(&mut graph, "condition", DType::Bool, &[]);
    let x = tensor(&mut graph, "x", DType::F32, &[2]);
    let y = tensor(&mut graph, "y", DType::F32, &[2]);
    let mut choice = Node::new(Op::If, vec![Some(condition)], vec![Some(y)]).with(Attributes::new());
    for (attr, op) in [(Attr::ThenBranch, Op::Neg), (Attr::ElseBranch, Op::Abs)] {
        let (body, inner) = branch(op);
        choice.bodies.push(Body {
            attr,
            graph: body,
            captures: vec![Capture { outer: x, inner }],
        });
    }
    graph.add_node(choice);
    graph.inputs = vec![condition, x];
    graph.outputs = vec![y];
    let mut bench = Bench::new(&device(""), &graph).unwrap();
    let x = floats(&[3.0, -4.0]);
    bench.run(&[vec![1], x.clone()]).unwrap();
    assert_eq!(to_floats(&bench.read(2)), [-3.0, 4.0]);
    bench.run(&[vec![0], x]).unwrap();
    assert_eq!(to_floats(&bench.read(2)), [3.0, 4.0]);

    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = device("bodies = false").query_support(&flat).unwrap();
    assert!(support[0].reason != 0, "{support:?}");
}

#[test]
fn cached_blob_loads_and_broken_blob_is_refused() {
    let device = device("");
    let flat = FlatGraph::new(&add_relu(), &[])
        .unwrap()
        .with_fingerprints([1; 32], [2; 32]);
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let load = |bytes: Vec<u8>, flat: &FlatGraph| device.load_bytes(bytes.into(), flat, 1);
    let executable = load(bytes.clone(), &flat).unwrap();
    Bench::of(&device, executable).unwrap().run(&inputs()).unwrap();

    let refused = |bytes: Vec<u8>, flat: &FlatGraph| {
        let error = load(bytes, flat).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::BadBlob);
        error.to_string()
    };
    assert!(refused(Vec::new(), &flat).contains("0 bytes"));
    assert!(refused(bytes[..bytes.len() - 1].to_vec(), &flat).contains("torn"));
    let mut corrupt = bytes.clone();
    *corrupt.last_mut().unwrap() ^= 1;
    assert!(refused(corrupt, &flat).contains("corrupt"));
    let other = FlatGraph::new(&add_relu(), &[])
        .unwrap()
        .with_fingerprints([1; 32], [3; 32]);
    assert!(refused(bytes, &other).contains("another graph"));
}

#[test]
fn bindings_are_checked_before_a_run_starts() {
    let device: Device = device("");
    let bench = Bench::new(&device, &add_relu()).unwrap();
    let mut submission = Submission::new(&bench.executable, 0);
    let unbound = bench.executable.execute(&mut submission, &[]).err().unwrap();
    assert!(unbound.to_string().contains("port 0 has no buffer"), "{unbound}");
    assert!(submission.bind(9, &bench.buffers[0], 0).is_err());
    assert!(submission.bind(0, &bench.buffers[0], 4).is_err());
    let other = Bench::new(&crate::bench::device(""), &add_relu()).unwrap();
    assert!(submission.bind(0, &other.buffers[0], 0).is_err());
    let held = bench.buffers[0].access(Access::Write, 0, 4).unwrap();
    let mut bench_run = Submission::new(&bench.executable, 0);
    for (port, buffer) in bench.buffers.iter().enumerate() {
        bench_run.bind(port as u32, buffer, 0).unwrap();
    }
    let busy = bench.executable.execute(&mut bench_run, &[]).err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::InUse);
    drop(held);
    bench
        .executable
        .execute(&mut bench_run, &[])
        .unwrap()
        .wait(Duration::MAX)
        .unwrap();
}

/// One memory file is the output of a device that takes addresses and the input of one that takes files.
#[test]
#[cfg(all(target_os = "linux", not(miri)))] // Miri has no memory files
fn tensor_crosses_between_devices_without_a_copy() {
    let host = host("[[device]]\nimports = [\"host\"]\n[[device]]\nimports = [\"memfd\"]");
    let [first, second] = host.devices() else {
        panic!("two devices")
    };
    assert!(first.info().imports_host_memory && !first.info().imports_memory_files);
    assert!(!second.info().imports_host_memory && second.info().imports_memory_files);
    let mut graph = Graph::new("neg");
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    node(&mut graph, Op::Neg, &[x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let load = |device: &Device| {
        let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        device.load(blob, &flat, 1).unwrap()
    };
    let [start, middle, end] = [0; 3].map(|_| Memory::file(16).unwrap());
    let import = |device: &Device, memory: &Memory| Arc::new(device.import_buffer(memory).unwrap());
    let input = import(first, &start);
    input
        .access(Access::Write, 0, 16)
        .unwrap()
        .copy_from_slice(&floats(&[1.0, 2.0, 3.0, 4.0]));
    let executables = [load(first), load(second)];
    let mut there = Submission::new(&executables[0], 0);
    there.bind(0, &input, 0).unwrap();
    there.bind(1, &import(first, &middle), 0).unwrap();
    let mut back = Submission::new(&executables[1], 0);
    back.bind(0, &import(second, &middle), 0).unwrap();
    let output = import(second, &end);
    back.bind(1, &output, 0).unwrap();
    executables[0]
        .execute(&mut there, &[])
        .unwrap()
        .wait(Duration::MAX)
        .unwrap();
    executables[1]
        .execute(&mut back, &[])
        .unwrap()
        .wait(Duration::MAX)
        .unwrap();
    assert_eq!(
        to_floats(&output.access(Access::Read, 0, 16).unwrap()),
        [1.0, 2.0, 3.0, 4.0]
    );
    let pages = second.import_buffer(&Memory::new(16).unwrap());
    assert_eq!(pages.err().unwrap().kind(), ErrorKind::Unsupported);
}
