//! Every node off the cheapest device says why, and what being there would cost: held to plans made anew with the
//! node pinned there.
//!
//! Invariants: the witness is `partition` with a pin, and with the device's refusal lifted where it has one.

#[path = "plans/world.rs"]
#[allow(dead_code)]
mod world;

use polychip_partitioner::{Explanation, Nanos, Objective, Options, Reason, explain};
use world::{Random, World, world};

/// So many nodes off the cheapest device are planned anew.
const SAMPLE: usize = 500;

fn explained(world: &World) -> Explanation {
    let plan = world.partition().unwrap();
    explain(
        &world.graph,
        &world.targets,
        &world.costs,
        &world.links,
        &plan,
        &world.options,
    )
    .unwrap()
}

/// A node's own cost under an objective, whether or not the device takes the node.
fn own(world: &World, node: usize, device: usize) -> u64 {
    let cost = world.costs.node(node, device).unwrap();
    world.objective.value(cost.time, cost.energy.unwrap()).unwrap()
}

/// The objective with one node forced onto a device that may refuse it; none where links forbid that.
fn forced(world: &World, node: usize, device: usize) -> Option<u64> {
    let mut forced = world.clone();
    forced.targets[device].refusals[node] = None;
    forced.options.pins.insert(node, device);
    forced.partition().ok().map(|plan| plan.certificate.objective)
}

#[test]
fn nodes_off_the_cheapest_device_say_why_and_what_it_would_cost() {
    let (mut held, mut off, mut unsupported, mut seed) = (0, 0, 0, 0);
    while held < SAMPLE {
        let mut random = Random::new(9000 + seed);
        seed += 1;
        let (nodes, devices) = (8 + random.below(20), 2 + random.below(2));
        let mut world = world(&mut random, nodes, devices);
        if random.chance(30) {
            // pins of one's own are a reason as well
            let node = random.below(nodes);
            let device = (0..devices).find(|&device| world.targets[device].supports(node));
            world.options.pins.insert(node, device.unwrap());
        }
        let plan = world.partition().unwrap();
        let explanation = explained(&world);
        for node in &explanation.nodes {
            let index = node.node as usize;
            let place = |name: &str| {
                world
                    .targets
                    .iter()
                    .position(|target| target.name == name)
                    .unwrap()
            };
            let here = place(&node.device);
            let cheapest = (0..devices)
                .min_by_key(|&device| (own(&world, index, device), device != here))
                .unwrap();
            if cheapest == here {
                continue;
            }
            off += 1;
            let other = node
                .alternatives
                .iter()
                .find(|other| place(&other.device) == cheapest)
                .unwrap();
            let witness = forced(&world, index, cheapest);
            let stated = other.counterfactual.as_ref();
            assert_eq!(
                stated.map(|stated| plan.certificate.objective.checked_add_signed(stated.by).unwrap()),
                witness,
                "seed {seed}: {node:?}"
            );
            let stated = stated.unwrap();
            assert!(stated.replanned && !stated.derived, "{stated:?}");
            match other.reason {
                Reason::Unsupported { .. } => unsupported += 1,
                // alone, a move costs at least what it does with all others planned anew
                Reason::Dearer { by, .. } => assert!(stated.by >= 0 && by >= stated.by.unsigned_abs()),
                Reason::Pinned { .. } => {}
                ref other => panic!("seed {seed}: {other:?}"),
            }
            held += 1;
        }
    }
    assert_eq!(held, off, "a node without a reason or a counterfactual");
    assert!(unsupported > 50, "{unsupported} of {held} are refused");
}

#[test]
fn every_pair_equals_a_plan_with_the_node_forced() {
    let mut pairs = 0;
    for seed in 0..24 {
        let mut random = Random::new(7000 + seed);
        let (nodes, devices) = (1 + random.below(14), 2 + random.below(3));
        let mut world = world(&mut random, nodes, devices);
        if random.chance(40) {
            world::add_state(&mut world, &mut random);
        }
        if random.chance(30) {
            world.options.input_home = Some(random.below(devices));
            world.options.output_home = Some(random.below(devices));
        }
        let Ok(plan) = world.partition() else {
            continue;
        };
        for node in explained(&world).nodes {
            for other in &node.alternatives {
                let device = world
                    .targets
                    .iter()
                    .position(|target| target.name == other.device)
                    .unwrap();
                let found = other
                    .counterfactual
                    .as_ref()
                    .map(|stated| plan.certificate.objective.checked_add_signed(stated.by).unwrap());
                assert_eq!(
                    found,
                    forced(&world, node.node as usize, device),
                    "seed {seed}: {node:?}"
                );
                pairs += 1;
            }
        }
    }
    assert!(pairs > 250, "{pairs}");
}

#[test]
fn under_limits_the_others_stay_and_it_says_so() {
    let mut random = Random::new(3);
    let mut world = world(&mut random, 30, 3);
    world.objective = Objective::latency();
    world.options = Options::default();
    let free = world.partition().unwrap();
    world.objective = world
        .objective
        .within(Nanos::from_picoseconds(2 * free.totals.time.picoseconds()));
    let nodes = explained(&world).nodes;
    let all = nodes
        .iter()
        .flat_map(|node| &node.alternatives)
        .filter_map(|other| other.counterfactual.as_ref());
    let all: Vec<_> = all.collect();
    assert!(!all.is_empty() && all.iter().all(|stated| !stated.replanned));
}
