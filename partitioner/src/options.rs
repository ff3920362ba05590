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
    /// Device whose memory holds the graph inputs; none: each device reads them where they are.
    pub input_home: Option<usize>,
    /// Device whose memory must hold the graph outputs; none: they stay where they are written.
    pub output_home: Option<usize>,
    /// Largest table the exact solver may build, in entries; a wider graph gets a plan with a stated gap.
    pub table_limit: u64,
    /// Number of moves the search on wider graphs may try.
    pub moves: u32,
    /// Seed of that search.
    pub seed: u64,
    /// Number of changes that the search for schedules may try, where devices work at once.
    pub schedule_moves: u32,
    /// Let a plan for many runs hold whole copies of the model on devices of their own.
    pub replicas: bool,
    /// Let a copy of a plan for many runs span several devices even where one device alone could run the model.
    pub split_copies: bool,
    /// Merge parts of one device afterwards where that lowers the cost.
    pub merge: bool,
    /// Cut parts that take longer, with their launch, where devices do not work at once: others get their turns in
    /// between. A single node is a part at least. The certificate is about the plan before that.
    pub longest_part: Option<Time>,
}

impl Options {
    /// No pins, no homes, and bounds that suit networks of a few thousand nodes.
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
