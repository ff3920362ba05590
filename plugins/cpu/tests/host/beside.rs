//! Runs beside each other: of one executable and of several, from many threads, against what they give alone; and what
//! parts of one device share.

use std::sync::Barrier;
use std::time::Duration;

use polychip_graph::Graph;
use polychip_host::{CompileOptions, Device, Executable, FlatGraph, Host};

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
