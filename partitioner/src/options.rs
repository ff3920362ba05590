//! Settings of one planning call.
//!
//! Invariants: every setting bounds a count, never a time, so the plan does not depend on the host's speed.

use std::collections::BTreeMap;

use crate::unit::Time;

/// Settings of one planning call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nodes that must run on a given device: node index to device index.
    pub pins: BTreeMap<usize, usize>,
    /// Device whose memory holds the graph inputs; with none, each device reads them in place.
    pub input_home: Option<usize>,
    /// Device whose memory must hold the graph outputs; with none, they stay where they are
    /// written.
    pub output_home: Option<usize>,
    /// Maximum table size of the exact solver, in entries; a wider graph gets a plan with a stated
    /// gap.
    pub table_limit: u64,
    /// Maximum number of moves of the search on wider graphs.
    pub moves: u32,
    /// Seed of that search.
    pub seed: u64,
    /// Maximum number of changes of the schedule search, with concurrent devices.
    pub schedule_moves: u32,
    /// Allow replicas of the model on their own devices in a plan for throughput.
    pub replicas: bool,
    /// Allow a replica to span several devices even if one device alone could run the model.
    pub split_copies: bool,
    /// Merge parts of one device afterwards if that lowers the cost.
    pub merge: bool,
    /// Longest time of a part in a serial plan, launch included. Longer parts are cut, down to
    /// single nodes, so that other runs can use the device in between. The certificate refers to
    /// the uncut plan.
    pub longest_part: Option<Time>,
}

impl Options {
    /// The defaults: no pins, no homes, and bounds that suit networks of a few thousand nodes.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pins: BTreeMap::new(),
            input_home: None,
            output_home: None,
            table_limit: 10_000_000,
            moves: 400,
            schedule_moves: 600_000,
            seed: 0,
            replicas: true,
            split_copies: true,
            merge: true,
            longest_part: None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
