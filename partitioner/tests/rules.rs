//! The comparators of PlacementBench on graphs small enough for a pencil, and on HEFT's own example.
//!
//! Invariants: expectations come from the papers or are worked out in comments, never from a run.

// of the benchmark's modules, only the rules are under test
#![allow(dead_code)]

#[path = "../benches/placement"]
mod placement {
    pub(crate) mod rules;
    pub(crate) mod structure;
    pub(crate) mod world;
}

use polychip_graph::Graph;
use polychip_partitioner::problem::{FORBIDDEN, Moved, Problem, Source};
use polychip_partitioner::{CostTable, LinkTable};
// the modules name each other from the root
use placement::{rules, structure, world};
use rules::{RUNTIMES, SIMPLE, list};
use world::{Kind, World};

/// A world of costs per node and edges with one cost between any two devices; no launches.
fn small<const D: usize>(kinds: [Kind; D], costs: &[[u64; D]], edges: &[(usize, usize, u64)]) -> World {
    let mut problem = Problem::new(costs.as_flattened().to_vec(), vec![0; D]).unwrap();
    for &(writer, reader, cost) in edges {
        problem
            .push(Moved {
                source: Source::Node(writer),
                readers: vec![reader],
                home: None,
                transfer: vec![cost; D * D].into(),
            })
            .unwrap();
    }
    World {
        graph: Graph::new(""),
        targets: Vec::new(),
        costs: CostTable::new(0, 0),
        links: LinkTable::new(0),
        problem,
        kinds: kinds.to_vec(),
    }
}

fn place(name: &str, world: &World) -> Vec<usize> {
    let rule = RUNTIMES
        .iter()
        .chain(SIMPLE)
        .find(|rule| rule.name == name)
        .unwrap();
    (rule.place)(world)
}

/// A chain of nodes that the second device takes half the time for, where it supports them.
fn chain(supported: &[bool]) -> World {
    let costs: Vec<[u64; 2]> = supported
        .iter()
        .map(|&yes| [10, if yes { 5 } else { FORBIDDEN }])
        .collect();
    let edges: Vec<(usize, usize, u64)> = (1..costs.len()).map(|node| (node - 1, node, 1)).collect();
    small([Kind::Cpu, Kind::Gpu], &costs, &edges)
}

#[test]
fn heft_reproduces_its_paper() {
    // Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, figures 2 to 4: ten tasks, three processors
    let costs = [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ];
    let edges = [
        (1, 2, 18),
        (1, 3, 12),
        (1, 4, 9),
        (1, 5, 11),
        (1, 6, 14),
        (2, 8, 19),
        (2, 9, 16),
        (3, 7, 23),
        (4, 8, 27),
        (4, 9, 23),
        (5, 9, 13),
        (6, 8, 15),
        (7, 10, 17),
        (8, 10, 11),
        (9, 10, 13),
    ]
    .map(|(from, to, cost)| (from - 1, to - 1, cost));
    let world = small([Kind::Cpu, Kind::Gpu, Kind::Npu], &costs, &edges);
    let (order, placement) = list::heft_schedule(&world);
    // processors 1 to 3 of tasks 1 to 10
    let processors: Vec<usize> = placement.iter().map(|device| device + 1).collect();
    assert_eq!(processors, [3, 1, 3, 2, 3, 2, 3, 1, 2, 2]);
    // starts 0, 9, 18, 26, 27, 28, 38, 56, 57, 73; the last task ends at 80
    let tasks: Vec<usize> = order.iter().map(|node| node + 1).collect();
    assert_eq!(tasks, [1, 3, 4, 6, 2, 5, 7, 9, 8, 10]);
}

#[test]
fn peft_looks_ahead_where_heft_does_not() {
    let world = small([Kind::Cpu, Kind::Gpu], &[[2, 3], [10, 1]], &[(0, 1, 4)]);
    // HEFT: node 0 ends at 2 or 3; then node 1 at 12, or at 2 + 4 + 1
    assert_eq!(place("HEFT", &world), [0, 1]);
    // PEFT: the rest after node 0 is min(10, 4 + 1) on the first device, min(10 + 4, 1) on the second: 7 against 4
    assert_eq!(place("PEFT", &world), [1, 1]);
}

#[test]
fn priority_rule_ignores_costs() {
    let no = FORBIDDEN;
    let world = small(
        [Kind::Cpu, Kind::Gpu, Kind::Npu],
        &[[1, 9, 9], [9, 1, no], [1, no, no], [9, no, 1]],
        &[(0, 1, 5), (1, 2, 5), (2, 3, 5)],
    );
    assert_eq!(place("ONNX Runtime", &world), [2, 1, 0, 2]);
    assert_eq!(place("LiteRT", &world), [2, 1, 0, 2]);
    // its NPU plugin has no heterogeneous execution: the NPU comes after all
    assert_eq!(place("OpenVINO HETERO", &world), [1, 1, 0, 0]);
    assert_eq!(place("CPU only", &world), [0, 0, 0, 0]);
    assert_eq!(place("NPU>CPU", &world), [2, 0, 0, 2]);
    assert_eq!(place("per-node argmin", &world), [0, 1, 0, 2]);
    // declared per device over the CPU on what it supports: GPU 10 of 10, NPU 10 of 10: the CPU wins ties
    assert_eq!(place("NNAPI", &world), [0, 0, 0, 0]);
    // node 1 on the CPU: 9, on the GPU: 1 + 5; node 3 on the CPU: 9, on the NPU: 1 + 5
    assert_eq!(place("aware greedy", &world), [0, 1, 0, 2]);
}

#[test]
fn tflite_takes_the_largest_partition_by_nodes() {
    assert_eq!(
        place("TFLite GPU", &chain(&[true, true, false, true, true, true])),
        [0, 0, 0, 1, 1, 1]
    );
    // among equals the first
    assert_eq!(place("TFLite GPU", &chain(&[true, false, true])), [1, 0, 0]);
}

#[test]
fn band_gives_up_runs_shorter_than_seven() {
    let mut supported = vec![true; 6];
    assert_eq!(place("Band", &chain(&supported)), [0; 6]);
    supported.push(true);
    assert_eq!(place("Band", &chain(&supported)), [1; 7]);
    // a run of seven, one node for the CPU alone, a run of two
    supported.extend([false, true, true]);
    assert_eq!(place("Band", &chain(&supported)), [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
}
