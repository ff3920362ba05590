//! Cut parts hold the requested limit.

#[path = "plans/world.rs"]
#[allow(dead_code)]
mod world;

use polychip_partitioner::{Part, Time, ViolationKind};
use world::{Random, world};

fn takes(part: &Part) -> u64 {
    part.cost.time.picoseconds() + part.launch.picoseconds()
}

#[test]
fn cut_parts_hold_the_limit_on_their_devices() {
    let (mut cut, mut single) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let nodes = 4 + random.below(20);
        let mut world = world(&mut random, nodes, 2);
        let Ok(whole) = world.partition() else {
            continue;
        };
        let longest = whole.parts.iter().map(takes).max().unwrap() / 3;
        world.options.longest_part = Some(Time::from_picoseconds(longest));
        let plan = world.partition().unwrap();
        world.check(&plan).unwrap();
        assert_eq!(plan.devices_of_nodes(nodes), whole.devices_of_nodes(nodes));
        assert_eq!(plan.certificate, whole.certificate);
        for part in &plan.parts {
            assert!(
                part.nodes.len() == 1 || takes(part) <= longest,
                "seed {seed}: {part:?}"
            );
            single += usize::from(takes(part) > longest);
        }
        cut += usize::from(plan.parts.len() > whole.parts.len());
        // the checker holds a plan to what was asked for
        if whole
            .parts
            .iter()
            .any(|part| part.nodes.len() > 1 && takes(part) > longest)
        {
            let violation = world.check(&whole).unwrap_err();
            assert_eq!(violation.kind(), ViolationKind::Limit, "{violation}");
        }
    }
    assert!(
        cut > 100 && single > 0,
        "{cut} plans were cut, {single} nodes take longer"
    );
}
