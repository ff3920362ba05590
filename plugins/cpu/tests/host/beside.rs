//! Runs beside each other: of one executable and of several, from many threads, against what they give alone; and what
//! parts of one device share.

use std::sync::Barrier;
use std::time::Duration;

use polychip_graph::Graph;
#[cfg(target_os = "linux")]
use polychip_graph::{Constant, FileSlice, Node, Tensor};
use polychip_host::{CompileOptions, Device, Executable, FlatGraph, Host};
#[cfg(target_os = "linux")]
use polychip_ops::{DType, Op, TensorType};

use crate::bench::{Bench, floats};
use crate::control::{self, choice};
use crate::{conv_by_hand, conv_graph, conv_graph_of, ramp};

const THREADS: usize = 8;
const RUNS: usize = 60;

/// The linked plugin with so many places.
pub(crate) fn with_threads(threads: usize) -> Host {
    let host = Host::builder()
        .linked(polychip_cpu::query)
        .configure("cpu", "threads", threads.to_string())
        .build();
    assert_eq!(host.refusals(), []);
    host
}

fn load(device: &Device, graph: &Graph, threads: u32) -> Executable {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    let options = CompileOptions {
        threads,
        ..CompileOptions::default()
    };
    let blob = device.compile(&flat, &options).unwrap();
    device.load(blob, &flat, threads).unwrap()
}

/// What a run of these inputs gives: bytes of the output at `port`.
fn answer(bench: &mut Bench, inputs: &[Vec<u8>], port: usize, polls: bool) -> Vec<u8> {
    for (port, bytes) in inputs.iter().enumerate() {
        bench.write(port, bytes);
    }
    let fence = bench.executable.execute(&mut bench.submission, &[]).unwrap();
    // a poll leaves the run to the device's own threads
    while polls && fence.timing().is_err() {
        std::thread::yield_now();
    }
    fence.wait(Duration::from_secs(60)).unwrap();
    bench.read(port)
}

/// Runs all of these at once, some awaited and some not, and compares with what each gives alone.
fn beside(device: &Device, parts: &[(Executable, usize)], inputs: &(dyn Fn(usize) -> Vec<Vec<u8>> + Sync)) {
    let alone: Vec<Vec<Vec<u8>>> = parts
        .iter()
        .map(|(executable, port)| {
            let mut bench = Bench::of(device, executable.clone());
            (0..THREADS)
                .map(|thread| answer(&mut bench, &inputs(thread), *port, false))
                .collect()
        })
        .collect();
    let begin = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (begin, alone) = (&begin, &alone);
            scope.spawn(move || {
                let mut benches: Vec<Bench> = parts
                    .iter()
                    .map(|(executable, _)| Bench::of(device, executable.clone()))
                    .collect();
                begin.wait();
                for run in 0..RUNS {
                    let (part, which) = ((thread + run) % parts.len(), (thread + run / 2) % THREADS);
                    let given = inputs(which);
                    let polls = (run + thread).is_multiple_of(3);
                    let have = answer(&mut benches[part], &given, parts[part].1, polls);
                    assert_eq!(
                        have, alone[part][which],
                        "thread {thread}, run {run}, part {part}"
                    );
                }
            });
        }
    });
}

#[test]
fn concurrent_runs_match_separate_runs() {
    let host = with_threads(4);
    let device = &host.devices()[0];
    let graph = conv_graph();
    let inputs = |which: usize| {
        let scale = which as f32 - 3.5;
        vec![floats(&ramp(100).iter().map(|x| x * scale).collect::<Vec<_>>())]
    };
    let parts: Vec<(Executable, usize)> = [1, 2, 0, 1]
        .map(|threads| (load(device, &graph, threads), 1))
        .into();
    beside(device, &parts[..1], &inputs);
    beside(device, &parts, &inputs);
    let mut bench = Bench::of(device, parts[0].0.clone());
    let have = answer(&mut bench, &[floats(&ramp(100))], 1, false);
    crate::assert_close(&crate::to_floats(&have), &conv_by_hand(&ramp(100)));
}

#[test]
fn concurrent_runs_with_bodies_match_separate_runs() {
    let host = with_threads(3);
    let device = &host.devices()[0];
    let branches = load(device, &control::graph(&choice(2)), 1);
    let inputs = |which: usize| {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|x| x + which as f32);
        vec![vec![u8::from(which.is_multiple_of(2))], floats(&x)]
    };
    beside(device, &[(branches, 2)], &inputs);
    let rounds = load(device, &control::graph(control::ROUNDS), 1);
    let inputs = |which: usize| {
        let integer = |value: usize| (value as i64).to_le_bytes().to_vec();
        vec![integer(which), integer(100), floats(&[1.0, -2.0])]
    };
    beside(device, &[(rounds, 3)], &inputs);
}

