//! The solver's objective against optima that HiGHS proved, read from `fixtures/highs`.
//!
//! Invariants: optima are compared exactly. The fixtures are made by `device-tests/witness/highs.py`.

use polychip_partitioner::problem::{FORBIDDEN, Moved, Problem, Source};
use polychip_partitioner::solve::{Budget, solve};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Instance {
    devices: usize,
    cost: Vec<Vec<Option<u64>>>,
    launch: Vec<u64>,
    latency: Vec<Vec<u64>>,
    rate: Vec<Vec<u64>>,
    tensors: Vec<Tensor>,
    optimum: u64,
}

#[derive(Deserialize)]
struct Tensor {
    source: usize,
    readers: Vec<usize>,
    bytes: u64,
}

impl Instance {
    fn problem(&self) -> Problem {
        let cost = self
            .cost
            .iter()
            .flatten()
            .map(|cost| cost.unwrap_or(FORBIDDEN))
            .collect();
        let mut problem = Problem::new(cost, self.launch.clone()).unwrap();
        for tensor in &self.tensors {
            let pairs = (0..self.devices).flat_map(|a| (0..self.devices).map(move |b| (a, b)));
            let transfer = pairs
                .map(|(a, b)| self.latency[a][b] + tensor.bytes * self.rate[a][b])
                .collect();
            let readers = tensor.readers.clone();
            problem
                .push(Moved {
                    source: Source::Node(tensor.source),
                    readers,
                    home: None,
                    transfer,
                })
                .unwrap();
        }
        problem
    }
}

fn instances() -> Vec<(String, Instance)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/highs");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        (path.display().to_string(), serde_json::from_str(&text).unwrap())
    };
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(read)
        .collect()
}

#[test]
fn equals_the_highs_optimum_on_50_graphs() {
    let all = instances();
    assert_eq!(all.len(), 50);
    for (path, instance) in &all {
        let problem = instance.problem();
        assert!(problem.nodes() <= 300, "{path}");
        let solution = solve(
            &problem,
            &Budget {
                table: 10_000_000,
                moves: 0,
                seed: 0,
            },
        )
        .unwrap();
        assert_eq!(solution.objective, instance.optimum, "{path}");
        assert_eq!(solution.bound, instance.optimum, "{path}");
        assert_eq!(
            problem.objective(&solution.placement),
            Some(instance.optimum),
            "{path}"
        );
    }
}

#[test]
fn wide_search_is_near_the_highs_optimum() {
    let mut worst = 0.0f64;
    for (path, instance) in &instances() {
        // tables far too small for the exact solver: the search has to find its way
        let solution = solve(
            &instance.problem(),
            &Budget {
                table: 60,
                moves: 300,
                seed: 5,
            },
        )
        .unwrap();
        assert!(
            solution.bound <= instance.optimum && instance.optimum <= solution.objective,
            "{path}"
        );
        worst = worst.max(solution.objective as f64 / instance.optimum as f64);
    }
    assert!(worst < 1.01, "worst ratio to the optimum {worst}");
}
