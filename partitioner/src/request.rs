//! All that one planning call reads.
//!
//! Invariants: a request borrows, so that one is as cheap to copy and change as an argument is to pass.
//! Deliberately not here: whether its parts fit together (`instance`, and `check` in its own way).

use crate::cost::CostTable;
use crate::link::LinkTable;
use crate::objective::Objective;
use crate::options::Options;
use crate::target::Target;
use polychip_graph::Graph;

/// A graph, the devices for it, and what is asked of a plan. What judges, prices or explains a plan goes by the plan's
/// own objective.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The graph, sorted and with bound sizes.
    pub graph: &'a Graph,
    /// The devices.
    pub targets: &'a [Target],
    /// What nodes and parts cost on each.
    pub costs: &'a CostTable,
    /// What moving tensors between them costs.
    pub links: &'a LinkTable,
    /// What a plan minimises, and within which limits.
    pub objective: Objective,
    /// Pins, homes and how far the search may go.
    pub options: &'a Options,
}

impl<'a> Request<'a> {
    /// Least time under the default settings.
    #[must_use]
    pub fn new(graph: &'a Graph, targets: &'a [Target], costs: &'a CostTable, links: &'a LinkTable) -> Self {
        static DEFAULT: Options = Options::new();
        Self {
            graph,
            targets,
            costs,
            links,
            objective: Objective::latency(),
            options: &DEFAULT,
        }
    }

    /// The same request for another objective.
    #[must_use]
    pub fn toward(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// The same request with other settings.
    #[must_use]
    pub fn with(self, options: &'a Options) -> Self {
        Self { options, ..self }
    }
}
