//! What a session with open sizes says of what it keeps.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// What a session with open sizes keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct ShapesReport {
    /// Runs whose sizes had been planned for.
    pub hits: u64,
    /// Runs whose sizes were planned for first.
    pub misses: u64,
    /// Specialisations that were let go of to stay below the limit.
    pub dropped: u64,
    /// What is kept, in bytes: tensors between parts, outputs, constants that are not shared, plans.
    pub bytes: u64,
    /// The most that is kept, in bytes.
    pub limit_bytes: u64,
    /// Sizes that runs are padded to, by dimension (`Policy::shapes`).
    pub buckets: BTreeMap<String, Vec<usize>>,
    /// Runs that were padded.
    pub padded_runs: u64,
    /// What was copied for that, in bytes: inputs into the memory of their bucket, kept elements out of outputs.
    pub padded_bytes: u64,
    /// Runs answered by a plan for the CPU alone, because that over all devices was not made yet
    /// (`Policy::background_planning`).
    pub stand_in_runs: u64,
    /// Plans made in the background that took over.
    pub took_over: u64,
    /// Sizes that are planned for in the background now, or wait for it.
    pub planning: usize,
    /// What is kept, used last first.
    pub kept: Vec<SpecialisationReport>,
}

/// A specialisation of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpecialisationReport {
    /// Sizes of the open dimensions.
    pub sizes: BTreeMap<String, usize>,
    /// Runs.
    pub runs: u64,
    /// What it takes, in bytes.
    pub bytes: u64,
    /// Time to plan, compile and load it, in nanoseconds.
    pub planning_ns: u64,
    /// It is a plan for the CPU alone, in place of one over all devices.
    pub stand_in: bool,
}
