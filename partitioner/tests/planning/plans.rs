//! Plans of whole graphs: optimal against brute force, accepted by `check`, refused once mutated.
//!
//! Invariants: placements are priced here from the inputs, apart from the crate's own arithmetic.

use crate::mutate::{MUTATIONS, mutate};
use crate::world::{Random, World, add_state, world};
use polychip_graph::{Graph, Node, NodeId, Tensor, TensorId};
use polychip_ops::{DType, Dim, Op, TensorType};
use polychip_partitioner::{
    Cost, CostTable, ErrorKind, Link, LinkMode, LinkTable, Milliwatts, Objective, Options, Plan, Provenance,
    Reason, Refusal, Target, Time, ViolationKind, explain,
};
use std::collections::{BTreeMap, BTreeSet};

/// Computes the objective of a placement straight from the inputs: node costs, a launch per part, a
/// transfer per tensor and destination.
fn priced(world: &World, placement: &[usize]) -> Option<u64> {
    let World {
        graph,
        targets,
        costs,
        links,
        objective,
        options,
    } = world;
    let (mut time, mut energy) = (0u64, 0u64);
    for (node, &device) in placement.iter().enumerate() {
        if !targets[device].supports(node) {
            return None;
        }
        let cost = costs.node(node, device)?;
        time += cost.time.picoseconds();
        energy += cost.energy?.nanojoules();
        if node == 0 || placement[node - 1] != device {
            time += targets[device].launch.picoseconds();
            energy += targets[device].launch_energy.nanojoules();
        }
    }
    for state in &graph.states {
        let writer = graph.producer(state.output).unwrap();
        if graph
            .consumers(state.input)
            .iter()
            .any(|node| placement[node.index()] != placement[writer.index()])
        {
            return None;
        }
    }
    for (id, tensor) in graph.tensors() {
        let state = graph
            .states
            .iter()
            .any(|state| state.input == id || state.output == id);
        let from = match graph.producer(id) {
            Some(node) => placement[node.index()],
            None if graph.is_input(id) && !state => match options.input_home {
                Some(home) => home,
                None => continue,
            },
            None => continue,
        };
        let mut to: BTreeSet<usize> = graph
            .consumers(id)
            .iter()
            .map(|node| placement[node.index()])
            .collect();
        if graph.is_output(id) && !state {
            to.extend(options.output_home);
        }
        to.remove(&from);
        let bytes = 4 * tensor.ty.sizes().unwrap().iter().product::<usize>() as u64;
        for to in to {
            time += links.get(from, to)?.time(bytes)?.picoseconds();
            energy += links.get(from, to)?.energy(bytes)?.nanojoules();
        }
    }
    Some(time * u64::from(objective.time_weight) + energy * u64::from(objective.energy_weight))
}

fn brute_force(world: &World) -> Option<u64> {
    let (nodes, devices) = (world.graph.node_count(), world.targets.len());
    let mut placement = vec![0; nodes];
    let mut least: Option<u64> = None;
    loop {
        if let Some(value) = priced(world, &placement) {
            least = Some(least.map_or(value, |least| least.min(value)));
        }
        let Some(node) = (0..nodes).rev().find(|&node| placement[node] + 1 < devices) else {
            return least;
        };
        placement[node] += 1;
        placement[node + 1..].fill(0);
    }
}

fn placement(plan: &Plan, nodes: usize) -> Vec<usize> {
    plan.devices_of_nodes(nodes)
        .into_iter()
        .map(|device| device.unwrap().index())
        .collect()
}

#[test]
fn plans_equal_brute_force_on_220_graphs() {
    let mut merged = 0;
    for seed in 0..220 {
        let mut random = Random::new(seed);
        let devices = 2 + usize::from(random.chance(30));
        let nodes = 1 + random.below(if devices == 2 { 12 } else { 8 });
        let mut world = world(&mut random, nodes, devices);
        if random.chance(20) {
            add_state(&mut world, &mut random);
        }
        let Some(least) = brute_force(&world) else {
            assert_eq!(
                world.partition().unwrap_err().kind(),
                ErrorKind::Infeasible,
                "seed {seed}"
            );
            continue;
        };
        let plan = world.partition().unwrap();
        assert_eq!(
            (plan.certificate.objective, plan.certificate.bound),
            (least, least),
            "seed {seed}"
        );
        assert_eq!(
            priced(&world, &placement(&plan, nodes)),
            Some(least),
            "seed {seed}"
        );
        world.check(&plan).unwrap();
        let energy = plan.totals.energy.unwrap();
        let value = world.objective.value(plan.totals.time, energy).unwrap();
        assert!(value <= least, "seed {seed}: merging made the plan dearer");
        merged += usize::from(value < least);
    }
    assert!(merged >= 20, "{merged} plans with merged parts");
}

