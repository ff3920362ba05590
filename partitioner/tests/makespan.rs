//! Schedules against every placement, order and division into parts tried; what `check` refuses.
//!
//! Invariants: schedules are simulated here from the inputs, apart from the crate's own arithmetic.

#[path = "plans/world.rs"]
mod world;

use polychip_graph::{Graph, Node, NodeId, Tensor, TensorId};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::{
    Cost, ErrorKind, Goal, Objective, Plan, Provenance, Time, ViolationKind, restate,
};
use std::collections::{BTreeMap, BTreeSet};
use world::{Random, World, add_state, around, world};

/// Makespan and period of parts in an order; none where a link is missing.
fn simulated(world: &World, parts: &[(usize, Vec<usize>)]) -> Option<[u64; 2]> {
    let graph = &world.graph;
    let part_of = |node: NodeId| {
        parts
            .iter()
            .position(|(_, nodes)| nodes.contains(&node.index()))
            .unwrap()
    };
    let states: BTreeSet<TensorId> = graph
        .states
        .iter()
        .flat_map(|state| [state.input, state.output])
        .collect();
    let time = |tensor: TensorId, from: usize, to: usize| {
        let bytes = 4 * graph.tensor(tensor).ty.sizes().unwrap().iter().product::<usize>() as u64;
        Some(world.links.get(from, to)?.time(bytes)?.picoseconds())
    };
    let mut free = vec![0u64; world.targets.len()];
    let mut link: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut there: BTreeMap<(TensorId, usize), u64> = BTreeMap::new();
    let mut end_of_all = 0;
    let mut busy = vec![0u64; world.targets.len()];
    let mut used: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut leave =
        |tensor: TensorId, from: usize, at: u64, end_of_all: &mut u64, there: &mut BTreeMap<_, _>| {
            let mut to: BTreeSet<usize> = graph
                .consumers(tensor)
                .iter()
                .map(|&reader| parts[part_of(reader)].0)
                .collect();
            if graph.is_output(tensor) && !states.contains(&tensor) {
                to.extend(world.options.output_home);
            }
            to.remove(&from);
            for to in to {
                let free = link.entry((from, to)).or_default();
                *free = at.max(*free) + time(tensor, from, to)?;
                *used.entry((from, to)).or_default() += time(tensor, from, to)?;
                there.insert((tensor, to), *free);
                *end_of_all = (*end_of_all).max(*free);
            }
            Some(())
        };
    if let Some(home) = world.options.input_home {
        let mut inputs = graph.inputs.clone();
        inputs.sort_unstable();
        for input in inputs.into_iter().filter(|input| !states.contains(input)) {
            leave(input, home, 0, &mut end_of_all, &mut there)?;
        }
    }
    for (device, nodes) in parts {
        let mut start = free[*device];
        let mut end = world.targets[*device].launch.picoseconds();
        let mut written: Vec<TensorId> = Vec::new();
        for &node in nodes {
            if !world.targets[*device].supports(node) {
                return None;
            }
            end += world.costs.node(node, *device)?.time.picoseconds();
            let node = graph.node(NodeId::new(node));
            for tensor in node.reads() {
                if let Some(&at) = there.get(&(tensor, *device)) {
                    start = start.max(at);
                }
            }
            written.extend(node.writes());
        }
        busy[*device] += end;
        end += start;
        free[*device] = end;
        end_of_all = end_of_all.max(end);
        written.sort_unstable();
        for tensor in written {
            leave(tensor, *device, end, &mut end_of_all, &mut there)?;
        }
    }
    for state in &graph.states {
        let device = |node: NodeId| parts[part_of(node)].0;
        if let Some(writer) = graph.producer(state.output)
            && graph
                .consumers(state.input)
                .iter()
                .any(|&reader| device(reader) != device(writer))
        {
            return None;
        }
    }
    let period = busy.iter().chain(used.values()).copied().max().unwrap();
    Some([end_of_all, period])
}

/// All orders in which writers precede readers.
fn orders(world: &World) -> Vec<Vec<usize>> {
    let graph = &world.graph;
    let mut found = vec![Vec::new()];
    for _ in 0..graph.node_count() {
        let mut longer = Vec::new();
        for order in found {
            for node in (0..graph.node_count()).filter(|node| !order.contains(node)) {
                let reads = graph.node(NodeId::new(node));
                let ready = reads
                    .reads()
                    .filter_map(|tensor| graph.producer(tensor))
                    .all(|writer| order.contains(&writer.index()));
                if ready {
                    longer.push([&order[..], &[node]].concat());
                }
            }
        }
        found = longer;
    }
    found
}

