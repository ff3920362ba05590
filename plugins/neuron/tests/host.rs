//! The neuron plugin through the host, on the emulated library: answers, runs, blobs, faults, what lives at the end.
//!
//! Invariant: faults are the process's, so all that sets them stands in one test.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_graph::{Encoding, EncodingAxis, Graph, TensorId};
use polychip_host::{
    Access, Buffer, CompileOptions, Device, ErrorKind, Executable, FlatGraph, Host, Memory, Submission,
};
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_parts::{constant, floats, node, numbers, relu_of_sum, tensor};
use polychip_test_requirements::libraries;

/// One after the other: the library's faults and counts are the process's.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn emulator() -> PathBuf {
    libraries::library("polychip-emulator-neuron", "neuron_adapter").unwrap()
}

fn host(settings: &[(&str, &str)]) -> Host {
    let folder = emulator().parent().unwrap().display().to_string();
    let mut builder = Host::builder().configure("neuron", "lib_dir", folder);
    for (key, value) in settings {
        builder = builder.configure("neuron", key, (*value).to_owned());
    }
    builder.linked(polychip_neuron::query).build()
}

fn device(host: &Host) -> Device {
    host.devices()
        .first()
        .unwrap_or_else(|| panic!("{:?}", host.refusals()))
        .clone()
}

/// Calls an export of the emulator's own.
fn emulated<T: Copy, R>(name: &str, call: impl FnOnce(T) -> R) -> R {
    // SAFETY: the plugin holds the library already; opening it again runs nothing.
    let library = unsafe { libloading::Library::new(emulator()) }.unwrap();
    // SAFETY: the callers name the types that the emulator's exports have.
    let symbol = unsafe { library.get::<T>(name) }.unwrap();
    call(*symbol)
}

fn faults(rules: &str) {
    let rules = CString::new(rules).unwrap();
    type Set = unsafe extern "C" fn(*const c_char) -> i32;
    // SAFETY: the text ends with a zero byte.
    let count = emulated("polychip_neuron_faults", |set: Set| unsafe {
        set(rules.as_ptr())
    });
    assert!(count >= 0);
}

fn live() -> [u64; 4] {
    type Live = extern "C" fn(u32) -> u64;
    emulated("polychip_neuron_live", |live: Live| {
        [0, 1, 2, 3].map(|kind| live(kind))
    })
}

fn load(device: &Device, graph: &Graph) -> Executable {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    for support in device.query_support(&flat).unwrap() {
        assert_eq!(support.reason, 0, "{}", support.detail);
    }
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    device.load(blob, &flat, 1).unwrap()
}

/// Buffers at all ports, with the inputs' bytes in them.
fn bound(
    device: &Device,
    executable: &Executable,
    feeds: &[Vec<u8>],
    submission: &mut Submission,
) -> Vec<Arc<Buffer>> {
    let mut buffers = Vec::new();
    for (number, port) in executable.ports().iter().enumerate() {
        let memory = Memory::new(port.bytes).unwrap();
        let buffer: Arc<Buffer> = Arc::new(device.import_buffer(&memory).unwrap());
        if let Some(feed) = feeds.get(number) {
            buffer
                .access(Access::Write, 0, port.bytes)
                .unwrap()
                .copy_from_slice(feed);
        }
        submission.bind(number as u32, &buffer, 0).unwrap();
        buffers.push(buffer);
    }
    buffers
}

