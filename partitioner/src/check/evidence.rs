//! What a plan is judged against.

use crate::cost::CostTable;
use crate::link::LinkTable;
use crate::plan::Plan;
use crate::target::Target;
use polychip_graph::Graph;

/// What a plan is judged against.
pub(crate) struct Evidence<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) targets: &'a [Target],
    pub(crate) costs: &'a CostTable,
    pub(crate) links: &'a LinkTable,
    pub(crate) plan: &'a Plan,
}