/// The least makespan and the least period over all placements, orders and divisions into parts.
fn brute_force(world: &World) -> Option<[u64; 2]> {
    let (nodes, devices) = (world.graph.node_count(), world.targets.len());
    let orders = orders(world);
    let mut least: Option<[u64; 2]> = None;
    for code in 0..devices.pow(nodes as u32) {
        let device = |node: usize| code / devices.pow(node as u32) % devices;
        for order in &orders {
            for cuts in 0..1 << (nodes - 1) {
                let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
                for (at, &node) in order.iter().enumerate() {
                    let cut = at == 0 || cuts >> (at - 1) & 1 == 1;
                    match parts.last_mut() {
                        Some((on, part)) if !cut && *on == device(node) => part.push(node),
                        // counted where the cut is said
                        Some((on, _)) if !cut && *on != device(node) => {
                            parts.clear();
                            break;
                        }
                        _ => parts.push((device(node), vec![node])),
                    }
                }
                if !parts.is_empty() {
                    let both = [least, simulated(world, &parts)].into_iter().flatten();
                    least = both.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]);
                }
            }
        }
    }
    least
}

fn parts(plan: &Plan) -> Vec<(usize, Vec<usize>)> {
    let part = |part: &polychip_partitioner::Part| {
        let nodes = part.nodes.iter().map(|&node| node as usize).collect();
        (part.device.index(), nodes)
    };
    plan.parts.iter().map(part).collect()
}

#[test]
fn schedules_lie_between_the_bound_and_the_best_of_all() {
    let (mut best, mut tight, mut all, mut overlapping) = ([0; 2], [0; 2], 0, 0);
    for seed in 0..60 {
        let mut random = Random::new(4000 + seed);
        let nodes = 2 + random.below(4);
        let mut world = world(&mut random, nodes, 2);
        world.options.schedule_moves = 4000;
        world.options.replicas = false;
        if random.chance(15) {
            add_state(&mut world, &mut random);
        }
        let least = brute_force(&world);
        for (goal, objective) in [Objective::makespan(), Objective::throughput()]
            .into_iter()
            .enumerate()
        {
            world.objective = objective;
            let Some(least) = least else {
                assert_eq!(world.partition().unwrap_err().kind(), ErrorKind::Infeasible);
                continue;
            };
            let plan = world.partition().unwrap();
            world.check(&plan).unwrap();
            let (found, bound) = (plan.certificate.objective, plan.certificate.bound);
            assert_eq!(
                simulated(&world, &parts(&plan)).unwrap()[goal],
                found,
                "seed {seed}"
            );
            assert!(
                bound <= least[goal] && least[goal] <= found,
                "seed {seed}: {bound}, {least:?}, {found}"
            );
            best[goal] += usize::from(found == least[goal]);
            tight[goal] += usize::from(bound == least[goal]);
            overlapping += usize::from(goal == 0 && found < plan.totals.time.picoseconds());
        }
        all += usize::from(least.is_some());
    }
    assert!(
        all > 50 && best.iter().all(|best| best * 10 >= all * 9),
        "{best:?} of {all} are the best of all"
    );
    assert!(
        tight[0] * 3 > all && overlapping > 10,
        "{tight:?} bounds are tight, {overlapping} overlap"
    );
}

/// Nodes between which branches run and end, seven in all: the bound is that of each block between such nodes.
fn diamonds(random: &mut Random) -> Graph {
    let mut graph = Graph::new("diamonds");
    let tensor = |graph: &mut Graph, random: &mut Random| {
        let ty = TensorType::known(DType::F32, &[1, 1 + random.below(4000)]);
        graph.add_tensor(Tensor::new(format!("x{}", graph.tensor_count()), ty))
    };
    let mut last = tensor(&mut graph, random);
    graph.inputs.push(last);
    let node = |graph: &mut Graph, random: &mut Random, reads: &[TensorId]| {
        let written = tensor(graph, random);
        let reads = reads.iter().copied().map(Some).collect();
        graph.add_node(Node::new(Op::Add, reads, vec![Some(written)]));
        written
    };
    last = node(&mut graph, random, &[last]);
    // both branches of one node, or one of two and a skip
    for long in [false, random.chance(50)] {
        let first = node(&mut graph, random, &[last]);
        let second = node(&mut graph, random, &[if long { first } else { last }]);
        last = node(&mut graph, random, &[if long { last } else { first }, second]);
    }
    graph.outputs.push(last);
    graph
}

#[test]
fn bounds_of_blocks_hold_against_the_best_of_all() {
    let (mut tight, mut shares, mut all) = (0, 0, 0);
    for seed in 0..24 {
        let mut random = Random::new(9100 + seed);
        let graph = diamonds(&mut random);
        let mut world = around(graph, &mut random, 2);
        world.objective = Objective::makespan();
        world.options.schedule_moves = 4000;
        let Some(least) = brute_force(&world) else {
            continue;
        };
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        let (found, bound) = (plan.certificate.objective, plan.certificate.bound);
        assert!(
            bound <= least[0] && least[0] <= found,
            "seed {seed}: {bound}, {least:?}, {found}"
        );
        tight += usize::from(bound == least[0]);
        shares += bound * 1000 / least[0];
        all += 1;
    }
    let mean = shares / all;
    assert!(
        all > 16 && tight > 2 && mean > 850,
        "{tight} bounds of {all} are tight, the mean is {mean} thousandths"
    );
}

