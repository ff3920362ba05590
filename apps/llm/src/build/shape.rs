//! Sizes of a graph, by which sessions of one model differ.

/// What a graph outputs of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Logits {
    /// The logits of the row that the port `last` names.
    Last,
    /// The logits of every row.
    All,
    /// The hidden state of every row, behind the last norm, in the port `hidden` instead of `logits`.
    Hidden,
}

/// Sizes of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of tokens in a chunk.
    pub rows: usize,
    /// Capacity of the KV cache in positions.
    pub capacity: usize,
    /// What is output of the rows.
    pub logits: Logits,
}
