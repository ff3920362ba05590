//! The openvino plugin through the host: devices, answers, runs, blobs cached, torn and of another part, fences.
//!
//! Skipped, with the reason, where OpenVINO is neither in `OPENVINO_LIB_DIR` nor in `target/vendor`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use polychip_graph::{Encoding, EncodingAxis, Graph, State, TensorId};
use polychip_host::{CompileOptions, Device, ErrorKind, Executable, FlatGraph, Host, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::{buffers, constant, floats, load, node, numbers, read, tensor, write};
use polychip_test_requirements::{Need, skipped};

/// Where the library is, or why the tests are skipped.
fn library() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("OPENVINO_LIB_DIR").filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder));
    }
    let vendored =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/vendor/openvino/openvino/libs");
    if vendored.is_dir() {
        return Ok(vendored);
    }
    Err(
        "OPENVINO_LIB_DIR is not set and target/vendor/openvino is not there (`cargo xtask vendor openvino`)"
            .into(),
    )
}

/// A test that needs the library.
type Test = (&'static str, fn(&Device));
/// Inputs and outputs of a graph.
type Ends = (Vec<TensorId>, Vec<TensorId>);

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test(
        "missing_library_is_a_refusal_with_the_remedy",
        || {
            missing();
            Ok(())
        },
    )];
    let tests: &[Test] = &[
        ("device_reports_true_figures", device_reports_true_figures),
        ("a_part_runs_more_than_once", a_part_runs_more_than_once),
        ("a_quantised_part_runs", a_quantised_part_runs),
        ("cached_bytes_load_and_changed_ones_are_refused", cached_bytes),
        ("a_blob_of_another_part_is_refused", another_part),
        ("each_refusal_has_its_reason", each_refusal_has_its_reason),
        (
            "numbers_beyond_32_bits_are_refused",
            numbers_beyond_32_bits_are_refused,
        ),
        ("runs_wait_for_runs", runs_wait_for_runs),
        ("a_state_may_lie_on_its_input", a_state_may_lie_on_its_input),
        ("a_cancelled_run_ends", a_cancelled_run_ends),
        ("many_threads_share_a_device", many_threads_share_a_device),
    ];
    match library() {
        Ok(folder) => {
            let host = Host::builder()
                .configure("openvino", "lib_dir", folder.display().to_string())
                .linked(polychip_openvino::query)
                .build();
            let device = Arc::new(host.devices().first().cloned());
            let refusals = format!("{:?}", host.refusals());
            for &(name, test) in tests {
                let (device, refusals) = (Arc::clone(&device), refusals.clone());
                trials.push(Trial::test(name, move || {
                    let device = device.as_ref().as_ref().ok_or(refusals)?;
                    test(device);
                    Ok(())
                }));
            }
            libtest_mimic::run(&arguments, trials).exit();
        }
        Err(why) => {
            trials.extend(tests.iter().map(|(name, _)| skipped(name, Need::Openvino, &why)));
            libtest_mimic::run(&arguments, trials).exit();
        }
    }
}

