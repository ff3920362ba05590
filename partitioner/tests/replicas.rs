//! Replicas of a model, devices that share hardware, and additional devices: never a worse plan.
//!
//! Invariants: worlds are random and seeded; no figure is a measured time.

#[path = "plans/world.rs"]
mod world;

use polychip_graph::{Graph, Node, Tensor};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::{
    Cost, CostTable, Energy, Link, LinkTable, Objective, Options, Plan, Provenance, Target, Time,
    ViolationKind, restate,
};
use world::{Random, World, add_state, world};

/// A chain of nodes that take some nanoseconds on each device, with launches and links.
fn chain(nodes: &[Vec<u64>], launch: u64, link: u64) -> World {
    let mut graph = Graph::new("chain");
    let tensor = |graph: &mut Graph, at: usize| {
        graph.add_tensor(Tensor::new(format!("x{at}"), TensorType::known(DType::F32, &[4])))
    };
    let mut last = tensor(&mut graph, 0);
    graph.inputs.push(last);
    let devices = nodes[0].len();
    let mut costs = CostTable::new(nodes.len(), devices);
    for (at, row) in nodes.iter().enumerate() {
        let next = tensor(&mut graph, at + 1);
        graph.add_node(Node::new(Op::Relu, vec![Some(last)], vec![Some(next)]));
        last = next;
        for (device, &time) in row.iter().enumerate() {
            let time = Time::from_nanoseconds(time);
            costs.set_node(at, device, Cost::time(time, Provenance::Estimated));
        }
    }
    graph.outputs.push(last);
    let mut links = LinkTable::new(devices);
    for pair in 0..devices * devices {
        let time = Time::from_nanoseconds(link);
        links.set(pair / devices, pair % devices, Link::native(time));
    }
    let target = |device: usize| {
        Target::new(&format!("null:{device}"), nodes.len()).launch(Time::from_nanoseconds(launch))
    };
    World {
        targets: (0..devices).map(target).collect(),
        graph,
        costs,
        links,
        objective: Objective::throughput(),
        options: Options::default(),
    }
}

fn planned(world: &World) -> Plan {
    let plan = world.partition().unwrap();
    world.check(&plan).unwrap();
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert_eq!(plan.certificate.objective, plan.interval().picoseconds());
    plan
}

#[test]
fn two_equal_devices_hold_a_replica_each() {
    let world = chain(&[vec![100, 100], vec![300, 300], vec![50, 50]], 10, 20);
    let plan = planned(&world);
    assert_eq!(plan.copies().count(), 2);
    assert_eq!(plan.interval(), Time::from_nanoseconds(230));
    assert!(plan.certificate.is_optimal());
    assert_eq!(restate(world.request(), &plan).unwrap(), plan);
    let alone = World {
        options: Options {
            replicas: false,
            ..Options::default()
        },
        ..world
    };
    assert!(planned(&alone).replicas.is_empty());
}

#[test]
fn slow_device_adds_its_rate() {
    // rates of 1/400, 1/400 and 1/4000 per nanosecond
    let plan = planned(&chain(&[vec![400, 4000, 400]], 0, 20));
    let own: Vec<u64> = plan
        .copies()
        .map(|copy| copy.own_interval().nanoseconds())
        .collect();
    assert_eq!(own, [400, 400, 4000]);
    assert_eq!(plan.interval().picoseconds(), 4_000_000 / 21 + 1);
}

#[test]
fn partial_device_complements_a_full_one() {
    let mut world = chain(&[vec![900, 100, 900], vec![100, 900, 100]], 0, 1);
    world.targets[1].refusals[1] = Some(polychip_partitioner::Refusal {
        code: 1,
        words: "no".into(),
    });
    let plan = planned(&world);
    // one copy over the first two at 100 ns, one on the third at 1000 ns
    assert_eq!(plan.copies().count(), 2);
    assert_eq!(plan.used_devices().len(), 2);
    assert_eq!(plan.interval().picoseconds(), 1_000_000 / 11 + 1);
}

