//! The inputs of one planning call.
//!
//! Invariants: a request borrows, so it is cheap to copy and change. Deliberately not here: whether
//! its parts fit together (`instance`, and `check` in its own way).

use crate::cost::CostTable;
use crate::link::LinkTable;
use crate::objective::Objective;
use crate::options::Options;
use crate::target::Target;
use polychip_graph::Graph;

/// A graph, its devices, and the requirements of a plan. Functions that check, price or explain an
/// existing plan use the plan's own objective instead of this one.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The graph, sorted and with bound sizes.
    pub graph: &'a Graph,
    /// The devices.
    pub targets: &'a [Target],
    /// Costs of nodes and parts on each device.
    pub costs: &'a CostTable,
    /// Costs of transfers between devices.
    pub links: &'a LinkTable,
    /// The objective and its limits.
    pub objective: Objective,
    /// Pins, homes and search limits.
    pub options: &'a Options,
    /// The graph's [`model_fingerprint`](crate::model_fingerprint), if the caller has it; otherwise
    /// it is computed.
    pub model: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// A request for least time under the default options.
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
            model: None,
        }
    }

    /// Sets the objective.
    #[must_use]
    pub fn toward(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// States the graph's fingerprint, which takes longer to compute than most plans.
    #[must_use]
    pub fn of_model(self, model: &'a str) -> Self {
        Self {
            model: Some(model),
            ..self
        }
    }

    /// The graph's fingerprint.
    pub(crate) fn fingerprint(&self) -> String {
        let computed = || crate::fingerprint::model_fingerprint(self.graph);
        debug_assert!(
            self.model.is_none_or(|model| model == computed()),
            "invariant: the stated fingerprint is the graph's"
        );
        self.model.map_or_else(computed, str::to_owned)
    }

    /// Sets the options.
    #[must_use]
    pub fn with(self, options: &'a Options) -> Self {
        Self { options, ..self }
    }
}