#[test]
fn check_rejects_1000_mutated_plans() {
    let mut rejected = 0;
    let mut kinds: BTreeMap<ViolationKind, usize> = BTreeMap::new();
    let mut by_mutation = vec![0usize; MUTATIONS];
    for seed in 0..60 {
        let mut mutants = BTreeSet::new();
        let mut random = Random::new(1000 + seed);
        let nodes = 8 + random.below(40);
        let devices = 2 + random.below(2);
        let mut world = world(&mut random, nodes, devices);
        world.targets[0].memory_limit = Some(1 << 30);
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        for (kind, count) in by_mutation.iter_mut().enumerate() {
            for _ in 0..3 {
                let Some(mutant) = mutate(&world, &plan, kind, &mut random) else {
                    continue;
                };
                let text = mutant.to_json();
                assert_ne!(text, plan.to_json(), "mutation {kind} changed nothing");
                if !mutants.insert(text) {
                    continue;
                }
                match world.check(&mutant) {
                    Ok(()) => panic!("seed {seed}: mutation {kind} passed the check"),
                    Err(violation) => *kinds.entry(violation.kind()).or_default() += 1,
                }
                rejected += 1;
                *count += 1;
            }
        }
    }
    assert!(rejected >= 1000, "{rejected} different mutants");
    assert!(by_mutation.iter().all(|&count| count > 0), "{by_mutation:?}");
    use ViolationKind::*;
    for kind in [
        Version,
        OtherModel,
        Inputs,
        Nodes,
        Unsupported,
        NotConvex,
        Order,
        Boundary,
        Crossing,
        Figure,
        Certificate,
    ] {
        assert!(
            kinds.contains_key(&kind),
            "no mutant broke rule {kind:?}: {kinds:?}"
        );
    }
}

#[test]
fn damaged_plan_files_are_errors() {
    let mut random = Random::new(77);
    let (mut unreadable, mut rejected) = (0, 0);
    for _ in 0..10 {
        let nodes = 6 + random.below(12);
        let world = world(&mut random, nodes, 2);
        let plan = world.partition().unwrap();
        let text = plan.to_json();
        for _ in 0..500 {
            let mut bytes = text.clone().into_bytes();
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => drop(bytes.remove(at)),
                2 => bytes[at] = b"0123456789-[]{},\"nl"[random.below(19)],
                _ => bytes.insert(at, b'0' + random.below(10) as u8),
            }
            let damaged = String::from_utf8(bytes).unwrap();
            let Ok(mut read) = Plan::from_json(&damaged) else {
                unreadable += 1;
                continue;
            };
            // whatever can be read can be reported, explained and judged without a panic
            let _ = polychip_partitioner::Report::new(&world.graph, &read, Vec::new()).to_string();
            let _ = explain(world.request(), &read);
            if world.check(&read).is_ok() {
                // a looser bound is still true
                read.certificate.bound = plan.certificate.bound;
                assert_eq!(read, plan);
            } else {
                rejected += 1;
            }
        }
    }
    assert!(
        unreadable > 500 && rejected > 300,
        "{unreadable} unreadable, {rejected} rejected"
    );
}