fn run(device: &Device, executable: &Executable, feeds: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ErrorKind> {
    let mut submission = Submission::new(executable, 0);
    let buffers = bound(device, executable, feeds, &mut submission);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence
        .wait(Duration::from_secs(60))
        .map_err(|error| error.kind())?;
    let read = |(buffer, bytes): (&Arc<Buffer>, u64)| buffer.access(Access::Read, 0, bytes).unwrap().to_vec();
    let outputs = executable.ports().iter().map(|port| port.bytes);
    Ok(buffers.iter().zip(outputs).skip(feeds.len()).map(read).collect())
}

#[test]
fn missing_library_is_a_refusal_with_the_remedy() {
    let folder = std::env::temp_dir();
    let host = Host::builder()
        .configure("neuron", "lib_dir", folder.display().to_string())
        .linked(polychip_neuron::query)
        .build();
    assert!(host.devices().is_empty());
    let words = format!("{:?}", host.refusals());
    for part in [
        "libneuron_adapter.so",
        "NEURON_LIB_DIR",
        &*folder.display().to_string(),
    ] {
        assert!(words.contains(part), "{words} does not say {part}");
    }
}

#[test]
fn emulating_library_yields_an_emulated_device_without_measurements() {
    let _turn = turn();
    let library = polychip_sys::neuron::Library::open(emulator().parent()).unwrap();
    assert!(library.says_it_emulates());
    let host = host(&[]);
    let device = device(&host);
    let info = device.info();
    assert!(info.emulated && info.shares_host_memory && info.imports_host_memory);
    assert!(info.name.ends_with("NPU, emulated"), "{}", info.name);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 0);
    let _buffers = bound(&device, &executable, &[floats(&[1.0; 4])], &mut submission);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(fence.timing().unwrap().span_ns, None);
}

#[test]
fn unknown_settings_are_refused_with_the_known_ones() {
    let host = host(&[("preference", "fast")]);
    let words = format!("{:?}", host.refusals());
    assert!(words.contains("fast") && words.contains("turbo"), "{words}");
}

#[test]
fn a_part_runs_more_than_once() {
    let _turn = turn();
    let host = host(&[]);
    let device = device(&host);
    let executable = load(&device, &relu_of_sum());
    for (x, y) in [
        ([1.0, 0.5, -0.25, 9.0], [2.0, 0.0, 0.25, 1.0]),
        ([-2.0, 3.0, 0.0, 8.0], [0.0, 2.0, 0.5, 0.0]),
    ] {
        let out = run(&device, &executable, &[floats(&x)]).unwrap();
        assert_eq!(numbers(&out[0]), y);
    }
}

fn encoded(graph: &mut Graph, of: TensorId, axis: EncodingAxis, scales: &[f32], zeros: &[i32]) {
    graph.tensor_mut(of).encoding = Some(Encoding {
        axis,
        scales: scales.into(),
        zero_points: zeros.into(),
        real: DType::F32,
    });
}

/// `y = relu(conv(x))` of bytes, with a scale per channel of the result.
fn quantised() -> Graph {
    let mut graph = Graph::new("quantised");
    let x = tensor(&mut graph, "x", DType::U8, &[1, 2, 3, 3]);
    let weights: Vec<u8> = (0..2 * 2 * 3 * 3).map(|at| (at % 7) as u8).collect();
    let w = constant(&mut graph, "w", DType::I8, &[2, 2, 3, 3], weights);
    let bias = [4i32, -3].iter().flat_map(|value| value.to_le_bytes()).collect();
    let b = constant(&mut graph, "b", DType::I32, &[2], bias);
    let sum = tensor(&mut graph, "sum", DType::U8, &[1, 2, 3, 3]);
    let y = tensor(&mut graph, "y", DType::U8, &[1, 2, 3, 3]);
    let whole = EncodingAxis::PerTensor;
    encoded(&mut graph, x, whole, &[0.5], &[10]);
    encoded(&mut graph, w, EncodingAxis::PerAxis(0), &[0.25, 0.5], &[0, 0]);
    encoded(&mut graph, b, EncodingAxis::PerAxis(0), &[0.125, 0.25], &[0, 0]);
    encoded(&mut graph, sum, whole, &[1.0], &[3]);
    encoded(&mut graph, y, whole, &[1.0], &[3]);
    let inputs = [x, w, b].map(Some).to_vec();
    let mut conv = polychip_graph::Node::new(Op::Conv, inputs, vec![Some(sum)]);
    conv.attributes.set(Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1]));
    graph.add_node(conv);
    node(&mut graph, Op::Relu, &[sum], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

#[test]
fn quantised_convolution_with_per_channel_scales_is_right() {
    let _turn = turn();
    let host = host(&[]);
    let device = device(&host);
    let executable = load(&device, &quantised());
    let x: Vec<u8> = (0..18).map(|at| (at * 5 % 31) as u8).collect();
    let out = run(&device, &executable, std::slice::from_ref(&x)).unwrap();
    // by hand: (q - 10) / 2, pads of reals 0, weights (i % 7) times the channel's scale
    let mut wanted = Vec::new();
    for (channel, (step, bias)) in [(0.25, 4.0 * 0.125), (0.5, -3.0 * 0.25)].into_iter().enumerate() {
        for row in 0..3i32 {
            for column in 0..3i32 {
                let mut sum = bias;
                for (from, kernel) in (0..2).flat_map(|from| (0..9).map(move |kernel| (from, kernel))) {
                    let (r, c) = (row + kernel / 3 - 1, column + kernel % 3 - 1);
                    if (0..3).contains(&r) && (0..3).contains(&c) {
                        let pixel = f64::from(x[(from * 9 + r * 3 + c) as usize]) - 10.0;
                        let weight = (channel as i32 * 18 + from * 9 + kernel) % 7;
                        sum += pixel * 0.5 * f64::from(weight) * step;
                    }
                }
                wanted.push((sum.max(0.0).round_ties_even() + 3.0).min(255.0) as u8);
            }
        }
    }
    assert_eq!(out[0], wanted);
}

#[test]
fn cached_bytes_load_and_changed_ones_are_refused() {
    let _turn = turn();
    let host = host(&[]);
    let device = device(&host);
    let graph = quantised();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    device.load_bytes(bytes.clone().into(), &flat, 1).unwrap();
    for at in [0, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        let refused = device.load_bytes(torn.into(), &flat, 1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadBlob, "byte {at}");
    }
    let other = relu_of_sum();
    let flat = FlatGraph::new(&other, &[]).unwrap();
    let refused = device.load_bytes(bytes.into(), &flat, 1).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadBlob);
}

