//! Symbolic sizes bound to numbers.
//!
//! Invariants:
//! 1. A name is bound everywhere, bodies included, and shapes are inferred anew.
//! 2. A name that the graph does not use is an error that lists the names it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use polychip_ops::Dim;

use crate::{Error, Graph, infer};

/// The names of sizes that the graph's inputs leave open, in order of the alphabet.
pub fn dim_names(graph: &Graph) -> Vec<Arc<str>> {
    let shapes = graph
        .inputs
        .iter()
        .map(|&input| graph.tensor(input))
        // the elements of a sequence may differ in size
        .filter(|tensor| tensor.is_tensor())
        .filter_map(|tensor| tensor.ty.shape.as_ref());
    let names: BTreeSet<Arc<str>> = shapes
        .flatten()
        .filter_map(|dim| match dim {
            Dim::Symbol(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    names.into_iter().collect()
}

/// Binds named sizes, as `--dim NAME=N` does.
///
/// # Errors
/// If a name is none of the graph's, or the sizes break a rule of some op.
pub fn bind_dims(graph: &mut Graph, dims: &BTreeMap<String, usize>) -> Result<(), Error> {
    let names = dim_names(graph);
    for name in dims.keys() {
        if !names.iter().any(|known| **known == **name) {
            let known = match &names[..] {
                [] => "has no named dimensions".to_owned(),
                names => format!("names {}", names.join(", ")),
            };
            return Err(Error::dim(format!(
                "dimension \"{name}\" is not in the model, which {known}"
            )));
        }
    }
    substitute(graph, dims);
    infer(graph)?;
    Ok(())
}

fn substitute(graph: &mut Graph, dims: &BTreeMap<String, usize>) {
    let ids: Vec<_> = graph.tensors().map(|(id, _)| id).collect();
    for id in ids {
        if !graph.tensor(id).is_tensor() {
            continue;
        }
        for dim in graph.tensor_mut(id).ty.shape.iter_mut().flatten() {
            if let Dim::Symbol(name) = dim
                && let Some(&size) = dims.get(&**name)
            {
                *dim = Dim::Known(size);
            }
        }
    }
    for id in graph.node_ids() {
        let node = graph.node(id);
        if node.bodies.is_empty() && node.decomposition.is_none() {
            continue;
        }
        graph.edit_node(id, |node| {
            for body in &mut node.bodies {
                substitute(&mut body.graph, dims);
            }
            if let Some(inner) = &mut node.decomposition {
                substitute(inner, dims);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use polychip_ops::{DType, Op, TensorType};

    use super::*;
    use crate::{ErrorKind, Node, Tensor};

    #[test]
    fn names_are_bound_everywhere_and_unknown_ones_refused() {
        let mut graph = Graph::new("g");
        let ty = TensorType::new(
            DType::F32,
            vec![Dim::symbol("batch"), Dim::symbol("length"), 4.into()],
        );
        let x = graph.add_tensor(Tensor::new("x", ty));
        let y = graph.add_tensor(Tensor::untyped("y"));
        graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]));
        graph.inputs.push(x);
        graph.outputs.push(y);
        let error = bind_dims(&mut graph, &BTreeMap::from([("size".to_owned(), 2)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dim);
        assert_eq!(
            error.to_string(),
            "dimension \"size\" is not in the model, which names batch, length"
        );
        bind_dims(&mut graph, &BTreeMap::from([("batch".to_owned(), 2)])).unwrap();
        assert_eq!(graph.tensor(x).ty.to_string(), "f32[2, length, 4]");
        assert_eq!(dim_names(&graph), [Arc::from("length")]);
        bind_dims(&mut graph, &BTreeMap::from([("length".to_owned(), 3)])).unwrap();
        assert_eq!(graph.tensor(x).ty.sizes(), Some(vec![2, 3, 4]));
        let error = bind_dims(&mut graph, &BTreeMap::from([("batch".to_owned(), 3)])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "dimension \"batch\" is not in the model, which has no named dimensions"
        );
    }
}
