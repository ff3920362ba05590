//! How other runtimes place nodes, and simple rules that an engineer would try: comparators, never used to plan.
//!
//! Invariants: each rule sees what its original sees and no more, and names where that was read; every placement
//! is priced by the same objective as plans are; a rule gives each node a device that supports it.
//! Deliberately not here: anything that would make a rule better than its original.

mod band;
pub(crate) mod list;
mod reads;
mod tflite;

use std::cmp::Reverse;

use polychip_partitioner::problem::{FORBIDDEN, Problem};

use crate::world::{Kind, World};
use reads::reads;

/// A rule.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// What it re-implements, and where that was read.
    pub(crate) about: &'static str,
    /// Graphs above this are left out: the rule takes quadratic time.
    pub(crate) most_nodes: usize,
    pub(crate) place: fn(&World) -> Vec<usize>,
}

/// The rule that the goal of 1.3 is about.
pub(crate) const ONNX_RUNTIME: &str = "ONNX Runtime";

const ANY: usize = usize::MAX;

/// Re-implementations.
pub(crate) const RUNTIMES: &[Rule] = &[
    Rule {
        name: ONNX_RUNTIME,
        about: "providers in order NPU, GPU, CPU; each takes every free node that it supports; no look-back, no cost \
                (onnxruntime/core/framework/graph_partitioner.cc)",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Npu, Kind::Gpu, Kind::Cpu]),
    },
    Rule {
        name: "LiteRT",
        about: "NPU, then GPU, then CPU; each is given the groups of connected nodes that its plugin selects, however small \
                (litert/compiler/plugin/algo.cc); the same nodes as ONNX Runtime's rule, since every group is taken",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Npu, Kind::Gpu, Kind::Cpu]),
    },
    Rule {
        name: "OpenVINO HETERO",
        about: "query_model in order GPU, CPU, first come first served; the NPU plugin has no heterogeneous execution \
                (src/plugins/hetero/src/plugin.cpp, page Supported Devices)",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Gpu, Kind::Cpu]),
    },
    Rule {
        name: "NNAPI",
        about: "per node the device with the least declared execTime, one figure per data type relative to the CPU (here: \
                the sum over all that it supports), the CPU wins ties, no transfers (runtime/ExecutionPlan.cpp, findBestDeviceForEachOperation)",
        most_nodes: ANY,
        place: nnapi,
    },
    Rule {
        name: "TFLite GPU",
        about: "the GPU delegate takes its one largest partition by number of nodes, the CPU the rest \
                (tflite/delegates/gpu/delegate_options.cc, tflite/delegates/utils.h, graph_info.cc)",
        most_nodes: ANY,
        place: |world| tflite::largest_partitions(world, Kind::Gpu, 1),
    },
    Rule {
        name: "Band",
        about: "runs of nodes of equal support, runs shorter than 7 lose a device's support, shortest expected latency over \
                the chain of runs without transfers (band/model_analyzer.cc, band/engine.cc)",
        most_nodes: ANY,
        place: band::shortest_chain,
    },
    Rule {
        name: "HEFT",
        about: "upward rank by mean costs, earliest finish with insertion (Topcuoglu et al., IEEE TPDS 13(3), 2002)",
        most_nodes: 2000,
        place: list::heft,
    },
    Rule {
        name: "PEFT",
        about: "optimistic cost table, earliest finish plus optimistic rest (Arabnejad and Barbosa, IEEE TPDS 25(3), 2014)",
        most_nodes: 2000,
        place: list::peft,
    },
];

/// The rules of "best of simple".
pub(crate) const SIMPLE: &[Rule] = &[
    Rule {
        name: "CPU only",
        about: "everything on the first CPU",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Cpu]),
    },
    Rule {
        name: "GPU>CPU",
        about: "priority",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Gpu, Kind::Cpu]),
    },
    Rule {
        name: "NPU>CPU",
        about: "priority",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Npu, Kind::Cpu]),
    },
    Rule {
        name: "NPU>GPU>CPU",
        about: "priority",
        most_nodes: ANY,
        place: |world| priority(world, &[Kind::Npu, Kind::Gpu, Kind::Cpu]),
    },
    Rule {
        name: "per-node argmin",
        about: "each node where it alone is cheapest",
        most_nodes: ANY,
        place: |world| {
            by_key(&world.problem, |node, device| {
                (world.problem.cost(node, device), device)
            })
        },
    },
    Rule {
        name: "aware greedy",
        about: "in order, each node where its cost, a launch if the device changes and its inputs' transfers are least",
        most_nodes: ANY,
        place: aware_greedy,
    },
];

/// Per node the allowed device with the least key.
fn by_key<K: Ord>(problem: &Problem, key: impl Fn(usize, usize) -> K) -> Vec<usize> {
    let choose = |node: usize| {
        let devices = problem.allowed(node).into_iter();
        devices
            .min_by_key(|&device| key(node, device))
            .expect("some device runs every node")
    };
    (0..problem.nodes()).map(choose).collect()
}

/// The first device, in an order of kinds, that supports a node; kinds not listed come last.
fn priority(world: &World, kinds: &[Kind]) -> Vec<usize> {
    let rank = |device: usize| {
        kinds
            .iter()
            .position(|&kind| kind == world.kinds[device])
            .unwrap_or(kinds.len())
    };
    by_key(&world.problem, |_, device| (rank(device), device))
}

fn nnapi(world: &World) -> Vec<usize> {
    let problem = &world.problem;
    let declared = |device: usize| {
        // what a driver declares: its time over the CPU's, in millionths
        let nodes = (0..problem.nodes()).filter(|&node| problem.cost(node, device) != FORBIDDEN);
        let (mut own, mut cpu) = (0u128, 0u128);
        for node in nodes {
            own += u128::from(problem.cost(node, device));
            cpu += u128::from(problem.cost(node, 0));
        }
        own * 1_000_000 / cpu.max(1)
    };
    let declared: Vec<u128> = (0..problem.devices()).map(declared).collect();
    by_key(problem, |_, device| {
        (
            declared[device],
            Reverse(world.kinds[device] == Kind::Cpu),
            device,
        )
    })
}

fn aware_greedy(world: &World) -> Vec<usize> {
    let problem = &world.problem;
    let reads = reads(problem);
    let mut placement: Vec<usize> = Vec::with_capacity(problem.nodes());
    for (node, inputs) in reads.iter().enumerate() {
        let price = |device: usize| {
            let launch = if placement.last() == Some(&device) {
                0
            } else {
                problem.launch(device)
            };
            let moves = inputs.iter().map(|&(writer, tensor)| {
                problem.tensors()[tensor].transfer[placement[writer] * problem.devices() + device]
            });
            moves.fold(
                problem.cost(node, device).saturating_add(launch),
                u64::saturating_add,
            )
        };
        let devices = problem.allowed(node).into_iter();
        let best = devices.min_by_key(|&device| (price(device), device));
        placement.push(best.expect("some device runs every node"));
    }
    placement
}
