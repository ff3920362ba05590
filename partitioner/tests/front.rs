//! Fronts against every placement tried: the corners of the lower hull, and nothing else.
//!
//! Invariants: placements are priced here by the problem's objective under weights (1, 0) and (0, 1), which other
//! tests hold to the inputs.

#[path = "plans/world.rs"]
mod world;

use polychip_partitioner::{
    Cost, ErrorKind, Front, Link, LinkTable, Milliwatts, Objective, Plan, Provenance, Time, front,
};
use std::collections::BTreeSet;
use world::{Random, World, add_state, world};

fn front_of(world: &World, most: usize) -> Result<Front, polychip_partitioner::Error> {
    front(world.request(), most)
}

/// Time and energy of a plan.
fn place(plan: &Plan) -> (u64, u64) {
    (
        plan.totals.time.picoseconds(),
        plan.totals.energy.unwrap().nanojoules(),
    )
}

/// Time and energy of every placement that is possible, by pinning every node.
fn all(world: &World) -> BTreeSet<(u64, u64)> {
    let (nodes, devices) = (world.graph.node_count(), world.targets.len());
    let mut found = BTreeSet::new();
    for mut code in 0..devices.pow(nodes as u32) {
        let mut pinned = world.clone();
        pinned.objective = Objective::weighted(1, 1);
        for node in 0..nodes {
            pinned.options.pins.insert(node, code % devices);
            code /= devices;
        }
        found.extend(pinned.partition().ok().as_ref().map(place));
    }
    found
}

/// The corners of the lower left hull, fastest first.
fn hull(points: &BTreeSet<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut corners: Vec<(u64, u64)> = Vec::new();
    for &(time, energy) in points {
        if corners.last().is_some_and(|last| energy >= last.1) {
            continue;
        }
        while let [.., a, b] = corners[..] {
            // b stays where it lies strictly below the line from a to the new point
            let over = |p: (u64, u64), q: (u64, u64)| {
                i128::from(a.1 as i64 - p.1 as i64) * i128::from(q.0 as i64 - a.0 as i64)
            };
            if over(b, (time, energy)) > over((time, energy), b) {
                break;
            }
            corners.pop();
        }
        corners.push((time, energy));
    }
    corners
}

#[test]
fn front_equals_the_convex_hull() {
    let mut corners = 0;
    for seed in 0..40 {
        let mut random = Random::new(9000 + seed);
        let mut world = world(&mut random, 5, 2 + usize::from(seed % 4 == 0));
        world.options.merge = false;
        if seed % 5 == 0 {
            add_state(&mut world, &mut random);
        }
        let found = match front_of(&world, 100) {
            Ok(found) => found,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Infeasible);
                assert!(all(&world).is_empty());
                continue;
            }
        };
        assert!(found.complete, "seed {seed}");
        let places: Vec<(u64, u64)> = found.plans.iter().map(place).collect();
        assert_eq!(places, hull(&all(&world)), "seed {seed}");
        corners += places.len();
    }
    assert!(corners > 100, "{corners} corners");
}

#[test]
fn front_plans_pass_the_check_and_are_nondominated() {
    for seed in 0..12 {
        let mut world = world(&mut Random::new(300 + seed), 60, 3);
        // one of four keeps a limit, one has a measured segment: neither can be swept
        if seed % 4 == 1 {
            world.targets[1].memory_limit = Some(400_000);
        }
        if seed % 4 == 2 {
            let cost = *world.costs.node(3, 0).unwrap();
            world.costs.set_part(&[3, 4], 0, cost);
        }
        let found = front_of(&world, 9).unwrap();
        assert!(
            found.plans.len() > 1 && found.plans.len() <= 9,
            "{}",
            found.plans.len()
        );
        for plan in &found.plans {
            world.check(plan).unwrap();
        }
        for pair in found.plans.windows(2) {
            let (a, b) = (place(&pair[0]), place(&pair[1]));
            assert!(a.0 < b.0 && a.1 > b.1, "seed {seed}: {a:?} and {b:?}");
        }
        let again = front_of(&world, 9).unwrap();
        assert_eq!(again, found);
        // the ends are as good as plans made for them alone
        for (weights, plan) in [((1, 0), found.plans.first()), ((0, 1), found.plans.last())] {
            world.objective = Objective::weighted(weights.0, weights.1);
            let alone = world.partition().unwrap();
            let (own, other) = (place(plan.unwrap()), place(&alone));
            if seed % 4 == 0 {
                let value =
                    |place: (u64, u64)| u64::from(weights.0) * place.0 + u64::from(weights.1) * place.1;
                // merging is not part of what is optimised
                let slack = value(other) / 20;
                assert!(
                    value(own) <= value(other) + slack,
                    "seed {seed}: {own:?}, alone {other:?}"
                );
            }
        }
    }
}

#[test]
fn front_needs_energies() {
    let mut world = world(&mut Random::new(4), 8, 2);
    let nodes = world.graph.node_count();
    for node in 0..nodes {
        for device in 0..2 {
            let time = Time::from_nanoseconds(10 + 90 * device as u64);
            world
                .costs
                .set_node(node, device, Cost::time(time, Provenance::Measured));
            world.targets[device].refusals[node] = None;
        }
    }
    world.links = LinkTable::new(2);
    for (a, b) in [(0, 1), (1, 0)] {
        world.links.set(a, b, Link::native(Time::ZERO));
    }
    assert_eq!(front_of(&world, 8).unwrap_err().kind(), ErrorKind::MissingCost);
    // the first device is faster and needs no more power: nothing else is worth it
    for target in &mut world.targets {
        target.power = Some(Milliwatts::new(100).into());
        target.launch = Time::ZERO;
        target.launch_energy = polychip_partitioner::Energy::ZERO;
    }
    let found = front_of(&world, 8).unwrap();
    assert_eq!((found.plans.len(), found.complete), (1, true));
    world.check(&found.plans[0]).unwrap();
    assert!(front_of(&world, 0).unwrap().plans.is_empty());
}
