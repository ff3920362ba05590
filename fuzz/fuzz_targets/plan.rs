//! Arbitrary text as a plan file: refused, or a plan that round-trips and is checked without a panic.
//!
//! Invariants: a plan that is read writes a file that reads as the same plan; a plan for the fixed
//! graph below, whatever it says, is accepted or refused by `check` and never panics; what
//! `check_placement` accepts can be restated, explained and reported.
//! Not here: making plans.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polychip_graph::{Graph, text};
use polychip_partitioner::{
    Cost, CostTable, Energy, Link, LinkTable, PLAN_VERSION, Plan, Provenance, Refusal, Report, Request,
    Target, Time, check, check_placement, explain, model_fingerprint, restate,
};

/// A chain with a residual sum, on three devices, one of which refuses a node.
struct World {
    graph: Graph,
    targets: Vec<Target>,
    costs: CostTable,
    links: LinkTable,
    model: String,
}

const GRAPH: &str = include_str!("plan/graph.txt");

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let graph = text::parse(GRAPH).expect("the fixed graph is right");
    let nodes = graph.node_count();
    let names = ["cpu:0", "npu:0", "gpu:0"];
    let refusal = Refusal {
        code: 2,
        words: "dtype".into(),
    };
    let mut targets: Vec<Target> = names.map(|name| Target::new(name, nodes)).into();
    targets[1] = targets[1]
        .clone()
        .launch(Time::from_nanoseconds(9))
        .refuse(1, refusal);
    targets[2].memory_limit = Some(1 << 20);
    let mut costs = CostTable::new(nodes, names.len());
    let mut links = LinkTable::new(names.len());
    for from in 0..names.len() {
        for node in 0..nodes {
            let cost = Cost::time(
                Time::from_nanoseconds((10 + node * 3 + from) as u64),
                Provenance::Estimated,
            );
            costs.set_node(node, from, cost.with_energy(Energy::from_nanojoules(7)));
        }
        for to in 0..names.len() {
            links.set(from, to, Link::copy(Time::from_nanoseconds(5), 1_000_000));
        }
    }
    let model = model_fingerprint(&graph);
    World {
        graph,
        targets,
        costs,
        links,
        model,
    }
});

fuzz_target!(|input: &str| {
    let Ok(mut plan) = Plan::from_json(input) else {
        return;
    };
    assert_eq!(
        Plan::from_json(&plan.to_json()).expect("a written plan reads"),
        plan
    );
    assert_eq!(plan.version, PLAN_VERSION);
    let world = &*WORLD;
    let request = Request::new(&world.graph, &world.targets, &world.costs, &world.links);
    let _other_model = check(request, &plan);
    plan.model.clone_from(&world.model);
    let judged = check(request, &plan);
    if check_placement(request, &plan).is_err() {
        judged.expect_err("a whole check includes that of the placement");
        return;
    }
    if let Ok(again) = restate(request, &plan) {
        check(request, &again).expect("a restated plan holds");
    }
    if judged.is_ok() {
        explain(request, &plan).expect("a plan that holds is explained");
    }
    let _report = Report::new(&world.graph, &plan, Vec::new());
});
