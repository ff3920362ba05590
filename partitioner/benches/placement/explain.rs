//! Reasons and counterfactuals over the corpus: how many nodes off their cheapest device have both, and what of a
//! sample stays true when the node is pinned there and everything is planned anew.
//!
//! Invariant: the sample is spread evenly over all such nodes of the corpus, the same on every host.

use std::time::Instant;

use polychip_partitioner::{Counterfactual, Options, Reason, explain, partition};
use serde::Serialize;

use crate::corpus::Corpus;
use crate::world::World;

/// So many nodes are planned anew.
const SAMPLE: usize = 500;

/// What was found over the corpus.
#[derive(Default, Serialize)]
pub(crate) struct Found {
    instances: usize,
    nodes: usize,
    /// Nodes that another device would run for less by themselves, whether or not it takes them.
    off: usize,
    refused: usize,
    /// Those with a reason and a counterfactual.
    explained: usize,
    /// Those planned anew, and how many of these came to the stated figure; where the others stay where they are, to
    /// that at most.
    sampled: usize,
    equal: usize,
    bounded: usize,
    /// The longest explanation, in microseconds per node.
    slowest_us_per_node: f64,
}

impl Found {
    /// What breaks the promise, if anything does.
    pub(crate) fn failure(&self) -> Option<String> {
        let kept =
            self.explained == self.off && self.equal + self.bounded == self.sampled && self.sampled >= SAMPLE;
        (!kept).then(|| {
            format!(
                "explain: {} of {} nodes off their cheapest device explained, {} of {} confirmed",
                self.explained,
                self.off,
                self.equal + self.bounded,
                self.sampled
            )
        })
    }
}

/// One node off its cheapest device.
struct Off {
    node: usize,
    device: usize,
    counterfactual: Option<Counterfactual>,
}

/// Explains every instance of the first seed and prints what came of it.
pub(crate) fn found(corpus: &Corpus) -> Found {
    let mut found = Found::default();
    let mut worlds = Vec::new();
    let (tables, seed) = (corpus.tables(), corpus.seeds[0]);
    for structure in corpus.graphs() {
        for table in &tables {
            for &permille in &corpus.transfer_scales_permille {
                let world = World::new(&structure, table, permille, seed);
                let (objective, off) = off(&world, &mut found);
                found.off += off.len();
                found.explained += off.iter().filter(|node| node.counterfactual.is_some()).count();
                worlds.push((world, objective, off));
            }
        }
    }
    // one of every so many nodes, so that every graph has its share
    let every = (found.off / SAMPLE).max(1);
    let mut count = 0;
    for (world, objective, off) in &mut worlds {
        for node in off {
            count += 1;
            if count % every == 0 {
                hold(world, *objective, node, &mut found);
            }
        }
    }
    println!(
        "{} instances, {} nodes; {} off their cheapest device ({} of these refused there), {} with reason and \
         counterfactual.\n{} of these pinned there and planned anew: {} as stated, {} at most that (too wide to plan \
         the others anew). Longest explanation: {:.1} µs per node.",
        found.instances,
        found.nodes,
        found.off,
        found.refused,
        found.explained,
        found.sampled,
        found.equal,
        found.bounded,
        found.slowest_us_per_node
    );
    found
}

/// The nodes of a plan that are off their cheapest device, and the plan's objective.
fn off(world: &World, found: &mut Found) -> (u64, Vec<Off>) {
    let plan = world.plan();
    let start = Instant::now();
    let (targets, costs) = (&world.targets, &world.costs);
    let explanation = explain(world.request(), &plan).expect("the plan is right");
    let micros = start.elapsed().as_secs_f64() * 1e6 / explanation.nodes.len() as f64;
    found.slowest_us_per_node = found.slowest_us_per_node.max(micros);
    found.instances += 1;
    found.nodes += explanation.nodes.len();
    let mut off = Vec::new();
    for node in explanation.nodes {
        let index = node.node as usize;
        let place = |name: &str| {
            let found = targets.iter().position(|target| target.name == name);
            found.expect("devices are targets")
        };
        let here = place(&node.device);
        let time = |device: usize| costs.node(index, device).map(|cost| cost.time);
        let cheapest = (0..targets.len())
            .filter(|&device| time(device).is_some())
            .min_by_key(|&device| (time(device), device != here))
            .expect("every node has a cost");
        if cheapest == here {
            continue;
        }
        let other = node
            .alternatives
            .into_iter()
            .find(|other| place(&other.device) == cheapest);
        let other = other.expect("every other device has a reason");
        found.refused += usize::from(matches!(other.reason, Reason::Unsupported { .. }));
        off.push(Off {
            node: index,
            device: cheapest,
            counterfactual: other.counterfactual,
        });
    }
    (plan.certificate.objective, off)
}

/// Plans anew with a node pinned to a device that need not take it.
fn hold(world: &mut World, objective: u64, off: &Off, found: &mut Found) {
    let Some(stated) = &off.counterfactual else {
        return;
    };
    let refusal = world.targets[off.device].refusals[off.node].take();
    let mut options = Options::default();
    options.pins.insert(off.node, off.device);
    let forced = partition(world.request().with(&options)).expect("links lead everywhere");
    world.targets[off.device].refusals[off.node] = refusal;
    let said = i128::from(objective) + i128::from(stated.by);
    let certificate = forced.certificate;
    found.sampled += 1;
    if stated.replanned {
        found.equal += usize::from(certificate.is_optimal() && said == i128::from(certificate.objective));
    } else {
        found.bounded += usize::from(i128::from(certificate.bound) <= said);
    }
}
