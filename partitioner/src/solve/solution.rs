//! A placement, its cost, and the bound that certifies it.

/// A placement and how good it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Device of every node.
    pub placement: Vec<usize>,
    /// Objective of the placement.
    pub objective: u64,
    /// No placement is below this.
    pub bound: u64,
}
