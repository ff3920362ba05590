//! Symbolic sizes bound to numbers.
//!
//! Invariants:
//! 1. A name is bound everywhere, bodies included, and shapes are inferred anew.
//! 2. A name that the graph does not use is an error that lists the names it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use polychip_ops::Dim;

use crate::{Error, Graph, Values, infer};

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

/// The named sizes that these shapes of inputs give; an input that is not listed gives none.
///
/// # Errors
/// If there is no such input, a shape does not fit it, or two give one name different sizes.
pub fn sizes_of<'a>(
    graph: &Graph,
    shapes: impl IntoIterator<Item = (&'a str, &'a [usize])>,
) -> Result<BTreeMap<String, usize>, Error> {
    let mut sizes: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for (name, shape) in shapes {
        let inputs = || graph.inputs.iter().map(|&id| graph.tensor(id));
        let input = inputs().find(|input| input.name == name).ok_or_else(|| {
            let known: Vec<&str> = inputs().map(|input| input.name.as_str()).collect();
            let known = known.join(", ");
            Error::dim(format!(
                "the model has no input \"{name}\"; its inputs are: {known}"
            ))
        })?;
        let wrong = || {
            Error::dim(format!(
                "input \"{name}\" is {}, which a shape of {shape:?} does not fit",
                input.ty
            ))
        };
        let dims = input.ty.shape.as_ref().ok_or_else(wrong)?;
        if dims.len() != shape.len() {
            return Err(wrong());
        }
        for (dim, &size) in dims.iter().zip(shape) {
            match dim {
                Dim::Known(known) if *known != size => return Err(wrong()),
                Dim::Known(_) | Dim::Unknown => {}
                Dim::Symbol(symbol) => {
                    let (before, by) = *sizes.entry(symbol.to_string()).or_insert((size, name));
                    if before != size {
                        return Err(Error::dim(format!(
                            "dimension \"{symbol}\" is {before} by input \"{by}\" and {size} by input \"{name}\""
                        )));
                    }
                }
            }
        }
    }
    Ok(sizes.into_iter().map(|(name, (size, _))| (name, size)).collect())
}

/// Binds named sizes, as `--dim NAME=N` does.
///
/// # Errors
/// If the graph has no such name, or the sizes violate an op's rule.
pub fn bind_dims(graph: &mut Graph, dims: &BTreeMap<String, usize>) -> Result<(), Error> {
    bind_values(graph, dims).map(drop)
}

/// As [`bind_dims`], with what is known of values then.
pub(crate) fn bind_values(graph: &mut Graph, dims: &BTreeMap<String, usize>) -> Result<Values, Error> {
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
    infer(graph)
}

/// Gives each open size of an input a name of its own, by the input and the axis, as `image.2`: what two inputs called by one
/// name may then be two sizes. Shapes are inferred anew.
///
/// # Errors
/// If an op needs two sizes to be equal.
pub fn unlink_dims(graph: &mut Graph) -> Result<(), Error> {
    replace_dims(graph, &|_| Some(Dim::Unknown));
    for id in graph.inputs.clone() {
        let tensor = graph.tensor_mut(id);
        let (name, is_tensor) = (tensor.name.clone(), tensor.is_tensor());
        let shape = tensor.ty.shape.iter_mut().filter(|_| is_tensor);
        for (axis, dim) in shape.flatten().enumerate() {
            if *dim == Dim::Unknown {
                *dim = Dim::symbol(&format!("{name}.{axis}"));
            }
        }
    }
    infer(graph).map(drop)
}

fn substitute(graph: &mut Graph, dims: &BTreeMap<String, usize>) {
    replace_dims(graph, &|name| dims.get(name).copied().map(Dim::Known));
}

/// Replaces named sizes everywhere, bodies included.
fn replace_dims(graph: &mut Graph, replacement: &dyn Fn(&str) -> Option<Dim>) {
    let ids: Vec<_> = graph.tensors().map(|(id, _)| id).collect();
    for id in ids {
        if !graph.tensor(id).is_tensor() {
            continue;
        }
        for dim in graph.tensor_mut(id).ty.shape.iter_mut().flatten() {
            if let Dim::Symbol(name) = dim
                && let Some(other) = replacement(name)
            {
                *dim = other;
            }
        }
    }
    for id in graph.node_ids() {
        let node = graph.node(id);
        if node.bodies.is_empty() && node.decomposition.is_none() {
            continue;
        }
        let node = graph.inner_mut(id);
        for body in &mut node.bodies {
            replace_dims(&mut body.graph, replacement);
        }
        if let Some(inner) = &mut node.decomposition {
            replace_dims(inner, replacement);
        }
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

    #[test]
    fn shapes_of_inputs_give_sizes_or_say_what_does_not_fit() {
        let mut graph = Graph::new("g");
        for name in ["a", "b"] {
            let ty = TensorType::new(
                DType::F32,
                vec![Dim::symbol("batch"), Dim::symbol(name), 4.into()],
            );
            let input = graph.add_tensor(Tensor::new(name, ty));
            graph.inputs.push(input);
        }
        let sizes = sizes_of(&graph, [("a", &[2, 5, 4][..]), ("b", &[2, 7, 4])]).unwrap();
        let wanted = [("a", 5), ("b", 7), ("batch", 2)].map(|(name, size)| (name.to_owned(), size));
        assert_eq!(sizes, BTreeMap::from(wanted));
        let words =
            |shapes: &[(&str, &[usize])]| sizes_of(&graph, shapes.iter().copied()).unwrap_err().to_string();
        assert_eq!(
            words(&[("a", &[2, 5, 4]), ("b", &[3, 7, 4])]),
            "dimension \"batch\" is 2 by input \"a\" and 3 by input \"b\""
        );
        for shape in [&[2, 5][..], &[2, 5, 3]] {
            let words = words(&[("a", shape)]);
            assert!(
                words.contains("f32[batch, a, 4]") && words.contains(&format!("{shape:?}")),
                "{words}"
            );
        }
        assert_eq!(
            words(&[("c", &[1])]),
            "the model has no input \"c\"; its inputs are: a, b"
        );
    }
}
