//! The report of cached specializations of a session with open sizes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// The specializations that a session caches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct ShapesReport {
    /// Runs whose sizes were already planned.
    pub hits: u64,
    /// Runs whose sizes had to be planned first.
    pub misses: u64,
    /// Specializations evicted to stay below the limit.
    pub dropped: u64,
    /// Cached bytes: tensors between parts, outputs, unshared constants, plans.
    pub bytes: u64,
    /// Limit of the cache in bytes.
    pub limit_bytes: u64,
    /// Sizes to which runs are padded, by dimension (`Policy::shapes`).
    pub buckets: BTreeMap<String, Vec<usize>>,
    /// Padded runs.
    pub padded_runs: u64,
    /// Bytes copied for padding: inputs into the memory of their bucket, and the kept elements of
    /// outputs.
    pub padded_bytes: u64,
    /// Runs on a CPU-only plan while the plan over all devices was being made
    /// (`Policy::background_planning`).
    pub stand_in_runs: u64,
    /// Background plans that replaced a CPU-only plan.
    pub took_over: u64,
    /// Sizes being planned in the background, or waiting for it.
    pub planning: usize,
    /// Cached specializations, most recently used first.
    pub kept: Vec<SpecialisationReport>,
}

/// A specialization of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpecialisationReport {
    /// Sizes of the open dimensions.
    pub sizes: BTreeMap<String, usize>,
    /// Number of runs.
    pub runs: u64,
    /// Memory in bytes.
    pub bytes: u64,
    /// Time to plan, compile and load it, in nanoseconds.
    pub planning_ns: u64,
    /// How this time divides into steps.
    pub phases: PlanningPhases,
    /// The sizes that the device was asked about, if the plan and costs are derived from those of
    /// other sizes.
    pub costs_of: Option<BTreeMap<String, usize>>,
    /// Whether it is a CPU-only plan, used until the plan over all devices is ready.
    pub stand_in: bool,
}

/// Times of the steps that make a specialization, in nanoseconds. A plan that was compiled ahead has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct PlanningPhases {
    /// Binding the sizes, and inferring all shapes.
    pub bind_ns: u64,
    /// Bringing the graph into its canonical form.
    pub simplify_ns: u64,
    /// Asking the devices what they support and at what cost.
    pub ask_ns: u64,
    /// Placing the nodes, and checking the plan.
    pub place_ns: u64,
    /// Compiling the parts, and loading them.
    pub compile_ns: u64,
    /// Connecting the parts, with memory for the first run.
    pub connect_ns: u64,
}
