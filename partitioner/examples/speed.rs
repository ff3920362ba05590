//! Times the solver on networks of 1,000 to 100,000 nodes: `cargo run --release -p polychip-partitioner --example speed`.
//!
//! Invariants: the problems are the same on every host; only the times differ.

use polychip_partitioner::problem::{FORBIDDEN, Moved, Problem, Source};
use polychip_partitioner::solve::{Limits, solve};
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

fn main() {
    let limits = Limits {
        table: 10_000_000,
        moves: 400,
        seed: 0,
    };
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