fn missing() {
    let folder = std::env::temp_dir().join(format!("polychip-no-openvino-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let host = Host::builder()
        .configure("openvino", "lib_dir", folder.display().to_string())
        .linked(polychip_openvino::query)
        .build();
    assert!(host.devices().is_empty());
    let words = format!("{:?}", host.refusals());
    for part in [
        "libopenvino_c",
        "2025.0",
        "OPENVINO_LIB_DIR",
        &folder.display().to_string(),
    ] {
        assert!(words.contains(part), "{words} does not say {part}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// `y = relu(x + c)`, all of `[4]`, beside a product with weights large enough to be handed over by address.
fn graph(scale: f32) -> Graph {
    let mut graph = Graph::new("sum");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 4]);
    let c = constant(&mut graph, "c", DType::F32, &[4], floats(&[1.0, -1.0, 0.5, -8.0]));
    let weights: Vec<f32> = (0..4 * 256)
        .map(|i| if i % 256 == 7 { scale } else { 0.0 })
        .collect();
    let w = constant(&mut graph, "w", DType::F32, &[4, 256], floats(&weights));
    let sum = tensor(&mut graph, "sum", DType::F32, &[1, 4]);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 4]);
    let z = tensor(&mut graph, "z", DType::F32, &[1, 256]);
    node(&mut graph, Op::Add, &[x, c], sum);
    node(&mut graph, Op::Relu, &[sum], y);
    node(&mut graph, Op::MatMul, &[y, w], z);
    graph.inputs = vec![x];
    graph.outputs = vec![y, z];
    graph
}

/// Runs the part of [`graph`] on `x` of `[4]`.
fn run(device: &Device, executable: &Executable, x: &[f32; 4]) -> (Vec<f32>, Vec<f32>) {
    let mut submission = Submission::new(executable, 4);
    let buffers = buffers(device, executable, &mut submission);
    write(&buffers[0], &floats(x));
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    let (start_ns, end_ns) = fence.timing().unwrap().span_ns.unwrap();
    assert!(start_ns <= end_ns);
    (numbers(&read(&buffers[1], 16)), numbers(&read(&buffers[2], 1024)))
}

fn device_reports_true_figures(device: &Device) {
    let info = device.info();
    assert!(!info.emulated);
    assert!(!info.name.is_empty());
    assert!(info.driver.starts_with("OpenVINO 20"), "{}", info.driver);
    assert!(info.peak_macs_per_s.unwrap() > 1_000_000);
}

fn a_part_runs_more_than_once(device: &Device) {
    let executable = load(device, &graph(2.0));
    let (y, z) = run(device, &executable, &[1.0, 0.5, -0.25, 9.0]);
    assert_eq!(y, [2.0, 0.0, 0.25, 1.0]);
    assert_eq!((z[7], z[8]), (6.5, 0.0));
    let (y, z) = run(device, &executable, &[-2.0, 3.0, 0.0, 8.0]);
    assert_eq!(y, [0.0, 2.0, 0.5, 0.0]);
    assert_eq!(z[7], 5.0);
}

/// `y = relu(x)` on i8 with a scale of 0.5 and a zero point of 1.
fn quantised() -> Graph {
    let mut graph = Graph::new("quantised");
    let encoding = Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [0.5].into(),
        zero_points: [1].into(),
        real: DType::F32,
    };
    let x = tensor(&mut graph, "x", DType::I8, &[4]);
    let y = tensor(&mut graph, "y", DType::I8, &[4]);
    graph.tensor_mut(x).encoding = Some(encoding.clone());
    graph.tensor_mut(y).encoding = Some(encoding);
    node(&mut graph, Op::Relu, &[x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

fn a_quantised_part_runs(device: &Device) {
    let graph = quantised();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = device.query_support(&flat).unwrap();
    assert_eq!(support[0].reason, 0, "{}", support[0].detail);
    let executable = load(device, &graph);
    let mut submission = Submission::new(&executable, 4);
    let buffers = buffers(device, &executable, &mut submission);
    write(&buffers[0], &[251, 1, 3, 127]);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(read(&buffers[1], 4), [1, 1, 3, 127]);
}

fn cached_bytes(device: &Device) {
    let graph = graph(3.0);
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    assert!(bytes.len() < 4096, "{} bytes: weights are in it", bytes.len());
    let executable = device.load_bytes(bytes.clone().into(), &flat, 1).unwrap();
    let (y, z) = run(device, &executable, &[0.0; 4]);
    assert_eq!(y, [1.0, 0.0, 0.5, 0.0]);
    assert_eq!(z[7], 4.5);
    for index in [0, 20, 40, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let refused = device.load_bytes(changed.into(), &flat, 1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadBlob, "byte {index}");
    }
}

fn another_part(device: &Device) {
    let (one, other) = (graph(1.0), quantised());
    let (one, other) = (
        FlatGraph::new(&one, &[]).unwrap(),
        FlatGraph::new(&other, &[]).unwrap(),
    );
    let mut blob = device.compile(&one, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let refused = device
        .load_bytes(bytes.clone().into(), &other, 1)
        .map(drop)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadBlob);
    // a part that differs in its weights only: what was compiled points to those of the first
    let heavy = graph(5.0);
    let heavy = FlatGraph::new(&heavy, &[]).unwrap();
    let executable = device.load(blob, &heavy, 1).unwrap();
    assert_eq!(run(device, &executable, &[0.0; 4]).1[7], 7.5);
    // and one that the host tells apart
    let heavy = heavy.with_fingerprints([0; 32], [1; 32]);
    let blob = device.compile(&one, &CompileOptions::default()).unwrap();
    for refused in [
        device.load(blob, &heavy, 1).map(drop).unwrap_err(),
        device.load_bytes(bytes.into(), &heavy, 1).map(drop).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::BadBlob);
    }
}

fn each_refusal_has_its_reason(device: &Device) {
    let ask = |build: &dyn Fn(&mut Graph) -> Ends| {
        let mut graph = Graph::new("asked");
        (graph.inputs, graph.outputs) = build(&mut graph);
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let supported = device.query_support(&flat).unwrap()[0].clone();
        let compiled = device.compile(&flat, &CompileOptions::default()).is_ok();
        assert_eq!(compiled, supported.reason == 0, "{}", supported.detail);
        (supported.reason, supported.detail.to_string())
    };
    let binary = |op: Op, dtype: DType, shape: &'static [usize]| {
        move |graph: &mut Graph| {
            let x = tensor(graph, "x", dtype, shape);
            let c = tensor(graph, "c", dtype, shape);
            let y = tensor(graph, "y", dtype, shape);
            node(graph, op, &[x, c], y);
            (vec![x, c], vec![y])
        }
    };
    assert_eq!(ask(&binary(Op::Add, DType::F32, &[2, 3])).0, 0);
    assert_eq!(
        ask(&binary(Op::Add, DType::F64, &[2, 3])).0,
        polychip_abi::POLYCHIP_SUPPORT_DTYPE
    );
    assert_eq!(
        ask(&binary(Op::Add, DType::F32, &[2, 0])).0,
        polychip_abi::POLYCHIP_SUPPORT_SHAPE
    );
    // integers of eight bits saturate there
    assert_eq!(
        ask(&binary(Op::Add, DType::I8, &[2, 3])).0,
        polychip_abi::POLYCHIP_SUPPORT_DTYPE
    );
    // an op that the library has no reader for: its own words are the reason
    let determinant = |graph: &mut Graph| {
        let x = tensor(graph, "x", DType::F32, &[3, 2, 2]);
        let y = tensor(graph, "y", DType::F32, &[3]);
        node(graph, Op::Det, &[x], y);
        (vec![x], vec![y])
    };
    let (reason, words) = ask(&determinant);
    assert_eq!(reason, polychip_abi::POLYCHIP_SUPPORT_VENDOR, "{words}");
    assert!(words.contains("No conversion rule"), "{words}");
    assert!(words.contains("OpenVINO"), "{words}");
}

/// The library computes i64 in 32 bits: what does not fit must not come back cut.
fn numbers_beyond_32_bits_are_refused(device: &Device) {
    let mut graph = Graph::new("numbers");
    let x = tensor(&mut graph, "x", DType::I64, &[2]);
    let y = tensor(&mut graph, "y", DType::I64, &[2]);
    node(&mut graph, Op::Identity, &[x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let executable = load(device, &graph);
    let mut submission = Submission::new(&executable, 4);
    let buffers = buffers(device, &executable, &mut submission);
    let bytes = |values: [i64; 2]| values.map(i64::to_le_bytes).concat();
    for (values, fits) in [([-5, 1 << 30], true), ([0, 1 << 40], false), ([7, -1], true)] {
        write(&buffers[0], &bytes(values));
        let fence = executable.execute(&mut submission, &[]).unwrap();
        match fence.wait(Duration::from_secs(60)) {
            Ok(()) => {
                assert!(fits);
                assert_eq!(read(&buffers[1], 16), bytes(values));
            }
            Err(error) => {
                assert!(!fits);
                assert!(error.to_string().contains("1099511627776"), "{error}");
            }
        }
    }
}

fn runs_wait_for_runs(device: &Device) {
    let executable = load(device, &graph(1.0));
    let mut first = Submission::new(&executable, 4);
    let one = buffers(device, &executable, &mut first);
    let mut second = Submission::new(&executable, 4);
    second.bind(0, &one[1], 0).unwrap();
    let other = buffers(device, &executable, &mut Submission::new(&executable, 4));
    second.bind(1, &other[1], 0).unwrap();
    second.bind(2, &other[2], 0).unwrap();
    for round in 0..50u8 {
        let x = f32::from(round);
        write(&one[0], &floats(&[x, x, x, x]));
        let before = executable.execute(&mut first, &[]).unwrap();
        let after = executable.execute(&mut second, &[&before]).unwrap();
        after.wait(Duration::from_secs(60)).unwrap();
        before.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(numbers(&read(&other[1], 16))[0], x + 2.0);
    }
}

fn a_state_may_lie_on_its_input(device: &Device) {
    let mut graph = Graph::new("state");
    let x = tensor(&mut graph, "x", DType::F32, &[2, 2]);
    let s = tensor(&mut graph, "s", DType::F32, &[2, 2]);
    let t = tensor(&mut graph, "t", DType::F32, &[2, 2]);
    node(&mut graph, Op::MatMul, &[s, x], t);
    graph.inputs = vec![x, s];
    graph.outputs = vec![t];
    graph.states = vec![State { input: s, output: t }];
    let executable = load(device, &graph);
    let mut submission = Submission::new(&executable, 4);
    let buffers = buffers(device, &executable, &mut submission);
    submission.bind(2, &buffers[1], 0).unwrap();
    write(&buffers[0], &floats(&[1.0, 1.0, 0.0, 1.0]));
    write(&buffers[1], &floats(&[1.0, 0.0, 0.0, 1.0]));
    for _ in 0..5 {
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(Duration::from_secs(60)).unwrap();
    }
    assert_eq!(numbers(&read(&buffers[1], 16)), [1.0, 5.0, 0.0, 1.0]);
}

/// A product that takes some milliseconds, chained.
fn long() -> Graph {
    let mut graph = Graph::new("long");
    let x = tensor(&mut graph, "x", DType::F32, &[512, 512]);
    let mut last = x;
    for index in 0..40 {
        let next = tensor(&mut graph, &format!("t{index}"), DType::F32, &[512, 512]);
        node(&mut graph, Op::MatMul, &[last, x], next);
        last = next;
    }
    graph.inputs = vec![x];
    graph.outputs = vec![last];
    graph
}

fn a_cancelled_run_ends(device: &Device) {
    let executable = load(device, &long());
    let mut submissions: Vec<Submission> = (0..3).map(|_| Submission::new(&executable, 4)).collect();
    let mut fences = Vec::new();
    for submission in &mut submissions {
        let _ = buffers(device, &executable, submission);
        fences.push(executable.execute(submission, &[]).unwrap());
    }
    // one may run, one cannot have begun
    fences[2].cancel().unwrap();
    fences[0].cancel().unwrap();
    for (index, fence) in fences.iter().enumerate() {
        match fence.wait(Duration::from_secs(60)) {
            Ok(()) => assert_ne!(index, 2, "a run that had not begun was not cancelled"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                assert_ne!(index, 1, "a run that nobody cancelled was");
            }
        }
    }
    // and the device goes on
    let executable = load(device, &graph(1.0));
    assert_eq!(run(device, &executable, &[0.0; 4]).0, [1.0, 0.0, 0.5, 0.0]);
}

fn many_threads_share_a_device(device: &Device) {
    let executable = load(device, &graph(1.0));
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let executable = &executable;
            scope.spawn(move || {
                for round in 0..30u8 {
                    let x = f32::from(thread) + f32::from(round) * 4.0;
                    let (y, z) = run(device, executable, &[x, 1.0, 0.0, 8.0]);
                    assert_eq!(y, [x + 1.0, 0.0, 0.5, 0.0]);
                    assert_eq!(z[7], x + 1.5);
                }
            });
        }
    });
}