#[test]
fn devices_on_the_same_hardware_never_work_at_once() {
    let mut world = chain(&[vec![100, 120], vec![300, 280], vec![50, 60]], 10, 20);
    for target in &mut world.targets {
        target.resource = Some(0);
    }
    let plan = planned(&world);
    assert!(plan.replicas.is_empty());
    assert!(plan.own_interval() >= Time::from_nanoseconds(430), "{plan:?}");
    // two branches that would overlap on devices of their own
    for seed in 0..30 {
        let mut random = Random::new(700 + seed);
        let size = 3 + random.below(5);
        let mut world = self::world(&mut random, size, 2);
        world.options.schedule_moves = 4000;
        for target in &mut world.targets {
            target.resource = Some(7);
        }
        for objective in [Objective::makespan(), Objective::throughput()] {
            world.objective = objective;
            let Ok(plan) = world.partition() else {
                continue;
            };
            world.check(&plan).unwrap();
            let schedule = plan.schedule.as_ref().unwrap();
            let busy: u64 = schedule.busy.iter().map(|busy| busy.picoseconds()).sum();
            assert!(plan.certificate.objective >= busy, "seed {seed}");
            let own = World {
                targets: world
                    .targets
                    .iter()
                    .cloned()
                    .map(|target| Target {
                        resource: None,
                        ..target
                    })
                    .collect(),
                ..world.clone()
            };
            let apart = own.partition().unwrap();
            assert!(
                apart.certificate.bound <= plan.certificate.objective,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn state_or_power_limit_means_one_replica() {
    let mut world = chain(&[vec![100, 100], vec![300, 300]], 10, 20);
    add_state(&mut world, &mut Random::new(3));
    assert!(planned(&world).replicas.is_empty());
}

#[test]
fn wrong_replicas_are_refused() {
    let world = chain(&[vec![100, 100], vec![300, 300]], 10, 20);
    let plan = planned(&world);
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut wrong = plan.clone();
        change(&mut wrong);
        world.check(&wrong).unwrap_err().kind()
    };
    assert_eq!(
        refused(&|plan| plan.replicas.push(plan.replicas[0].clone())),
        ViolationKind::Replica
    );
    assert_eq!(
        refused(&|plan| {
            let copy = plan.replicas[0].clone();
            plan.replicas[0].replicas.push(copy);
        }),
        ViolationKind::Replica
    );
    assert_eq!(
        refused(&|plan| plan.replicas[0].parts[0].nodes.truncate(1)),
        ViolationKind::Nodes
    );
    assert_eq!(refused(&|plan| plan.replicas.clear()), ViolationKind::Certificate);
    let shares = World {
        targets: world.targets.iter().cloned().map(|target| target.on(1)).collect(),
        ..world.clone()
    };
    assert!(shares.check(&plan).is_err());
}

#[test]
fn replicas_hold_memory_limits() {
    let mut world = chain(&[vec![100, 100], vec![300, 300]], 10, 20);
    let held = planned(&world).memory_bytes[0];
    world.targets[1].memory_limit = Some(held - 1);
    let plan = planned(&world);
    assert_eq!(plan.copies().count(), 1);
    assert!(plan.memory_bytes[1] < held);
}

#[test]
fn sixteen_devices_reach_nearly_the_bound() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let speeds: Vec<u64> = (0..16).map(|_| 50 + random.below(400) as u64).collect();
        let nodes: Vec<Vec<u64>> = (0..60)
            .map(|_| {
                let work = 1 + random.below(40) as u64;
                speeds.iter().map(|speed| work * speed).collect()
            })
            .collect();
        let plan = planned(&chain(&nodes, 100, 500));
        assert!(
            plan.certificate.gap_ppm().unwrap() <= 50_000,
            "{}",
            plan.certificate.words(true)
        );
        assert_eq!(plan.copies().count(), 16);
    }
}

/// The value of a plan as it stands.
fn value(plan: &Plan) -> u128 {
    match plan.objective.goal {
        polychip_partitioner::Goal::Serial => {
            let energy = plan.totals.energy.unwrap_or(Energy::ZERO);
            u128::from(plan.totals.time.picoseconds()) * u128::from(plan.objective.time_weight)
                + u128::from(energy.nanojoules()) * u128::from(plan.objective.energy_weight)
        }
        _ => u128::from(plan.certificate.objective),
    }
}

/// A world without its last device; none where homes or nodes need it.
fn without_last(world: &World) -> Option<World> {
    let devices = world.targets.len() - 1;
    let homes = [world.options.input_home, world.options.output_home];
    if homes.contains(&Some(devices)) {
        return None;
    }
    let nodes = world.graph.node_count();
    let mut costs = CostTable::new(nodes, devices);
    let mut links = LinkTable::new(devices);
    for device in 0..devices {
        for node in 0..nodes {
            costs.set_node(node, device, *world.costs.node(node, device)?);
        }
        for other in 0..devices {
            links.set(device, other, *world.links.get(device, other)?);
        }
    }
    Some(World {
        targets: world.targets[..devices].to_vec(),
        costs,
        links,
        ..world.clone()
    })
}

#[test]
fn additional_device_is_never_worse() {
    let mut compared = 0;
    for seed in 0..40 {
        let mut random = Random::new(5000 + seed);
        let (nodes, devices) = (2 + random.below(7), 2 + random.below(2));
        let mut world = world(&mut random, nodes, devices);
        world.options.schedule_moves = 1500;
        if random.chance(20) {
            add_state(&mut world, &mut random);
        }
        if random.chance(30) {
            let shared = random.below(devices);
            world.targets[0].resource = Some(1);
            world.targets[shared].resource = Some(1);
        }
        let Some(fewer) = without_last(&world) else {
            continue;
        };
        for objective in [
            Objective::latency(),
            Objective::energy(),
            Objective::weighted(2, 3),
            Objective::makespan(),
            Objective::throughput(),
        ] {
            let world = World {
                objective,
                ..world.clone()
            };
            let fewer = World {
                objective,
                ..fewer.clone()
            };
            let Ok(few) = fewer.partition() else {
                continue;
            };
            let more = world.partition().unwrap();
            world.check(&more).unwrap();
            assert!(
                value(&more) <= value(&few),
                "seed {seed}, {}: {} with one device more, {} without",
                objective.description(),
                value(&more),
                value(&few)
            );
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn replica_is_split_only_on_request_or_need() {
    let whole = |world: &World| World {
        options: Options {
            split_copies: false,
            ..Options::default()
        },
        targets: world.targets.clone(),
        graph: world.graph.clone(),
        costs: world.costs.clone(),
        links: world.links.clone(),
        objective: world.objective,
    };
    // few devices, and more than are planned set by set: the two good at one half each are 5 times faster together
    for more in [0, 4] {
        let row = |first: &[u64]| [first, &vec![4000; more]].concat();
        let mut world = chain(&[row(&[100, 900]), row(&[900, 100])], 0, 1);
        assert!(planned(&world).copies().any(|copy| copy.used_devices().len() > 1));
        let plan = planned(&whole(&world));
        assert!(
            plan.copies().all(|copy| copy.used_devices().len() == 1),
            "{plan:?}"
        );
        assert_eq!(plan.copies().count(), 2 + more);
        // the bound is still that of all plans
        assert!(!plan.certificate.is_optimal());
        let no = Some(polychip_partitioner::Refusal {
            code: 1,
            words: "no".into(),
        });
        for device in 0..2 + more {
            world.targets[device].refusals[device % 2] = no.clone();
        }
        let plan = planned(&whole(&world));
        assert!(plan.copies().all(|copy| copy.used_devices().len() > 1));
    }
}