#[test]
fn refusal_of_the_library_is_reported_in_its_name() {
    let _turn = turn();
    let host = host(&[("options", "--opt 3")]);
    let device = device(&host);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    faults("supported:op=0=error:1");
    let answers = device.query_support(&flat).unwrap();
    faults("");
    // the sum, not the Relu
    assert_eq!(
        (answers[0].reason, answers[1].reason),
        (13, 0),
        "{}",
        answers[0].detail
    );
}

#[test]
fn library_faults_have_the_right_kind_and_leak_nothing() {
    let _turn = turn();
    let before = live();
    {
        let host = host(&[]);
        let device = device(&host);
        let graph = quantised();
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let feeds = [(0..18).map(|at| at * 3).collect::<Vec<u8>>()];
        let executable = load(&device, &graph);
        let right = run(&device, &executable, &feeds).unwrap();

        // a compiler that refuses what it said yes to
        faults("finish:1=5");
        let refused = device
            .compile(&flat, &CompileOptions::default())
            .map(drop)
            .unwrap_err();
        assert_eq!(
            (refused.kind(), refused.vendor_code()),
            (ErrorKind::Unsupported, 5)
        );
        assert!(
            refused.to_string().contains("NeuronCompilation_finish"),
            "{refused}"
        );

        // a run that fails leaves the device as it was
        faults("compute:1=5");
        assert_eq!(run(&device, &executable, &feeds), Err(ErrorKind::Persistent));
        assert_eq!(run(&device, &executable, &feeds).as_ref(), Ok(&right));

        // the service dies: everything is made anew
        faults("compute:1=lost");
        assert_eq!(run(&device, &executable, &feeds), Err(ErrorKind::DeviceLost));
        device.reset().unwrap();
        assert_eq!(run(&device, &load(&device, &graph), &feeds).as_ref(), Ok(&right));

        // a run that hangs is left behind
        let executable = load(&device, &graph);
        faults("compute:1=hang");
        let mut submission = Submission::new(&executable, 0);
        let _buffers = bound(&device, &executable, &feeds, &mut submission);
        let fence = executable.execute(&mut submission, &[]).unwrap();
        let late = fence.wait(Duration::from_millis(100)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout);
        device.reset().unwrap();
        assert!(fence.wait(Duration::from_secs(10)).is_err());
        faults("");
        assert_eq!(run(&device, &load(&device, &graph), &feeds).as_ref(), Ok(&right));
    }
    // the run that hung ends in its own time
    for _ in 0..100 {
        if live() == before {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(live(), before, "models, compilations, executions, memories");
}
