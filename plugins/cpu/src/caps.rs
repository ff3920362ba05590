//! What the CPU runs: everything that lowers, to a fast kernel or to the reference evaluator.
//!
//! Invariant: a yes is exact, because the graph was lowered for it.

use polychip_cpu_kernels::Isa;
use polychip_lowering::{Part, Refusal};
use polychip_sdk::Support;

use crate::estimate::dry_run;
use crate::part::Programs;

/// The answer for each node of a graph.
pub(crate) fn support(part: &Part, programs: &Programs, isa: Isa) -> Vec<Support> {
    let refused = dry_run(part, programs, isa).refused.into_iter();
    refused
        .map(|refused| refused.map_or(Support::Yes, Refusal::support))
        .collect()
}
