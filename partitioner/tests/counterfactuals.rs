//! Every node off the cheapest device has a reason and a counterfactual cost, compared with plans
//! that pin the node there.
//!
//! Invariants: the witness is `partition` with a pin, and without the device's refusal if it has
//! one.

#[path = "plans/world.rs"]
#[allow(dead_code)]
mod world;

use polychip_partitioner::{Explanation, LimitReport, Milliwatts, Reason, Target, Time, explain};
use world::{Random, World, world};

/// So many nodes off the cheapest device are planned anew.
const SAMPLE: usize = 500;

fn explained(world: &World) -> Explanation {
    explain(world.request(), &world.partition().unwrap()).unwrap()
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
fn nodes_off_the_cheapest_device_have_reason_and_cost() {
    let (mut held, mut off, mut unsupported, mut seed) = (0, 0, 0, 0);
    while held < SAMPLE {
        let mut random = Random::new(9000 + seed);
        seed += 1;
        let (nodes, devices) = (8 + random.below(20), 2 + random.below(2));
        let mut world = world(&mut random, nodes, devices);
        // what is merged may make a plan of fewer devices the better one
        world.options.merge = false;
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
fn counterfactuals_equal_forced_plans() {
    let mut pairs = 0;
    for seed in 0..24 {
        let mut random = Random::new(7000 + seed);
        let (nodes, devices) = (1 + random.below(14), 2 + random.below(3));
        let mut world = world(&mut random, nodes, devices);
        // what is merged may make a plan of fewer devices the better one
        world.options.merge = false;
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

/// Limits of every kind that leave something to plan, as often as not too tight.
fn limit(world: &mut World, random: &mut Random) {
    let free = world.partition().unwrap();
    let (time, energy) = (
        free.totals.time.picoseconds(),
        free.totals.energy.unwrap().nanojoules(),
    );
    let percent = |random: &mut Random| 60 + random.below(60) as u64;
    if random.chance(50) {
        let limit =
            u128::from(energy) * 1_000_000 / u128::from(time.max(1)) * u128::from(percent(random)) / 100;
        world.objective = world.objective.within_power(Milliwatts::new(limit as u64 + 1));
    }
    if random.chance(40) {
        let deadline = Time::from_picoseconds(time / 100 * (40 + percent(random)));
        world.objective = world.objective.within(deadline);
    }
    if random.chance(40) {
        let device = random.below(world.targets.len());
        let bytes = free.memory_bytes[device] * percent(random) / 100;
        world.targets[device].memory_limit = Some(bytes);
    }
}

#[test]
fn limited_counterfactual_holds_the_limits_with_a_bound() {
    let (mut pairs, mut equal, mut above, mut certified, mut broken, mut worst) = (0, 0, 0, 0, 0, 1.0f64);
    for seed in 0..40 {
        let mut random = Random::new(60_000 + seed);
        let (nodes, devices) = (4 + random.below(8), 2 + random.below(2));
        let mut world = world(&mut random, nodes, devices);
        limit(&mut world, &mut random);
        let Ok(plan) = world.partition() else {
            continue;
        };
        let now = plan.certificate.objective;
        if plan.missed.is_some() || plan.limits.iter().any(LimitReport::is_exceeded) {
            continue;
        }
        for node in explained(&world).nodes {
            for other in &node.alternatives {
                let Some(stated) = &other.counterfactual else {
                    continue;
                };
                let place = |target: &Target| target.name == other.device;
                let device = world.targets.iter().position(place).unwrap();
                // the same, planned anew with the node forced there
                let mut forced = world.clone();
                forced.targets[device].refusals[node.node as usize] = None;
                forced.options.pins.insert(node.node as usize, device);
                let witness = forced.partition().ok();
                let witness = witness.filter(|plan| {
                    plan.missed.is_none() && !plan.limits.iter().any(LimitReport::is_exceeded)
                });
                pairs += 1;
                let Some(witness) = witness.map(|plan| plan.certificate) else {
                    // nobody finds one, or only the answer does
                    broken += usize::from(stated.broken);
                    continue;
                };
                let value = now.checked_add_signed(stated.by).unwrap();
                if let Some(least) = stated.least {
                    let least = now.checked_add_signed(least).unwrap();
                    assert!(least <= witness.objective, "seed {seed}: {least} {witness:?}");
                    assert!(stated.broken || least <= value, "seed {seed}: {stated:?}");
                    certified += usize::from(least == value && !stated.broken);
                }
                if stated.broken {
                    above += 1;
                    continue;
                }
                assert!(value >= witness.bound, "seed {seed}: {stated:?} {witness:?}");
                equal += usize::from(value == witness.objective);
                above += usize::from(value > witness.objective);
                worst = worst.max(value as f64 / witness.objective as f64);
            }
        }
    }
    eprintln!(
        "{pairs} pairs: {equal} equal a plan made anew, {above} above, {certified} certified, {broken} impossible; worst {worst}"
    );
    assert!(
        pairs > 300 && equal * 100 >= (equal + above) * 95,
        "{pairs} {equal} {above}"
    );
    assert!(certified > 50 && broken > 10, "{certified} {broken}");
}

#[test]
fn limited_unlock_saving_matches_a_plan() {
    let mut held = 0;
    for seed in 0..60 {
        let mut random = Random::new(80_000 + seed);
        let mut world = world(&mut random, 10, 2);
        limit(&mut world, &mut random);
        let Ok(plan) = world.partition() else {
            continue;
        };
        for unlock in explained(&world).unlocks {
            let device = world
                .targets
                .iter()
                .position(|target| target.name == unlock.device)
                .unwrap();
            let mut unlocked = world.clone();
            for (id, node) in world.graph.nodes() {
                if node.label() == unlock.op {
                    unlocked.targets[device].refusals[id.index()] = None;
                }
            }
            let better = unlocked.partition().unwrap().certificate.objective;
            assert_eq!(
                plan.certificate.objective - better,
                unlock.saving,
                "seed {seed}: {unlock:?}"
            );
            held += 1;
        }
    }
    assert!(held > 10, "{held}");
}
