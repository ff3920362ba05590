//! Two null devices scripted from a table: the plan's objective equals brute force on random graphs.
//!
//! Costs and support come from the plugin, through the contract; the brute force states the objective
//! anew (node costs, a launch per run of one device, a transfer per tensor and destination) and shares no code with the solver.

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::{Graph, arbitrary};
use polychip_host::{Clock, FlatGraph, Host};
use polychip_partitioner::{
    Cost, CostTable, Link, LinkTable, Provenance, Refusal, Request, Target, Time, check, partition,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const TABLE: &str = r#"
[[device]]
name = "wide"
launch_ns = 700
cost = { fixed_ns = 6000, ps_per_mac = 9000.0 }
op.Softmax = { fixed_ns = 900 }

[[device]]
name = "narrow"
kind = "gpu"
launch_ns = 400
without_ops = ["Softmax"]
cost = { fixed_ns = 2000, ps_per_byte = 11000.0 }
op.Add = { fixed_ns = 15000 }
"#;
const LATENCY_NS: u64 = 150;
const BYTES_PER_SECOND: u64 = 400_000_000;
const GRAPHS: usize = 200;

struct World {
    graph: Graph,
    targets: Vec<Target>,
    costs: CostTable,
    links: LinkTable,
}

fn ask(host: &Host, graph: Graph) -> World {
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let (nodes, devices) = (graph.node_count(), host.devices());
    let mut costs = CostTable::new(nodes, devices.len());
    let mut links = LinkTable::new(devices.len());
    let mut targets = Vec::new();
    for (column, device) in devices.iter().enumerate() {
        let mut target = Target::new(device.name(), nodes);
        for (row, support) in device.query_support(&flat).unwrap().iter().enumerate() {
            if support.reason != 0 {
                target = target.refuse(
                    row,
                    Refusal {
                        code: support.reason,
                        words: support.detail.clone(),
                    },
                );
                continue;
            }
            let estimate = device.estimate(&flat, &[row as u32]).unwrap().unwrap();
            assert!(estimate.emulated);
            let time = Time::from_nanoseconds(estimate.time_ns.unwrap());
            costs.set_node(row, column, Cost::time(time, Provenance::Estimated).emulated());
            target.launch = Time::from_nanoseconds(estimate.launch_ns.unwrap());
        }
        for other in (0..devices.len()).filter(|other| *other != column) {
            links.set(
                column,
                other,
                Link::copy(Time::from_nanoseconds(LATENCY_NS), BYTES_PER_SECOND),
            );
        }
        targets.push(target);
    }
    World {
        graph,
        targets,
        costs,
        links,
    }
}

/// The least objective in picoseconds over every placement.
fn brute_force(world: &World) -> Option<u64> {
    let nodes = world.graph.node_count();
    let place: BTreeMap<_, _> = world
        .graph
        .nodes()
        .enumerate()
        .map(|(row, (id, _))| (id, row))
        .collect();
    (0..1u32 << nodes)
        .filter_map(|bits| {
            let device = |row: usize| (bits >> row & 1) as usize;
            let mut sum = 0;
            for row in 0..nodes {
                world.targets[device(row)].supports(row).then_some(())?;
                sum += world.costs.node(row, device(row))?.time.picoseconds();
                if row == 0 || device(row - 1) != device(row) {
                    sum += world.targets[device(row)].launch.picoseconds();
                }
            }
            for (id, tensor) in world.graph.tensors() {
                let Some(writer) = world.graph.producer(id) else {
                    continue;
                };
                let from = device(place[&writer]);
                let readers: BTreeSet<usize> = world
                    .graph
                    .consumers(id)
                    .iter()
                    .map(|reader| device(place[reader]))
                    .collect();
                let bytes = tensor.ty.dtype.byte_len(tensor.ty.elements()?)? as u64;
                let moved = LATENCY_NS * 1000 + (bytes * 1_000_000_000_000).div_ceil(BYTES_PER_SECOND);
                sum += moved * readers.iter().filter(|to| **to != from).count() as u64;
            }
            Some(sum)
        })
        .min()
}

#[test]
fn the_plan_of_two_scripted_devices_equals_brute_force() {
    let host = Host::builder()
        .linked(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", TABLE)
        .clock(Clock::virtual_time())
        .build();
    assert_eq!(host.devices().len(), 2, "{:?}", host.refusals());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[23; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut equal, mut split) = (0, 0);
    while equal < GRAPHS {
        let mut graph = arbitrary::plain_graphs(12)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        graph.sort().unwrap();
        if graph.node_count() == 0 {
            continue;
        }
        assert!(graph.node_count() <= 12);
        let world = ask(&host, graph);
        let request = Request::new(&world.graph, &world.targets, &world.costs, &world.links);
        let plan = partition(request).unwrap();
        check(request, &plan).unwrap();
        assert!(plan.certificate.is_optimal() && plan.totals.emulated);
        assert_eq!(Some(plan.certificate.objective), brute_force(&world), "{plan:?}");
        split += usize::from(plan.parts.iter().any(|part| part.device != plan.parts[0].device));
        equal += 1;
    }
    assert!(
        split > GRAPHS / 10,
        "only {split} of {GRAPHS} plans use both devices"
    );
}
