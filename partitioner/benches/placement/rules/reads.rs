//! Which nodes each node reads from, as the rules see it.

use polychip_partitioner::problem::{Problem, Source};

/// Per node, who writes what it reads, and as which tensor.
pub(super) fn reads(problem: &Problem) -> Vec<Vec<(usize, usize)>> {
    let mut reads = vec![Vec::new(); problem.nodes()];
    for (index, tensor) in problem.tensors().iter().enumerate() {
        if let Source::Node(writer) = tensor.source {
            for &reader in &tensor.readers {
                reads[reader].push((writer, index));
            }
        }
    }
    reads
}