#[test]
fn runs_that_follow_each_other_are_spread_over_devices() {
    for seed in 0..6 {
        let mut world = world(&mut Random::new(70 + seed), 40, 3);
        world.options.schedule_moves = 5000;
        world.objective = Objective::makespan();
        let one = world.partition().unwrap().schedule.unwrap();
        world.objective = Objective::throughput();
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        assert!(plan.certificate.objective <= one.period.picoseconds());
        assert_eq!(plan.to_json(), world.partition().unwrap().to_json());
        assert!(
            plan.certificate.bound > 0 && plan.certificate.bound <= plan.certificate.objective,
            "seed {seed}"
        );
    }
}

#[test]
fn schedule_is_deterministic_and_never_worse_than_serial() {
    let mut gained = 0;
    for seed in 0..12 {
        let mut world = world(&mut Random::new(800 + seed), 60, 3);
        world.objective = Objective::latency();
        world.options.schedule_moves = 3000;
        let serial = world.partition().unwrap();
        world.objective = Objective::makespan();
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        let schedule = plan.schedule.clone().unwrap();
        assert!(schedule.makespan <= serial.totals.time);
        gained += usize::from(schedule.makespan < serial.totals.time);
        assert_eq!(plan.to_json(), world.partition().unwrap().to_json());
        assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
        assert_eq!(restate(world.request(), &plan).unwrap(), plan);
    }
    assert!(gained > 8, "{gained} schedules end earlier");
}

#[test]
fn stated_parts_and_limits_hold_for_schedules_too() {
    let mut world = world(&mut Random::new(12), 24, 2);
    world.objective = Objective::makespan();
    world.options.schedule_moves = 2000;
    let free = world.partition().unwrap();
    // every part of the plan turns out far cheaper than its nodes
    for part in &free.parts {
        let nodes: Vec<usize> = part.nodes.iter().map(|&node| node as usize).collect();
        let cost = Cost::time(
            Time::from_picoseconds(part.cost.time.picoseconds() / 3),
            Provenance::Measured,
        );
        world.costs.set_part(&nodes, part.device.index(), cost);
    }
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert!(plan.certificate.bound <= plan.certificate.objective);
    let earliest = plan.schedule.unwrap().makespan;
    world.objective = Objective::makespan().within(earliest);
    world.check(&world.partition().unwrap()).unwrap();
    world.objective = Objective::makespan().within(Time::from_picoseconds(1));
    let late = world.partition().unwrap();
    world.check(&late).unwrap();
    assert_eq!(
        late.missed,
        Some(earliest.saturating_sub(Time::from_picoseconds(1)))
    );
    world.targets[0].memory_limit = Some(0);
    world.targets[1].memory_limit = Some(0);
    assert_eq!(world.partition().unwrap_err().kind(), ErrorKind::OverLimit);
    world
        .targets
        .iter_mut()
        .for_each(|target| target.memory_limit = None);
    world.objective = Objective {
        energy_weight: 1,
        ..Objective::makespan()
    };
    assert_eq!(world.partition().unwrap_err().kind(), ErrorKind::BadInput);
}

#[test]
fn wrong_schedules_are_refused() {
    let mut world = world(&mut Random::new(31), 20, 3);
    world.objective = Objective::makespan();
    world.options.schedule_moves = 1000;
    let plan = world.partition().unwrap();
    let one = Time::from_picoseconds(1);
    let change = |spoil: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        spoil(&mut plan);
        world.check(&plan).unwrap_err().kind()
    };
    let later = |time: &mut Time| *time = time.checked_add(one).unwrap();
    let schedule = |plan: &mut Plan| plan.schedule.clone().unwrap();
    for spoil in [
        &|plan: &mut Plan| plan.schedule = None,
        &|plan: &mut Plan| later(&mut plan.schedule.as_mut().unwrap().makespan),
        &|plan: &mut Plan| later(&mut plan.schedule.as_mut().unwrap().period),
        &|plan: &mut Plan| later(&mut plan.schedule.as_mut().unwrap().busy[0]),
        &|plan: &mut Plan| later(plan.schedule.as_mut().unwrap().starts.last_mut().unwrap()),
        &|plan: &mut Plan| plan.schedule.as_mut().unwrap().starts.truncate(1),
        &|plan: &mut Plan| plan.objective = Objective::latency(),
    ] as [&dyn Fn(&mut Plan); 7]
    {
        assert_eq!(change(spoil), ViolationKind::Schedule);
    }
    assert_eq!(
        change(&|plan| plan.certificate.objective += 1),
        ViolationKind::Certificate
    );
    assert_eq!(
        change(&|plan| plan.certificate.bound = plan.certificate.objective + 1),
        ViolationKind::Certificate
    );
    assert_eq!(
        change(&|plan| plan.objective.deadline = Some(one)),
        ViolationKind::Limit
    );
    if schedule(&mut plan.clone()).period != schedule(&mut plan.clone()).makespan {
        let other = |plan: &mut Plan| plan.objective.goal = Goal::Throughput;
        assert_eq!(change(&other), ViolationKind::Certificate);
    }
}
