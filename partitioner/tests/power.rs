//! Powers with intervals, and plans that are bounded by the fastest one.
//!
//! Invariants: the expected energy is weighed, its upper bound is limited; no plan of an objective
//! that bounds it by the fastest one is slower than that allows.

#[path = "plans/world.rs"]
#[allow(dead_code)]
mod world;

use polychip_partitioner::{
    Cost, Energy, EnergyProvenance, Limit, Milliwatts, Objective, Plan, Power, Provenance, Time,
    ViolationKind,
};
use world::{Random, World, world};

/// Two devices and one node each may run: 10 ms at 1 W that is measured, and `ns` at a power within an interval.
fn world_of(ns: u64, milliwatts: [u64; 3]) -> World {
    let mut random = Random::new(1);
    let mut world = world(&mut random, 1, 2);
    let [low, active, high] = milliwatts.map(Milliwatts::new);
    for (target, time) in world.targets.iter_mut().zip([10_000_000, ns]) {
        target.launch = Time::ZERO;
        target.launch_energy = Energy::ZERO;
        target.refusals = vec![None];
        target.memory_limit = None;
        target.power = Some(Power::exact(Milliwatts::new(1_000), EnergyProvenance::Measured));
        let cost = Cost::time(Time::from_nanoseconds(time), Provenance::Estimated);
        let device = usize::from(time == ns);
        world.costs.set_node(0, device, cost);
    }
    world.targets[1].power = Some(Power {
        idle: Milliwatts::default(),
        active,
        low,
        high,
        provenance: EnergyProvenance::Default,
    });
    world
}

fn device(world: &World) -> usize {
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    plan.parts[0].device.index()
}

#[test]
fn expected_energy_is_weighed_and_the_upper_bound_limited() {
    // 5 ms at 1 to 9 W, 1.5 W expected: 7.5 mJ beside the measured 10 mJ
    let mut world = world_of(5_000_000, [1_000, 1_500, 9_000]);
    world.objective = Objective::energy();
    assert_eq!(device(&world), 1);
    let plan = world.partition().unwrap();
    let range = plan.totals.energy_range.unwrap();
    assert_eq!(plan.totals.energy.unwrap().microjoules(), 7_500);
    assert_eq!(
        (range.low.microjoules(), range.high.microjoules()),
        (5_000, 45_000)
    );
    assert_eq!(range.provenance, EnergyProvenance::Default);
    // it may draw 9 W
    world.objective = Objective::latency().within_power(Milliwatts::new(8_000));
    assert_eq!(device(&world), 0);
    world.objective = Objective::latency().within_power(Milliwatts::new(9_000));
    assert_eq!(device(&world), 1);
    let plan = world.partition().unwrap();
    assert_eq!(plan.totals.energy.unwrap().microjoules(), 45_000, "the most");
    assert_eq!(plan.totals.expected_energy().unwrap().microjoules(), 7_500);
    // a plan that states less than the most that is limited is refused
    let mut lies = plan.clone();
    lies.parts[0].cost.energy = Some(Energy::from_microjoules(7_500));
    assert_eq!(world.check(&lies).unwrap_err().kind(), ViolationKind::Figure);
    let mut lies = plan;
    lies.totals.energy_range = None;
    assert_eq!(world.check(&lies).unwrap_err().kind(), ViolationKind::Figure);
}

#[test]
fn slowest_limit_bounds_time() {
    // 200 ms a joule: 10 mJ in 10 ms are worth 12 ms, 100 mJ in 5 ms 25 ms
    let mut world = world_of(5_000_000, [20_000; 3]);
    let balanced = Objective::weighted(1, 200);
    world.objective = balanced;
    assert_eq!(device(&world), 0);
    world.objective = balanced.no_slower_than(1_500);
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert_eq!(plan.parts[0].device.index(), 1, "10 ms are twice 5 ms");
    assert_eq!(plan.fastest, Some(plan.totals.time));
    let line = plan
        .limits
        .iter()
        .find(|held| held.limit == Limit::Slowest)
        .unwrap();
    assert!(line.binds() && !line.is_exceeded(), "{line:?}");
    // whoever moves the bound, or the figure, is caught
    let mut lies = plan.clone();
    lies.limits.retain(|held| held.limit != Limit::Slowest);
    lies.fastest = Some(Time::from_nanoseconds(3_000_000));
    assert_eq!(world.check(&lies).unwrap_err().kind(), ViolationKind::Limit);
    let mut lies = plan;
    lies.fastest = Some(Time::from_nanoseconds(4_000_000));
    assert_eq!(world.check(&lies).unwrap_err().kind(), ViolationKind::Limit);
    // within half as long again it is the frugal one
    world.objective = balanced.no_slower_than(2_000);
    assert_eq!(device(&world), 0);
}

#[test]
fn bounded_plans_hold_their_bound() {
    let mut random = Random::new(7);
    let mut bound = 0;
    for _ in 0..150 {
        let devices = 2 + random.below(2);
        let nodes = 1 + random.below(10);
        let mut world = world(&mut random, nodes, devices);
        world.options.longest_part = None;
        let permille = 1_000 + random.below(1_000) as u32;
        let weights = Objective::weighted(1, 1 + random.below(1_000_000) as u32);
        world.objective = Objective::latency();
        let Ok(fastest) = world.partition() else { continue };
        world.objective = weights;
        let free = world.partition().unwrap();
        world.objective = weights.no_slower_than(permille);
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        let most = fastest.totals.time.picoseconds() * u64::from(permille) / 1_000;
        assert!(
            plan.totals.time.picoseconds() <= most,
            "{} {most}",
            plan.totals.time
        );
        bound += u32::from(free.totals.time.picoseconds() > most);
        // it is no worse than the fastest, whose bound it is
        let value = |plan: &Plan| weights.value(plan.totals.time, plan.totals.energy.unwrap_or_default());
        assert!(value(&plan) <= value(&fastest) || fastest.totals.energy.is_none());
    }
    assert!(bound > 10, "{bound}");
}
