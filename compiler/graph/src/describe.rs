//! What messages call a node.

use crate::{Graph, Node};

/// The node's name and op; of a node without a name, its op and first output.
pub(crate) fn describe(graph: &Graph, node: &Node) -> String {
    if !node.name.is_empty() {
        return format!("\"{}\" ({})", node.name, node.label());
    }
    let output = node
        .writes()
        .next()
        .map_or("", |tensor| graph.tensor(tensor).name.as_str());
    format!("{} of \"{output}\"", node.label())
}
