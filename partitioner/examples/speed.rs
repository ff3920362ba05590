//! Times the solver on networks of 1,000 to 100,000 nodes: `cargo run --release -p polychip-partitioner --example speed`.
//!
//! Invariants: the problems are the same on every host; only the times differ.

use polychip_graph::{Graph, Node, Tensor};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::problem::{FORBIDDEN, Moved, Problem, Source};
use polychip_partitioner::solve::{Limits, solve};
use polychip_partitioner::{
    Cost, CostTable, Link, LinkTable, Nanos, Objective, Options, Provenance, Refusal, Target, check,
    partition,
};
use std::time::{Duration, Instant};

/// A step of a small generator (Knuth's MMIX constants); the top bits are good enough here.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Blocks of residual (`fan` = 1) or attention-like (`fan` = 3) nodes.
fn network(nodes: usize, devices: usize, fan: usize) -> Problem {
    let mut state = 1;
    let mut cost = Vec::new();
    for _ in 0..nodes {
        let work = 500 + next(&mut state) % 5000;
        for device in 0..devices as u64 {
            let refused = device > 0 && next(&mut state) % 100 < 12;
            cost.push(if refused {
                FORBIDDEN
            } else {
                work * (devices as u64 - device) + next(&mut state) % 500
            });
        }
    }
    let launch = (0..devices as u64).map(|device| 300 * device).collect();
    let mut problem = Problem::new(cost, launch).expect("rows fit the devices");
    for node in 0..nodes {
        let mut readers = vec![node + 1];
        if node % 8 == 0 {
            readers.extend([node + 6, node + 7].iter().take(fan.min(2)));
        }
        if fan > 1 && node % 8 == 1 {
            readers.extend([node + 2, node + 3]);
        }
        readers.retain(|&reader| reader < nodes);
        let size = next(&mut state) % 900;
        let pairs = (0..devices).flat_map(|a| (0..devices).map(move |b| (a, b)));
        let transfer = pairs
            .map(|(a, b)| 200 + size * (1 + a.abs_diff(b) as u64))
            .collect();
        problem
            .push(Moved {
                source: Source::Node(node),
                readers,
                home: None,
                transfer,
            })
            .expect("nodes exist");
    }
    problem
}

/// Each node reads two of the `window` nodes before it.
fn wiring(nodes: usize, devices: usize, window: u64) -> Problem {
    let mut state = 1;
    let cost = (0..nodes * devices)
        .map(|_| 500 + next(&mut state) % 5000)
        .collect();
    let mut problem = Problem::new(cost, vec![300; devices]).expect("rows fit the devices");
    let mut readers = vec![Vec::new(); nodes];
    for node in 1..nodes as u64 {
        for _ in 0..2 {
            readers[(node - 1 - next(&mut state) % window.min(node)) as usize].push(node as usize);
        }
    }
    for (node, readers) in readers.into_iter().enumerate() {
        let size = next(&mut state) % 1500;
        let transfer = vec![200 + size; devices * devices];
        problem
            .push(Moved {
                source: Source::Node(node),
                readers,
                home: None,
                transfer,
            })
            .expect("nodes exist");
    }
    problem
}

/// A graph of residual blocks on three devices, planned from end to end.
fn plan(nodes: usize) -> Duration {
    let ty = TensorType::known(DType::F32, &[1, 64, 28, 28]);
    let mut graph = Graph::new("residual");
    let mut last = graph.add_tensor(Tensor::new("x", ty.clone()));
    let mut shortcut = last;
    graph.inputs.push(last);
    for node in 0..nodes {
        let next = graph.add_tensor(Tensor::new(format!("t{node}"), ty.clone()));
        let reads = if node % 6 == 5 {
            vec![Some(last), Some(shortcut)]
        } else {
            vec![Some(last)]
        };
        let op = if node % 6 == 5 { Op::Add } else { Op::Relu };
        graph.add_node(Node::new(op, reads, vec![Some(next)]));
        last = next;
        if node % 6 == 5 {
            shortcut = last;
        }
    }
    graph.outputs.push(last);
    let mut state = 1;
    let mut targets: Vec<Target> = (0..3)
        .map(|d| Target::new(&format!("null:{d}"), nodes).launch(Nanos::from_nanoseconds(2000 * d)))
        .collect();
    let mut costs = CostTable::new(nodes, 3);
    let mut links = LinkTable::new(3);
    for (a, target) in targets.iter_mut().enumerate() {
        for node in 0..nodes {
            if a > 0 && next(&mut state).is_multiple_of(8) {
                target.refusals[node] = Some(Refusal {
                    code: 1,
                    words: "op".into(),
                });
            }
            let time = Nanos::from_nanoseconds(1000 + next(&mut state) % (20_000 >> a));
            costs.set_node(node, a, Cost::time(time, Provenance::Measured));
        }
        for b in 0..3 {
            links.set(a, b, Link::copy(Nanos::from_nanoseconds(1000), 10_000_000_000));
        }
    }
    let start = Instant::now();
    let plan = partition(
        &graph,
        &targets,
        &costs,
        &links,
        &Objective::latency(),
        &Options::default(),
    )
    .expect("the first device runs everything");
    let planned = start.elapsed();
    check(&graph, &targets, &costs, &links, &plan).expect("plans pass the check");
    eprintln!(
        "plan with {} parts of {nodes} nodes: {planned:?}, check {:?}",
        plan.parts.len(),
        start.elapsed() - planned
    );
    planned
}

fn main() {
    for nodes in [1_000, 10_000] {
        plan(nodes);
    }
    let limits = Limits {
        table: 10_000_000,
        moves: 400,
        seed: 0,
    };
    for (nodes, window) in [(300, 20), (1000, 12), (1000, 40), (1000, 1000)] {
        let problem = wiring(nodes, 3, window);
        let start = Instant::now();
        let solution = solve(&problem, &limits).expect("every device runs everything");
        let gap = 100.0 * (solution.objective - solution.bound) as f64 / solution.bound as f64;
        eprintln!(
            "wiring {nodes} nodes, window {window}: gap {gap:.2} % in {:?}",
            start.elapsed()
        );
    }
    for (name, fan) in [("residual", 1), ("attention", 3)] {
        for devices in [2, 3, 4] {
            for nodes in [1_000, 10_000, 100_000] {
                let problem = network(nodes, devices, fan);
                let mut least = Duration::MAX;
                for _ in 0..5 {
                    let start = Instant::now();
                    let solution = solve(&problem, &limits).expect("the first device runs everything");
                    least = least.min(start.elapsed());
                    assert_eq!(solution.objective, solution.bound);
                }
                eprintln!("{name:9} {devices} devices {nodes:6} nodes: {least:?}");
            }
        }
    }
}
