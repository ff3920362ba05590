//! Plans a graph: checks the inputs, places every node, forms parts and assembles the plan.
//!
//! Invariants: pure; the resulting plan passes `check` (tests verify it); it holds every limit or
//! the call is an error. Deliberately not here: the steps themselves: `instance`, `solve`,
//! `measured`, `limit`, `merge`, `assemble`, and the planned sets of devices: `fewer`, `replicas`.

use crate::error::Error;
use crate::fewer;
use crate::index::DeviceIndex;
use crate::instance::{Inputs, Weights};
use crate::limit;
use crate::measured::value_of;
use crate::objective::Goal;
use crate::placed::edges;
use crate::plan::Plan;
use crate::replicas;
use crate::request::Request;
use crate::solve::Solution;

/// Plans a request.
///
/// # Errors
/// Inputs that do not fit together, a node that no device can run or has no cost for, costs that
/// overflow, missing links, or limits that no plan found holds.
///
/// ```
/// use polychip_graph::{Graph, Node, Tensor};
/// use polychip_ops::{DType, Op, TensorType};
/// use polychip_partitioner::{Cost, CostTable, LinkTable, Time, Provenance, Request, Target};
///
/// let mut graph = Graph::new("negate");
/// let x = graph.add_tensor(Tensor::new("x", TensorType::known(DType::F32, &[2])));
/// let y = graph.add_tensor(Tensor::new("y", TensorType::known(DType::F32, &[2])));
/// graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(y)]));
/// graph.inputs.push(x);
/// graph.outputs.push(y);
///
/// let targets = [Target::new("cpu:0", 1)];
/// let mut costs = CostTable::new(1, 1);
/// costs.set_node(0, 0, Cost::time(Time::from_nanoseconds(90), Provenance::Estimated));
/// let links = LinkTable::new(1);
/// let request = Request::new(&graph, &targets, &costs, &links);
/// let plan = polychip_partitioner::partition(request).unwrap();
/// assert!(plan.certificate.is_optimal());
/// assert_eq!(plan.totals.time.nanoseconds(), 90);
/// polychip_partitioner::check(request, &plan).unwrap();
/// ```
pub fn partition(request: Request<'_>) -> Result<Plan, Error> {
    let mut inputs = Inputs::new(request)?;
    let edges = edges(request.graph);
    match request.objective.goal {
        Goal::Throughput => return replicas::plan(&inputs, &edges),
        Goal::Serial if request.objective.slowest_permille.is_some() => {}
        Goal::Serial | Goal::Makespan => return fewer::plan(&inputs, &edges),
    }
    // the fastest first: what energy may cost is counted from there
    let fastest = fewer::plan(&inputs.under(request.objective.for_time_alone()), &edges)?;
    inputs.fastest = Some(fastest.time());
    let plan = fewer::plan(&inputs, &edges)?;
    if inputs.slowest().is_some_and(|slowest| plan.time() > slowest) {
        // nothing between was found
        stated_as(&inputs, &edges, &fastest)
    } else {
        Ok(plan)
    }
}

/// The placement of a plan as the objective of other inputs sees it. Nothing bounds the others that there are.
fn stated_as(inputs: &Inputs<'_>, edges: &[(usize, usize)], plan: &Plan) -> Result<Plan, Error> {
    let devices = plan.devices_of_nodes(inputs.graph.node_count());
    let placement: Vec<usize> = devices.into_iter().flatten().map(DeviceIndex::index).collect();
    let best = limit::placed(inputs, edges)?;
    let problem = inputs.problem(Weights::of(inputs.objective))?;
    let objective = value_of(inputs, &problem, &placement);
    let solution = Solution {
        bound: best.solution.bound.min(objective),
        placement,
        objective,
    };
    limit::stated(inputs, edges, &solution, best.free)
}
