//! Ways to spoil a plan.
//!
//! Invariants: a mutant differs from its plan and is one that no device may see; none comes back
//! where a plan offers no place for a mutation.

use crate::world::{Random, World};
use polychip_partitioner::{DeviceIndex, Energy, Link, Plan, Provenance, Time, part_id};

/// Number of kinds of mutations.
pub(crate) const MUTATIONS: usize = 26;

/// A plan with one thing wrong.
pub(crate) fn mutate(world: &World, plan: &Plan, kind: usize, random: &mut Random) -> Option<Plan> {
    let mut plan = plan.clone();
    let parts = plan.parts.len();
    let part = random.below(parts);
    let crossing = random.below(plan.crossings.len());
    let one = Time::from_picoseconds(1);
    match kind {
        // a node moves to another part, whose id is made to fit
        0 => {
            let to = (0..parts).find(|&to| to != part)?;
            let at = random.below(plan.parts[part].nodes.len());
            let node = plan.parts[part].nodes.remove(at);
            if plan.parts[part].nodes.is_empty() {
                return None;
            }
            plan.parts[to].nodes.push(node);
            plan.parts[to].nodes.sort_unstable();
            rename(world, &mut plan);
        }
        1 => {
            plan.crossings.get(crossing)?;
            plan.crossings.remove(crossing);
        }
        2 => plan.totals.time = plan.totals.time.checked_add(one)?,
        3 => plan.totals.compute = plan.totals.compute.checked_add(one)?,
        4 => plan.totals.transfer = plan.totals.transfer.checked_add(one)?,
        5 => {
            let more = Energy::from_nanojoules(1);
            plan.totals.energy = Some(plan.totals.energy?.checked_add(more)?);
        }
        // a node is in two parts
        6 => {
            let to = (0..parts).find(|&to| to != part)?;
            let node = plan.parts[part].nodes[0];
            plan.parts[to].nodes.push(node);
            plan.parts[to].nodes.sort_unstable();
            rename(world, &mut plan);
        }
        // a node in no part
        7 => {
            let nodes = &mut plan.parts[part].nodes;
            nodes.remove(random.below(nodes.len()));
            if nodes.is_empty() {
                return None;
            }
            rename(world, &mut plan);
        }
        // a part on another device
        8 => {
            let other = DeviceIndex::new((plan.parts[part].device.index() + 1) % plan.devices.len());
            plan.parts[part].device = other;
            rename(world, &mut plan);
        }
        // a part on a device that refuses one of its nodes
        9 => {
            let (part, device) = (0..parts).find_map(|part| {
                let refuses = |device: &usize| {
                    plan.parts[part]
                        .nodes
                        .iter()
                        .any(|&node| !world.targets[*device].supports(node as usize))
                };
                Some((part, (0..plan.devices.len()).find(refuses)?))
            })?;
            plan.parts[part].device = DeviceIndex::new(device);
            rename(world, &mut plan);
        }
        // a path leaves a part and returns: two nodes with one of another part between them are joined
        10 => {
            let part_of = part_of(world, &plan);
            let (a, b) = world.graph.nodes().find_map(|(id, node)| {
                let between = node.reads().filter_map(|tensor| world.graph.producer(tensor));
                let mut between = between.filter(|from| part_of[from.index()] != part_of[id.index()]);
                let before = between.find_map(|middle| {
                    let reads = world.graph.node(middle).reads();
                    let mut first = reads.filter_map(|tensor| world.graph.producer(tensor));
                    first.find(|first| {
                        part_of[first.index()] != part_of[middle.index()]
                            && part_of[first.index()] != part_of[id.index()]
                    })
                })?;
                Some((part_of[before.index()], part_of[id.index()]))
            })?;
            let moved = std::mem::take(&mut plan.parts[b].nodes);
            plan.parts[a].nodes.extend(moved);
            plan.parts[a].nodes.sort_unstable();
            plan.parts[a].device = plan.parts[b].device;
            plan.parts.remove(b);
            rename(world, &mut plan);
        }
        // a part before one that it needs
        11 => {
            let late = (0..parts).find(|&part| !plan.parts[part].after.is_empty())?;
            let early = plan.parts[late].after[0].index();
            plan.parts.swap(early, late);
        }
        12 => plan.version += 1,
        13 => plan.model = format!("{:0>64}", plan.model.len()),
        14 => plan.devices[0].push('x'),
        15 => {
            let id = world.graph.tensor_count() as u32 - 1;
            let inputs = &mut plan.parts[part].inputs;
            if inputs.contains(&id) {
                return None;
            }
            inputs.push(id);
        }
        16 => {
            plan.parts[part].outputs.pop()?;
        }
        17 => plan.parts[part].cost.time = plan.parts[part].cost.time.checked_add(one)?,
        18 => {
            let other = if plan.parts[part].cost.provenance == Provenance::Measured {
                Provenance::Roofline
            } else {
                Provenance::Measured
            };
            plan.parts[part].cost.provenance = other;
        }
        19 => {
            let crossing = plan.crossings.get_mut(crossing)?;
            crossing.bytes = crossing.bytes.map(|bytes| bytes + 1);
        }
        20 => {
            let crossing = plan.crossings.get_mut(crossing)?;
            let faster = Link::native(Time::ZERO).time(0)?;
            if crossing.time == faster {
                return None;
            }
            crossing.time = faster;
        }
        21 => plan.memory_bytes[0] += 1,
        22 => plan.certificate.objective += 1,
        23 => plan.certificate.bound = plan.certificate.objective + 1,
        // a part is split, so that one launch is missing from every figure
        24 => {
            let nodes = &plan.parts[part].nodes;
            if nodes.len() < 2 {
                return None;
            }
            let mut second = plan.parts[part].clone();
            second.nodes = nodes[nodes.len() / 2..].to_vec();
            let half = nodes.len() / 2;
            plan.parts[part].nodes.truncate(half);
            plan.parts.insert(part + 1, second);
            rename(world, &mut plan);
        }
        // emulated figures pass as real ones
        25 => {
            let part = (0..parts).find(|&part| plan.parts[part].cost.emulated)?;
            plan.parts[part].cost.emulated = false;
        }
        _ => return None,
    }
    Some(plan)
}

/// Gives every part the id that its device and nodes have.
fn rename(world: &World, plan: &mut Plan) {
    for part in &mut plan.parts {
        part.id = part_id(&world.graph, &plan.devices[part.device.index()], &part.nodes);
    }
}

fn part_of(world: &World, plan: &Plan) -> Vec<usize> {
    let mut part_of = vec![0; world.graph.node_count()];
    for (index, part) in plan.parts.iter().enumerate() {
        for &node in &part.nodes {
            part_of[node as usize] = index;
        }
    }
    part_of
}
