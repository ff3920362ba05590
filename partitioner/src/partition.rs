//! Plans a graph: checks the inputs, places every node, forms parts and writes the plan down.
//!
//! Invariants: pure; the plan that comes out passes `check` (tests hold it to that); it keeps to
//! every limit or the call is an error.
//! Deliberately not here: each step's own work: `instance`, `solve`, `measured`, `limit`, `merge`, `assemble`, and
//! which sets of devices are planned: `fewer`, `replicas`.

use crate::error::Error;
use crate::fewer;
use crate::instance::Inputs;
use crate::objective::Goal;
use crate::placed::edges;
use crate::plan::Plan;
use crate::replicas;
use crate::request::Request;

/// Plans what is asked for.
///
/// # Errors
/// Inputs that do not fit together, a node that no device can run or has no cost for, costs too
/// large to add up, missing links, or limits that no plan found keeps to.
///
/// ```
/// use polychip_graph::{Graph, Node, Tensor};
/// use polychip_ops::{DType, Op, TensorType};
/// use polychip_partitioner::{Cost, CostTable, LinkTable, Nanos, Provenance, Request, Target};
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
/// costs.set_node(0, 0, Cost::time(Nanos::from_nanoseconds(90), Provenance::Estimated));
/// let links = LinkTable::new(1);
/// let request = Request::new(&graph, &targets, &costs, &links);
/// let plan = polychip_partitioner::partition(request).unwrap();
/// assert!(plan.certificate.is_optimal());
/// assert_eq!(plan.totals.time.nanoseconds(), 90);
/// polychip_partitioner::check(request, &plan).unwrap();
/// ```
pub fn partition(request: Request<'_>) -> Result<Plan, Error> {
    let inputs = Inputs::new(request)?;
    let edges = edges(request.graph);
    match request.objective.goal {
        Goal::Throughput => replicas::plan(&inputs, &edges),
        Goal::Serial | Goal::Makespan => fewer::plan(&inputs, &edges),
    }
}
