//! Checks whether planning with the recorded costs of a plan still gives the same plan.
//!
//! A lock file records each device's offer for each node, and the [`Pricing`](crate::Pricing) that
//! the plan was priced on. The check plans the current model on the current devices with the
//! figures of the lock. Only changes of the model, of device support or of the request can
//! therefore move a node; newly measured rates cannot.
//!
//! Invariants:
//! 1. The same lock, model, support and policy give the same plan, whatever the costs are today.
//! 2. Figures that the lock does not hold (for a new node, or a device that newly supports a node)
//!    are current ones.
//!
//! Deliberately not here: the differences (`diff`), the plan's own figures with today's costs
//! (`restate`).

use crate::cost::CostTable;
use crate::diff::pairs;
use crate::error::Error;
use crate::link::LinkTable;
use crate::partition::partition;
use crate::plan::Plan;
use crate::power::Power;
use crate::pricing::LinkPricing;
use crate::record::{Offer, record};
use crate::request::Request;
use crate::target::Target;
use std::collections::BTreeMap;

/// The figures of a lock in the place of today's.
struct Figures {
    targets: Vec<Target>,
    costs: CostTable,
    links: LinkTable,
}

/// Plans a request with the costs of a lock. Support, memory, thermal models, objective and options
/// are the request's; `now` is the current plan for it; its node records serve to match nodes with
/// those of the lock.
///
/// # Errors
/// As for [`partition`].
pub fn replan_locked(request: Request<'_>, lock: &Plan, now: &Plan) -> Result<Plan, Error> {
    let figures = with_costs_of(request, lock, now);
    let request = Request {
        targets: &figures.targets,
        costs: &figures.costs,
        links: &figures.links,
        ..request
    };
    Ok(Plan {
        nodes: record(request),
        ..partition(request)?
    })
}

