//! A placement, its cost, and the bound that certifies it.

/// A placement, its objective and its lower bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Device of every node.
    pub placement: Vec<usize>,
    /// Objective of the placement.
    pub objective: u64,
    /// Lower bound of every placement's objective.
    pub bound: u64,
}
