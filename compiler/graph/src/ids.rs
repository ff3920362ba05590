//! Dense ids of the nodes and tensors of one graph.
//!
//! Invariant: an id is valid for the graph that made it, until that graph is sorted.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id with this index.
            ///
            /// # Panics
            /// If the index does not fit 32 bits: a graph of four thousand million items.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("invariant: a graph has fewer than 2^32 items"))
            }

            /// Position in arrays that run in parallel to the graph's.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    };
}

id!(
    /// A node of a graph, printed as `n7`.
    NodeId,
    "n"
);
id!(
    /// A tensor of a graph, printed as `t7`.
    TensorId,
    "t"
);
