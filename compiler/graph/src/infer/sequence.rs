//! Types of ops over sequences and optionals, which shape functions do not know.
//!
//! Invariants:
//! 1. The type of a sequence is that of each of its elements: a size in which they differ is unknown.
//! 2. Lengths of sequences are not inferred.

use polychip_ops::operator::{ConcatFromSequence, SequenceEmpty, SplitToSequence};
use polychip_ops::{DType, Dim, Op, TensorType};

use crate::{Container, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Infers the node if it works on sequences or optionals; `false` where shape functions should.
pub(super) fn infer(graph: &mut Graph, id: NodeId) -> Result<bool, Error> {
    let node = graph.node(id);
    let input = |index: usize| {
        node.input(index)
            .map(|id| graph.tensor(id))
            .filter(|tensor| tensor.typed)
    };
    let first = input(0);
    let unranked = |tensor: &Tensor| TensorType::unranked(tensor.ty.dtype);
    let found: Option<(TensorType, Container)> = match node.op {
        Op::SequenceEmpty => {
            let empty: SequenceEmpty = node
                .typed()
                .map_err(|why| Error::infer(graph.describe(node), why))?;
            Some((TensorType::unranked(empty.element()), Container::Sequence))
        }
        Op::SequenceConstruct => first.map(|tensor| {
            let same = node.reads().all(|id| graph.tensor(id).ty == tensor.ty);
            (
                if same { tensor.ty.clone() } else { unranked(tensor) },
                Container::Sequence,
            )
        }),
        Op::SequenceInsert => first.map(|sequence| {
            let same = input(1).is_some_and(|tensor| tensor.ty == sequence.ty);
            (
                if same {
                    sequence.ty.clone()
                } else {
                    unranked(sequence)
                },
                Container::Sequence,
            )
        }),
        Op::SequenceErase => first.map(|sequence| (sequence.ty.clone(), Container::Sequence)),
        Op::SplitToSequence => first.map(|tensor| {
            let ty = pieces(graph, node, tensor).unwrap_or_else(|| unranked(tensor));
            (ty, Container::Sequence)
        }),
        Op::SequenceAt => first.map(|sequence| (sequence.ty.clone(), Container::Tensor)),
        Op::ConcatFromSequence => first.map(|sequence| {
            let ty = concatenated(node, sequence).unwrap_or_else(|| unranked(sequence));
            (ty, Container::Tensor)
        }),
        Op::SequenceLength => Some((TensorType::known(DType::I64, &[]), Container::Tensor)),
        Op::OptionalHasElement => Some((TensorType::known(DType::Bool, &[]), Container::Tensor)),
        Op::Optional => first.map(|tensor| {
            let container = match tensor.container {
                Container::Sequence => Container::OptionalSequence,
                _ => Container::Optional,
            };
            (tensor.ty.clone(), container)
        }),
        Op::OptionalGetElement => first.map(|tensor| {
            let container = match tensor.container {
                Container::OptionalSequence | Container::Sequence => Container::Sequence,
                _ => Container::Tensor,
            };
            (tensor.ty.clone(), container)
        }),
        Op::Identity => match first {
            Some(tensor) if tensor.container != Container::Tensor => {
                Some((tensor.ty.clone(), tensor.container))
            }
            _ => return Ok(false),
        },
        _ => return Ok(false),
    };
    if let (Some((ty, container)), Some(output)) = (found, node.output(0)) {
        assign(graph, output, ty, container);
    }
    Ok(true)
}

/// The type of all pieces of a tensor: only along the axis of the split may their sizes differ.
fn pieces(graph: &Graph, node: &Node, tensor: &Tensor) -> Option<TensorType> {
    let split: SplitToSequence = node.typed().ok()?;
    let mut dims = tensor.ty.shape.clone().filter(|_| !tensor.upper_bound)?;
    let axis = polychip_ops::axis::normalise(split.axis, dims.len())?;
    match node.input(1) {
        None if split.keepdims => dims[axis] = Dim::Known(1),
        None => {
            dims.remove(axis);
        }
        Some(sizes) => {
            let sizes = graph.tensor(sizes);
            let given = sizes.data.as_ref().and_then(|data| data.to_literal(&sizes.ty));
            let given = given.and_then(|given| given.as_i64s()).unwrap_or_default();
            let whole = dims[axis].known().and_then(|whole| i64::try_from(whole).ok());
            // one number is the size of every piece but the last; a list has a size for each
            let size = match (sizes.ty.rank(), given.split_first()) {
                (Some(0), Some((&size, _))) if size > 0 && whole.is_some_and(|whole| whole % size == 0) => {
                    Some(size)
                }
                (Some(1), Some((&size, rest))) if rest.iter().all(|&other| other == size) => Some(size),
                _ => None,
            };
            let size = size.and_then(|size| usize::try_from(size).ok());
            dims[axis] = size.map_or(Dim::Unknown, Dim::Known);
        }
    }
    let dtype = tensor.ty.dtype;
    Some(TensorType {
        dtype,
        shape: Some(dims),
    })
}

/// The type of a concatenation of elements of this type.
fn concatenated(node: &Node, sequence: &Tensor) -> Option<TensorType> {
    let joined: ConcatFromSequence = node.typed().ok()?;
    let mut dims = sequence.ty.shape.clone()?;
    let rank = dims.len() + usize::from(joined.new_axis);
    let axis = polychip_ops::axis::normalise(joined.axis, rank)?;
    if joined.new_axis {
        dims.insert(axis, Dim::Unknown);
    } else {
        dims[axis] = Dim::Unknown;
    }
    let dtype = sequence.ty.dtype;
    Some(TensorType {
        dtype,
        shape: Some(dims),
    })
}

fn assign(graph: &mut Graph, output: TensorId, mut ty: TensorType, container: Container) {
    let tensor = graph.tensor_mut(output);
    let declared = tensor.ty.shape.as_ref().filter(|_| tensor.typed);
    match (&mut ty.shape, declared) {
        (Some(found), Some(declared)) if found.len() == declared.len() => {
            // a size that is not found is as it was declared
            for (found, declared) in found.iter_mut().zip(declared) {
                if *found == Dim::Unknown {
                    found.clone_from(declared);
                }
            }
            tensor.ty = ty;
        }
        (None, Some(_)) => {}
        _ => tensor.ty = ty,
    }
    tensor.typed = true;
    tensor.container = container;
}