fn with_costs_of(request: Request<'_>, lock: &Plan, now: &Plan) -> Figures {
    let Request {
        targets,
        costs,
        links,
        ..
    } = request;
    // the lock's devices among today's, and its nodes
    let device = |index: usize| {
        let name = lock.devices.get(index)?;
        targets.iter().position(|target| target.name == *name)
    };
    // a node whose shapes or attributes changed costs something else, and so does a part that holds it
    let same = |was: usize, is: usize| {
        let (before, after) = (lock.nodes.get(was), now.nodes.get(is));
        before
            .zip(after)
            .is_some_and(|(before, after)| before.key == after.key)
    };
    let nodes: BTreeMap<usize, usize> = pairs(lock, now)
        .into_iter()
        .filter(|&(was, is)| same(was, is))
        .collect();
    let mut found = Figures {
        targets: targets.to_vec(),
        costs: CostTable::new(costs.nodes(), costs.devices()),
        links: links.clone(),
    };
    for node in 0..costs.nodes() {
        for device in 0..costs.devices() {
            if let Some(cost) = costs.node(node, device) {
                found.costs.set_node(node, device, *cost);
            }
        }
    }
    for (&was, &is) in &nodes {
        for (index, offer) in lock.nodes[was].offers.iter().enumerate() {
            if let (Some(device), Offer::Cost(cost)) = (device(index), offer) {
                found.costs.set_node(is, device, *cost);
            }
        }
    }
    let Some(terms) = &lock.terms else {
        // a lock of an older version: whole parts, launches and links are today's
        for (device, nodes, cost) in costs.parts() {
            found.costs.set_part(nodes, device, *cost);
        }
        return found;
    };
    for (index, stated) in terms.devices.iter().enumerate() {
        if let Some(device) = device(index) {
            let target = &mut found.targets[device];
            target.launch = stated.launch;
            target.launch_energy = stated.launch_energy;
            // locks of older versions state the power alone
            target.power = stated.power_model.or(stated.power.map(Power::from));
            target.idle = stated.idle;
            target.resource = stated.resource;
        }
    }
    for LinkPricing { from, to, link } in &terms.links {
        if let (Some(from), Some(to)) = (device(from.index()), device(to.index()))
            // how tensors get there is not what it costs
            && links.get(from, to).is_some_and(|today| today.mode == link.mode)
        {
            found.links.set(from, to, *link);
        }
    }
    for part in &terms.parts {
        let kept: Option<Vec<usize>> = part
            .nodes
            .iter()
            .map(|node| nodes.get(&(*node as usize)).copied())
            .collect();
        if let (Some(nodes), Some(device)) = (kept, device(part.device.index())) {
            found.costs.set_part(&nodes, device, part.cost);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::link::Link;
    use crate::pricing::Pricing;
    use crate::unit::Time;
    use crate::{DeviceIndex, Provenance, Refusal, diff};
    use polychip_graph::{Graph, Node, Tensor, TensorId};
    use polychip_ops::{DType, Op, TensorType};

    fn chain(ops: &[Op]) -> Graph {
        let mut graph = Graph::new("chain");
        let add = |graph: &mut Graph, name: &str| {
            graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[2])))
        };
        let mut last = add(&mut graph, "x");
        graph.inputs.push(last);
        for (at, op) in ops.iter().enumerate() {
            let next = add(&mut graph, &format!("t{at}"));
            let mut node = Node::new(*op, vec![Some(last)], vec![Some(next)]);
            node.name = format!("n{at}");
            graph.add_node(node);
            last = next;
        }
        graph.outputs.push(last);
        graph
    }

    /// Two devices, the second `slower` times as slow, with what a launch and a transfer take.
    fn world(nodes: usize, slower: u64, launch: u64) -> Figures {
        let mut costs = CostTable::new(nodes, 2);
        for node in 0..nodes {
            for (device, ns) in [(0, 1_000), (1, 1_000 * slower)] {
                let time = Time::from_nanoseconds(ns);
                costs.set_node(node, device, Cost::time(time, Provenance::Estimated));
            }
        }
        let mut links = LinkTable::new(2);
        for (from, to) in [(0, 1), (1, 0)] {
            links.set(from, to, Link::native(Time::from_nanoseconds(launch)));
        }
        let target = |name: &str| Target::new(name, nodes).launch(Time::from_nanoseconds(launch));
        Figures {
            targets: vec![target("a:0"), target("b:0")],
            costs,
            links,
        }
    }

    fn request<'a>(graph: &'a Graph, world: &'a Figures) -> Request<'a> {
        Request::new(graph, &world.targets, &world.costs, &world.links)
    }

    fn planned(graph: &Graph, world: &Figures) -> Plan {
        let request = request(graph, world);
        Plan {
            nodes: record(request),
            terms: Some(Pricing::of(request)),
            ..partition(request).unwrap()
        }
    }

    fn held(graph: &Graph, world: &Figures, lock: &Plan) -> Plan {
        replan_locked(request(graph, world), lock, &planned(graph, world)).unwrap()
    }

    #[test]
    fn changed_rates_move_nothing() {
        let graph = chain(&[Op::Neg, Op::Relu, Op::Abs]);
        let lock = planned(&graph, &world(3, 3, 10));
        assert_eq!(lock.devices_of_nodes(3), [Some(DeviceIndex::new(0)); 3]);
        let mut today = world(3, 1, 5);
        for node in 0..3 {
            let cost = Cost::time(Time::from_nanoseconds(900_000), Provenance::Measured);
            today.costs.set_node(node, 0, cost);
        }
        let cost = Cost::time(Time::from_nanoseconds(1), Provenance::Measured);
        today.costs.set_part(&[0, 1, 2], 1, cost);
        assert_eq!(
            planned(&graph, &today).devices_of_nodes(3),
            [Some(DeviceIndex::new(1)); 3]
        );
        let again = held(&graph, &today, &lock);
        assert!(diff(&lock, &again).moved.is_empty());
        assert_eq!((again.totals, again.certificate), (lock.totals, lock.certificate));
    }

    #[test]
    fn whole_part_cost_comes_from_the_lock() {
        let graph = chain(&[Op::Neg, Op::Relu]);
        let mut then = world(2, 3, 10);
        let cost = Cost::time(Time::from_nanoseconds(1), Provenance::Measured);
        then.costs.set_part(&[0, 1], 1, cost);
        // no device is the cheaper by its nodes, so that the part decides
        for node in 0..2 {
            let cost = *then.costs.node(node, 0).unwrap();
            then.costs.set_node(node, 1, cost);
        }
        let lock = planned(&graph, &then);
        let again = held(&graph, &world(2, 3, 10), &lock);
        assert_eq!(again.devices_of_nodes(2), lock.devices_of_nodes(2));
        assert_eq!(again.totals, lock.totals);
    }

    #[test]
    fn changed_part_cost_is_not_from_the_lock() {
        let mut graph = chain(&[Op::Neg, Op::Relu]);
        let mut then = world(2, 3, 10);
        let cost = Cost::time(Time::from_nanoseconds(1), Provenance::Measured);
        then.costs.set_part(&[0, 1], 1, cost);
        let lock = planned(&graph, &then);
        assert_eq!(lock.devices_of_nodes(2), [Some(DeviceIndex::new(1)); 2]);
        // a batch of 64
        for tensor in 0..graph.tensor_count() {
            graph.tensor_mut(TensorId::new(tensor)).ty = TensorType::known(DType::F32, &[128]);
        }
        let again = held(&graph, &world(2, 3, 10), &lock);
        assert_eq!(again.devices_of_nodes(2), [Some(DeviceIndex::new(0)); 2]);
    }

    #[test]
    fn lost_support_and_another_model_are_differences() {
        let graph = chain(&[Op::Neg, Op::Relu, Op::Abs]);
        let lock = planned(&graph, &world(3, 3, 10));
        let mut refusing = world(3, 3, 10);
        let refusal = Refusal {
            code: 13,
            words: "no".into(),
        };
        refusing.targets[0] = refusing.targets[0].clone().refuse(2, refusal);
        let moved = diff(&lock, &held(&graph, &refusing, &lock)).moved;
        assert_eq!((moved.len(), moved[0].name.as_str()), (1, "n2"));
        let longer = chain(&[Op::Neg, Op::Relu, Op::Abs, Op::Exp]);
        let found = diff(&lock, &held(&longer, &world(4, 3, 10), &lock));
        assert_eq!((found.added.len(), found.removed.len()), (1, 0));
    }

    #[test]
    fn lock_without_terms_keeps_node_costs() {
        let graph = chain(&[Op::Neg, Op::Relu, Op::Abs]);
        let lock = Plan {
            terms: None,
            ..planned(&graph, &world(3, 3, 10))
        };
        let mut today = world(3, 3, 10);
        for node in 0..3 {
            let cost = Cost::time(Time::from_nanoseconds(900_000), Provenance::Measured);
            today.costs.set_node(node, 0, cost);
        }
        assert!(diff(&lock, &held(&graph, &today, &lock)).moved.is_empty());
    }
}
