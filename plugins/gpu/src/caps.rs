//! What the device supports: each refusal with its reason, which `polychip explain` shows.
//!
//! Invariant: what is supported here compiles, loads and runs: each node is lowered alone by the same code, without
//! reading its weights.

use polychip_sdk::{GraphView, Support};

use crate::lower;
use crate::target::Target;

/// Whether the device runs each node of a graph.
pub(crate) fn supports(graph: &GraphView<'_>, target: &Target) -> Vec<Support> {
    lower::supports(graph, target)
}
