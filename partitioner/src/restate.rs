//! Prices an existing placement with current costs.
//!
//! Invariants: every node stays on its device; figures, merged parts and certificate use the given
//! costs, so the result passes `check` against them, and the gap states what replanning would gain.
//! Deliberately not here: whether the placement is allowed (`check_placement`).

use crate::error::Error;
use crate::index::DeviceIndex;
use crate::instance::{Inputs, Weights};
use crate::limit;
use crate::makespan;
use crate::measured::value_of;
use crate::objective::Goal;
use crate::part::Part;
use crate::placed::edges;
use crate::plan::{Certificate, Plan};
use crate::request::Request;
use crate::solve::Solution;
use polychip_graph::Graph;

/// The plan with current figures. Its placement must have passed `check_placement` for these
/// inputs.
///
/// # Errors
/// As for [`partition`](crate::partition()); also if a node is in no part, or its cost there is
/// unknown.
pub fn restate(request: Request<'_>, plan: &Plan) -> Result<Plan, Error> {
    let inputs = Inputs::new(request.toward(plan.objective))?;
    let graph = request.graph;
    let placement = placement_of(graph, plan)?;
    let edges = edges(graph);
    if plan.objective.goal != Goal::Serial {
        let part = |part: &Part| part.nodes.iter().map(|&node| node as usize).collect();
        let mut restated = makespan::restated(&inputs, plan.parts.iter().map(part).collect(), &placement)?;
        if !plan.replicas.is_empty() {
            let bound = restated.certificate.bound;
            let copies = plan.replicas.iter().map(|copy| {
                let parts = copy.parts.iter().map(part).collect();
                makespan::written(&inputs, parts, &placement_of(graph, copy)?, bound)
            });
            restated.replicas = copies.collect::<Result<_, _>>()?;
            let objective = restated.interval().picoseconds();
            restated.certificate = Certificate {
                objective,
                bound: restated.certificate.bound.min(objective),
            };
        }
        return Ok(restated);
    }
    // a placement that is given is not bounded by the fastest one of today
    let best = limit::placed(&inputs, &edges)?;
    let problem = inputs.problem(Weights::of(inputs.objective))?;
    let objective = value_of(&inputs, &problem, &placement);
    let solution = Solution {
        bound: best.solution.bound.min(objective),
        placement,
        objective,
    };
    limit::stated(&inputs, &edges, &solution, best.free)
}

/// The device of each node.
fn placement_of(graph: &Graph, plan: &Plan) -> Result<Vec<usize>, Error> {
    let devices = plan.devices_of_nodes(graph.node_count());
    let devices = devices.iter().enumerate().map(|(node, device)| {
        device
            .map(DeviceIndex::index)
            .ok_or_else(|| Error::bad_input(format!("the plan has no place for node {node}")))
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cost, CostTable, LinkTable, Provenance, Target, Time, check, check_placement, partition};
    use polychip_graph::{Node, Tensor};
    use polychip_ops::{DType, Op, TensorType};

    fn chain() -> Graph {
        let mut graph = Graph::new("chain");
        let mut add = |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[2])));
        let (x, y, z) = (add("x"), add("y"), add("z"));
        graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(y)]));
        graph.add_node(Node::new(Op::Relu, vec![Some(y)], vec![Some(z)]));
        graph.inputs.push(x);
        graph.outputs.push(z);
        graph
    }

    fn costs(first: u64) -> CostTable {
        let mut costs = CostTable::new(2, 2);
        for (node, device, ns) in [(0, 0, first), (1, 0, 50), (0, 1, 100), (1, 1, 100)] {
            costs.set_node(
                node,
                device,
                Cost::time(Time::from_nanoseconds(ns), Provenance::Estimated),
            );
        }
        costs
    }

    #[test]
    fn restated_plan_shows_its_gap() {
        let graph = chain();
        let targets = [Target::new("a:0", 2), Target::new("b:0", 2)];
        let mut links = LinkTable::new(2);
        for (from, to) in [(0, 1), (1, 0)] {
            links.set(from, to, crate::Link::native(Time::from_nanoseconds(10)));
        }
        let (yesterday, today) = (costs(10), costs(500));
        let then = Request::new(&graph, &targets, &yesterday, &links);
        let now = Request::new(&graph, &targets, &today, &links);
        let old = partition(then).unwrap();
        assert!(old.certificate.is_optimal());
        assert!(check(now, &old).is_err());
        check_placement(now, &old).unwrap();
        let new = restate(now, &old).unwrap();
        check(now, &new).unwrap();
        assert_eq!(new.devices_of_nodes(2), old.devices_of_nodes(2));
        assert_eq!(new.totals.time, Time::from_nanoseconds(550));
        assert!(!new.certificate.is_optimal());
        assert_eq!(restate(then, &old).unwrap(), old);
    }
}
