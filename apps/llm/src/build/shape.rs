//! Sizes of a graph, by which sessions of one model differ.

/// Rows whose logits a graph outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logits {
    /// The row that the port `last` names.
    Last,
    /// Every row.
    All,
}

/// Sizes of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of tokens in a chunk.
    pub rows: usize,
    /// Capacity of the KV cache in positions.
    pub capacity: usize,
    /// Rows whose logits are output.
    pub logits: Logits,
}