#[test]
fn specializations_share_packed_weights() {
    let bytes_of = |executable: &Executable| executable.info().constant_bytes;
    let alone = |columns: usize| {
        let host = with_threads(2);
        let device = &host.devices()[0];
        let executable = load(device, &conv_graph_of(columns), 1);
        assert_ne!(bytes_of(&executable), 0);
        answer(
            &mut Bench::of(device, executable),
            &[floats(&ramp(20 * columns))],
            1,
            false,
        )
    };
    let host = with_threads(2);
    let device = &host.devices()[0];
    let first = load(device, &conv_graph(), 1);
    // its constants lie elsewhere
    let wide = load(device, &conv_graph_of(9), 2);
    assert_eq!(bytes_of(&wide), 0);
    let mut bench = Bench::of(device, wide);
    assert_eq!(answer(&mut bench, &[floats(&ramp(180))], 1, false), alone(9));
    let own = bytes_of(&first);
    drop(first);
    assert_eq!(answer(&mut bench, &[floats(&ramp(180))], 1, false), alone(9));
    let again = load(device, &conv_graph(), 1);
    assert_eq!(bytes_of(&again), 0, "the wide one holds them");
    drop((again, bench));
    // no part holds them any more
    assert_eq!(bytes_of(&load(device, &conv_graph(), 1)), own);
}

/// Bytes that this thread has read from files.
#[cfg(target_os = "linux")]
fn read_so_far() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().trim().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn weights_in_a_file_are_read_only_to_be_packed() {
    use std::os::fd::AsRawFd;
    const WIDTH: usize = 256;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let weights: Vec<f32> = (0..WIDTH * WIDTH).map(|i| (i % 13) as f32 - 6.0).collect();
    let graph = |offset: u64, bytes: &[u8]| {
        let mut graph = Graph::new("product");
        let known = |name: &str, dims: &[usize]| Tensor::new(name, TensorType::known(DType::F32, dims));
        let x = graph.add_tensor(known("x", &[2, WIDTH]));
        let w = graph.add_tensor(Tensor::constant(
            "w",
            TensorType::known(DType::F32, &[WIDTH, WIDTH]),
            Constant {
                file: Some(FileSlice { file: 0, offset }),
                ..Constant::new(bytes.to_vec())
            },
        ));
        let y = graph.add_tensor(known("y", &[2, WIDTH]));
        graph.add_node(Node::new(Op::MatMul, vec![Some(x), Some(w)], vec![Some(y)]));
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        graph
    };
    let bytes = floats(&weights);
    let other = floats(&weights.iter().map(|w| w + 1.0).collect::<Vec<_>>());
    std::fs::write(&path, [&bytes[..], &other].concat()).unwrap();
    let host = with_threads(1);
    let device = &host.devices()[0];
    // by a descriptor of its own, as another session has it
    let loaded = |offset: usize, bytes: &[u8]| {
        let file = std::fs::File::open(&path).unwrap();
        let graph = graph(offset as u64, bytes);
        let flat = FlatGraph::new(&graph, &[file.as_raw_fd().into()]).unwrap();
        let options = CompileOptions {
            threads: 1,
            ..CompileOptions::default()
        };
        let before = read_so_far();
        let blob = device.compile(&flat, &options).unwrap();
        let read = (read_so_far() - before) as usize / bytes.len();
        (device.load(blob, &flat, 1).unwrap(), read, (graph, file))
    };
    // debug builds pack again to compare
    let checks = usize::from(cfg!(debug_assertions));
    let (first, read, _first_file) = loaded(0, &bytes);
    assert_eq!(read, 1 + checks);
    let (again, read, _again_file) = loaded(0, &bytes);
    assert_eq!((again.info().constant_bytes, read), (0, checks));
    let (elsewhere, read, _other_file) = loaded(bytes.len(), &other);
    assert_eq!(elsewhere.info().constant_bytes, first.info().constant_bytes);
    assert_eq!(read, 1 + checks);
    let given = floats(&ramp(2 * WIDTH));
    let answers = [first, again, elsewhere]
        .map(|executable| answer(&mut Bench::of(device, executable), &[given.clone()], 1, false));
    assert_eq!(answers[0], answers[1]);
    assert_ne!(answers[0], answers[2]);
}