#[test]
fn every_node_has_a_reason_for_every_other_device() {
    let (mut reasons, mut unlocks) = (0, 0);
    for seed in 0..40 {
        let mut random = Random::new(500 + seed);
        let (nodes, devices) = (1 + random.below(30), 2 + random.below(3));
        let world = world(&mut random, nodes, devices);
        let plan = world.partition().unwrap();
        let explanation = explain(world.request(), &plan).unwrap();
        assert_eq!(explanation.nodes.len(), nodes);
        for node in &explanation.nodes {
            assert_eq!(node.alternatives.len(), devices - 1);
            for other in &node.alternatives {
                // an optimal plan has nothing cheaper
                assert!(
                    !matches!(other.reason, Reason::Cheaper { .. }),
                    "seed {seed}: {other:?}"
                );
                let index = world
                    .targets
                    .iter()
                    .position(|target| target.name == other.device)
                    .unwrap();
                let unsupported = matches!(other.reason, Reason::Unsupported { .. });
                assert_eq!(unsupported, !world.targets[index].supports(node.node as usize));
                reasons += 1;
            }
        }
        for unlock in &explanation.unlocks {
            // the saving is what planning with that support gives
            let mut open = world.clone();
            let index = world
                .targets
                .iter()
                .position(|target| target.name == unlock.device)
                .unwrap();
            let refused = world.targets[index]
                .refusals
                .iter()
                .enumerate()
                .filter(|(_, refusal)| refusal.is_some());
            for (node, _) in refused {
                if world.graph.node(NodeId::new(node)).label() == unlock.op {
                    open.targets[index].refusals[node] = None;
                }
            }
            let better = open.partition().unwrap().certificate.objective;
            assert_eq!(
                plan.certificate.objective - better,
                unlock.saving,
                "seed {seed}: {unlock:?}"
            );
            unlocks += 1;
        }
    }
    assert!(
        reasons > 500 && unlocks > 20,
        "{reasons} reasons, {unlocks} unlocks"
    );
}

#[test]
fn same_inputs_give_the_same_bytes() {
    for seed in 0..20 {
        let make = || world(&mut Random::new(seed), 60, 3).partition().unwrap();
        let (text, plan) = (make().to_json(), make());
        assert_eq!(text, plan.to_json());
        assert_eq!(Plan::from_json(&text).unwrap(), plan);
    }
}

#[test]
fn a_plan_for_another_model_or_version_is_refused() {
    let world_a = world(&mut Random::new(1), 10, 2);
    let world_b = world(&mut Random::new(2), 10, 2);
    let plan = world_a.partition().unwrap();
    let violation = world_b.check(&plan).unwrap_err();
    assert_eq!(violation.kind(), ViolationKind::OtherModel);
    assert!(violation.to_string().contains("plan is for model"), "{violation}");

    let text = plan.to_json().replacen("\"version\": 2", "\"version\": 1", 1);
    let error = Plan::from_json(&text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Version);
    assert_eq!(
        error.to_string(),
        "plan file has version 1, this program reads version 2"
    );
    for (text, words) in [
        ("", "EOF"),
        ("[]", "line 1"),
        ("{\"version\": 2}", "missing field"),
        ("{\"version\": \"1\"}", "invalid type"),
        (&plan.to_json()[..200], "EOF"),
    ] {
        let error = Plan::from_json(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Parse);
        assert!(error.to_string().contains(words), "{error}");
    }
    let extra = plan
        .to_json()
        .replacen("\"version\"", "\"extra\": 0,\n  \"version\"", 1);
    assert!(Plan::from_json(&extra).unwrap_err().to_string().contains("extra"));
}

/// A chain of `nodes` Relus over tensors of 1,000 floats.
fn chain(nodes: usize) -> Graph {
    let mut graph = Graph::new("chain");
    let ty = TensorType::known(DType::F32, &[1000]);
    let mut last = graph.add_tensor(Tensor::new("x", ty.clone()));
    graph.inputs.push(last);
    for node in 0..nodes {
        let next = graph.add_tensor(Tensor::new(format!("y{node}"), ty.clone()));
        graph.add_node(Node::new(Op::Relu, vec![Some(last)], vec![Some(next)]));
        last = next;
    }
    graph.outputs.push(last);
    graph
}

/// Two devices, the second ten times as fast, with copies between them at 1 GB/s.
fn two_devices(nodes: usize) -> World {
    let mut costs = CostTable::new(nodes, 2);
    for node in 0..nodes {
        costs.set_node(
            node,
            0,
            Cost::time(Time::from_nanoseconds(10_000), Provenance::Measured),
        );
        costs.set_node(
            node,
            1,
            Cost::time(Time::from_nanoseconds(1000), Provenance::Estimated),
        );
    }
    let mut links = LinkTable::new(2);
    links.set(0, 1, Link::copy(Time::from_nanoseconds(100), 1_000_000_000));
    links.set(1, 0, Link::copy(Time::from_nanoseconds(100), 1_000_000_000));
    World {
        graph: chain(nodes),
        targets: vec![
            Target::new("cpu:0", nodes),
            Target::new("npu:0", nodes).launch(Time::from_nanoseconds(500)),
        ],
        costs,
        links,
        objective: Objective::latency(),
        options: Options::default(),
    }
}

