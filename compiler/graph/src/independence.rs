//! Where a run on padded inputs gives the answers of the run without: along which axes positions are independent.
//!
//! One graph is looked at with two sizes of its inputs at once, the padded and the true ones, node by node (a relational
//! analysis: what is proved is a relation between two runs). A tensor is a *prefix* where its elements at true sizes are
//! the first ones, along each axis, of those at padded sizes, whatever the padding holds and computes.
//!
//! Invariants:
//! 1. What is called a prefix is one for all values of the inputs: a rule that does not know an op, a size or a value
//!    proves nothing.
//! 2. A run on padded inputs fails only where the run without does: no index or divisor comes of padding that is not
//!    known to be zero (an index in range, and no divisor).
//! 3. Padding of the inputs is zeros.
//!
//! Not here: padding and cutting (the scheduler's), which sizes are padded to which (the app's).

use std::collections::BTreeMap;

use crate::bind::{bind_values, dim_names};
use crate::{Error, Graph, NodeId, TensorId};
use pair::{Pair, Relation};

mod pair;
mod rules;
mod step;
#[cfg(test)]
mod tests;

/// What of a run on padded inputs is true: shapes without the padding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrueShapes {
    /// By input: its shape without padding, where it is padded.
    pub inputs: Vec<Option<Vec<usize>>>,
    /// By output: the shape of its first elements along each axis that are those of a run without padding; `None` where
    /// all of it is.
    pub outputs: Vec<Option<Vec<usize>>>,
}

/// Proves that with inputs of `padded` sizes, of which those beyond the `sizes` are zeros, every output starts with what
/// it is at `sizes`. Names that neither lists keep a size that is not known.
///
/// # Errors
/// [`ErrorKind::Mixed`](crate::ErrorKind::Mixed) where that cannot be proved, with the first node that mixes
/// positions. Also if the graph lacks one of the names, or the sizes violate an op's rule.
pub fn true_shapes(
    graph: &Graph,
    padded: &BTreeMap<String, usize>,
    sizes: &BTreeMap<String, usize>,
) -> Result<TrueShapes, Error> {
    let bound = |sizes| -> Result<_, Error> {
        let mut graph = graph.clone();
        let values = bind_values(&mut graph, sizes)?;
        Ok((graph, values))
    };
    let (large, small) = (bound(padded)?, bound(sizes)?);
    let names = padded
        .iter()
        .filter(|(name, size)| sizes.get(*name) != Some(size));
    let names: Vec<String> = names.map(|(name, _)| format!("\"{name}\"")).collect();
    let names = names.join(", ");
    let open = dim_names(&large.0);
    let mut pair = Pair::new(&small, &large, &open);
    for &id in &graph.inputs {
        pair.set(
            id,
            pair.of_input(id).map_err(|why| edge(graph, "input", id, &why))?,
        );
    }
    for (id, node) in graph.nodes() {
        let verdict = rules::judge(&pair, id, node);
        for output in node.writes() {
            pair.set(output, pair.of_output(output, id, verdict));
        }
    }
    let shape = |id: &TensorId| match pair.get(*id) {
        Relation::Prefix { .. } => pair.true_shape(*id),
        Relation::Same | Relation::Apart(_) => None,
    };
    // the first node in order, whichever output it spoils
    let apart = |id: &TensorId| match pair.get(*id) {
        Relation::Apart(cause) => Some(cause),
        Relation::Same | Relation::Prefix { .. } => None,
    };
    if let Some(cause) = graph.outputs.iter().filter_map(apart).min() {
        return Err(Error::mixed(words(graph, cause, &names)));
    }
    for &id in &graph.outputs {
        pair.check_edge(id)
            .map_err(|why| edge(graph, "output", id, &why))?;
    }
    Ok(TrueShapes {
        inputs: graph.inputs.iter().map(shape).collect(),
        outputs: graph.outputs.iter().map(shape).collect(),
    })
}

fn edge(graph: &Graph, what: &str, id: TensorId, why: &str) -> Error {
    Error::mixed(format!("{what} \"{}\" {why}", graph.tensor(id).name))
}

fn words(graph: &Graph, cause: NodeId, names: &str) -> String {
    let node = graph.node(cause);
    let name = match node.name.as_str() {
        "" => node
            .writes()
            .next()
            .map_or("", |id| graph.tensor(id).name.as_str()),
        name => name,
    };
    let does = if rules::measures(node) {
        "makes values of the size of"
    } else {
        "mixes positions of"
    };
    format!("{} \"{name}\" {does} {names}", node.label())
}