#[test]
fn crossings_state_how_the_bytes_travel() {
    let mut world = two_devices(3);
    let refusal = Refusal {
        code: 7,
        words: "rank above 4".into(),
    };
    world.targets[1] = world.targets[1].clone().refuse(1, refusal);
    for device in 0..2 {
        world
            .links
            .set(device, 1 - device, Link::imported(Time::from_nanoseconds(300)));
    }
    let plan = world.partition().unwrap();
    assert_eq!(placement(&plan, 3), [1, 0, 1]);
    let modes: Vec<LinkMode> = plan.crossings.iter().map(|crossing| crossing.mode).collect();
    assert_eq!(modes, [LinkMode::Imported, LinkMode::Imported]);
    assert_eq!(
        plan.totals.time.nanoseconds(),
        1000 + 10_000 + 1000 + 2 * 500 + 2 * 300
    );
    world.check(&plan).unwrap();
}

#[test]
fn missing_energy_comes_from_power() {
    let mut world = two_devices(2);
    world.objective = Objective::energy();
    let error = world.partition().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingCost);
    assert!(error.to_string().contains("time with energy"), "{error}");
    world.targets[0].power = Some(Milliwatts::new(50).into());
    world.targets[1].power = Some(Milliwatts::new(5000).into());
    let plan = world.partition().unwrap();
    assert_eq!(placement(&plan, 2), [0, 0]);
    assert_eq!(plan.totals.provenance, Provenance::Estimated);
    assert_eq!(plan.totals.energy.unwrap().nanojoules(), 2 * 500);
    world.check(&plan).unwrap();
}

#[test]
fn stated_parts_replace_sums_with_a_valid_bound() {
    let mut world = two_devices(4);
    // the fast device is far slower than the sum of its nodes once they are compiled together …
    let slow = Cost::time(Time::from_nanoseconds(90_000), Provenance::Measured);
    world.costs.set_part(&[0, 1, 2, 3], 1, slow);
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert!(plan.totals.time.nanoseconds() < 40_000, "{}", plan.totals.time);
    // … and the slow one fuses two nodes into almost nothing
    let fused = Cost::time(Time::from_nanoseconds(10), Provenance::Measured);
    world.costs.set_part(&[0, 1], 0, fused);
    world.costs.set_part(&[0, 1, 2, 3], 0, fused);
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert_eq!(placement(&plan, 4), [0, 0, 0, 0]);
    assert_eq!(plan.totals.time.nanoseconds(), 10);
    assert_eq!(plan.totals.provenance, Provenance::Measured);
    assert!(plan.certificate.bound <= plan.certificate.objective);
    // one device: one placement, so the bound is the value
    for node in 0..4 {
        world.targets[1].refusals[node] = Some(Refusal {
            code: 1,
            words: "no".into(),
        });
    }
    assert!(world.partition().unwrap().certificate.is_optimal());
}

#[test]
fn limits_are_kept_or_reported() {
    // energy alone would choose the slow device; the deadline forces nodes to the fast one
    let mut world = two_devices(6);
    world.targets[0].power = Some(Milliwatts::new(10).into());
    world.targets[1].power = Some(Milliwatts::new(5000).into());
    world.objective = Objective::energy();
    let free = world.partition().unwrap();
    assert_eq!(free.totals.time.nanoseconds(), 60_000);
    world.objective = Objective::energy().within(Time::from_nanoseconds(50_000));
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert!(
        plan.totals.time <= Time::from_nanoseconds(50_000),
        "{}",
        plan.totals.time
    );
    assert!(plan.certificate.bound <= plan.certificate.objective);
    assert!(plan.certificate.bound >= free.certificate.objective);
    // no plan is this fast: the result is the fastest one, and reports by how much it is late
    world.objective = Objective::latency();
    let fastest = world.partition().unwrap();
    for objective in [Objective::energy(), Objective::latency()] {
        world.objective = objective.within(Time::from_nanoseconds(100));
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        assert_eq!(plan.totals.time, fastest.totals.time);
        let late = fastest.totals.time.nanoseconds() - 100;
        assert_eq!(plan.missed, Some(Time::from_nanoseconds(late)));
        for missed in [None, Some(Time::from_nanoseconds(late + 1)), Some(Time::ZERO)] {
            let liar = Plan {
                missed,
                ..plan.clone()
            };
            assert_eq!(world.check(&liar).unwrap_err().kind(), ViolationKind::Limit);
        }
        assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
        let report = polychip_partitioner::Report::new(&world.graph, &plan, Vec::new()).to_string();
        assert!(report.contains("deadline: missed by"), "{report}");
    }
    // an energy budget below any placement is an error
    world.objective = Objective::latency().within_energy(polychip_partitioner::Energy::from_nanojoules(1));
    let error = world.partition().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OverLimit);
    assert!(
        error.to_string().starts_with("energy budget: limit 1 nJ"),
        "{error}"
    );

    // each tensor has 4,000 bytes: with room for three the fast device cannot run every part
    let mut world = two_devices(6);
    world.targets[1].memory_limit = Some(4_000);
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert!(plan.memory_bytes[1] <= 4_000);
    world.targets[0].memory_limit = Some(4_000);
    assert_eq!(world.partition().unwrap_err().kind(), ErrorKind::OverLimit);
}

#[test]
fn tensors_of_unknown_size_stay_on_their_device() {
    let mut world = two_devices(3);
    let refusal = Refusal {
        code: 7,
        words: "no".into(),
    };
    world.targets[1] = world.targets[1].clone().refuse(1, refusal);
    world.graph.tensor_mut(TensorId::new(1)).ty.shape = Some(vec![Dim::Unknown]);
    let plan = world.partition().unwrap();
    assert_eq!(placement(&plan, 3), [0, 0, 1]);
    world.check(&plan).unwrap();
    // and where they cannot stay, there is no plan
    world.targets[0] = world.targets[0].clone().refuse(
        0,
        Refusal {
            code: 7,
            words: "no".into(),
        },
    );
    assert_eq!(world.partition().unwrap_err().kind(), ErrorKind::Infeasible);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let kind = |world: &World| world.partition().unwrap_err();
    let good = two_devices(3);
    let mut bad = good.clone();
    bad.targets[1].name = "cpu:0".into();
    assert!(kind(&bad).to_string().contains("cpu:0 is listed twice"));
    let mut bad = good.clone();
    bad.targets[0].refusals.pop();
    assert!(kind(&bad).to_string().contains("verdicts on 2 nodes"));
    let mut bad = good.clone();
    bad.costs = CostTable::new(2, 2);
    assert_eq!(kind(&bad).kind(), ErrorKind::BadInput);
    let mut bad = good.clone();
    bad.links = LinkTable::new(1);
    assert_eq!(kind(&bad).kind(), ErrorKind::BadInput);
    let mut bad = good.clone();
    bad.options.pins.insert(3, 0);
    assert_eq!(kind(&bad).kind(), ErrorKind::BadInput);
    let mut bad = good.clone();
    bad.options.output_home = Some(2);
    assert_eq!(kind(&bad).kind(), ErrorKind::BadInput);
    let mut bad = good.clone();
    bad.graph.remove_node(polychip_graph::NodeId::new(2));
    assert!(kind(&bad).to_string().contains("sorted"));
    let mut bad = good.clone();
    bad.costs = CostTable::new(3, 2);
    assert_eq!(kind(&bad).kind(), ErrorKind::MissingCost);
    let mut bad = good.clone();
    bad.costs.set_node(
        0,
        0,
        Cost::time(Time::from_picoseconds(u64::MAX / 2), Provenance::Measured),
    );
    assert_eq!(kind(&bad).kind(), ErrorKind::Overflow);
    let mut bad = good.clone();
    bad.targets = Vec::new();
    bad.costs = CostTable::new(3, 0);
    bad.links = LinkTable::new(0);
    assert_eq!(kind(&bad).kind(), ErrorKind::BadInput);
    let mut bad = good.clone();
    bad.targets[0] = bad.targets[0].clone().refuse(
        1,
        Refusal {
            code: 4,
            words: "dtype f64".into(),
        },
    );
    bad.targets[1].quarantined = Some("lost".into());
    let error = kind(&bad);
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert_eq!(
        error.to_string(),
        "no device can run node 1 (Relu): cpu:0 refuses it (dtype f64, code 4); npu:0 is not used (lost)"
    );
}

#[test]
fn impossible_pin_error_names_node_and_device() {
    let mut world = two_devices(4);
    world.targets[0] = world.targets[0].clone().refuse(
        2,
        Refusal {
            code: 4,
            words: "dtype f64".into(),
        },
    );
    world.options.pins = [(2, 0)].into();
    let error = world.partition().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert_eq!(
        error.to_string(),
        "no device can run node 2 (Relu): cpu:0 refuses it (dtype f64, code 4); it is pinned to cpu:0"
    );
    // a pin to a device without a cost for the node
    let mut world = two_devices(3);
    let mut costs = CostTable::new(3, 2);
    for node in 0..3 {
        costs.set_node(
            node,
            1,
            Cost::time(Time::from_nanoseconds(10), Provenance::Measured),
        );
    }
    world.costs = costs;
    world.options.pins = [(1, 0)].into();
    let error = world.partition().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingCost);
    assert_eq!(
        error.to_string(),
        "no time for node 1 (Relu) on any device that can run it: cpu:0"
    );
    // two pins that only a missing link could join
    let mut world = two_devices(2);
    world.links = LinkTable::new(2);
    world.options.pins = [(0, 0), (1, 1)].into();
    assert_eq!(world.partition().unwrap_err().kind(), ErrorKind::Infeasible);
    // of an unknown node or device
    for pin in [(2, 0), (0, 2)] {
        world.options.pins = [pin].into();
        let error = world.partition().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "pin of node {} to device {}: there are 2 nodes and 2 devices",
                pin.0, pin.1
            )
        );
    }
}

#[test]
fn cyclic_graph_error_names_its_nodes() {
    let mut world = two_devices(2);
    let mut graph = Graph::new("circle");
    let ty = TensorType::known(DType::F32, &[1000]);
    let (a, b) = (
        graph.add_tensor(Tensor::new("a", ty.clone())),
        graph.add_tensor(Tensor::new("b", ty)),
    );
    graph.add_node(Node::new(Op::Relu, vec![Some(b)], vec![Some(a)]));
    graph.add_node(Node::new(Op::Relu, vec![Some(a)], vec![Some(b)]));
    world.graph = graph;
    let error = world.partition().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    assert!(
        error
            .to_string()
            .contains("node n0 reads what node n1 writes later"),
        "{error}"
    );
}

#[test]
fn invalid_costs_cannot_be_parsed() {
    // a table in a file: negative, not a number, missing
    for time in ["-1", "NaN", "1e400", "null", "\"1\"", "1.5"] {
        let text = format!(
            "{{\"time_ps\": {time}, \"energy_nj\": null, \"provenance\": \"measured\", \"emulated\": false}}"
        );
        assert!(serde_json::from_str::<Cost>(&text).is_err(), "{time} was read");
    }
    let missing = "{\"energy_nj\": null, \"provenance\": \"measured\", \"emulated\": false}";
    let error = serde_json::from_str::<Cost>(missing).unwrap_err();
    assert!(error.to_string().contains("time_ps"), "{error}");
    // a table with one more device than there are
    let mut world = two_devices(3);
    world.costs = CostTable::new(3, 3);
    let error = world.partition().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cost table is for 3 nodes on 3 devices, the plan for 3 on 2"
    );
}

#[test]
fn pins_are_kept() {
    let mut world = two_devices(4);
    world.options.pins = [(2, 0)].into();
    let plan = world.partition().unwrap();
    assert_eq!(placement(&plan, 4)[2], 0);
    world.check(&plan).unwrap();
}

#[test]
fn empty_graph_has_an_empty_plan() {
    let mut world = two_devices(0);
    world.graph.outputs.clear();
    let plan = world.partition().unwrap();
    assert!(plan.parts.is_empty());
    world.check(&plan).unwrap();
}
